//! What a store holds and who uses it, for people.

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
    /// Its entry in the process table.
    pub slot: u64,
    /// Its process id, in its own pid namespace.
    pub pid: u32,
    /// The number of that namespace; 0 where it is not known.
    pub namespace: u32,
    /// When it joined, Unix milliseconds.
    pub joined: u64,
}

/// What a lock guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockName {
    /// A shard.
    Shard(usize),
    /// The heap's global half.
    Heap,
    /// The ring of messages.
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

/// A lock that is held at this moment.
#[derive(Clone, Copy, Debug)]
pub struct HeldLock {
    /// Which one.
    pub name: LockName,
    /// What its holder is doing.
    pub holder: Holder,
    /// The holder's process id.
    pub pid: u32,
}

/// Sizes in bytes, unless said otherwise. Taken without locks: each figure is
/// true, but not all at the same moment.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// When the store was created, Unix milliseconds.
    pub created: u64,
    /// Number of shards.
    pub shards: usize,
    /// Address space of the heap.
    pub capacity: u64,
    /// Heap backed by memory.
    pub reserved: u64,
    /// Heap backed by memory and granted to no shard.
    pub free: u64,
    /// Heap that a copy has taken, which is being made or was left by the dead.
    pub copy: u64,
    /// Bytes in allocated blocks.
    pub used: u64,
    /// Of these, bytes that were flushed and are not freed yet.
    pub left: u64,
    /// Objects in them, as the engine counts; a number, not bytes.
    pub left_objects: u64,
    /// Undo logs backed by memory.
    pub logs: u64,
    /// The ring of messages, backed by memory.
    pub ring: u64,
    /// Messages ever put into the ring; a number, not bytes.
    pub messages: u64,
}

impl Segment {
    /// Sizes of the store.
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

    /// Bytes in allocated blocks of one shard, those included that were flushed
    /// and are not freed yet.
    #[inline]
    pub fn used_bytes(&self, index: usize) -> u64 {
        let base = self.mapping.layout().shard(index);
        let left = self.mapping.load(base + shard::LEFT_BYTES);
        self.mapping
            .load(base + shard::USED_BYTES)
            .saturating_add(left)
    }

    /// The living processes that have joined the store (a process joins with
    /// its first write).
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

    /// The locks that are held now.
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
