//! Taking, holding and releasing a lease, and waiting until a lease is free.

use std::time::{Duration, Instant};

use undercroft_memory::{Patience, Polling, SeatName, ShardSet, removing};

use super::lease_key;
use crate::error::Error;
use crate::handle::reader::Reader;
use crate::handle::store::Store;
use crate::structures::key::Key;
use crate::transaction::writer::Expiry;

/// The shortest and the longest pause between a waiter's checks of whether the lease holder is
/// alive.
const FIRST_LOOK: Duration = Duration::from_millis(10);
const LAST_LOOK: Duration = Duration::from_millis(100);
/// The length in bytes of a lease held by a process: `@`, then the holder's seat (its futex slot in
/// the store), a number that identifies the lease, and the end of the term by the boot clock, each
/// as 16 hexadecimal digits.
const LENGTH: usize = 49;
/// The time from the end of a lease's term until its key expires, in milliseconds. The key's expiry
/// cannot define the term, because a step of the system clock would shorten the term.
const FORGOTTEN: u64 = 24 * 60 * 60 * 1000;

/// A lease in its stored form. The lease entitles its holder to compute and store the key's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease(Vec<u8>);

/// The result of an attempt to take a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leased {
    /// The caller now holds the lease. The second field is the key's value when the lease was
    /// taken.
    Taken(Lease, Option<Vec<u8>>),
    /// Another client holds the lease: either a client of a server, or a process that was alive
    /// when last checked.
    Held,
}

impl Lease {
    fn new(seat: SeatName, number: u64, over: u64) -> Lease {
        Lease(format!("@{:016x}{number:016x}{over:016x}", seat.bits()).into_bytes())
    }

    /// Creates a lease from its stored bytes.
    pub fn from_bytes(bytes: &[u8]) -> Lease {
        Lease(bytes.to_vec())
    }

    /// Returns the stored bytes of the lease.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the holder's seat (a futex slot), which identifies its process and on which waiters
    /// sleep. Returns `None` for a client of a server.
    fn seat(&self) -> Option<SeatName> {
        self.number(0).map(SeatName::from_bits)
    }

    /// Returns the end of the lease's term in milliseconds since boot. Returns `None` for a client
    /// of a server, whose lease ends when its key expires.
    fn over(&self) -> Option<u64> {
        self.number(2)
    }

    /// Returns the lease's number at index `place`, from 0 to 2.
    fn number(&self, place: usize) -> Option<u64> {
        let digits = self
            .0
            .strip_prefix(b"@")
            .filter(|_| self.0.len() == LENGTH)?;
        let digits = std::str::from_utf8(&digits[16 * place..][..16]).ok()?;
        u64::from_str_radix(digits, 16).ok()
    }
}

/// A string with its expiry time in Unix milliseconds, if any.
type Expiring = (Vec<u8>, Option<u64>);

impl Reader<'_, '_> {
    fn string(&self, database: usize, key: &Key<'_>) -> Result<Option<Expiring>, Error> {
        let Some(entry) = self.find(database, key)? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        entry
            .text(self.view())?
            .append_to(self.view(), &mut bytes)?;
        Ok(Some((bytes, entry.expiry(self.view())?)))
    }
}

