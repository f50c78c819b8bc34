//! Taking, keeping and giving back a lease, and waiting for one.

use std::time::{Duration, Instant};

use undercroft_memory::{Patience, Polling, SeatName, ShardSet, removing};

use super::lease_key;
use crate::error::Error;
use crate::handle::reader::Reader;
use crate::handle::store::Store;
use crate::structures::key::Key;
use crate::transaction::writer::Expiry;

/// A waiter asks whether the holder lives after this long at first, and at last.
const FIRST_LOOK: Duration = Duration::from_millis(10);
const LAST_LOOK: Duration = Duration::from_millis(100);
/// A lease of a process in the store: `@`, a seat of that process, a number, and when its term is over by the clock of the
/// boot, each in 16 hexadecimal digits.
const LENGTH: usize = 49;
/// The key of a lease whose process nobody asks for any more expires so long after its term, in milliseconds. The term
/// itself is not told by the key's expiry, which a step of the system's time would bring forward.
const FORGOTTEN: u64 = 24 * 60 * 60 * 1000;

/// A lease as it is stored: its holder may store the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease(Vec<u8>);

/// What became of a try to take a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leased {
    /// It is the caller's. Beside it, what the key held at that moment.
    Taken(Lease, Option<Vec<u8>>),
    /// Somebody else has it, who was alive a moment ago, or is a client of a server.
    Held,
}

impl Lease {
    fn new(seat: SeatName, number: u64, over: u64) -> Lease {
        Lease(format!("@{:016x}{number:016x}{over:016x}", seat.bits()).into_bytes())
    }

    /// The lease that has these bytes.
    pub fn from_bytes(bytes: &[u8]) -> Lease {
        Lease(bytes.to_vec())
    }

    /// What is stored.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Where those who wait for it sleep, which names the process; none of a client of a server.
    fn seat(&self) -> Option<SeatName> {
        self.number(0).map(SeatName::from_bits)
    }

    /// When its term is over, in milliseconds since boot; none of a client of a server, whose lease's key expires.
    fn over(&self) -> Option<u64> {
        self.number(2)
    }

    /// One of the numbers in it.
    fn number(&self, place: usize) -> Option<u64> {
        let digits = self
            .0
            .strip_prefix(b"@")
            .filter(|_| self.0.len() == LENGTH)?;
        let digits = std::str::from_utf8(&digits[16 * place..][..16]).ok()?;
        u64::from_str_radix(digits, 16).ok()
    }
}

/// A string, and when it expires.
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
    /// Takes the lease of a key's value for a term, at least a millisecond, unless somebody has it: one whose holder
    /// is dead is taken over. `number` is one that no other lease has, a random one, say. Returns what the key holds as
    /// well, as another may have stored it meanwhile. O(length of the value). Not within a transaction.
    ///
    /// # Errors
    /// [`Error::WrongType`] where the key or that of the lease holds no string; a read-only store; those of
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
        // Whether the holder lives and its term goes on is asked without a lock (W9): neither comes back.
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

    /// Stores a value whose lease the caller has, and gives the lease back, all at one moment. Returns false, and
    /// stores nothing, where he has lost it. O(length).
    ///
    /// # Errors
    /// No room, and those of [`write`](Self::write). The lease stays the caller's.
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

    /// Gives a lease back without a value: the next one who wants it computes. Returns whether it was still the
    /// caller's. In a forked child it does nothing: the lease is the parent's.
    ///
    /// # Errors
    /// Those of [`write`](Self::write).
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
        // Nothing is stored behind its term, though nobody may have taken it over yet.
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

    /// Waits until the lease of a key's value is free, was given to another, or its holder is dead; for so long at
    /// most. The runtime's own lock is released meanwhile.
    ///
    /// # Errors
    /// [`Error::is_wait`] where a signal handler wants to run; an error within two seconds where the store's file is
    /// gone (M7).
    pub fn wait_for_lease(&self, database: usize, key: &[u8], most: Duration) -> Result<(), Error> {
        let name = lease_key(key);
        let name = self.key(&name);
        let start = Instant::now();
        let Some((held, expiry)) = self.look_at(database, &name)? else {
            return Ok(());
        };
        // Of a holder elsewhere nobody hears anything.
        let seat = match held.seat() {
            Some(seat) => seat,
            None => self.segment.seat_here(0)?,
        };
        let polling = Polling::new(Duration::ZERO);
        // Where others change the shard all the time, a proper look tells.
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
            // A dead holder is found the sooner the shorter others have waited for it.
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

    /// Whether a lease's term goes on, and its holder was alive a moment ago; one elsewhere counts as alive.
    fn is_held(&self, lease: &Lease) -> bool {
        let lives = |seat| self.segment.seat_lives(seat);
        !self.is_over(lease) && lease.seat().is_none_or(lives)
    }

    /// Whether a lease's term is over.
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
