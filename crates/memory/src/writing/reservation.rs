//! Reserves memory for transactions (H2, W7): before the first lock, and before the next attempt of
//! a transaction that ran out of memory.
//!
//! A failed attempt stops immediately, so its further needs are unknown. The next attempt can use a
//! multiple of what the failed attempt used, in every shard, so a transaction of any size completes
//! after a few attempts. A caller that knows the size in advance can declare it, so that its
//! transaction runs only once.

use std::cell::Cell;

use crate::error::Error;
use crate::heap::{backing, removal};
use crate::journal::waiting;
use crate::mapped::layout::{EXTENT, EXTENT_PAGES, PAGE, control};
use crate::segment::marks::Marks;
use crate::segment::shard_set::ShardSet;
use crate::segment::{Segment, place};
use crate::transactions::rare_state::{Missing, Shortage};
use crate::undo::log_memory;
use crate::writing::memory_return;
use crate::writing::run::{self, Outcome, Used};

/// The maximum number of attempts without progress. Other processes may grab reserved memory, but
/// only in a damaged store does that happen every time.
const IDLE_RUNS: u32 = 100;
/// The divisor that defines progress: an attempt has made progress if it used more memory than
/// every earlier attempt, by over an eighth.
const PROGRESS: u64 = 8;
/// The factor by which the memory usage of a failed attempt is multiplied for the next attempt.
const GROWTH: u64 = 16;
/// The maximum amount of memory reserved in advance, in bytes. If twice the amount used by the last
/// attempt is more, that is the limit instead. The limit exists because the memory stays reserved.
const MOST_AHEAD: u64 = 32 << 20;
/// The maximum number of log bytes reserved in advance. The limit exists because this memory also
/// stays reserved. A log that is already long grows at most by the factor [`LONG_LOG_GROWTH`]
/// instead.
const MOST_LOG_AHEAD: u64 = 4 << 20;
const LONG_LOG_GROWTH: u64 = 4;
/// The minimum ratio of the size of blocks allocated in batches to the log bytes written for them.
const UNLOGGED: u64 = 8;
/// The maximum number of extents backed with memory in one step.
const RESERVED_AT_ONCE: u64 = 256;

thread_local! {
    /// The demand of this thread's last transaction that ran out of memory.
    static SHORTFALL: Cell<Shortfall> = const { Cell::new(Shortfall { bytes: 0, run: 0 }) };
}

/// The demand of a transaction that ran out of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shortfall {
    /// The total number of bytes that the transaction has needed so far.
    pub bytes: u64,
    /// The number of contiguous bytes that the transaction needed when it stopped.
    pub run: u64,
}

/// Returns the demand of this thread's last transaction that ran out of memory.
///
/// The demand is zero if the transaction needed space in its log or more than half of the store. In
/// these cases, evicting data does not help.
pub fn shortfall() -> Shortfall {
    SHORTFALL.get()
}

/// The estimated needs of a transaction. See [`Segment::expect`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Need {
    /// The number of undo log bytes in all shards together.
    pub log: u64,
    /// The number of bytes in blocks in all shards together.
    pub memory: u64,
}

/// The state that all attempts of one transaction share.
#[derive(Default)]
pub(crate) struct Runs {
    /// The maximum number of bytes that any attempt has logged and been granted.
    furthest: u64,
    /// The number of attempts since the last progress.
    idle: u32,
    /// Whether the transaction is a removal that ran out of memory and is now committed in parts.
    pub(crate) in_parts: bool,
}

impl Runs {
    /// Switches a removal that ran out of memory to running in parts. Returns false if the
    /// transaction is not a removal or already runs in parts.
    fn begin_parts(&mut self) -> bool {
        let begin = removal::is_removing() && !self.in_parts;
        self.in_parts |= begin;
        if begin {
            removal::begin_parts();
        }
        begin
    }
}

impl Segment {
    /// Reserves the memory that a transaction over these shards will probably need, so that it need
    /// not run twice. Reservation failures are ignored, because the need is only an estimate. The
    /// caller must hold no lock.
    #[cold]
    pub fn expect(&self, shards: ShardSet, need: &Need) {
        let count = shards.len() as u64;
        // The write itself reports any error.
        if count == 0 || place::prepare_to_write(self).is_err() {
            return;
        }
        // Keys are distributed randomly over the shards, so reserve a quarter more than the mean.
        let each = need.log / count * 5 / 4;
        for index in shards.iter() {
            let _ = log_memory::grow(self, index, each);
        }
        // Part of an extent may stay unused in each shard.
        let memory = need.memory + count * EXTENT;
        if need.memory > EXTENT {
            let _ = reserve_in_all(self, memory);
        }
    }
}