impl Store {
    /// Takes the lease on a key's value for a term of at least a millisecond, unless another client
    /// holds the lease. Takes over the lease if its holder is dead. `number`, for example a random
    /// number, must differ from the number of every other lease. Also returns the key's value,
    /// which another client may have stored in the meantime. O(length of the value). Must not be
    /// called within a transaction.
    ///
    /// # Errors
    /// Returns [`Error::WrongType`] if the key or the key of the lease holds a value that is not a
    /// string. Also fails if the store is read-only, and returns the errors of
    /// [`write`](Self::write).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use undercroft_engine::{Expiry, Options, Store};
    /// # use undercroft_engine::leases::Leased;
    /// # let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    /// # let path = directory.path().join("store");
    /// let store = Store::open_or_create(&path, &Options::default())?;
    /// let term = Duration::from_secs(10);
    /// let Leased::Taken(lease, None) = store.take_lease(0, b"page", term, 1)? else { panic!() };
    /// assert_eq!(store.take_lease(0, b"page", term, 2)?, Leased::Held);
    /// assert!(store.set_leased(0, b"page", b"<html>", Expiry::Never, &lease)?);
    /// assert!(!store.set_leased(0, b"page", b"too late", Expiry::Never, &lease)?);
    /// # Ok::<(), undercroft_engine::Error>(())
    /// ```
    pub fn take_lease(
        &self,
        database: usize,
        key: &[u8],
        term: Duration,
        number: u64,
    ) -> Result<Leased, Error> {
        let name = lease_key(key);
        let (key, name) = (self.key(key), self.key(&name));
        self.check_memory_for(0)?;
        let term = u64::try_from(term.as_millis()).unwrap_or(u64::MAX).max(1);
        let over = self.boot_now().saturating_add(term);
        let lease = Lease::new(self.segment.seat_here(number)?, number, over);
        // Check the holder and its term without a lock (W9): a dead process stays dead, and a term
        // that has ended stays ended.
        let dead = match self.look_at(database, &name)? {
            Some((held, _)) if self.is_held(&held) => return Ok(Leased::Held),
            Some((held, _)) => Some(held),
            None => None,
        };
        let kept = term.saturating_add(FORGOTTEN);
        self.write(self.shards_of([&key, &name]), |writer| {
            let held = writer.reader().string(database, &name)?;
            if held.is_some_and(|(held, _)| dead.as_ref().is_none_or(|dead| dead.0 != held)) {
                return Ok(Leased::Held);
            }
            let until = writer.now().saturating_add(kept).min(i64::MAX as u64);
            let found = writer.find_slot(database, &name)?;
            writer.set_found(database, &name, found, &lease.0, Expiry::At(until))?;
            let value = writer.reader().string(database, &key)?;
            Ok(Leased::Taken(lease.clone(), value.map(|(text, _)| text)))
        })
    }

    /// Stores a value under the caller's lease and releases the lease, in one transaction. Returns
    /// false and stores nothing if the caller has lost the lease or the lease's term has ended.
    /// O(length).
    ///
    /// # Errors
    /// Returns the errors of [`write`](Self::write), for example if the store is out of memory.
    /// After an error, the caller keeps the lease.
    pub fn set_leased(
        &self,
        database: usize,
        key: &[u8],
        value: &[u8],
        expiry: Expiry,
        lease: &Lease,
    ) -> Result<bool, Error> {
        self.check_memory_for(value.len())?;
        self.end_lease(database, key, lease, Some((value, expiry)))
    }

    /// Releases a lease without storing a value, so that the next client that wants the value
    /// computes it. Returns whether the caller still held the lease. Does nothing in a forked
    /// child, because the lease belongs to the parent.
    ///
    /// # Errors
    /// Returns the errors of [`write`](Self::write).
    pub fn release_lease(&self, database: usize, key: &[u8], lease: &Lease) -> Result<bool, Error> {
        let _removing = removing();
        self.end_lease(database, key, lease, None)
    }

