//! Leases of a pool's threads: who computes a value that is missing on the server.

use std::thread::sleep;
use std::time::Duration;

use crate::caching::Caching;
use crate::computing::expect_other;
use crate::error::{Error, Result};
use crate::get_or_insert::{Failed, Wait, computed};
use crate::lease::Lease;
use crate::remote::commands::SetWords;
use crate::remote::lease::{Words, release, set, token};
use crate::remote::pool::Pool;
use crate::set_options::SetOptions;

impl Pool {
    /// The string that a key holds; where there is none, `compute` makes it, and it is stored.
    ///
    /// Of all callers of all machines one computes at a time, and the others look again and again, at first after a
    /// millisecond, at last every 50 ms, until its value is there. Where it panics, another one takes over at once, and
    /// where its process is killed, when its [`Caching::lease`] is over. It is the lease that caches
    /// on a runtime take ([`GetOrInsert`](crate::GetOrInsert)). No connection is kept while `compute` runs.
    ///
    /// # Errors
    /// [`Error::TimedOut`] where others computed for all of [`Caching::wait`]; [`Error::Recursion`] where `compute` asks
    /// for the same key and would wait for itself; those of [`get`](Pool::get) and
    /// [`set`](Pool::set).
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
        key: impl AsRef<[u8]>,
        caching: &Caching,
        compute: impl FnOnce() -> Vec<u8>,
    ) -> Result<Vec<u8>> {
        let computed = self.found_or_made(key.as_ref(), caching, || Ok(compute()));
        computed.map_err(Failed::into_own)
    }

    /// [`get_or_insert_with`](Self::get_or_insert_with) of what may fail: then nothing is stored, and the next caller
    /// computes.
    ///
    /// # Errors
    /// That of `compute`, and those of `get_or_insert_with`.
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
        key: impl AsRef<[u8]>,
        caching: &Caching,
        compute: impl FnOnce() -> std::result::Result<Vec<u8>, E>,
    ) -> std::result::Result<Vec<u8>, E> {
        let computed = self.found_or_made(key.as_ref(), caching, compute);
        computed.map_err(Failed::into_error)
    }

    fn found_or_made<E>(
        &self,
        key: &[u8],
        caching: &Caching,
        compute: impl FnOnce() -> std::result::Result<Vec<u8>, E>,
    ) -> std::result::Result<Vec<u8>, Failed<E>> {
        let (haste, keys) = (caching.haste(), self.server().keys());
        let mut wait = Wait::new(caching);
        let lease = loop {
            let mut stale = self.get(key)?;
            if let Some(value) = &mut stale
                && !Caching::open(value, haste)
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
            (caching, haste),
            compute,
            |lease, value, options| self.set_leased(lease, value, options),
        )
    }

    /// Takes the lease of a key's value for a term, unless somebody has it: then none. Dropped, it is given back, which
    /// takes a call of its own.
    ///
    /// # Errors
    /// Those of [`set`](Pool::set) and [`get`](Pool::get).
    ///
    /// ```
    /// use std::time::Duration;
    /// use undercroft::SetOptions;
    /// # use undercroft::{CacheOptions, Pool};
    /// # let served = undercroft_served::Served::start();
    /// # let pool = Pool::open(&served.url(), CacheOptions::new())?;
    /// let term = Duration::from_secs(10);
    /// let lease = pool.take_lease("page", term)?.expect("nobody has it");
    /// assert!(pool.take_lease("page", term)?.is_none());
    /// assert!(pool.set_leased(lease, "<html>", SetOptions::new())?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn take_lease(&self, key: impl AsRef<[u8]>, term: Duration) -> Result<Option<Lease>> {
        let (key, token) = (key.as_ref(), token());
        let name = undercroft_engine::leases::lease_key(key);
        let once = SetOptions::new().ttl(term).if_missing();
        let mut words = SetWords::new(&name, &token, once)?;
        let (words, count) = words.words();
        let pool = self.clone();
        let give_back = move |key: &[u8], token: &[u8]| {
            // Where the server cannot be reached it stays until its term is over.
            let _ = pool.run(&release(key, token));
        };
        // From here on it is given back: whether a call that failed was done nobody knows.
        let mut lease = Lease::new(key, token.clone(), None, give_back);
        if !self.call(&words[..count])?.to::<bool>()? {
            lease.is_ended();
            return Ok(None);
        }
        lease.value = self.get(key)?;
        Ok(Some(lease))
    }

    /// Stores the value that a lease is about, and gives the lease back, at one moment. Returns false, and stores
    /// nothing, where the lease was over. A condition in the options is not looked at.
    ///
    /// # Errors
    /// Those of [`set`](Pool::set): then the lease is given back.
    ///
    /// ```
    /// use std::time::Duration;
    /// use undercroft::SetOptions;
    /// # use undercroft::{CacheOptions, Pool};
    /// # let served = undercroft_served::Served::start();
    /// # let pool = Pool::open(&served.url(), CacheOptions::new())?;
    /// let lease = pool.take_lease("page", Duration::from_secs(10))?.expect("nobody has it");
    /// pool.delete(&["undercroft:lease:{page}"])?;
    /// assert!(!pool.set_leased(lease, "<html>", SetOptions::new())?);
    /// assert_eq!(pool.get("page")?, None);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn set_leased(
        &self,
        mut lease: Lease,
        value: impl AsRef<[u8]>,
        options: SetOptions,
    ) -> Result<bool> {
        let time = options.milliseconds()?.unwrap_or(0).to_string();
        let words = set(&lease.key, &lease.token, value.as_ref(), time.as_bytes());
        let done = self.run(&words)?.to::<bool>()?;
        lease.is_ended();
        Ok(done)
    }

    fn run(&self, words: &Words) -> Result<crate::reply::Reply> {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        self.call(&words)
    }
}
