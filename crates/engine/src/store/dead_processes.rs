//! Cleanup after dead processes (L5): frees their subscriptions and their places among the
//! trackers of keys, and the tickets (ids of waits) and
//! mailboxes (records of waits, with their answers) of their waiting clients.
//!
//! Tickets, mailboxes and subscriptions are stored in dictionaries that clients cannot see. One
//! cleanup step examines a bounded number of names in these dictionaries without a lock. It then
//! frees the entries of dead processes in transactions of bounded length (W9): one transaction for
//! each ticket, whose number of keys is limited by the blocking command, and one transaction for a
//! batch of subscribed names. A caller that runs out of memory runs a full round of steps before
//! its call fails.

use std::sync::atomic::{AtomicU64, Ordering};

use undercroft_memory::{ShardSet, View, coarse_milliseconds, defer_signals};

use crate::error::Error;
use crate::handle::store::Store;
use crate::messages::receivers::{Places, places_of};
use crate::structures::entry::Entry;
use crate::structures::roots::{ANSWERED, KEYS, QUEUES, Root, TABLE, WAITERS, hidden};
use crate::transaction::access::Access;
use crate::transaction::message::Topic;
use crate::upkeep::graveyard;
use crate::waiting::{Ticket, TicketRecord};

/// The number of names that one cleanup step examines.
const LOOK: u64 = 64;
/// The number of elements sampled to estimate the size of a large collection.
const SAMPLES: u64 = 5;
/// The number of buckets that one transaction frees in an empty hidden dictionary.
const FREE: u64 = 64;
/// The minimum time in milliseconds between a round that freed nothing and the next round for a
/// caller that needs memory.
const NOTHING_FOR: u64 = 100;
/// The bits of a cleanup round's position that contain the scan cursor. The bits above contain the
/// kind (waits, or a kind of topic).
const CURSOR: u64 = (1 << 60) - 1;
/// The number of kinds that a cleanup round covers: waits, and subscriptions of each kind of topic.
const KINDS: u64 = 1 + Topic::ALL.len() as u64;

/// The position of this process in the current cleanup round.
#[derive(Debug, Default)]
pub(crate) struct Round {
    place: AtomicU64,
    /// The time in coarse milliseconds before which starting another round is not worthwhile.
    nothing_until: AtomicU64,
}

/// The result of one cleanup step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// The number of waits of dead processes, plus the number of names to which dead processes were
    /// subscribed.
    pub left: usize,
    /// Whether this step ended the round.
    pub is_last: bool,
}

impl Store {
    /// Runs one bounded step of cleanup, which frees waits and subscriptions of dead processes.
    /// Skips locked shards until the next round.
    ///
    /// # Errors
    /// Returns the errors of [`write`](Store::write), except the error for a held lock.
    pub fn free_some_of_the_dead(&self) -> Result<Freed, Error> {
        let place = self.part::<Round>().place.load(Ordering::Relaxed);
        let (next, left) = self.step_over_the_dead(place)?;
        self.part::<Round>().place.store(next, Ordering::Relaxed);
        Ok(Freed {
            left,
            is_last: next == 0,
        })
    }

    /// Frees all waits and subscriptions of dead processes, and returns the items that dead clients
    /// had not read yet to their lists. Returns the number of freed waits and names. O(waiting
    /// clients + names).
    pub fn free_all_of_the_dead(&self) -> Result<usize, Error> {
        // Discard cached liveness, so that processes that died since the last check are found.
        self.segment.forget_who_lives();
        let (mut place, mut all) = (0, 0);
        loop {
            let (next, left) = self.step_over_the_dead(place)?;
            all += left;
            place = next;
            if place == 0 {
                return Ok(all);
            }
        }
    }

    /// Frees waits and subscriptions of dead processes until `enough` returns true, for a caller
    /// that needs memory. Returns whether anything was freed.
    #[cold]
    pub(crate) fn free_for_room(&self, mut enough: impl FnMut() -> bool) -> Result<bool, Error> {
        let until = &self.part::<Round>().nothing_until;
        if coarse_milliseconds() < until.load(Ordering::Relaxed) || !self.may_look() {
            return Ok(false);
        }
        let (mut place, mut some) = (0, false);
        loop {
            let (next, left) = self.step_over_the_dead(place)?;
            (place, some) = (next, some || left > 0);
            if place == 0 && !some {
                until.store(coarse_milliseconds() + NOTHING_FOR, Ordering::Relaxed);
            }
            if place == 0 || some && enough() {
                return Ok(some);
            }
        }
    }

    /// Returns whether a cleanup attempt is worthwhile: there are waiters or subscribers, and their
    /// shards are not locked. A caller that needs memory must not wait for an unrelated lock.
    fn may_look(&self) -> bool {
        let mut some = false;
        for shard in 0..self.shards() {
            let mut here = false;
            self.segment.glance(|view| {
                let is_used = |database| Root { shard, database }.get(view, KEYS) != 0;
                here = hidden().any(is_used);
            });
            if here && self.segment.is_locked(shard) {
                return false;
            }
            some |= here;
        }
        some
    }

