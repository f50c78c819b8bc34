//! The store keeps itself (M8): whoever writes or waits does, now and then, one
//! bounded step of what is due. No server is needed for it.
//!
//! A step is a round of chores. Each does about 100 us of work at most, counted
//! in buckets, keys and pages, in transactions of a bounded length (W9), and
//! passes over what somebody else has locked. What it comes to says when the
//! next step is due: where much is left, after some milliseconds.

use undercroft_memory::{ShardSet, coarse_milliseconds, defer_signals};

use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::dictionary_change;
use crate::structures::graveyard::is_dying;
use crate::structures::roots::{DATABASES, Root, expiring};
use crate::transaction::access::Access;
use crate::upkeep::expiry::Swept;
use crate::upkeep::graveyard;
use crate::upkeep::reclaim::Locked;

/// How soon a chore is to be done again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pace {
    /// There was nothing to do.
    Idle,
    /// There was something, and not much.
    Steady,
    /// Much is left.
    Hurry,
}

impl Pace {
    /// Milliseconds until the next step. The clock has ticks of 4 ms on many
    /// machines, so that of many writes a hurried step slows one in some.
    fn pause(self) -> u64 {
        match self {
            Pace::Idle => 100,
            Pace::Steady => 25,
            Pace::Hurry => 3,
        }
    }
}

/// What one step came to.
#[derive(Clone, Copy, Debug)]
pub struct Upkept {
    /// Expired keys removed.
    pub expired: u64,
    /// How soon the next one is due.
    pub pace: Pace,
}

/// Something that a step does.
type Chore = fn(&Store, &mut Upkept) -> Result<Pace, Error>;

/// What changes the keys: left out while the data are to stay as they are.
const OF_KEYS: &[Chore] = &[remove_expired, evict];

/// What only gives memory back and puts structures in order.
const OF_MEMORY: &[Chore] = &[
    free_dying,
    free_the_dead,
    give_back,
    resize,
    prepare_growth,
    shrink_logs,
    trim,
];

/// Transactions of a sweep in one step at most,
const SWEEPS: usize = 24;
/// and keys after which it ends: some 350 us where each is a wait for memory, and what
/// a million need to be gone within four seconds.
const SWEPT: u64 = 1500;
/// Where fewer of those seen have expired than one in so many, a step ends
/// early.
const WORTH_MORE: u64 = 10;
/// Transactions that free dying structures in one step at most.
const FREES: usize = 4;
/// Times that a step takes pages that were freed to the heap, 64 runs each: some 100 us.
const GIVE_BACKS: usize = 4;
/// Work of resizing in one step, in tenths of a microsecond.
const RESIZE_WORK_AT_ONCE: u64 = 1000;
/// Free memory that a store keeps in any case, in bytes.
const KEPT_FREE: u64 = 16 << 20;

impl Store {
    /// Does a step of upkeep after a command, where one is due and this handle
    /// does not leave it to a timer. What it fails of is not the command's.
    #[cold]
    pub(crate) fn upkeep_after_write(&self) {
        self.upkeep_at(self.segment.last_written());
    }

    /// Does a step of upkeep where one is due, for who waits and has not written.
    pub fn upkeep_while_waiting(&self) {
        let now = coarse_milliseconds();
        if self.segment.upkeep_is_due_at(now) {
            self.upkeep_at(now);
        }
    }

    fn upkeep_at(&self, now: u64) {
        if self.keeps_itself() {
            let _ = self.upkeep(now);
        }
    }

    /// Takes the turn to do a step of upkeep that is due at this time,
    /// milliseconds since boot, and does it. None where another process has the turn.
    ///
    /// # Errors
    /// The first that a chore came to; the others are done all the same.
    pub fn upkeep(&self, now: u64) -> Result<Option<Upkept>, Error> {
        let Some(turn) = self.segment.take_upkeep(now) else {
            return Ok(None);
        };
        let upkept = self.upkeep_step();
        let pace = upkept.as_ref().map_or(Pace::Idle, |upkept| upkept.pace);
        self.segment.end_upkeep(turn, now + pace.pause());
        upkept.map(Some)
    }

