//! Recovers from the deaths of processes, either on request or before a dead process's table entry
//! is reused (L4).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::heap::step;
use crate::journal::settling;
use crate::locking::{recovery, shard_locks};
use crate::mapped::layout::{control, ring, shard, slot};
use crate::messages::ring_writer;
use crate::objects::{pinned, staged};
use crate::processes::lock::{self, Owner};
use crate::segment::marks::Marks;
use crate::segment::shard_set::ShardSet;
use crate::segment::waiting::{WaitedLock, Waiter};
use crate::segment::{Segment, place};
use crate::writing::memory_return;

impl Segment {
    /// Recovers every shard and the heap immediately, instead of when the next writer needs them.
    pub fn recover(&self) -> Result<(), Error> {
        place::prepare_to_write(self)?;
        for index in 0..self.shards() {
            shard_locks::lock(self, ShardSet::one(index), Marks::Ignored)?;
            memory_return::drain_graveyards(self, ShardSet::one(index), 0);
            shard_locks::unlock_all(self, ShardSet::one(index));
        }
        step::run(self, |_| Ok(()))?;
        ring_writer::recover(self)?;
        self.free_dead_copy()?;
        pinned::forget_of_the_dead(self);
        staged::free_of_the_dead(self, None)
    }
}

/// Recovers everything that refers to the slot of a dead owner, before the slot is reused (L4): the
/// shards listed in its records, the heap and the ring.
pub(crate) fn recover_slot(segment: &Segment, index: u64) -> Result<(), Error> {
    let layout = *segment.mapping.layout();
    let mut listed = 0;
    for record in 0..slot::RECORD_COUNT {
        listed |= segment
            .mapping
            .load(layout.record(index, record) + slot::SHARDS);
    }
    for shard_index in ShardSet::from_bits(listed, layout.shards).iter() {
        recover_named(segment, shard_index, index)?;
    }
    let heap = segment
        .mapping
        .half(control::HEAP_LOCK)
        .load(Ordering::Relaxed);
    if heap != lock::FREE && Owner::of(heap).slot() == index {
        step::run(segment, |_| Ok(()))?;
    }
    let ring = segment.mapping.half(layout.ring + ring::LOCK);
    let ring = ring.load(Ordering::Relaxed);
    if ring != lock::FREE && Owner::of(ring).slot() == index {
        ring_writer::recover(segment)?;
    }
    for record in 0..slot::RECORD_COUNT {
        segment
            .mapping
            .store(layout.record(index, record) + slot::SHARDS, 0);
    }
    settling::settle_slot(segment, index)?;
    pinned::forget(segment, index);
    staged::free_of_the_dead(segment, Some(index))
}

/// Recovers one shard. Skips a shard that a living process has locked, unless the shard's log
/// refers to the slot.
fn recover_named(segment: &Segment, shard_index: usize, slot_index: u64) -> Result<(), Error> {
    let base = segment.mapping.layout().shard(shard_index);
    let word = segment.mapping.lock(base + shard::LOCK);
    let me = segment.process.owner();
    let start = Instant::now();
    loop {
        let mut waiter =
            Waiter::new(segment, WaitedLock::Shard(shard_index), Duration::ZERO).probe_first();
        match lock::acquire(word, me, &mut waiter) {
            Ok(()) => {
                let settled = recovery::settle(segment, shard_index, Marks::Ignored);
                shard_locks::unlock_all(segment, ShardSet::one(shard_index));
                return settled;
            }
            Err(refusal) => {
                let named = segment.mapping.load(base + shard::LOG_TAIL) != 0
                    && segment.mapping.load(base + shard::LOG_OWNER) >> 8 == slot_index;
                if !named {
                    return Ok(());
                }
                if start.elapsed() >= segment.patience() {
                    return Err(waiter.explain(refusal));
                }
                std::thread::yield_now();
            }
        }
    }
}
