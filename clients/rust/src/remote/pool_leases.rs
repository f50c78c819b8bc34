//! Implements leases for the threads of a pool.

use std::thread::sleep;
use std::time::Duration;

use crate::caching::Caching;
use crate::command::{Reply, ToSingleArg};
use crate::computed::{Failed, Wait, computed};
use crate::computing::expect_other;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::remote::commands::{SetWords, Words, release, set_leased, token};
use crate::remote::pool::Pool;
use crate::set_options::SetOptions;

impl Pool {
    /// Returns the string value of a key. If the key does not exist, computes the value with
    /// `compute` and stores it.
    ///
    /// Only one caller across all machines computes the value at a time. The other callers poll
    /// until the value is stored, initially after 1 ms and eventually every 50 ms. If `compute`
    /// panics, another caller takes over immediately. If its process is killed, another caller
    /// takes over when the [`Caching::lease`] expires. Caches on an async runtime compete for the
    /// same lease ([`GetOrInsert`](crate::GetOrInsert)). The call occupies no connection while
    /// `compute` runs.
    ///
    /// # Errors
    /// - [`Error::TimedOut`] if other callers computed the value for longer than [`Caching::wait`].
    /// - [`Error::Recursion`] if `compute` requests the same key and would wait for itself.
    /// - The errors of [`get`](Pool::get) and [`set`](Pool::set).
    ///
    /// ```
    /// use std::time::Duration;
    /// use undercroft::Caching;
    /// # use undercroft::{CacheOptions, Pool};
    /// # let served = undercroft_served::Served::start();
    /// # let url = served.url();
    /// let pool = Pool::open(&url, CacheOptions::new())?;
    /// let minute = Caching::new().ttl(Duration::from_secs(60));
    /// let page = pool.get_or_insert_with("page:1", &minute, || "<html>".into())?;
    /// assert_eq!(page, b"<html>");
    /// let page = pool.get_or_insert_with("page:1", &minute, || unreachable!())?;
    /// assert_eq!(page, b"<html>");
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn get_or_insert_with(
        &self,
        key: impl ToSingleArg,
        caching: &Caching,
        compute: impl FnOnce() -> Vec<u8>,
    ) -> Result<Vec<u8>> {
        let computed = key.with_arg(|key| self.found_or_made(key, caching, || Ok(compute())));
        computed.map_err(Failed::into_own)
    }

