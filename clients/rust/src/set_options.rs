//! Defines the options of SET: an expiry and a condition.

use std::time::Duration;

use undercroft_engine as engine;

use crate::error::{Error, Result};

/// The longest time until a value expires. The sum of this time and the current time stays below
/// 2^63 ms.
pub(crate) const LONGEST: Duration = Duration::from_millis(0x3fff_ffff_ffff_ffff);

/// Options for setting a value. By default the value is set unconditionally and does not expire.
///
/// ```
/// use std::time::Duration;
/// use undercroft::SetOptions;
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::at(directory.path().join("store"))?;
/// let once = SetOptions::new().ttl(Duration::from_secs(60)).if_missing();
/// assert!(store.set_with("lock", "mine", once)?);
/// assert!(!store.set_with("lock", "yours", once)?);
/// # Ok::<(), undercroft::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetOptions {
    ttl: Option<Duration>,
    condition: Condition,
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
            ttl: None,
            condition: Condition::Always,
        }
    }

    /// Sets the time until the value expires, in whole milliseconds (PX). Without this option the
    /// value never expires, even if the previous value did.
    ///
    /// ```
    /// use std::time::Duration;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.set_with("key", "value", undercroft::SetOptions::new().ttl(Duration::from_secs(9)))?;
    /// assert!(store.ttl("key")?.is_some());
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> SetOptions {
        self.ttl = Some(ttl);
        self
    }

    /// Sets the value only if the key does not exist (NX).
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// assert!(store.set_with("key", "first", undercroft::SetOptions::new().if_missing())?);
    /// assert!(!store.set_with("key", "second", undercroft::SetOptions::new().if_missing())?);
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
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// assert!(!store.set_with("key", "value", undercroft::SetOptions::new().if_present())?);
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

    /// Returns the milliseconds until the value expires, or `None` if it does not expire.
    pub(crate) fn milliseconds(&self) -> Result<Option<u64>> {
        let Some(ttl) = self.ttl else {
            return Ok(None);
        };
        match ttl.as_millis() {
            after @ 1.. if ttl <= LONGEST => Ok(Some(after as u64)),
            _ => Err(Error::reply("ERR invalid expire time in 'set' command")),
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
            expiry: match self.milliseconds()? {
                None => engine::Expiry::Never,
                Some(after) => engine::Expiry::At(now + after),
            },
        })
    }
}
