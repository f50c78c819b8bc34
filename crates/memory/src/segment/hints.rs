//! The hint table (R6): when keys were last used, by bits of their hash.
//!
//! A guess for eviction and for OBJECT IDLETIME and FREQ: entries are shared by
//! keys whose hashes agree, are written without a lock, and may be lost.

use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::mapped::layout::shard;
use crate::segment::{Segment, membership};

/// Bytes that a hint table grows by in one step: some 100 us of work.
const SLICE: u64 = 128 << 10;

impl Segment {
    /// The hint for a key of the shard.
    #[inline]
    pub fn hint(&self, index: usize, hash: u64) -> u32 {
        self.mapping
            .half(place(self, index, hash))
            .load(Ordering::Relaxed)
    }

    /// Asks for a key's hint ahead of its use.
    #[inline(always)]
    pub fn prefetch_hint(&self, index: usize, hash: u64) {
        self.mapping.prefetch(place(self, index, hash));
    }

    /// Sets the hint for a key of the shard; written only where it differs.
    /// Nothing happens on a read-only mapping. Returns whether it was written.
    #[inline]
    pub fn set_hint(&self, index: usize, hash: u64, value: u32) -> bool {
        if !self.writable() {
            return false;
        }
        let hint = self.mapping.half(place(self, index, hash));
        let differs = hint.load(Ordering::Relaxed) != value;
        if differs {
            hint.store(value, Ordering::Relaxed);
        }
        differs
    }

    /// Entries of the shard's table.
    pub fn hints(&self, index: usize) -> u64 {
        1 << bits(self, index)
    }

    /// Makes the table of a shard about as long as it has keys: the power of
    /// two up to that, and to 2^20. A longer table starts with what the shorter one knew. Called without any
    /// lock held.
    pub fn grow_hints(&self, index: usize, keys: u64) -> Result<(), Error> {
        let base = self.mapping.layout().shard(index);
        let table = base + shard::HINTS;
        // No table is shorter, whatever a damaged store says.
        let old = bits(self, index).max(shard::HINT_BITS_MIN);
        let bits = bits_for(keys);
        if !self.writable() {
            return Err(Error::ReadOnly);
        }
        if old < bits {
            membership::back_range(self, table, 4 << bits).map_err(|_| Error::OutOfMemory)?;
            for length in (old..bits).map(|bits| 4 << bits) {
                self.mapping.copy_within(table, table + length, length / 8);
            }
            let now = self.mapping.word(base + shard::HINT_BITS);
            now.fetch_max(bits, Ordering::Release);
        }
        Ok(())
    }
}

/// A step of [`Segment::grow_hints`], bounded, where there is memory
/// for it: a guess is no reason to fail. What is set in the shorter table
/// meanwhile, the longer one may not know.
pub(crate) fn try_to_grow(segment: &Segment, index: usize, keys: u64) {
    let base = segment.mapping.layout().shard(index);
    let bits = bits(segment, index).max(shard::HINT_BITS_MIN);
    let (table, length) = (base + shard::HINTS, 4_u64 << bits);
    let place = &segment.hints_copied[index];
    // Of this table, or of one that others have made longer.
    let copied = match place.load(Ordering::Relaxed) {
        word if word >> 32 == bits => word & 0xffff_ffff,
        _ => 0,
    };
    let some = SLICE.min(length.saturating_sub(copied));
    let to = table + length + copied;
    if bits >= bits_for(keys) || membership::back_range(segment, to, some).is_err() {
        return;
    }
    segment.mapping.copy_within(table + copied, to, some / 8);
    place.store(bits << 32 | (copied + some), Ordering::Relaxed);
    if copied + some == length {
        let now = segment.mapping.word(base + shard::HINT_BITS);
        now.fetch_max(bits + 1, Ordering::Release);
    }
}

/// The size of a shard's table, as the power of two.
#[inline(always)]
pub(crate) fn bits(segment: &Segment, index: usize) -> u64 {
    let shard = segment.mapping.shard_words(index);
    shard
        .load::<{ shard::HINT_BITS }>()
        .min(shard::HINT_BITS_MAX)
}

/// The size that fits so many keys.
pub(crate) fn bits_for(keys: u64) -> u64 {
    u64::from(keys.max(1).ilog2()).min(shard::HINT_BITS_MAX)
}

/// Where the hint for a hash lies.
#[inline]
fn place(segment: &Segment, index: usize, hash: u64) -> u64 {
    let base = segment.mapping.layout().shard(index);
    base + shard::HINTS + 4 * (hash & ((1 << bits(segment, index)) - 1))
}