    /// Like [`get_or_insert_with`](Self::get_or_insert_with), but `compute` can fail. After a
    /// failure nothing is stored, and the next caller computes the value.
    ///
    /// # Errors
    /// The error of `compute`, and the errors of `get_or_insert_with`.
    ///
    /// ```
    /// # use undercroft::{CacheOptions, Caching, Pool};
    /// # let served = undercroft_served::Served::start();
    /// # let pool = Pool::open(&served.url(), CacheOptions::new())?;
    /// let failed: Result<Vec<u8>, Box<dyn std::error::Error>> =
    ///     pool.try_get_or_insert_with("answer", &Caching::new(), || Err("no answer".into()));
    /// assert_eq!(failed.unwrap_err().to_string(), "no answer");
    /// assert_eq!(pool.get("answer")?, None);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn try_get_or_insert_with<E: From<Error>>(
        &self,
        key: impl ToSingleArg,
        caching: &Caching,
        compute: impl FnOnce() -> std::result::Result<Vec<u8>, E>,
    ) -> std::result::Result<Vec<u8>, E> {
        let computed = key.with_arg(|key| self.found_or_made(key, caching, compute));
        computed.map_err(Failed::into_error)
    }

    fn found_or_made<E>(
        &self,
        key: &[u8],
        caching: &Caching,
        compute: impl FnOnce() -> std::result::Result<Vec<u8>, E>,
    ) -> std::result::Result<Vec<u8>, Failed<E>> {
        let (reply_polling, keys) = (caching.reply_polling(), self.server().keys());
        let mut wait = Wait::new(caching);
        let lease = loop {
            let mut stale = self.get(key)?;
            if let Some(value) = &mut stale
                && !Caching::open(value, reply_polling)
            {
                return Ok(stale.unwrap_or_default());
            }
            if let Some(lease) = self.take_lease(key, caching.term()?)? {
                break lease;
            }
            if let Some(stale) = stale {
                return Ok(stale);
            }
            expect_other(keys, key)?;
            sleep(wait.pause()?);
        };
        computed(
            keys,
            lease,
            (caching, reply_polling),
            compute,
            |lease, value, options| self.set_leased(lease, value, options),
        )
    }

    /// Acquires the lease on a key for `term`, or returns `None` if another caller holds it. The
    /// lease is the right to compute the key's value. Dropping the lease releases it with a call to
    /// the server.
    ///
    /// # Errors
    /// The errors of [`set`](Pool::set) and [`get`](Pool::get).
    ///
    /// ```
    /// use std::time::Duration;
    /// use undercroft::SetOptions;
    /// # use undercroft::{CacheOptions, Pool};
    /// # let served = undercroft_served::Served::start();
    /// # let pool = Pool::open(&served.url(), CacheOptions::new())?;
    /// let term = Duration::from_secs(10);
    /// let lease = pool.take_lease("page", term)?.expect("the lease is free");
    /// assert!(pool.take_lease("page", term)?.is_none());
    /// assert!(pool.set_leased(lease, "<html>", SetOptions::new())?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn take_lease(&self, key: impl ToSingleArg, term: Duration) -> Result<Option<Lease>> {
        key.with_arg(|key| self.take(key, term))
    }

    fn take(&self, key: &[u8], term: Duration) -> Result<Option<Lease>> {
        let token = token();
        let name = undercroft_engine::leases::lease_key(key);
        let once = SetOptions::new().ttl(term).if_missing();
        let mut words = SetWords::new(&name, &token, once)?;
        let (words, count) = words.words();
        let pool = self.clone();
        let give_back = move |key: &[u8], token: &[u8]| {
            // If the server cannot be reached, the lease remains until its term ends.
            let _ = pool.run(&release(key, token));
        };
        // From this point on, dropping the lease releases it, because a call that failed may have
        // acquired it.
        let mut lease = Lease::new(key, token.clone(), None, give_back);
        if !self.call(&words[..count])?.to::<bool>()? {
            lease.is_ended();
            return Ok(None);
        }
        lease.value = self.get(key)?;
        Ok(Some(lease))
    }

    /// Atomically stores a leased key's value and releases the lease. Returns false, without
    /// storing anything, if the lease has expired. A condition in the options is ignored.
    ///
    /// # Errors
    /// The errors of [`set`](Pool::set). The lease is released in this case as well.
    ///
    /// ```
    /// use std::time::Duration;
    /// use undercroft::SetOptions;
    /// # use undercroft::{CacheOptions, Pool};
    /// # let served = undercroft_served::Served::start();
    /// # let pool = Pool::open(&served.url(), CacheOptions::new())?;
    /// let lease = pool.take_lease("page", Duration::from_secs(10))?.expect("the lease is free");
    /// pool.del(&["undercroft:lease:{page}"])?;
    /// assert!(!pool.set_leased(lease, "<html>", SetOptions::new())?);
    /// assert_eq!(pool.get("page")?, None);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn set_leased(
        &self,
        mut lease: Lease,
        value: impl ToSingleArg,
        options: SetOptions,
    ) -> Result<bool> {
        let time = options.leased_milliseconds()?.unwrap_or(0).to_string();
        let words =
            value.with_arg(|value| set_leased(&lease.key, &lease.token, value, time.as_bytes()));
        let done = self.run(&words)?.to::<bool>()?;
        lease.is_ended();
        Ok(done)
    }

    fn run(&self, words: &Words) -> Result<Reply> {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        self.call(&words)
    }
}
