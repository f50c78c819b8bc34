//! Computes missing values of a store. Only one caller at a time computes a given value.

use std::convert::Infallible;

use crate::caching::Caching;
use crate::command::ToSingleArg;
use crate::computed::{Failed, Wait, computed};
use crate::computing::expect_other;
use crate::error::{Error, Result};
use crate::store::Store;

impl Store {
    /// Returns the string value of a key. If the key does not exist, computes the value with
    /// `compute` and stores it.
    ///
    /// Only one caller across all processes computes the value at a time, and the other callers
    /// wait for the result. If `compute` panics or its process is killed, another caller takes over
    /// immediately. If its process is stopped, or if it takes longer than [`Caching::lease`],
    /// another caller takes over when the lease expires. A value that is computed after the lease
    /// has expired is returned to its caller but not stored. A value that is due for a refresh
    /// ([`Caching::stale`], [`Caching::early`]) is recomputed by one caller, while the others
    /// receive the old value.
    ///
    /// A hit costs the same as [`get`](Store::get). Values with `stale` or `early` are stored with
    /// a 16-byte header that contains their times and is visible to other commands.
    ///
    /// # Errors
    /// - [`Error::TimedOut`] if other callers computed the value for longer than [`Caching::wait`].
    /// - [`Error::Recursion`] if `compute` requests the same key and would wait for itself.
    /// - An error reply if the key does not hold a string.
    /// - The errors of [`set_options`](Store::set_options).
    ///
    /// ```
    /// use std::time::Duration;
    /// use undercroft::Caching;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let minute = Caching::new().ttl(Duration::from_secs(60));
    /// let page = store.get_or_insert_with("page:1", &minute, || "<html>".into())?;
    /// assert_eq!(page, b"<html>");
    /// let page = store.get_or_insert_with("page:1", &minute, || unreachable!())?;
    /// assert_eq!(page, b"<html>");
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    #[inline]
    pub fn get_or_insert_with(
        &self,
        key: impl ToSingleArg,
        caching: &Caching,
        compute: impl FnOnce() -> Vec<u8>,
    ) -> Result<Vec<u8>> {
        let computed = key.with_arg(|key| self.found_or_made(key, caching, || Ok(compute())));
        computed.map_err(Failed::<Infallible>::into_own)
    }

    /// Like [`get_or_insert_with`](Self::get_or_insert_with), but `compute` can fail. After a
    /// failure nothing is stored, and the next caller computes the value.
    ///
    /// # Errors
    /// The error of `compute`, and the errors of `get_or_insert_with`.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let caching = undercroft::Caching::new();
    /// let failed: Result<Vec<u8>, Box<dyn std::error::Error>> =
    ///     store.try_get_or_insert_with("answer", &caching, || Err("no answer".into()));
    /// assert_eq!(failed.unwrap_err().to_string(), "no answer");
    /// assert_eq!(store.get("answer")?, None);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    #[inline]
    pub fn try_get_or_insert_with<E: From<Error>>(
        &self,
        key: impl ToSingleArg,
        caching: &Caching,
        compute: impl FnOnce() -> std::result::Result<Vec<u8>, E>,
    ) -> std::result::Result<Vec<u8>, E> {
        let computed = key.with_arg(|key| self.found_or_made(key, caching, compute));
        computed.map_err(Failed::into_error)
    }

    #[inline]
    fn found_or_made<E>(
        &self,
        key: &[u8],
        caching: &Caching,
        compute: impl FnOnce() -> std::result::Result<Vec<u8>, E>,
    ) -> std::result::Result<Vec<u8>, Failed<E>> {
        let mut stored = Vec::new();
        let reply_polling = caching.reply_polling();
        let found = self.get_into(key, &mut stored)?;
        if found && !Caching::open(&mut stored, reply_polling) {
            return Ok(stored);
        }
        self.made(
            key,
            caching,
            reply_polling,
            found.then_some(stored),
            compute,
        )
    }

    #[cold]
    fn made<E>(
        &self,
        key: &[u8],
        caching: &Caching,
        reply_polling: f64,
        mut stale: Option<Vec<u8>>,
        compute: impl FnOnce() -> std::result::Result<Vec<u8>, E>,
    ) -> std::result::Result<Vec<u8>, Failed<E>> {
        let wait = Wait::new(caching);
        let lease = loop {
            if let Some(lease) = self.take_lease(key, caching.term()?)? {
                break lease;
            }
            if let Some(stale) = stale {
                return Ok(stale);
            }
            expect_other(self.keys(), key)?;
            self.wait_for_lease(key, wait.left()?)?;
            stale = self.get(key)?;
            if let Some(value) = &mut stale
                && !Caching::open(value, reply_polling)
            {
                return Ok(stale.unwrap_or_default());
            }
        };
        let keys = self.keys();
        computed(
            keys,
            lease,
            (caching, reply_polling),
            compute,
            |lease, value, options| self.set_leased(lease, value, options),
        )
    }
}
