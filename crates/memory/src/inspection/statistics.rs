//! Statistics about a store's contents, members and locks, for display.

use std::fmt;
use std::sync::atomic::Ordering;

use crate::error::{Error, Holder};
use crate::mapped::layout::{EXTENT, PAGE, SLOTS, control, header, ring, shard, slot};
use crate::processes::lock::{self, Owner};
use crate::processes::tenant::Tenant;
use crate::segment::Segment;
use crate::undo::log_memory;

/// A process that has joined the store.
#[derive(Clone, Debug)]
pub struct Member {
    /// The index of the process's entry in the process table.
    pub slot: u64,
    /// The process ID, in the process's own pid namespace.
    pub pid: u32,
    /// The number of the process's pid namespace, or 0 if unknown.
    pub namespace: u32,
    /// When the process joined the store, as a Unix time in milliseconds.
    pub joined: u64,
}

/// The part of the store that a lock protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockName {
    /// The shard with this number.
    Shard(usize),
    /// The global part of the heap.
    Heap,
    /// The message ring.
    Ring,
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockName::Shard(index) => write!(f, "shard {index}"),
            LockName::Heap => f.write_str("the heap"),
            LockName::Ring => f.write_str("the ring of messages"),
        }
    }
}

/// A lock that is currently held.
#[derive(Clone, Copy, Debug)]
pub struct HeldLock {
    /// The part of the store that the lock protects.
    pub name: LockName,
    /// The state of the lock's owner.
    pub holder: Holder,
    /// The process ID of the lock's owner.
    pub pid: u32,
}

/// Statistics of a store. Sizes are in bytes unless stated otherwise. The figures are read without
/// locks: each figure is correct, but two figures may have been read at different moments.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// When the store was created, as a Unix time in milliseconds.
    pub created: u64,
    /// The number of shards.
    pub shards: usize,
    /// The size of the heap's address space.
    pub capacity: u64,
    /// The size of the part of the heap that is backed with memory.
    pub reserved: u64,
    /// The size of the part of the heap that is backed with memory but not granted to any shard.
    pub free: u64,
    /// The size of the part of the heap that is allocated for a copy of the store, either in
    /// progress or left by a dead process.
    pub copy: u64,
    /// The number of bytes in allocated blocks.
    pub used: u64,
    /// The part of `used` that was flushed and has not been freed yet.
    pub left: u64,
    /// The number of objects in the flushed blocks, as counted by the engine.
    pub left_objects: u64,
    /// The size of the memory that backs undo logs.
    pub logs: u64,
    /// The size of the memory that backs the message ring.
    pub ring: u64,
    /// The number of messages ever appended to the ring.
    pub messages: u64,
}

impl Segment {
    /// Returns the statistics of the store.
    pub fn statistics(&self) -> Statistics {
        let layout = self.mapping.layout();
        let sum = |field: u64| -> u64 {
            (0..layout.shards)
                .map(|index| self.mapping.load(layout.shard(index) + field))
                .fold(0, u64::saturating_add)
        };
        Statistics {
            created: self.mapping.load(header::CREATED),
            shards: layout.shards,
            capacity: self.capacity(),
            reserved: self
                .mapping
                .load(control::HEAP_RESERVED)
                .min(layout.extents)
                * EXTENT,
            free: self
                .mapping
                .load(control::HEAP_FREE_PAGES)
                .saturating_mul(PAGE),
            copy: self.mapping.load(control::COPY_PAGES).saturating_mul(PAGE),
            used: sum(shard::USED_BYTES).saturating_add(sum(shard::LEFT_BYTES)),
            left: sum(shard::LEFT_BYTES),
            left_objects: sum(shard::LEFT_OBJECTS),
            logs: log_memory::bytes(self),
            ring: self.ring_reserved().min(layout.ring_size),
            messages: self.ring_records(),
        }
    }

    /// Returns the number of bytes in one shard's allocated blocks, including blocks that were
    /// flushed and have not been freed yet.
    #[inline]
    pub fn used_bytes(&self, index: usize) -> u64 {
        let base = self.mapping.layout().shard(index);
        let left = self.mapping.load(base + shard::LEFT_BYTES);
        self.mapping
            .load(base + shard::USED_BYTES)
            .saturating_add(left)
    }

    /// Returns the living processes that have joined the store. A process joins with its first
    /// write.
    pub fn members(&self) -> Vec<Member> {
        let used = self.mapping.load(control::SLOTS_USED).min(SLOTS);
        (0..used)
            .filter_map(|index| {
                let at = self.mapping.layout().slot(index);
                let generation = self.mapping.load(at + slot::GENERATION);
                self.process
                    .alive(&self.mapping, Owner::new(index, generation))
                    .then(|| Member {
                        slot: index,
                        pid: self.mapping.load(at + slot::PID) as u32,
                        namespace: Tenant::unpack(self.mapping.load(at + slot::TENANT))
                            .map_or(0, |tenant| tenant.namespace),
                        joined: self.mapping.load(at + slot::CLAIMED),
                    })
            })
            .collect()
    }

    /// Returns the locks that are currently held.
    pub fn held_locks(&self) -> Vec<HeldLock> {
        let words = (0..self.shards())
            .map(|index| {
                (
                    LockName::Shard(index),
                    self.mapping.layout().shard(index) + shard::LOCK,
                )
            })
            .chain([
                (LockName::Heap, control::HEAP_LOCK),
                (LockName::Ring, self.mapping.layout().ring + ring::LOCK),
            ]);
        words
            .filter_map(|(name, at)| {
                let word = self.mapping.half(at).load(Ordering::Relaxed);
                if word == lock::FREE {
                    return None;
                }
                match self.process.describe(&self.mapping, Owner::of(word)) {
                    Error::Busy { holder, pid } => Some(HeldLock { name, holder, pid }),
                    _ => None,
                }
            })
            .collect()
    }
}
