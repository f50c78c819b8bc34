//! Defines the options of SET: an expiry and a condition.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use undercroft_engine as engine;

use crate::error::{Error, Result};

/// The longest time until a value expires. The sum of this time and the current time stays below
/// 2^63 ms.
pub(crate) const LONGEST: Duration = Duration::from_millis(0x3fff_ffff_ffff_ffff);

/// Returns the milliseconds after which a key expires.
pub(crate) fn expiry_milliseconds(after: Duration) -> Result<u64> {
    if after > LONGEST {
        return Err(Error::argument(format!(
            "expected an expiry below 2^62 ms, got {after:?}"
        )));
    }
    Ok(after.as_millis() as u64)
}

/// Options for setting a value. By default the value is set unconditionally and does not expire.
///
/// ```
/// use std::time::Duration;
/// use undercroft::SetOptions;
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// let once = SetOptions::new().ttl(Duration::from_secs(60)).if_missing();
/// assert!(store.set_options("lock", "mine", once)?);
/// assert!(!store.set_options("lock", "yours", once)?);
/// # Ok::<(), undercroft::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetOptions {
    expiry: Expiry,
    condition: Condition,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expiry {
    #[default]
    Never,
    Keep,
    After(Duration),
    At(SystemTime),
}

/// The time at which a value expires, in milliseconds.
pub(crate) enum Deadline {
    Never,
    /// The key keeps its expiry.
    Keep,
    /// The value expires after this time.
    After(u64),
    /// The value expires at this Unix time.
    At(u64),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Condition {
    #[default]
    Always,
    IfMissing,
    IfPresent,
}

impl SetOptions {
    /// Returns the defaults.
    ///
    /// ```
    /// assert_eq!(undercroft::SetOptions::new(), undercroft::SetOptions::default());
    /// ```
    pub const fn new() -> SetOptions {
        SetOptions {
            expiry: Expiry::Never,
            condition: Condition::Always,
        }
    }

    /// Sets the time until the value expires, in whole milliseconds (PX). Without an option for the
    /// expiry, the value never expires, even if the previous value did. Of several such options,
    /// the last one applies.
    ///
    /// ```
    /// use std::time::Duration;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.set_options("key", "value", undercroft::SetOptions::new().ttl(Duration::from_secs(9)))?;
    /// assert!(store.ttl("key")?.is_some());
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> SetOptions {
        self.expiry = Expiry::After(ttl);
        self
    }

    /// Sets the moment at which the value expires, in whole milliseconds (PXAT).
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let at = SystemTime::now() + Duration::from_secs(60);
    /// store.set_options("key", "value", undercroft::SetOptions::new().expire_at(at))?;
    /// assert!(store.ttl("key")? <= Some(Duration::from_secs(60)));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    #[must_use]
    pub const fn expire_at(mut self, at: SystemTime) -> SetOptions {
        self.expiry = Expiry::At(at);
        self
    }

    /// Keeps the expiry of the previous value (KEEPTTL).
    ///
    /// ```
    /// use std::time::Duration;
    /// use undercroft::SetOptions;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.set_options("key", "first", SetOptions::new().ttl(Duration::from_secs(60)))?;
    /// store.set_options("key", "second", SetOptions::new().keep_ttl())?;
    /// assert!(store.ttl("key")?.is_some());
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    #[must_use]
    pub const fn keep_ttl(mut self) -> SetOptions {
        self.expiry = Expiry::Keep;
        self
    }

    /// Sets the value only if the key does not exist (NX).
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert!(store.set_options("key", "first", undercroft::SetOptions::new().if_missing())?);
    /// assert!(!store.set_options("key", "second", undercroft::SetOptions::new().if_missing())?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    #[must_use]
    pub const fn if_missing(mut self) -> SetOptions {
        self.condition = Condition::IfMissing;
        self
    }

    /// Sets the value only if the key exists (XX).
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert!(!store.set_options("key", "value", undercroft::SetOptions::new().if_present())?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    #[must_use]
    pub const fn if_present(mut self) -> SetOptions {
        self.condition = Condition::IfPresent;
        self
    }

    /// Returns SET's keyword for the condition, or `None` if there is no condition.
    pub(crate) fn word(&self) -> Option<&'static [u8]> {
        match self.condition {
            Condition::Always => None,
            Condition::IfMissing => Some(b"NX"),
            Condition::IfPresent => Some(b"XX"),
        }
    }

    /// Returns the time at which the value expires.
    pub(crate) fn deadline(&self) -> Result<Deadline> {
        match self.expiry {
            Expiry::Never => Ok(Deadline::Never),
            Expiry::Keep => Ok(Deadline::Keep),
            Expiry::After(ttl) => match ttl.as_millis() {
                after @ 1.. if ttl <= LONGEST => Ok(Deadline::After(after as u64)),
                _ => Err(Error::argument(format!(
                    "expected an expiry of 1 ms to 2^62 ms, got {ttl:?}"
                ))),
            },
            Expiry::At(at) => match at.duration_since(UNIX_EPOCH).map(|at| at.as_millis()) {
                Ok(at @ 1..) if at <= LONGEST.as_millis() => Ok(Deadline::At(at as u64)),
                _ => Err(Error::argument(format!(
                    "expected an expiry after 1970 and within 2^62 ms, got {at:?}"
                ))),
            },
        }
    }

    /// Returns the milliseconds until a leased value expires, or `None` if it does not expire.
    pub(crate) fn leased_milliseconds(&self) -> Result<Option<u64>> {
        match self.deadline()? {
            Deadline::Never => Ok(None),
            Deadline::After(after) => Ok(Some(after)),
            Deadline::At(at) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                let now = now.map_or(0, |now| now.as_millis() as u64);
                Ok(Some(at.saturating_sub(now).max(1)))
            }
            Deadline::Keep => Err(Error::argument(
                "a leased value cannot keep the expiry of the previous value; set a TTL instead",
            )),
        }
    }

    /// Converts the options to the engine's options.
    pub(crate) fn for_engine(&self, now: u64) -> Result<engine::strings::SetOptions> {
        Ok(engine::strings::SetOptions {
            condition: match self.condition {
                Condition::Always => engine::strings::Condition::Always,
                Condition::IfMissing => engine::strings::Condition::IfMissing,
                Condition::IfPresent => engine::strings::Condition::IfPresent,
            },
            expiry: match self.deadline()? {
                Deadline::Never => engine::Expiry::Never,
                Deadline::Keep => engine::Expiry::Keep,
                Deadline::After(after) => engine::Expiry::At(now + after),
                Deadline::At(at) => engine::Expiry::At(at),
            },
        })
    }
}