    /// Runs one cleanup step from the position `place`. Returns the next position, which is 0 at
    /// the end of the round, and the number of waits and names that dead processes had left.
    fn step_over_the_dead(&self, place: u64) -> Result<(u64, usize), Error> {
        let _deferred = defer_signals();
        let (kind, cursor) = ((place & !CURSOR) >> 60, place & CURSOR);
        let (next, left) = match kind.checked_sub(1) {
            None => self.step_over_waits(cursor)?,
            Some(topic) => self.step_over_topic(Topic::ALL[topic as usize % 3], cursor)?,
        };
        if next != 0 {
            return Ok((kind << 60 | next, left));
        }
        let next = (kind + 1) % KINDS;
        if next != 0 {
            return Ok((next << 60, left));
        }
        let staged = match self.segment.free_dead_staged().map_err(Error::from) {
            Err(error) if error.is_busy() => false,
            staged => staged?,
        };
        let copy = match self.segment.free_dead_copy().map_err(Error::from) {
            Err(error) if error.is_wait() => false,
            copy => copy?,
        };
        let trackers = self.segment.forget_dead_trackers()?;
        Ok((0, left + usize::from(staged) + usize::from(copy) + trackers))
    }

    fn step_over_waits(&self, cursor: u64) -> Result<(u64, usize), Error> {
        // First return the items in dead clients' mailboxes (their records in the store) to their
        // lists. Going through the mailboxes in the order of the shard's list restores the order of
        // the items.
        unless_busy(self.look_after())?;
        let mut tickets = Vec::new();
        let seat = |view: &View<'_>, entry: &Entry| Ok(TicketRecord::load(view, entry)?.seat);
        let next = self.scan(
            WAITERS,
            cursor,
            LOOK,
            |reader, entry| seat(reader.view(), entry).map(Some),
            |name, seat| tickets.extend(Ticket::from_bytes(name).map(|ticket| (ticket, seat))),
        )?;
        // Check liveness before acquiring the lock (W9): a dead process stays dead.
        tickets.retain(|(_, seat)| !self.segment.seat_lives(*seat));
        let mut left = 0;
        for (ticket, _) in tickets {
            left += usize::from(unless_busy(self.end_for_good(ticket))?);
        }
        if next == 0 {
            self.free_idle(&[QUEUES, WAITERS, ANSWERED])?;
        }
        Ok((next, left))
    }

    fn step_over_topic(&self, topic: Topic, cursor: u64) -> Result<(u64, usize), Error> {
        let mut names = Vec::new();
        let next = self.scan(
            topic.database(),
            cursor,
            LOOK,
            |reader, entry| {
                let mut places = Places::new();
                places_of(reader.view(), entry, &mut places)?;
                Ok(Some(places))
            },
            |name, places| names.push((name.to_vec(), places)),
        )?;
        names.retain(|(_, places)| self.count_living(places).1);
        let names: Vec<Vec<u8>> = names.into_iter().map(|(name, _)| name).collect();
        let left = match unless_busy(self.forget_dead(topic, &names))? {
            true => names.len(),
            false => 0,
        };
        if next == 0 {
            self.free_idle(&[topic.database()])?;
        }
        Ok((next, left))
    }

    /// Frees the memory of hidden dictionaries that have become empty.
    fn free_idle(&self, databases: &[usize]) -> Result<(), Error> {
        for shard in 0..self.shards() {
            for &database in databases {
                unless_busy(self.free_if_idle(Root { shard, database }))?;
            }
        }
        Ok(())
    }

    fn free_if_idle(&self, root: Root) -> Result<(), Error> {
        let shard = ShardSet::one(root.shard);
        let is_idle = |view: &View<'_>| root.get(view, TABLE) != 0 && root.get(view, KEYS) == 0;
        if !self.read(shard, |reader| Ok::<_, Error>(is_idle(reader.view())))? {
            return Ok(());
        }
        self.write(shard, |writer| {
            if is_idle(writer.view()) {
                graveyard::detach_unseen(writer, root)?;
            }
            graveyard::free_a_little(writer, root.shard, FREE)
        })
    }
}

impl Access<'_> {
    /// Returns the number of bytes used by waiting clients, subscriptions and long undelivered
    /// messages, including those of dead processes. O(waiting clients + names).
    ///
    /// # Errors
    /// Returns the errors of [`scan`](Self::scan).
    pub fn used_by_waiting(&self) -> Result<u64, Error> {
        let mut bytes = 0_u64;
        for database in hidden() {
            let mut cursor = 0;
            loop {
                cursor = self.scan(
                    database,
                    cursor,
                    LOOK,
                    |reader, entry| entry.memory_usage(reader.view(), SAMPLES).map(Some),
                    |_, usage| bytes = bytes.saturating_add(usage),
                )?;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(bytes)
    }
}

/// Converts a busy error into `false`, so that cleanup skips a shard whose lock a stopped process
/// holds.
fn unless_busy<T>(done: Result<T, Error>) -> Result<bool, Error> {
    match done {
        Err(error) if error.is_busy() => Ok(false),
        done => done.map(|_| true),
    }
}
