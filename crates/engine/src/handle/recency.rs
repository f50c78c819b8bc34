//! When keys were last used, or how often, as recorded in a shard's hints (R6).
//!
//! ```text
//! a hint under an LFU policy: | 0 | new | minute of the last change, 16 bits | counter, 8 bits |
//! a hint under any other policy: the clock, in ticks of 64 ms, modulo 2^32
//! ```
//!
//! The clock starts with the machine. Keys that were loaded with an idle time can have been used
//! before that, so their hints are negative, and idle times are differences modulo 2^32.
//!
//! As in Redis, the counter grows logarithmically with the number of uses, and drops by one for
//! every `lfu-decay-time` minutes without a use.

use undercroft_memory::{Setting, coarse_milliseconds};

use crate::handle::eviction_policy::EvictionPolicy;
use crate::handle::store::Store;
use crate::structures::key::Key;

/// The length of a tick in milliseconds. Ticks are short enough to rank the keys of a small, busy
/// store, and 32 bits of ticks last for eight years.
const TICK: u64 = 64;
/// The longest idle time in ticks, four years.
const IDLE_MAX: u32 = u32::MAX / 2;
/// The initial counter of a new key, above 0 so that the key is not evicted before it can be used
/// again.
const INITIAL: u32 = 5;
/// The bits of a hint that contain the counter.
const COUNTER: u32 = 0xff;
/// The mask of the minute, before the minute is shifted to its place above the counter.
const MINUTES: u64 = 0xffff;
/// The flag that marks a key as just inserted. The use that inserted the key is not counted.
const NEW: u32 = 1 << 24;
/// The length of a minute in milliseconds.
const MINUTE: u64 = 60_000;

impl Store {
    /// Returns the time in milliseconds of a clock that serves only to compare the uses of keys.
    #[inline(always)]
    fn use_clock(&self) -> u64 {
        self.clock.fixed().unwrap_or_else(coarse_milliseconds)
    }

    /// Returns whether the hints of keys count uses rather than record the time of the last use.
    #[inline(always)]
    pub(crate) fn counts_uses(&self) -> bool {
        EvictionPolicy::counts_uses(self.segment.setting(Setting::EvictionPolicy))
    }

    /// Records a use of a key, for OBJECT IDLETIME and eviction.
    #[inline(always)]
    pub(crate) fn touch(&self, key: &Key<'_>) {
        if self.counts_uses() {
            return self.count_use(key.shard, key.hash);
        }
        let now = self.use_clock();
        // Check whether the store's file was removed only if the key's access time changes, so that
        // further uses of the key within the same tick cost nothing.
        if self
            .segment
            .set_hint(key.shard, key.hash, (now / TICK) as u32)
        {
            self.segment.look_for_file(now);
        }
    }

    /// Records that a key was just written.
    #[inline(always)]
    pub(crate) fn touch_written(&self, key: &Key<'_>) {
        if self.counts_uses() {
            return self.count_use(key.shard, key.hash);
        }
        let now = self.clock.fixed();
        let ticks = (now.unwrap_or_else(|| self.segment.last_written()) / TICK) as u32;
        self.segment.set_hint(key.shard, key.hash, ticks);
    }

    /// Records that a key was inserted, and overwrites the hint (its access time or use counter)
    /// that a different key may have left.
    #[inline(always)]
    pub(crate) fn touch_inserted(&self, shard: usize, hash: u64) {
        if self.counts_uses() {
            let hint = NEW | self.minute() << 8 | INITIAL;
            self.segment.set_hint(shard, hash, hint);
        }
    }

    fn minute(&self) -> u32 {
        ((self.use_clock() / MINUTE) & MINUTES) as u32
    }

    /// Counts a use of the key with the given hash.
    #[cold]
    pub(crate) fn count_use(&self, shard: usize, hash: u64) {
        let hint = self.segment.hint(shard, hash);
        let counter = self.decayed(hint);
        let counter = if hint & NEW == 0 && self.grows(counter) {
            counter + 1
        } else {
            counter
        };
        let hint = self.minute() << 8 | counter;
        self.segment.set_hint(shard, hash, hint);
        self.look_for_file();
    }

    /// Returns whether a use increments the counter. The choice is random: the larger the counter,
    /// the less likely an increment.
    fn grows(&self, counter: u32) -> bool {
        if counter >= COUNTER {
            return false;
        }
        let factor = self.eviction().lfu_log_factor;
        let above = f64::from(counter.saturating_sub(INITIAL));
        let chance = 1.0 / (above * factor as f64 + 1.0);
        // 53 random bits as a number from 0 (inclusive) to 1 (exclusive).
        let random = (self.chance.next() >> 11) as f64 / (1_u64 << 53) as f64;
        random < chance
    }

    /// Returns the use counter that a hint contains, reduced for the minutes without a use.
    fn decayed(&self, hint: u32) -> u32 {
        let period = self.eviction().lfu_decay_time;
        let elapsed = u64::from(self.minute()).wrapping_sub(u64::from(hint >> 8)) & MINUTES;
        let lost = elapsed.checked_div(period).unwrap_or(0);
        u64::from(hint & COUNTER).saturating_sub(lost) as u32
    }

    /// Records a use of a key, as TOUCH does.
    #[inline(always)]
    pub fn note_use(&self, key: &Key<'_>) {
        self.touch(key);
    }

    /// Returns the approximate number of seconds since the last use of a key. The result is inexact
    /// because keys can share a hint (R6), and meaningless if uses are counted.
    pub fn idle_seconds(&self, key: &Key<'_>) -> u64 {
        // The elapsed time can exceed the difference by up to one tick. Round up, so that a key is
        // reported as idle for 1 s after exactly 1 s.
        (self.idle_ticks(key) * TICK + TICK - 1) / 1000
    }

    pub(crate) fn idle_ticks(&self, key: &Key<'_>) -> u64 {
        let now = (self.use_clock() / TICK) as u32;
        let idle = now.wrapping_sub(self.segment.hint(key.shard, key.hash));
        // An access time that was recorded before a reboot can lie in the future.
        if idle > IDLE_MAX { 0 } else { u64::from(idle) }
    }

    /// Sets the time since the last use of a key in seconds, as RESTORE with IDLETIME does. The
    /// value is approximate, as for [`idle_seconds`](Store::idle_seconds).
    pub fn set_idle_seconds(&self, key: &Key<'_>, seconds: u64) {
        let now = self.use_clock();
        let idle = (seconds.saturating_mul(1000) / TICK).min(u64::from(IDLE_MAX)) as u32;
        let used = ((now / TICK) as u32).wrapping_sub(idle);
        self.segment.set_hint(key.shard, key.hash, used);
    }

    /// Returns the logarithmic use counter of a key, from 0 to 255, as OBJECT FREQ does. The result
    /// is inexact because keys can share a counter (R6), and meaningless if uses are not counted.
    pub fn frequency(&self, key: &Key<'_>) -> u8 {
        self.decayed(self.segment.hint(key.shard, key.hash)) as u8
    }

    /// Sets the use counter of a key, as RESTORE with FREQ does.
    pub fn set_frequency(&self, key: &Key<'_>, counter: u8) {
        let hint = self.minute() << 8 | u32::from(counter);
        self.segment.set_hint(key.shard, key.hash, hint);
    }
}
