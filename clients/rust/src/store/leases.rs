//! Implements leases in a store. The holder of a key's lease is the caller that computes the key's
//! value.

use std::time::Duration;

use undercroft_engine::leases::Leased;
use undercroft_engine::{self as engine, limit_patience};

use crate::command::ToSingleArg;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::set_options::SetOptions;
use crate::store::Store;

/// The maximum time to wait for a lock when releasing a lease. It is short because the release may
/// block an event loop.
const MOMENT: Duration = Duration::from_millis(1);

impl Store {
    /// Acquires the lease on a key for `term`, unless another caller holds it. The lease is the
    /// right to compute the key's value. If the holder's process dies, the lease ends immediately.
    ///
    /// [`get_or_insert_with`](Store::get_or_insert_with) is built on leases. Use them directly for
    /// cases that it does not cover.
    ///
    /// # Errors
    /// Fails if the key does not hold a string, or with the errors of [`set`](Store::set).
    ///
    /// ```
    /// use std::time::Duration;
    /// use undercroft::SetOptions;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let term = Duration::from_secs(10);
    /// let lease = store.take_lease("page", term)?.expect("the lease is free");
    /// assert!(store.take_lease("page", term)?.is_none());
    /// assert!(store.set_leased(lease, "<html>", SetOptions::new())?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn take_lease(&self, key: impl ToSingleArg, term: Duration) -> Result<Option<Lease>> {
        key.with_arg(|key| self.take(key, term))
    }

    fn take(&self, key: &[u8], term: Duration) -> Result<Option<Lease>> {
        let number = fastrand::u64(..);
        let (leased, open) = self.call(|open| {
            let leased = open.store.take_lease(self.database, key, term, number)?;
            Ok((leased, open.clone()))
        })?;
        let Leased::Taken(lease, value) = leased else {
            return Ok(None);
        };
        let (database, of) = (self.database, open.clone());
        let give_back = move |key: &[u8], token: &[u8]| {
            let lease = engine::leases::Lease::from_bytes(token);
            let _limited = limit_patience(MOMENT);
            // If a stopped process holds the lock, the lease remains until its term ends.
            let _ = open.store.release_lease(database, key, &lease);
        };
        let token = lease.as_bytes().to_vec();
        Ok(Some(Lease::new(key, token, value, give_back).of(of)))
    }

    /// Atomically stores a leased key's value and releases the lease. Returns false, without
    /// storing anything, if the lease has expired. A condition in the options is ignored.
    ///
    /// # Errors
    /// The errors of [`set_options`](Store::set_options). The lease is released in this case as well.
    ///
    /// ```
    /// use std::time::Duration;
    /// use undercroft::SetOptions;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let lease = store.take_lease("page", Duration::from_secs(10))?.expect("the lease is free");
    /// store.del(&["undercroft:lease:{page}"])?;
    /// assert!(!store.set_leased(lease, "<html>", SetOptions::new())?);
    /// assert_eq!(store.get("page")?, None);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn set_leased(
        &self,
        mut lease: Lease,
        value: impl ToSingleArg,
        options: SetOptions,
    ) -> Result<bool> {
        let done = value.with_arg(|value| self.try_set_leased(&lease, value, options))?;
        lease.is_ended();
        Ok(done)
    }

    pub(crate) fn try_set_leased(
        &self,
        lease: &Lease,
        value: &[u8],
        options: SetOptions,
    ) -> Result<bool> {
        let expiry = match options.leased_milliseconds()? {
            None => engine::Expiry::Never,
            Some(after) => engine::Expiry::At(self.with(engine::Store::now) + after),
        };
        let (key, token) = (&lease.key, engine::leases::Lease::from_bytes(&lease.token));
        match &lease.of {
            // A lease is only valid in the store file in which it was taken.
            Some(of) if of.store.path() == self.path() => {
                let set = (of.store).set_leased(self.database, key, value, expiry, &token);
                set.map_err(|error| Error::engine(&of.store, error))
            }
            _ => {
                self.call(|open| (open.store).set_leased(self.database, key, value, expiry, &token))
            }
        }
    }

    /// Waits up to `most` for the lease on a key to become free. Another caller may already have
    /// taken the lease when the call returns.
    pub(crate) fn wait_for_lease(&self, key: &[u8], most: Duration) -> Result<()> {
        self.call(|open| open.store.wait_for_lease(self.database, key, most))
    }
}
