//! What the dead leave in a store, and who frees it (L5): the tickets and
//! mailboxes of clients that waited, and subscriptions.
//!
//! They lie in dictionaries that no client sees. A step looks at a bounded
//! number of their names, each without a lock, and frees what dead processes
//! left there in transactions of a bounded length (W9): one for a ticket, whose
//! keys are bounded by the command that waited, and one for some names that are
//! subscribed to. Whoever needs memory takes all the steps that there are before
//! he is refused.

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

/// Names looked at in one step.
const LOOK: u64 = 64;
/// Elements of a large collection that its size is judged by.
const SAMPLES: u64 = 5;
/// Buckets of an idle dictionary freed in one transaction.
const FREE: u64 = 64;
/// After a round that found nothing nobody who needs memory begins another one
/// for so many milliseconds.
const NOTHING_FOR: u64 = 100;
/// In a place, the bits of the cursor; above them is the kind.
const CURSOR: u64 = (1 << 60) - 1;
/// The clients that wait; then the topics.
const KINDS: u64 = 1 + Topic::ALL.len() as u64;

/// How far this process has looked.
#[derive(Debug, Default)]
pub(crate) struct Round {
    place: AtomicU64,
    /// Until when nothing is to be found.
    nothing_until: AtomicU64,
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// Tickets, and names with subscriptions, that the dead had left.
    pub left: usize,
    /// Whether the round is over that it belonged to.
    pub is_last: bool,
}

impl Store {
    /// Frees some of what dead processes left of their waits and subscriptions,
    /// if it finds any: a bounded step, the next one of a round over all there is.
    /// What somebody else has locked stays for the next round.
    ///
    /// # Errors
    /// Those of [`write`](Store::write), but for a lock that cannot be had.
    pub fn free_some_of_the_dead(&self) -> Result<Freed, Error> {
        let place = self.part::<Round>().place.load(Ordering::Relaxed);
        let (next, left) = self.step_over_the_dead(place)?;
        self.part::<Round>().place.store(next, Ordering::Relaxed);
        Ok(Freed {
            left,
            is_last: next == 0,
        })
    }

    /// Frees all that dead processes left of their waits and subscriptions, and
    /// gives back what was in their mailboxes. Returns how many tickets and
    /// names there were. O(waiting clients and names).
    pub fn free_all_of_the_dead(&self) -> Result<usize, Error> {
        // Those too that died since they were last seen alive.
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

    /// Frees what the dead left until `enough` says so, for who needs the memory.
    /// Returns whether there was anything.
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

    /// Whether somebody waits or is subscribed, and nobody holds a lock that a
    /// look at it could have to wait for: the one who needs memory may need
    /// nothing else of what is locked.
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

    /// One step from a place on. Returns the next place, which is 0 behind the
    /// last, and how much the dead had left.
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
        Ok((0, left + usize::from(staged) + usize::from(copy)))
    }

    fn step_over_waits(&self, cursor: u64) -> Result<(u64, usize), Error> {
        // First those whose order tells where the items were.
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
        // Who is dead is asked without a lock (W9), and stays so.
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

    /// Gives the memory of hidden dictionaries back that have become empty.
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
    /// Bytes that waiting clients, subscriptions and long messages on their way take of the memory in use,
    /// those of the dead included. O(waiting clients and names).
    ///
    /// # Errors
    /// Those of [`scan`](Self::scan).
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

/// Whether something was done: whoever is stopped with a lock holds up no
/// others.
fn unless_busy<T>(done: Result<T, Error>) -> Result<bool, Error> {
    match done {
        Err(error) if error.is_busy() => Ok(false),
        done => done.map(|_| true),
    }
}