    /// Does a step of upkeep at once, whoever else does one.
    ///
    /// # Errors
    /// As those of [`upkeep`](Self::upkeep).
    pub fn upkeep_step(&self) -> Result<Upkept, Error> {
        // Done behind a command, whose reply stands.
        let _deferred = defer_signals();
        let mut upkept = Upkept {
            expired: 0,
            pace: Pace::Idle,
        };
        let mut failed = None;
        let removes = !self.keeps_expired();
        let of_keys = OF_KEYS.iter().filter(|_| removes);
        for chore in of_keys.chain(OF_MEMORY) {
            match chore(self, &mut upkept) {
                Ok(pace) => upkept.pace = upkept.pace.max(pace),
                // Somebody else has the lock: the next step comes soon.
                Err(error) if error.is_wait() => upkept.pace = upkept.pace.max(Pace::Steady),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(upkept),
        }
    }

    /// Does all the upkeep that there is, step by step; what others have locked
    /// is left. Returns how many expired keys it removed.
    pub fn upkeep_all(&self) -> Result<u64, Error> {
        let mut expired = 0;
        // A step looks at a part of it.
        self.free_all_of_the_dead()?;
        loop {
            let upkept = self.upkeep_step()?;
            expired += upkept.expired;
            if upkept.pace != Pace::Hurry {
                return Ok(expired);
            }
        }
    }
}

impl Store {
    /// Has all memory that is free given back to the system, also what would stay warm for reuse. It leaves a second
    /// later, with the upkeep that any process does: reads that are under way must have ended. Until then a writer that
    /// finds no other memory takes it back. Must not be called within a transaction. O(free memory).
    ///
    /// # Errors
    /// A lock of the heap that cannot be had now.
    pub fn purge(&self) -> Result<(), Error> {
        for shard in 0..self.shards() {
            while !self.segment.is_locked(shard) && self.segment.give_back(shard)? {}
        }
        self.segment.shrink_logs_now()?;
        loop {
            let free = self.statistics().free;
            self.segment.trim(0)?;
            if self.statistics().free >= free {
                return Ok(());
            }
        }
    }
}

/// Removes expired keys: as many as [`SWEPT`] where most of those it sees have
/// expired, and fewer the fewer there are among others.
fn remove_expired(store: &Store, upkept: &mut Upkept) -> Result<Pace, Error> {
    let mut pace = Pace::Idle;
    let mut swept = Swept::default();
    let first = store.segment.upkeep_place() as usize % store.shards();
    for shard in (first..store.shards()).chain(0..first) {
        let databases = store.expiry_is_due(shard)?;
        for database in expiring().filter(|database| databases >> database & 1 == 1) {
            pace = pace.max(Pace::Steady);
            if store.segment.is_locked(shard) {
                continue;
            }
            let root = Root { shard, database };
            for round in 0..SWEEPS {
                let some = store.sweep_some(root)?;
                if some.buckets == 0 {
                    break;
                }
                swept.add(some);
                upkept.expired += some.removed;
                let much = swept.removed * WORTH_MORE >= swept.seen.max(1);
                if round + 1 == SWEEPS || swept.removed >= SWEPT || !much && swept.buckets >= 64 {
                    let next = if much { shard } else { shard + 1 };
                    store.segment.set_upkeep_place(next as u64);
                    return Ok(if much { Pace::Hurry } else { pace });
                }
            }
        }
    }
    Ok(pace)
}

/// Evicts keys where more is in use than `maxmemory` allows: what commands have left over.
fn evict(store: &Store, _: &mut Upkept) -> Result<Pace, Error> {
    Ok(match store.evict_some()? {
        true => Pace::Hurry,
        false => Pace::Idle,
    })
}

/// Frees some of what was flushed, cut off or removed.
fn free_dying(store: &Store, _: &mut Upkept) -> Result<Pace, Error> {
    let mut steps = 0;
    for shard in 0..store.shards() {
        while store.reclaim_step(shard, Locked::Skip)? {
            steps += 1;
            if steps == FREES {
                return Ok(Pace::Hurry);
            }
        }
    }
    Ok(Pace::Idle)
}

/// Frees some of what dead processes left of their waits and subscriptions.
fn free_the_dead(store: &Store, _: &mut Upkept) -> Result<Pace, Error> {
    let freed = store.free_some_of_the_dead()?;
    Ok(match freed {
        _ if freed.left > 0 => Pace::Hurry,
        _ if !freed.is_last => Pace::Steady,
        _ => Pace::Idle,
    })
}

/// Gives pages that were freed in a shard to the heap, for all shards to use.
fn give_back(store: &Store, _: &mut Upkept) -> Result<Pace, Error> {
    let mut rounds = 0;
    for shard in 0..store.shards() {
        while !store.segment.is_locked(shard) && store.segment.give_back(shard)? {
            rounds += 1;
            if rounds == GIVE_BACKS {
                return Ok(Pace::Hurry);
            }
        }
    }
    Ok(Pace::Idle)
}

/// Goes on with the resizing of tables, which otherwise insertions and removals
/// do, and there may be none.
fn resize(store: &Store, _: &mut Upkept) -> Result<Pace, Error> {
    let (mut pace, mut work) = (Pace::Idle, 0);
    for shard in 0..store.shards() {
        let unfit = store.read(ShardSet::one(shard), |reader| {
            let mut unfit = Vec::new();
            for database in 0..DATABASES {
                let root = Root { shard, database };
                if dictionary_change::is_unfit(reader.view(), root)? {
                    unfit.push(root);
                }
            }
            Ok::<_, Error>(unfit)
        })?;
        for root in unfit {
            if store.segment.is_locked(shard) {
                continue;
            }
            pace = Pace::Steady;
            while let some @ 1.. = store.resize_some(root)? {
                work += some;
                if work >= RESIZE_WORK_AT_ONCE {
                    return Ok(Pace::Hurry);
                }
            }
        }
    }
    Ok(pace)
}

/// The long tables that a shard's databases will soon need, in bytes.
fn wanted_tables(store: &Store, shard: usize) -> Result<Vec<u64>, Error> {
    store.read(ShardSet::one(shard), |reader| {
        let roots = (0..DATABASES).map(|database| Root { shard, database });
        let mut wanted = Vec::new();
        for root in roots {
            match dictionary_change::wanted(reader.view(), root)? {
                0 => {}
                bytes => wanted.push(bytes),
            }
        }
        Ok::<_, Error>(wanted)
    })
}

/// Has memory for tables that will soon double, a little more each time.
fn prepare_growth(store: &Store, _: &mut Upkept) -> Result<Pace, Error> {
    for shard in 0..store.shards() {
        for bytes in wanted_tables(store, shard)? {
            // Where there is no more, who adds keys does without.
            if store.segment.prepare(bytes).unwrap_or(false) {
                return Ok(Pace::Hurry);
            }
        }
    }
    Ok(Pace::Idle)
}

/// Gives the memory of undo logs that were long back to the system.
fn shrink_logs(store: &Store, _: &mut Upkept) -> Result<Pace, Error> {
    let mut pace = Pace::Idle;
    for shard in 0..store.shards() {
        let shrunk = store.segment.shrink_log(shard)?;
        if shrunk.bytes > 0 {
            return Ok(Pace::Hurry);
        }
        if shrunk.more {
            pace = Pace::Steady;
        }
    }
    Ok(pace)
}

/// Gives free memory back to the system. Some stays warm for reuse (H5).
fn trim(store: &Store, _: &mut Upkept) -> Result<Pace, Error> {
    // Where not even the next process' entry finds memory, nothing stays.
    if !store.segment.keep_spare_slots() {
        let trimmed = store.segment.trim(0)?;
        return Ok(if trimmed.bytes > 0 {
            Pace::Hurry
        } else {
            Pace::Steady
        });
    }
    let mut keep = KEPT_FREE.max(store.used_memory() / 4);
    for shard in 0..store.shards() {
        keep += wanted_tables(store, shard)?.into_iter().sum::<u64>();
    }
    let trimmed = store.segment.trim(keep)?;
    Ok(match trimmed {
        _ if trimmed.bytes > 0 => Pace::Hurry,
        _ if trimmed.more => Pace::Steady,
        _ => Pace::Idle,
    })
}

impl Store {
    /// Goes on with the sweep, with what is being freed and with resizing in
    /// every shard, so many buckets in each database: a round for who has come
    /// for just that. Passes over shards that are locked for longer than the
    /// patience. Returns how many expired keys it removed.
    pub fn sweep(&self, buckets: u64) -> Result<usize, Error> {
        let mut removed = 0;
        for shard in 0..self.shards() {
            match self.sweep_shard(shard, buckets) {
                Ok(count) => removed += count,
                Err(error) if error.is_busy() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(removed as usize)
    }

    fn sweep_shard(&self, shard: usize, buckets: u64) -> Result<u64, Error> {
        let mut removed = 0;
        let due = self.expiry_is_due(shard)?;
        for database in expiring().filter(|database| due >> database & 1 == 1) {
            let root = Root { shard, database };
            let mut left = buckets;
            while left > 0 {
                let some = self.sweep_some(root)?;
                removed += some.removed;
                if some.buckets == 0 {
                    break;
                }
                if some.moving {
                    self.resize_some(root)?;
                }
                left = left.saturating_sub(some.buckets);
            }
        }
        let dying = self.read(ShardSet::one(shard), |reader| {
            Ok::<_, Error>(is_dying(reader.view(), shard))
        })?;
        if dying {
            self.write(ShardSet::one(shard), |writer| {
                graveyard::free_a_little(writer, shard, buckets)
            })?;
        }
        self.segment.give_back(shard)?;
        Ok(removed)
    }
}

impl Access<'_> {
    /// Gives free memory back to the system; see [`Store::purge`]. Nothing within a transaction, which holds locks.
    pub fn purge(&self) -> Result<(), Error> {
        match self.running {
            None => self.store.purge(),
            Some(_) => Ok(()),
        }
    }
}
