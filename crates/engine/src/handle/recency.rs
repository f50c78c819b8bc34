//! When keys were used last, or how often: what the hints of a shard say (R6).
//!
//! ```text
//! a hint, where no policy counts uses: the clock, in ticks of 64 ms
//! where one does: | 0 | new | minute of the last change, 16 bits | counter, 8 bits |
//! ```
//!
//! The counter grows with the logarithm of the uses and loses a point for each
//! `lfu-decay-time` minutes without one, as Redis' does.

use undercroft_memory::{Setting, coarse_milliseconds};

use crate::handle::eviction_policy::EvictionPolicy;
use crate::handle::store::Store;
use crate::structures::key::Key;

/// Milliseconds of a tick: fine enough to rank the keys of a small, busy store;
/// 32 bits of them last for eight years.
const TICK: u64 = 64;
/// A new key's counter: above 0, so that it is not evicted before it can be
/// used again.
const INITIAL: u32 = 5;
/// The counter's bits.
const COUNTER: u32 = 0xff;
/// The minute's bits, above the counter's.
const MINUTES: u64 = 0xffff;
/// The key was just inserted; the use that inserted it is not counted.
const NEW: u32 = 1 << 24;
/// Milliseconds of a minute.
const MINUTE: u64 = 60_000;

impl Store {
    /// Milliseconds of a clock that only serves to compare uses.
    #[inline(always)]
    fn use_clock(&self) -> u64 {
        self.clock.fixed().unwrap_or_else(coarse_milliseconds)
    }

    /// Whether hints are counters.
    #[inline(always)]
    pub(crate) fn counts_uses(&self) -> bool {
        EvictionPolicy::counts_uses(self.segment.setting(Setting::EvictionPolicy))
    }

    /// Notes that a key was used, for OBJECT IDLETIME and eviction.
    #[inline(always)]
    pub(crate) fn touch(&self, key: &Key<'_>) {
        if self.counts_uses() {
            return self.count_use(key.shard, key.hash);
        }
        let now = self.use_clock();
        // A reader finds out that the store was removed when the clock of a key that it uses has gone on: no use of the
        // same tick pays for it.
        if self
            .segment
            .set_hint(key.shard, key.hash, (now / TICK) as u32)
        {
            self.segment.look_for_file(now);
        }
    }

    /// Notes that a key was written just now.
    #[inline(always)]
    pub(crate) fn touch_written(&self, key: &Key<'_>) {
        if self.counts_uses() {
            return self.count_use(key.shard, key.hash);
        }
        let now = self.clock.fixed();
        let ticks = (now.unwrap_or_else(|| self.segment.last_written()) / TICK) as u32;
        self.segment.set_hint(key.shard, key.hash, ticks);
    }

    /// Notes that a key was inserted, whose hint may be another key's.
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

    /// Counts a use of the key of this shard with this hash.
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

    /// Whether a use makes a counter grow: the larger it is, the less likely.
    fn grows(&self, counter: u32) -> bool {
        if counter >= COUNTER {
            return false;
        }
        let factor = self.eviction().lfu_log_factor;
        let above = f64::from(counter.saturating_sub(INITIAL));
        let chance = 1.0 / (above * factor as f64 + 1.0);
        // 53 random bits as a number from 0 up to 1.
        let random = (self.chance.next() >> 11) as f64 / (1_u64 << 53) as f64;
        random < chance
    }

    /// A hint's counter as it is now.
    fn decayed(&self, hint: u32) -> u32 {
        let period = self.eviction().lfu_decay_time;
        let elapsed = u64::from(self.minute()).wrapping_sub(u64::from(hint >> 8)) & MINUTES;
        let lost = elapsed.checked_div(period).unwrap_or(0);
        u64::from(hint & COUNTER).saturating_sub(lost) as u32
    }

    /// Notes that a key was used, as TOUCH does.
    #[inline(always)]
    pub fn note_use(&self, key: &Key<'_>) {
        self.touch(key);
    }

    /// Seconds since a key was used last, approximately: keys may share a
    /// clock (R6), and it means nothing where uses are counted.
    pub fn idle_seconds(&self, key: &Key<'_>) -> u64 {
        // Up to a tick more than the difference has passed; who waited for a second is told so.
        (self.idle_ticks(key) * TICK + TICK - 1) / 1000
    }

    pub(crate) fn idle_ticks(&self, key: &Key<'_>) -> u64 {
        let now = (self.use_clock() / TICK) as u32;
        let hint = self.segment.hint(key.shard, key.hash);
        // A hint from before the machine was started anew may lie ahead.
        u64::from(now.saturating_sub(hint))
    }

    /// Notes that a key was last used so many seconds ago, as RESTORE with
    /// IDLETIME does. Approximate, as [`idle_seconds`](Store::idle_seconds).
    pub fn set_idle_seconds(&self, key: &Key<'_>, seconds: u64) {
        let used = self
            .use_clock()
            .saturating_sub(seconds.saturating_mul(1000));
        self.segment
            .set_hint(key.shard, key.hash, (used / TICK) as u32);
    }

    /// How often a key was used: the logarithmic counter of OBJECT FREQ, from
    /// 0 to 255. Keys may share one (R6), and it means nothing where uses are
    /// not counted.
    pub fn frequency(&self, key: &Key<'_>) -> u8 {
        self.decayed(self.segment.hint(key.shard, key.hash)) as u8
    }

    /// Sets a key's counter, as RESTORE with FREQ does.
    pub fn set_frequency(&self, key: &Key<'_>, counter: u8) {
        let hint = self.minute() << 8 | u32::from(counter);
        self.segment.set_hint(key.shard, key.hash, hint);
    }
}
