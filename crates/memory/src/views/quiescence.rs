//! Inspects the entire store without a lock, for a process that cannot claim a process table entry
//! because the file system is full (H6) or its mapping is read-only.
//!
//! A result is accepted only if the counters of the shards and of the heap show that no process
//! wrote during the inspection. Otherwise the inspection is repeated until the timeout.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::error::{Error, Holder};
use crate::mapped::layout::{control, shard};
use crate::processes::lock::{self, Owner};
use crate::segment::{Segment, counter};

/// How long to pause between two attempts.
const PAUSE: Duration = Duration::from_millis(2);

/// Words of the heap. Every heap step changes or clears at least one of them.
const HEAP: [u64; 5] = [
    control::HEAP_LOG_TAIL,
    control::HEAP_HIGH,
    control::HEAP_FREE_PAGES,
    control::HEAP_RESERVED,
    control::RETIRED_COUNT,
];

/// Returns true if an error means that this process cannot join the store. The process may then
/// still read the store.
pub(crate) fn cannot_join(error: &Error) -> bool {
    matches!(
        error,
        Error::OutOfMemory | Error::TooManyProcesses | Error::ReadOnly
    )
}

/// Calls `look` repeatedly until no process writes during a call, and returns that call's result.
/// Stops at the timeout.
///
/// # Errors
/// Returns [`Error::Busy`] if other processes write constantly, or if a writer died in the middle
/// of a change.
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

/// Returns values that change with every write, or `None` if a change is in progress.
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

/// Returns an error with the ID of the process whose lock prevents the inspection.
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
