//! How a computed value is cached: for how long, when it is made anew, and who waits for whom.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use undercroft_engine::leases::Cached;

use crate::error::{Error, Result};
use crate::set_options::{LONGEST, SetOptions};

/// How [`get_or_insert_with`](crate::Store::get_or_insert_with) caches a value.
///
/// ```
/// use std::time::Duration;
/// use undercroft::Caching;
/// let minute = Caching::new()
///     .ttl(Duration::from_secs(60)) // fresh for a minute,
///     .stale(Duration::from_secs(600)) // then given out for ten more while one caller makes it anew,
///     .early(1.0); // who may begin a little before the minute is over
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Caching {
    ttl: Option<Duration>,
    stale: Duration,
    early: f64,
    term: Duration,
    pub(crate) wait: Duration,
}

impl Default for Caching {
    fn default() -> Caching {
        Caching::new()
    }
}

impl Caching {
    /// The defaults: values never expire; a lease lasts 10 seconds; who waits for another's value waits a minute.
    ///
    /// ```
    /// assert_eq!(undercroft::Caching::new(), undercroft::Caching::default());
    /// ```
    pub const fn new() -> Caching {
        Caching {
            ttl: None,
            stale: Duration::ZERO,
            early: 0.0,
            term: Duration::from_secs(10),
            wait: Duration::from_secs(60),
        }
    }

    /// A value is fresh for so long, in whole milliseconds. Less than one is an error of the call that would compute,
    /// before it does; more than a store can count is for ever.
    ///
    /// ```
    /// let minute = undercroft::Caching::new().ttl(std::time::Duration::from_secs(60));
    /// ```
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Caching {
        self.ttl = Some(ttl);
        self
    }

    /// After its ttl a value is kept for so long, and given to all while one caller makes it anew. Nothing without a
    /// ttl.
    ///
    /// ```
    /// use std::time::Duration;
    /// let caching = undercroft::Caching::new().ttl(Duration::from_secs(5)).stale(Duration::from_secs(60));
    /// ```
    #[must_use]
    pub const fn stale(mut self, stale: Duration) -> Caching {
        self.stale = stale;
        self
    }

    /// A value may be made anew before its ttl is over, by chance: the earlier the longer it took to make and the
    /// larger `beta` is, of which 1 is the best guess. Most values are then never missing. Nothing without a ttl.
    ///
    /// The chances are those of Vattani, Chierichetti, Lowenstein: "Optimal Probabilistic Cache Stampede Prevention",
    /// VLDB 2015.
    ///
    /// ```
    /// let caching = undercroft::Caching::new().ttl(std::time::Duration::from_secs(5)).early(1.0);
    /// ```
    #[must_use]
    pub const fn early(mut self, beta: f64) -> Caching {
        self.early = beta;
        self
    }

    /// A computation has so long: then another caller computes as well, and what the first one makes is given to
    /// its caller only. Longer than any computation should take; a holder's death ends it at once on one machine.
    ///
    /// ```
    /// let caching = undercroft::Caching::new().lease(std::time::Duration::from_secs(30));
    /// ```
    #[must_use]
    pub const fn lease(mut self, term: Duration) -> Caching {
        self.term = term;
        self
    }

    /// A caller waits so long for what others compute, and then fails with [`Error::TimedOut`].
    ///
    /// ```
    /// let caching = undercroft::Caching::new().wait(std::time::Duration::from_secs(2));
    /// ```
    #[must_use]
    pub const fn wait(mut self, wait: Duration) -> Caching {
        self.wait = wait;
        self
    }

    /// How long a computation has. Fails where no value could be stored, before one is computed.
    pub(crate) fn term(&self) -> Result<Duration> {
        for (what, time) in [("ttl", self.ttl), ("lease", Some(self.term))] {
            if let Some(time) = time
                && time.as_millis() == 0
            {
                return Err(Error::reply(format!(
                    "ERR invalid expire time: expected a {what} of at least a millisecond, got {time:?}"
                )));
            }
        }
        Ok(self.term.min(LONGEST))
    }

    /// How hasty a call is, see [`Cached::is_due`].
    #[inline]
    pub(crate) fn haste(&self) -> f64 {
        match self.early > 0.0 {
            true => self.early * -(1.0 - fastrand::f64()).ln(),
            false => 0.0,
        }
    }

    /// Cuts off what stands in front of a value. Returns whether it is due to be made anew.
    #[inline]
    pub(crate) fn open(stored: &mut Vec<u8>, haste: f64) -> bool {
        let cached = Cached::of(stored);
        if cached.start == 0 {
            return false;
        }
        stored.drain(..cached.start);
        cached.due != 0 && cached.is_due(now(), haste)
    }

    /// What is stored for a value that took so long to make, and how.
    pub(crate) fn close<'v>(
        &self,
        value: &'v [u8],
        took: Duration,
    ) -> (std::borrow::Cow<'v, [u8]>, SetOptions) {
        let Some(ttl) = self.ttl.filter(|ttl| *ttl <= LONGEST) else {
            return (Cached::stored(value, 0, took), SetOptions::new());
        };
        let is_refreshed = self.early > 0.0 || !self.stale.is_zero();
        let milliseconds = ttl.as_millis() as u64;
        let due = match is_refreshed {
            true => now().saturating_add(milliseconds),
            false => 0,
        };
        let kept = ttl.saturating_add(self.stale);
        let options = match kept <= LONGEST {
            true => SetOptions::new().ttl(kept),
            false => SetOptions::new(),
        };
        (Cached::stored(value, due, took), options)
    }
}

/// Unix time in milliseconds.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