/// Returns the pages that all shards retain for their next blocks to the heap, for a writer that
/// cannot find a long enough run and holds no lock. Scattered retained pages can block every long
/// run. Returns true if any pages were returned.
pub(crate) fn give_back_kept(segment: &Segment) -> Result<bool, Error> {
    let mut any = false;
    for index in 0..segment.shards() {
        let mut buried = 0;
        let ran = run::once(
            segment,
            ShardSet::one(index),
            Marks::Ignored,
            false,
            &mut |transaction| {
                buried = transaction.bury_kept(index)?;
                Ok(())
            },
        );
        match ran {
            Ok(Outcome::Committed { .. }) => any |= buried > 0,
            // The shard retains its pages if another process holds its lock for a long time.
            Ok(Outcome::Short(_)) | Err(Error::Busy { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    if any {
        memory_return::all(segment)?;
    }
    Ok(any)
}

/// Reserves the memory that an attempt could not obtain.
#[cold]
pub(crate) fn make_room(segment: &Segment, used: &Used, runs: &mut Runs) -> Result<(), Error> {
    let far = used.logs.iter().sum::<u64>() + used.granted;
    if far > runs.furthest + runs.furthest / PROGRESS {
        (runs.furthest, runs.idle) = (far, 0);
    }
    runs.idle += 1;
    if runs.idle > IDLE_RUNS {
        return Err(Error::OutOfMemory);
    }
    let made = match used.shortage {
        Shortage::Pages(pages) => match make_room_for(segment, pages, used.granted) {
            // The next attempt continues without this memory.
            Err(Error::OutOfMemory) if used.can_wait => {
                backing::note_full(segment);
                Ok(())
            }
            made => made,
        },
        Shortage::Log(index, needed) if needed <= segment.mapping.layout().log_capacity => {
            log_memory::grow(segment, index, needed)
        }
        Shortage::Log(..) => Err(Error::OutOfMemory),
        Shortage::Journal(needed) => waiting::until_space(segment, needed),
    };
    let made = match made {
        // A heap step found no space for its record.
        Err(Error::JournalFull) => waiting::until_space(segment, 0),
        made => made,
    };
    let run = match used.shortage {
        Shortage::Pages(pages) => pages.saturating_mul(PAGE),
        // Evicting data does not create space in a log.
        Shortage::Log(..) | Shortage::Journal(_) => u64::MAX,
    };
    let bytes = used.granted.saturating_add(run);
    // If the demand exceeds half of the store, it is not reported, so that no data is evicted for
    // it.
    let is_reasonable = bytes <= segment.mapping.layout().extents * EXTENT / 2;
    SHORTFALL.set(if made.is_err() && is_reasonable {
        Shortfall { bytes, run }
    } else {
        Shortfall::default()
    });
    match made {
        Err(Error::OutOfMemory) if runs.begin_parts() => return Ok(()),
        made => made?,
    }
    // The remaining amounts are estimates, so failures are ignored.
    let Missing { shard, bytes } = used.missing;
    if bytes > EXTENT {
        // Slabs are never completely filled, so reserve an eighth more.
        let _ = reserve_in_all(segment, used.granted + bytes / 8 * 9 + EXTENT);
        let logged: u64 = used.logs.iter().sum();
        let _ = log_memory::grow(segment, shard, logged + bytes / UNLOGGED);
    }
    for (index, &log) in used.shards.iter().zip(&used.logs) {
        let most = MOST_LOG_AHEAD.max(log.saturating_mul(LONG_LOG_GROWTH));
        let _ = log_memory::grow(segment, index, log.saturating_mul(GROWTH).min(most));
    }
    if used.granted > EXTENT {
        let most = MOST_AHEAD.max(used.granted * 2);
        let _ = reserve_in_all(segment, (used.granted * GROWTH).min(most));
    }
    Ok(())
}

/// Frees or backs a run of `pages` pages, for a transaction that was previously granted `granted`
/// bytes. If there is no place for such a run, frees other memory, because shorter runs may
/// suffice.
fn make_room_for(segment: &Segment, pages: u64, granted: u64) -> Result<(), Error> {
    let given = memory_return::until(segment, || backing::has_run(segment, pages))?;
    if given.enough {
        return Ok(());
    }
    // Reserve more than one run, because free pages may be scattered. Otherwise every further run
    // would cause another retry.
    let more = (granted / PAGE / PROGRESS).min(RESERVED_AT_ONCE * EXTENT_PAGES);
    let reserved = match backing::reserve(segment, pages.max(more)) {
        Err(Error::OutOfMemory) if more > pages => backing::reserve(segment, pages),
        result => result,
    };
    match reserved {
        Err(Error::OutOfMemory)
            if given.any || memory_return::all(segment)? || give_back_kept(segment)? =>
        {
            Ok(())
        }
        result => result,
    }
}

/// Ensures that `bytes` bytes of the heap are backed by memory and free.
fn reserve_in_all(segment: &Segment, bytes: u64) -> Result<(), Error> {
    let wanted = bytes.div_ceil(EXTENT) * EXTENT_PAGES;
    let mut most = RESERVED_AT_ONCE * EXTENT_PAGES;
    let free = || segment.mapping.load(control::HEAP_FREE_PAGES);
    if free() < wanted {
        memory_return::until(segment, || Ok(free() >= wanted))?;
    }
    let mut missing = wanted.saturating_sub(free());
    while missing > 0 {
        match backing::reserve(segment, missing.next_multiple_of(EXTENT_PAGES).min(most)) {
            // There is no place for a run of this length, so try shorter runs.
            Err(Error::OutOfMemory) if most > EXTENT_PAGES => {
                most /= 4;
                continue;
            }
            result => result?,
        }
        let still = wanted.saturating_sub(free());
        if still >= missing {
            // Other processes used the pages, or the counter is damaged.
            break;
        }
        missing = still;
    }
    Ok(())
}
