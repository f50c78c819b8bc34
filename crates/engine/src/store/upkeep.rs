//! Upkeep (M8): processes that write or wait also run the store's background work, one bounded step
//! at a time. No server is needed for upkeep.
//!
//! A step runs each chore once. A chore does at most about 100 us of work, counted in buckets, keys
//! and pages, in transactions of bounded length (W9), and skips locked shards. If much work is
//! left, the next step is due after a few milliseconds, otherwise later.

use undercroft_memory::{ShardSet, coarse_milliseconds, defer_signals};

use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::dictionary_change;
use crate::structures::graveyard::is_dying;
use crate::structures::roots::{DATABASES, Root, expiring};
use crate::transaction::access::Access;
use crate::upkeep::expiry::SweepResult;
use crate::upkeep::graveyard;
use crate::upkeep::reclaim::Locked;

/// How soon a chore must run again, given how much work it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pace {
    /// The chore had nothing to do.
    Idle,
    /// The chore had a little to do.
    Steady,
    /// The chore has much work left.
    Hurry,
}

impl Pace {
    /// Returns the pause before the next step in milliseconds. Many machines' coarse clocks tick
    /// only every 4 ms, so most writes run no step even if much work is left.
    fn pause(self) -> u64 {
        match self {
            Pace::Idle => 100,
            Pace::Steady => 25,
            Pace::Hurry => 3,
        }
    }
}

/// The result of one step of upkeep.
#[derive(Clone, Copy, Debug)]
pub struct Upkept {
    /// The number of expired keys that the step removed.
    pub expired: u64,
    /// How soon the next step is due.
    pub pace: Pace,
}

/// One kind of work within a step of upkeep.
type Chore = fn(&Store, &mut Upkept) -> Result<Pace, Error>;

/// The chores that remove keys, which are skipped while the data must not change.
const OF_KEYS: &[Chore] = &[remove_expired, evict];

/// The chores that change no keys.
const OF_MEMORY: &[Chore] = &[
    free_dying,
    free_the_dead,
    give_back,
    resize,
    prepare_growth,
    shrink_logs,
    trim,
    keep_journal,
];

/// The maximum number of sweep transactions in one step.
const SWEEPS: usize = 24;
/// The number of removed keys after which a step stops sweeping. Removing them takes about 350 us
/// if each key is a cache miss. At this rate, a million keys are removed within four seconds.
const SWEPT: u64 = 1500;
/// A step stops sweeping if fewer than one in `WORTH_MORE` visited keys had expired.
const WORTH_MORE: u64 = 10;
/// The maximum number of transactions in one step that free removed structures.
const FREES: usize = 4;
/// The maximum number of times that a step returns freed pages to the heap, 64 page runs each time.
/// All of them together take about 100 us.
const GIVE_BACKS: usize = 4;
/// The amount of resizing work in one step, in tenths of a microsecond.
const RESIZE_WORK_AT_ONCE: u64 = 1000;
/// The amount of free memory that a store always keeps, in bytes.
const KEPT_FREE: u64 = 16 << 20;

impl Store {
    /// Runs a step of upkeep after a command, if a step is due and this handle does not leave
    /// upkeep to a timer. Ignores errors, because the command itself has succeeded.
    #[cold]
    pub(crate) fn upkeep_after_write(&self) {
        self.upkeep_at(self.segment.last_written());
    }

    /// Runs a step of upkeep if a step is due, for clients that wait without writing.
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

    /// Runs a step of upkeep if a step is due at the time `now`, in milliseconds since boot.
    /// Returns `None` if no step is due or another process is running a step.
    ///
    /// # Errors
    /// Returns the first error of a chore, after running the remaining chores.
    pub fn upkeep(&self, now: u64) -> Result<Option<Upkept>, Error> {
        let Some(turn) = self.segment.take_upkeep(now) else {
            return Ok(None);
        };
        let upkept = self.upkeep_step();
        let pace = upkept.as_ref().map_or(Pace::Idle, |upkept| upkept.pace);
        self.segment.end_upkeep(turn, now + pace.pause());
        upkept.map(Some)
    }

