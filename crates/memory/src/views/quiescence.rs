//! Looking at all of a store without a lock: for a process that has no entry in the process table and can get none, as the
//! file system is full (H6), or its mapping is read-only.
//!
//! The look counts only if nothing was written meanwhile, by the counters of the shards and what the heap counts. It is
//! made again otherwise, until the patience is used up.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::error::{Error, Holder};
use crate::mapped::layout::{control, shard};
use crate::processes::lock::{self, Owner};
use crate::segment::{Segment, counter};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(2);

/// Words of the heap that every step of it changes, or empties.
const HEAP: [u64; 5] = [
    control::HEAP_LOG_TAIL,
    control::HEAP_HIGH,
    control::HEAP_FREE_PAGES,
    control::HEAP_RESERVED,
    control::RETIRED_COUNT,
];

/// Whether an error says that this process cannot join the store, and may go on without as long as it only reads.
pub(crate) fn cannot_join(error: &Error) -> bool {
    matches!(
        error,
        Error::OutOfMemory | Error::TooManyProcesses | Error::ReadOnly
    )
}

/// Calls `look` until nothing was written while it ran, and returns what it returned then. O(looks).
///
/// # Errors
/// [`Error::Busy`] where others write all the time, or a writer died and left the change that it was making.
pub(crate) fn look<R>(segment: &Segment, mut look: impl FnMut() -> R) -> Result<R, Error> {
    let start = Instant::now();
    loop {
        if let Some(before) = stamp(segment) {
            let seen = look();
            counter::end_of_reading::<std::sync::atomic::AtomicU64>();
            if stamp(segment) == Some(before) {
                return Ok(seen);
            }
        }
        if start.elapsed() >= segment.patience() {
            return Err(who_writes(segment));
        }
        std::thread::sleep(PAUSE);
    }
}

/// What changes with every write; none while something is being changed.
fn stamp(segment: &Segment) -> Option<Vec<u64>> {
    let layout = *segment.mapping.layout();
    let heap = segment.mapping.half(control::HEAP_LOCK);
    if heap.load(Ordering::Acquire) != lock::FREE {
        return None;
    }
    let mut seen: Vec<u64> = HEAP
        .iter()
        .map(|&word| segment.mapping.load(word))
        .collect();
    for index in 0..layout.shards {
        let base = layout.shard(index);
        let counter = counter::note(segment.mapping.word(base + shard::COUNTER));
        let held = segment
            .mapping
            .half(base + shard::LOCK)
            .load(Ordering::Relaxed);
        if counter & counter::ODD != 0 || held != lock::FREE {
            return None;
        }
        let given_back = [shard::GRAVEYARD, shard::RETURNING];
        seen.push(counter);
        seen.extend(given_back.map(|word| segment.mapping.load(base + word)));
    }
    Some(seen)
}

/// Whose lock keeps the store from being looked at.
fn who_writes(segment: &Segment) -> Error {
    let layout = segment.mapping.layout();
    let shards = (0..layout.shards).map(|index| layout.shard(index) + shard::LOCK);
    for word in shards.chain([control::HEAP_LOCK]) {
        let held = segment.mapping.half(word).load(Ordering::Relaxed);
        if held != lock::FREE {
            return segment.process.describe(&segment.mapping, Owner::of(held));
        }
    }
    Error::Busy {
        holder: Holder::Active,
        pid: 0,
    }
}
