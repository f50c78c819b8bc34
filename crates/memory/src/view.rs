//! Ways to read: locked, or optimistic (R1 to R5).
//!
//! Reading code is written once against [`View`]. Under a lock what it reads is
//! stable; without one it may be torn, and [`Segment::read`](crate::Segment::read)
//! throws the result away and tries again.

use std::sync::atomic::AtomicU64;

use crate::counter;
use crate::error::Fault;
use crate::layout::shard;
use crate::mapping::Mapping;
use crate::shards::ShardSet;

/// Offset of a block in the heap, in bytes from the start of the file; 0 is
/// none.
pub type Offset = u64;

/// Read access to some shards.
pub struct View<'a> {
    pub(crate) mapping: &'a Mapping,
    pub(crate) notes: Notes<'a>,
}

/// The version counters at the time the view was made.
pub(crate) enum Notes<'a> {
    /// The shards are locked: nothing changes.
    Locked,
    /// One shard and its counter.
    One(usize, u64),
    /// Several shards and their counters.
    Many(ShardSet, &'a [u64]),
}

impl<'a> View<'a> {
    /// Whether nothing changed since the view was made. To be asked before a
    /// length that was read makes the caller allocate or copy much (R3).
    #[inline(always)]
    pub fn unchanged(&self) -> bool {
        let unchanged = |index: usize, noted: u64| {
            let at = self.mapping.layout().shard(index) + shard::COUNTER;
            counter::unchanged(self.mapping.word(at), noted)
        };
        match self.notes {
            Notes::Locked => true,
            Notes::One(index, noted) => {
                counter::end_of_reading::<AtomicU64>();
                unchanged(index, noted)
            }
            Notes::Many(shards, noted) => {
                counter::end_of_reading::<AtomicU64>();
                shards
                    .iter()
                    .zip(noted)
                    .all(|(index, &noted)| unchanged(index, noted))
            }
        }
    }

    /// An error where something changed since the view was made.
    #[inline(always)]
    pub fn recheck(&self) -> Result<(), Fault> {
        if self.unchanged() {
            Ok(())
        } else {
            // Never seen by a caller of `read`, which retries.
            Err(Fault {
                at: 0,
                what: "an unchanged shard",
            })
        }
    }

    /// The word at an offset in the heap.
    #[inline(always)]
    pub fn word(&self, at: Offset) -> Result<u64, Fault> {
        self.mapping.check(at, 8)?;
        Ok(self.mapping.load(at))
    }

    /// Checks that a range lies in reserved memory, for the accessors below.
    #[inline(always)]
    pub fn check(&self, at: Offset, length: u64) -> Result<(), Fault> {
        self.mapping.check(at, length)
    }

    /// `N` words from an offset on.
    #[inline(always)]
    pub fn words<const N: usize>(&self, at: Offset) -> Result<[u64; N], Fault> {
        self.mapping.check(at, N as u64 * 8)?;
        Ok(std::array::from_fn(|index| {
            self.mapping.load(at + index as u64 * 8)
        }))
    }

    /// Whether the bytes at an offset are the given ones.
    #[inline(always)]
    pub fn equals(&self, at: Offset, bytes: &[u8]) -> Result<bool, Fault> {
        self.mapping.check(at, bytes.len() as u64)?;
        Ok(self.mapping.equals(at, bytes))
    }

    /// Appends `length` bytes to `out`. Long copies are made only while the
    /// shard is unchanged (R3).
    #[inline]
    pub fn append_to(&self, at: Offset, length: u64, out: &mut Vec<u8>) -> Result<(), Fault> {
        self.mapping.check(at, length)?;
        if length > 4096 {
            self.recheck()?;
        }
        self.mapping.append_to(at, length as usize, out);
        Ok(())
    }

    /// Fills all of `out` from an offset on.
    #[inline]
    pub fn copy_to(&self, at: Offset, out: &mut [u8]) -> Result<(), Fault> {
        self.mapping.check(at, out.len() as u64)?;
        self.mapping.copy_to(at, out);
        Ok(())
    }

    /// A word of a shard's roots.
    ///
    /// # Panics
    /// If the index is not below [`ROOT_WORDS`](crate::ROOT_WORDS).
    #[inline(always)]
    pub fn root(&self, index: usize, word: usize) -> u64 {
        assert!((word as u64) < shard::ROOT_WORDS);
        let at = self.mapping.layout().shard(index) + shard::ROOTS;
        self.mapping.load(at + word as u64 * 8)
    }
}
