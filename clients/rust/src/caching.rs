//! Defines how computed values are cached: their expiry, early refresh, leases and waiting time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use undercroft_engine::leases::Cached;

use crate::error::{Error, Result};
use crate::set_options::{LONGEST, SetOptions};

/// Options that control how [`get_or_insert_with`](crate::Store::get_or_insert_with) caches a
/// value.
///
/// ```
/// use std::time::Duration;
/// use undercroft::Caching;
/// let minute = Caching::new()
///     .ttl(Duration::from_secs(60)) // fresh for a minute,
///     .stale(Duration::from_secs(600)) // then served stale for ten more while one caller recomputes it,
///     .early(1.0); // and perhaps recomputed shortly before the minute is over
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
    /// Returns the defaults: values never expire, a lease lasts 10 seconds, and a caller waits up
    /// to a minute for a value that another caller computes.
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

    /// Sets how long a value is fresh, in whole milliseconds. A call with a TTL below 1 ms fails
    /// before it computes a value. If a TTL exceeds the range of a store, the value never expires.
    ///
    /// ```
    /// let minute = undercroft::Caching::new().ttl(std::time::Duration::from_secs(60));
    /// ```
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Caching {
        self.ttl = Some(ttl);
        self
    }

    /// Sets how long a stale value remains available after its TTL has passed. During this time,
    /// one caller recomputes the value, and the other callers receive the stale value. Has no
    /// effect without a TTL.
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

    /// Recomputes values at random times before their TTL has passed. The longer a value took to
    /// compute and the larger `beta`, the earlier the value is recomputed. A `beta` of 1 is a good
    /// default and refreshes most values before they expire. Has no effect without a TTL.
    ///
    /// The probabilities follow Vattani, Chierichetti, Lowenstein: "Optimal Probabilistic Cache
    /// Stampede Prevention", VLDB 2015.
    ///
    /// ```
    /// let caching = undercroft::Caching::new().ttl(std::time::Duration::from_secs(5)).early(1.0);
    /// ```
    #[must_use]
    pub const fn early(mut self, beta: f64) -> Caching {
        self.early = beta;
        self
    }

    /// Sets how long a computation may take. After this time another caller computes the value as
    /// well, and the result of the first computation is returned to its caller but not stored.
    /// Choose a time longer than any computation should take. In a store, the lease of a process
    /// that dies ends immediately.
    ///
    /// ```
    /// let caching = undercroft::Caching::new().lease(std::time::Duration::from_secs(30));
    /// ```
    #[must_use]
    pub const fn lease(mut self, term: Duration) -> Caching {
        self.term = term;
        self
    }

    /// Sets how long a caller waits for a value that another caller computes. After this time the
    /// call fails with [`Error::TimedOut`].
    ///
    /// ```
    /// let caching = undercroft::Caching::new().wait(std::time::Duration::from_secs(2));
    /// ```
    #[must_use]
    pub const fn wait(mut self, wait: Duration) -> Caching {
        self.wait = wait;
        self
    }

    /// Returns the term of a lease. Fails if the TTL or the term is shorter than a millisecond, to
    /// avoid computing a value that cannot be stored.
    pub(crate) fn term(&self) -> Result<Duration> {
        for (what, time) in [("ttl", self.ttl), ("lease", Some(self.term))] {
            if let Some(time) = time
                && time.as_millis() == 0
            {
                return Err(Error::argument(format!(
                    "expected a {what} of at least one millisecond, got {time:?}"
                )));
            }
        }
        Ok(self.term.min(LONGEST))
    }

    /// Returns a random factor that determines how early a call refreshes a value (see
    /// [`Cached::is_due`]).
    #[inline]
    pub(crate) fn reply_polling(&self) -> f64 {
        match self.early > 0.0 {
            true => self.early * -(1.0 - fastrand::f64()).ln(),
            false => 0.0,
        }
    }

    /// Removes the header that precedes a value. Returns whether the value is due for a refresh.
    #[inline]
    pub(crate) fn open(stored: &mut Vec<u8>, reply_polling: f64) -> bool {
        let cached = Cached::of(stored);
        if cached.start == 0 {
            return false;
        }
        stored.drain(..cached.start);
        cached.due != 0 && cached.is_due(now(), reply_polling)
    }

    /// Returns the bytes to store for a value, and the options to set them with. `took` is the
    /// duration of the computation.
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

/// Returns the Unix time in milliseconds.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