    /// Runs a step of upkeep immediately, even if another process is running a step.
    ///
    /// # Errors
    /// Returns the errors of [`upkeep`](Self::upkeep).
    pub fn upkeep_step(&self) -> Result<Upkept, Error> {
        // The step runs after a command has succeeded, so a signal must not interrupt it.
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
                // Another process holds the lock, so schedule the next step soon.
                Err(error) if error.is_wait() => upkept.pace = upkept.pace.max(Pace::Steady),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(upkept),
        }
    }

    /// Runs all upkeep that is due, step by step, and skips locked shards. Returns the number of
    /// removed expired keys.
    pub fn upkeep_all(&self) -> Result<u64, Error> {
        let mut expired = 0;
        // A single step examines only some of the waits and subscriptions that dead processes left.
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
    /// Returns all free memory to the system, including memory that is normally kept mapped for
    /// reuse. The upkeep of any process returns the memory a second later, because concurrent reads
    /// must end first. Until then, a writer that finds no other memory can reuse it. Must not be
    /// called within a transaction. O(free memory).
    ///
    /// # Errors
    /// Fails if a lock of the heap cannot be acquired.
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

/// Removes expired keys: about [`SWEPT`] keys if at least a tenth of the visited keys have expired,
/// otherwise fewer.
fn remove_expired(store: &Store, upkept: &mut Upkept) -> Result<Pace, Error> {
    let mut pace = Pace::Idle;
    let mut swept = SweepResult::default();
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

/// Evicts keys if the store exceeds `maxmemory` because commands did not evict enough.
fn evict(store: &Store, _: &mut Upkept) -> Result<Pace, Error> {
    Ok(match store.evict_some()? {
        true => Pace::Hurry,
        false => Pace::Idle,
    })
}

/// Frees some of the memory of flushed, cut-off or removed values.
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

/// Frees some of the waits and subscriptions of dead processes.
fn free_the_dead(store: &Store, _: &mut Upkept) -> Result<Pace, Error> {
    let freed = store.free_some_of_the_dead()?;
    Ok(match freed {
        _ if freed.left > 0 => Pace::Hurry,
        _ if !freed.is_last => Pace::Steady,
        _ => Pace::Idle,
    })
}

/// Returns a shard's freed pages to the heap, from which all shards allocate.
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

/// Continues the resizing of tables. Insertions and removals do so too, but may be rare.
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

/// Returns the sizes in bytes of the large tables that a shard's databases will soon need.
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

/// Prepares memory for tables that will soon double in size, a little more in each step.
fn prepare_growth(store: &Store, _: &mut Upkept) -> Result<Pace, Error> {
    for shard in 0..store.shards() {
        for bytes in wanted_tables(store, shard)? {
            // If no memory can be prepared, insertions continue without it.
            if store.segment.prepare(bytes).unwrap_or(false) {
                return Ok(Pace::Hurry);
            }
        }
    }
    Ok(Pace::Idle)
}

/// Returns the memory of overgrown undo logs to the system.
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

/// Makes changes durable in time that processes made which have died.
fn keep_journal(store: &Store, _: &mut Upkept) -> Result<Pace, Error> {
    store.segment.keep_journal();
    Ok(Pace::Idle)
}

/// Returns free memory to the system, except for a part that is kept mapped for reuse (H5).
fn trim(store: &Store, _: &mut Upkept) -> Result<Pace, Error> {
    // If not even a slot for another process can be allocated, keep no free memory mapped for
    // reuse.
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
    /// Continues expiry, freeing and resizing in every shard, for a caller that runs upkeep
    /// explicitly. `buckets` limits the work in each database. Skips shards that stay locked longer
    /// than the lock timeout. Returns the number of removed expired keys.
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
    /// Returns free memory to the system; see [`Store::purge`]. Does nothing within a transaction,
    /// because the transaction holds locks.
    pub fn purge(&self) -> Result<(), Error> {
        match self.running {
            None => self.store.purge(),
            Some(_) => Ok(()),
        }
    }
}
