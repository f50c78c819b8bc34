//! Leases: who has a key's computes its value.

use std::time::Duration;

use undercroft_engine::leases::Leased;
use undercroft_engine::{self as engine, limit_patience};

use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::set_options::SetOptions;
use crate::store::Store;

/// What giving a lease back waits for a lock, which may be done in an event loop.
const MOMENT: Duration = Duration::from_millis(1);

impl Store {
    /// Takes the lease of a key's value for a term, unless somebody has it. That of a process that is dead is taken
    /// over.
    ///
    /// [`get_or_insert_with`](Store::get_or_insert_with) is made of these; they are for what that cannot do.
    ///
    /// # Errors
    /// A key that holds something else than a string; those of [`set`](Store::set).
    ///
    /// ```
    /// use std::time::Duration;
    /// use undercroft::SetOptions;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// let term = Duration::from_secs(10);
    /// let lease = store.take_lease("page", term)?.expect("nobody has it");
    /// assert!(store.take_lease("page", term)?.is_none());
    /// assert!(store.set_leased(lease, "<html>", SetOptions::new())?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn take_lease(&self, key: impl AsRef<[u8]>, term: Duration) -> Result<Option<Lease>> {
        let (key, number) = (key.as_ref(), fastrand::u64(..));
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
            // Where somebody is stopped with a lock it stays until its term is over.
            let _ = open.store.release_lease(database, key, &lease);
        };
        let token = lease.as_bytes().to_vec();
        Ok(Some(Lease::new(key, token, value, give_back).of(of)))
    }

    /// Stores the value that a lease is about, and gives the lease back, at one moment. Returns false, and stores
    /// nothing, where the lease was over. A condition in the options is not looked at.
    ///
    /// # Errors
    /// Those of [`set_with`](Store::set_with): then the lease is given back.
    ///
    /// ```
    /// use std::time::Duration;
    /// use undercroft::SetOptions;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// let lease = store.take_lease("page", Duration::from_secs(10))?.expect("nobody has it");
    /// store.del(&["undercroft:lease:{page}"])?;
    /// assert!(!store.set_leased(lease, "<html>", SetOptions::new())?);
    /// assert_eq!(store.get("page")?, None);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn set_leased(
        &self,
        mut lease: Lease,
        value: impl AsRef<[u8]>,
        options: SetOptions,
    ) -> Result<bool> {
        let done = self.try_set_leased(&lease, value.as_ref(), options)?;
        lease.is_ended();
        Ok(done)
    }

    pub(crate) fn try_set_leased(
        &self,
        lease: &Lease,
        value: &[u8],
        options: SetOptions,
    ) -> Result<bool> {
        let expiry = options.for_engine(self.with(engine::Store::now))?.expiry;
        let (key, token) = (&lease.key, engine::leases::Lease::from_bytes(&lease.token));
        match &lease.of {
            // It ends with the store that it was taken in.
            Some(of) if of.store.path() == self.path() => {
                let set = (of.store).set_leased(self.database, key, value, expiry, &token);
                set.map_err(|error| Error::engine(&of.store, error))
            }
            _ => {
                self.call(|open| (open.store).set_leased(self.database, key, value, expiry, &token))
            }
        }
    }

    /// Waits until the lease of a key's value may be had, for so long at most.
    pub(crate) fn wait_for_lease(&self, key: &[u8], most: Duration) -> Result<()> {
        self.call(|open| open.store.wait_for_lease(self.database, key, most))
    }
}