    fn end_lease(
        &self,
        database: usize,
        key: &[u8],
        lease: &Lease,
        value: Option<(&[u8], Expiry)>,
    ) -> Result<bool, Error> {
        let seat = lease.seat();
        if !seat.is_some_and(|seat| self.segment.is_seat_here(seat)) {
            return Ok(false);
        }
        // After the end of the term, store nothing, even if no other client has taken over the
        // lease.
        let is_late = self.is_over(lease);
        let value = value.filter(|_| !is_late);
        let name = lease_key(key);
        let (key, name) = (self.key(key), self.key(&name));
        let staged = match value {
            Some((value, _)) => self.stage(&key, value)?,
            None => None,
        };
        let ended = self.write(self.shards_of([&key, &name]), |writer| {
            if writer.holds(database, &name, &lease.0)? != Some(true) {
                return Ok(false);
            }
            if let Some((value, expiry)) = value {
                writer.set_or_adopt(database, &key, value, staged.as_ref(), expiry)?;
            }
            writer.remove(database, &name)
        })?;
        if ended && value.is_some() {
            self.touch_written(&key);
            if let Some(staged) = staged {
                staged.adopted();
            }
        }
        if let Some(seat) = seat {
            self.segment.wake_seat(seat);
        }
        Ok(ended && !is_late)
    }

    /// Waits up to `most` until the lease on a key's value is free, has a new holder, or has a dead
    /// holder. Releases the language runtime's lock during the wait.
    ///
    /// # Errors
    /// Returns an error for which [`Error::is_wait`] is true if a signal handler must run. Fails
    /// within two seconds if the store's file is removed (M7).
    pub fn wait_for_lease(&self, database: usize, key: &[u8], most: Duration) -> Result<(), Error> {
        let name = lease_key(key);
        let name = self.key(&name);
        let start = Instant::now();
        let Some((held, expiry)) = self.look_at(database, &name)? else {
            return Ok(());
        };
        // A client of a server cannot wake waiters, so block on one of this process's own seats
        // (its futex slots in the store).
        let seat = match held.seat() {
            Some(seat) => seat,
            None => self.segment.seat_here(0)?,
        };
        let polling = Polling::new(Duration::ZERO);
        // If constant writes prevent an unlocked read, keep waiting and try again at the next
        // check.
        let is_over = || self.holds_still(database, &name, &held) == Some(false);
        while self.is_held(&held) {
            let waited = start.elapsed();
            let left = most.saturating_sub(waited);
            let left_of_term = match held.over() {
                Some(over) => Some(over.saturating_sub(self.boot_now())),
                None => expiry.map(|at| at.saturating_sub(self.now())),
            };
            let term = left_of_term.map_or(LAST_LOOK, |left| {
                Duration::from_millis(left.saturating_add(1))
            });
            // Check often at first, to detect a dead holder quickly, and less often as the wait
            // gets longer.
            let pause = (waited / 8)
                .clamp(FIRST_LOOK, LAST_LOOK)
                .min(term)
                .min(left);
            let patience = Patience {
                timeout: Some(pause),
                polling: &polling,
                progress: 0,
            };
            if self.segment.wait_at(seat, patience, is_over)? || left.is_zero() {
                break;
            }
            self.upkeep_while_waiting();
        }
        Ok(())
    }

    /// Returns whether a lease's term is still running and its holder was alive when last checked.
    /// A client of a server always counts as alive.
    fn is_held(&self, lease: &Lease) -> bool {
        let lives = |seat| self.segment.seat_lives(seat);
        !self.is_over(lease) && lease.seat().is_none_or(lives)
    }

    /// Returns whether a lease's term has ended.
    fn is_over(&self, lease: &Lease) -> bool {
        lease.over().is_some_and(|over| over <= self.boot_now())
    }

    fn look_at(
        &self,
        database: usize,
        name: &Key<'_>,
    ) -> Result<Option<(Lease, Option<u64>)>, Error> {
        let held = self.read(ShardSet::one(name.shard), |reader| {
            reader.string(database, name)
        })?;
        Ok(held.map(|(held, expiry)| (Lease(held), expiry)))
    }

    fn holds_still(&self, database: usize, name: &Key<'_>, held: &Lease) -> Option<bool> {
        let look = self.segment.try_read(ShardSet::one(name.shard), |view| {
            let reader = Reader { store: self, view };
            let lease = reader.string(database, name)?;
            Ok::<_, Error>(lease.is_some_and(|(lease, _)| lease == held.0))
        });
        look?.ok()
    }
}
