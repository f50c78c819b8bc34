//! The hint table (R6), which records when keys were last used, indexed by bits of the key's hash.
//!
//! Hints are estimates for eviction and for OBJECT IDLETIME and FREQ. Keys whose hashes have the
//! same index bits share an entry. Entries are written without a lock, so an update may be lost.

use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::mapped::layout::shard;
use crate::segment::{Segment, membership};

/// The number of bytes by which a hint table grows in one step, which takes about 100 us.
const SLICE: u64 = 128 << 10;

impl Segment {
    /// Returns the hint for a key of the shard.
    #[inline]
    pub fn hint(&self, index: usize, hash: u64) -> u32 {
        self.mapping
            .half(place(self, index, hash))
            .load(Ordering::Relaxed)
    }

    /// Prefetches a key's hint before it is used.
    #[inline(always)]
    pub fn prefetch_hint(&self, index: usize, hash: u64) {
        self.mapping.prefetch(place(self, index, hash));
    }

    /// Sets the hint for a key of the shard, if the value differs. Does nothing on a read-only
    /// mapping. Returns true if the hint was stored.
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

    /// Returns the number of entries in the shard's table.
    pub fn hints(&self, index: usize) -> u64 {
        1 << bits(self, index)
    }

    /// Grows the hint table of a shard to match its number of keys: to the largest power of two
    /// that is at most `keys` and at most 2^20. Existing hints are copied, so none is lost. The
    /// caller must hold no lock.
    pub fn grow_hints(&self, index: usize, keys: u64) -> Result<(), Error> {
        let base = self.mapping.layout().shard(index);
        let table = base + shard::HINTS;
        // A damaged store may contain a smaller size, but every table has at least the minimum
        // length.
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

/// Performs one bounded step of [`Segment::grow_hints`]. Does nothing if memory is scarce, because
/// hints are optional. Hints that are set in the shorter table in the meantime may be missing from
/// the longer table.
pub(crate) fn try_to_grow(segment: &Segment, index: usize, keys: u64) {
    let base = segment.mapping.layout().shard(index);
    let bits = bits(segment, index).max(shard::HINT_BITS_MIN);
    let (table, length) = (base + shard::HINTS, 4_u64 << bits);
    let place = &segment.hints_copied[index];
    // Recorded progress applies only to this table length: another process may have grown the
    // table.
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

/// Returns the binary logarithm of the number of entries in a shard's hint table.
#[inline(always)]
pub(crate) fn bits(segment: &Segment, index: usize) -> u64 {
    let shard = segment.mapping.shard_words(index);
    shard
        .load::<{ shard::HINT_BITS }>()
        .min(shard::HINT_BITS_MAX)
}

/// Returns the binary logarithm of the number of hint table entries that suits `keys` keys.
pub(crate) fn bits_for(keys: u64) -> u64 {
    u64::from(keys.max(1).ilog2()).min(shard::HINT_BITS_MAX)
}

/// Returns the offset of a hash's hint.
#[inline]
fn place(segment: &Segment, index: usize, hash: u64) -> u64 {
    let base = segment.mapping.layout().shard(index);
    base + shard::HINTS + 4 * (hash & ((1 << bits(segment, index)) - 1))
}
