//! Room for a transaction (H2, W7): what is reserved before its first lock, and
//! what one that ran short is given before it runs again.
//!
//! A run that is short stops where it is, so that nobody knows what it would
//! still have needed. It is given several times of what it had used, in every
//! shard: a transaction of any size ends after a few runs. Who knows the size
//! beforehand says so, and runs once.

use std::cell::Cell;

use crate::error::Error;
use crate::heap::{backing, removal};
use crate::mapped::layout::{EXTENT, EXTENT_PAGES, PAGE, control};
use crate::segment::marks::Marks;
use crate::segment::shard_set::ShardSet;
use crate::segment::{Segment, place};
use crate::transactions::rare_state::{Missing, Shortage};
use crate::undo::log_memory;
use crate::writing::give_back;
use crate::writing::run::{self, Outcome, Used};

/// Runs without progress: others may be faster to use what was reserved, but
/// only damage makes them so time after time.
const IDLE_RUNS: u32 = 100;
/// A run has made progress if it came further than any before by this part.
const PROGRESS: u64 = 8;
/// What a run that was short had used is multiplied by this for the next one.
const GROWTH: u64 = 16;
/// But no more memory than this, unless it had half as much already: memory
/// stays with the store.
const MOST_AHEAD: u64 = 32 << 20;
/// And no longer a log than this, unless it had a part of that already, as it stays with the store, too.
const MOST_LOG_AHEAD: u64 = 4 << 20;
const LONG_LOG_GROWTH: u64 = 4;
/// Blocks that are taken many at a time are so many times as long as what is
/// logged for them, at least.
const UNLOGGED: u64 = 8;
/// Extents backed with memory in one step of many.
const RESERVED_AT_ONCE: u64 = 256;

thread_local! {
    /// What the last transaction of this thread wanted which found no room.
    static SHORTFALL: Cell<Shortfall> = const { Cell::new(Shortfall { bytes: 0, run: 0 }) };
}

/// What a transaction wanted that found no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shortfall {
    /// Bytes in all that it came to want.
    pub bytes: u64,
    /// Bytes that it wanted in one piece when it stopped.
    pub run: u64,
}

/// What the last transaction of this thread that ran out of memory wanted; nothing where it wanted more than half of the
/// store, or room in its log: then it does not help to let go of data.
pub fn shortfall() -> Shortfall {
    SHORTFALL.get()
}

/// What a transaction will probably need; see [`Segment::expect`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Need {
    /// Bytes of undo log, in all its shards together.
    pub log: u64,
    /// Bytes of blocks, in all its shards together.
    pub memory: u64,
}

/// What the runs of one transaction came to so far.
#[derive(Default)]
pub(crate) struct Runs {
    /// The most that a run had logged and been granted, in bytes.
    furthest: u64,
    /// Runs since then.
    idle: u32,
    /// Whether it is carried out in parts from now on: it is a removal, and found no room as a whole.
    pub(crate) in_parts: bool,
}

impl Runs {
    /// Has a transaction that found no room carried out in parts, where it is a removal and is not yet.
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
    /// Reserves what a transaction over these shards will probably need, so
    /// that it does not have to run twice. A guess: what cannot be had is no
    /// error. Called without any lock held.
    #[cold]
    pub fn expect(&self, shards: ShardSet, need: &Need) {
        let count = shards.len() as u64;
        // What keeps it from writing is said when it writes.
        if count == 0 || place::prepare_to_write(self).is_err() {
            return;
        }
        // Keys fall into shards by chance: a quarter more than the mean.
        let each = need.log / count * 5 / 4;
        for index in shards.iter() {
            let _ = log_memory::grow(self, index, each);
        }
        // Each shard takes an extent at a time.
        let memory = need.memory + count * EXTENT;
        if need.memory > EXTENT {
            let _ = reserve_in_all(self, memory);
        }
    }
}

/// Gives what all shards keep for their next blocks back to the heap, for a writer that finds no run that is long enough
/// and holds no lock: a few pages here and there are in the way of every long run. Returns whether there was any.
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
            Ok(Outcome::Committed(..)) => any |= buried > 0,
            // Who works in the shard for long keeps it.
            Ok(Outcome::Short(_)) | Err(Error::Busy { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    if any {
        give_back::all(segment)?;
    }
    Ok(any)
}

/// Mends all that a run was short of.
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
            // The next run does without.
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
    };
    let run = match used.shortage {
        Shortage::Pages(pages) => pages.saturating_mul(PAGE),
        // To let go of data helps no log.
        Shortage::Log(..) => u64::MAX,
    };
    let bytes = used.granted.saturating_add(run);
    // More than half of the store is not made room for.
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
    // The rest is a guess.
    let Missing { shard, bytes } = used.missing;
    if bytes > EXTENT {
        // Blocks do not fill their slabs.
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

/// Has a run of so many pages free, for a transaction that had been granted so many bytes; or more of what is not as long,
/// where there is no place for such a run, as single pages may do.
fn make_room_for(segment: &Segment, pages: u64, granted: u64) -> Result<(), Error> {
    let given = give_back::until(segment, || backing::has_run(segment, pages))?;
    if given.enough {
        return Ok(());
    }
    // Free pages may lie apart: more than one run comes at a time, or this would run as often as it needs one.
    let more = (granted / PAGE / PROGRESS).min(RESERVED_AT_ONCE * EXTENT_PAGES);
    let reserved = match backing::reserve(segment, pages.max(more)) {
        Err(Error::OutOfMemory) if more > pages => backing::reserve(segment, pages),
        result => result,
    };
    match reserved {
        Err(Error::OutOfMemory)
            if given.any || give_back::all(segment)? || give_back_kept(segment)? =>
        {
            Ok(())
        }
        result => result,
    }
}

/// Has so many bytes of the heap backed with memory and free.
fn reserve_in_all(segment: &Segment, bytes: u64) -> Result<(), Error> {
    let wanted = bytes.div_ceil(EXTENT) * EXTENT_PAGES;
    let mut most = RESERVED_AT_ONCE * EXTENT_PAGES;
    let free = || segment.mapping.load(control::HEAP_FREE_PAGES);
    if free() < wanted {
        give_back::until(segment, || Ok(free() >= wanted))?;
    }
    let mut missing = wanted.saturating_sub(free());
    while missing > 0 {
        match backing::reserve(segment, missing.next_multiple_of(EXTENT_PAGES).min(most)) {
            // No run is so long.
            Err(Error::OutOfMemory) if most > EXTENT_PAGES => {
                most /= 4;
                continue;
            }
            result => result?,
        }
        let still = wanted.saturating_sub(free());
        if still >= missing {
            // Others were faster, or the count is damaged.
            break;
        }
        missing = still;
    }
    Ok(())
}
