//! The hint table (R6): when keys were last used, by bits of their hash.
//!
//! A guess for eviction and for OBJECT IDLETIME and FREQ: entries are shared by
//! keys whose hashes agree, are written without a lock, and may be lost.

use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::layout::shard;
use crate::segment::Segment;

impl Segment {
    /// The hint for a key of the shard.
    #[inline]
    pub fn hint(&self, index: usize, hash: u64) -> u32 {
        self.mapping
            .half(self.hint_place(index, hash))
            .load(Ordering::Relaxed)
    }

    /// Asks for a key's hint ahead of its use.
    #[inline(always)]
    pub fn prefetch_hint(&self, index: usize, hash: u64) {
        self.mapping.prefetch(self.hint_place(index, hash));
    }

    /// Sets the hint for a key of the shard; written only where it differs.
    /// Nothing happens on a read-only mapping.
    #[inline]
    pub fn set_hint(&self, index: usize, hash: u64, value: u32) {
        if !self.writable() {
            return;
        }
        let hint = self.mapping.half(self.hint_place(index, hash));
        if hint.load(Ordering::Relaxed) != value {
            hint.store(value, Ordering::Relaxed);
        }
    }

    #[inline]
    fn hint_place(&self, index: usize, hash: u64) -> u64 {
        let base = self.mapping.layout().shard(index);
        let bits = self
            .mapping
            .load(base + shard::HINT_BITS)
            .min(shard::HINT_BITS_MAX);
        base + shard::HINTS + 4 * (hash & ((1 << bits) - 1))
    }

    /// Makes the table of a shard long enough for so many keys, up to 2^20.
    /// Called without any lock held.
    pub fn grow_hints(&self, index: usize, keys: u64) -> Result<(), Error> {
        let base = self.mapping.layout().shard(index);
        let bits = u64::from(keys.max(1).next_power_of_two().ilog2()).min(shard::HINT_BITS_MAX);
        let now = self.mapping.word(base + shard::HINT_BITS);
        if now.load(Ordering::Relaxed) < bits {
            self.back_range(base + shard::HINTS, 4 << bits)
                .map_err(|_| Error::OutOfMemory)?;
            now.fetch_max(bits, Ordering::Relaxed);
        }
        Ok(())
    }
}
