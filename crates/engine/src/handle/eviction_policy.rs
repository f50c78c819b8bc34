//! Eviction policies, which select the keys to evict when the store reaches its memory limit. The
//! policy is a setting that all processes of the store share.

use undercroft_memory::Setting;

use crate::error::Error;
use crate::handle::store::Store;

/// The policy that selects the keys to evict when the store reaches its memory limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u64)]
pub enum EvictionPolicy {
    /// Evict no keys; writes fail instead.
    #[default]
    NoEviction = 0,
    /// Evict the least recently used keys.
    AllKeysLru = 1,
    /// Evict the least frequently used keys.
    AllKeysLfu = 2,
    /// Evict random keys.
    AllKeysRandom = 3,
    /// Evict the least recently used keys among those with an expiry.
    VolatileLru = 4,
    /// Evict the least frequently used keys among those with an expiry.
    VolatileLfu = 5,
    /// Evict random keys among those with an expiry.
    VolatileRandom = 6,
    /// Evict the keys that expire soonest.
    VolatileTtl = 7,
}

/// The criterion by which keys are ranked for eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// The time since the key's last use.
    Idle,
    /// The number of uses of the key.
    Frequency,
    /// The time at which the key expires.
    Deadline,
    /// Keys are not ranked.
    None,
}

impl EvictionPolicy {
    /// All eviction policies.
    pub const ALL: [EvictionPolicy; 8] = [
        EvictionPolicy::NoEviction,
        EvictionPolicy::AllKeysLru,
        EvictionPolicy::AllKeysLfu,
        EvictionPolicy::AllKeysRandom,
        EvictionPolicy::VolatileLru,
        EvictionPolicy::VolatileLfu,
        EvictionPolicy::VolatileRandom,
        EvictionPolicy::VolatileTtl,
    ];

    /// Returns the name of the policy, as used for `maxmemory-policy`.
    pub fn name(self) -> &'static str {
        match self {
            EvictionPolicy::NoEviction => "noeviction",
            EvictionPolicy::AllKeysLru => "allkeys-lru",
            EvictionPolicy::AllKeysLfu => "allkeys-lfu",
            EvictionPolicy::AllKeysRandom => "allkeys-random",
            EvictionPolicy::VolatileLru => "volatile-lru",
            EvictionPolicy::VolatileLfu => "volatile-lfu",
            EvictionPolicy::VolatileRandom => "volatile-random",
            EvictionPolicy::VolatileTtl => "volatile-ttl",
        }
    }

    /// Returns the policy with the given name, if it exists.
    pub fn from_name(name: &str) -> Option<EvictionPolicy> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Returns whether the policy counts the uses of a key rather than recording the time of its
    /// last use.
    pub fn is_lfu(self) -> bool {
        Self::counts_uses(self as u64)
    }

    /// Returns whether the policy evicts keys by the time of their last use.
    pub fn is_lru(self) -> bool {
        matches!(
            self,
            EvictionPolicy::AllKeysLru | EvictionPolicy::VolatileLru
        )
    }

    /// Like [`is_lfu`](Self::is_lfu), for a policy given as the number that is stored in the store.
    #[inline(always)]
    pub(crate) fn counts_uses(number: u64) -> bool {
        number == EvictionPolicy::AllKeysLfu as u64 || number == EvictionPolicy::VolatileLfu as u64
    }

    fn of_number(number: u64) -> EvictionPolicy {
        let known = Self::ALL
            .into_iter()
            .find(|policy| *policy as u64 == number);
        known.unwrap_or_default()
    }

    pub(crate) fn only_expiring(self) -> bool {
        self as u64 >= EvictionPolicy::VolatileLru as u64
    }

    pub(crate) fn measure(self) -> Measure {
        match self {
            EvictionPolicy::AllKeysLru | EvictionPolicy::VolatileLru => Measure::Idle,
            EvictionPolicy::AllKeysLfu | EvictionPolicy::VolatileLfu => Measure::Frequency,
            EvictionPolicy::VolatileTtl => Measure::Deadline,
            _ => Measure::None,
        }
    }
}

/// The eviction settings that all processes of a store share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The policy that selects the keys to evict.
    pub policy: EvictionPolicy,
    /// The number of keys sampled for each evicted key (default 5).
    pub samples: u64,
    /// How slowly the use counters grow (default 10): the larger, the slower.
    pub lfu_log_factor: u64,
    /// The number of minutes without a use after which a key's use counter drops by one (default
    /// 1). If 0, counters never drop.
    pub lfu_decay_time: u64,
}

impl Default for Eviction {
    fn default() -> Eviction {
        Eviction {
            policy: EvictionPolicy::NoEviction,
            samples: 5,
            lfu_log_factor: 10,
            lfu_decay_time: 1,
        }
    }
}

/// A change to one eviction setting. Numbers must be below 2^63.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionChange {
    /// Changes [`Eviction::policy`].
    Policy(EvictionPolicy),
    /// Changes [`Eviction::samples`].
    Samples(u64),
    /// Changes [`Eviction::lfu_log_factor`].
    LfuLogFactor(u64),
    /// Changes [`Eviction::lfu_decay_time`].
    LfuDecayTime(u64),
}

impl Store {
    /// Returns the eviction settings of the store.
    pub fn eviction(&self) -> Eviction {
        let number = |setting, default| match self.segment.setting(setting) {
            0 => default,
            number => number - 1,
        };
        let default = Eviction::default();
        Eviction {
            policy: EvictionPolicy::of_number(self.segment.setting(Setting::EvictionPolicy)),
            samples: number(Setting::EvictionSamples, default.samples),
            lfu_log_factor: number(Setting::LfuLogFactor, default.lfu_log_factor),
            lfu_decay_time: number(Setting::LfuDecayTime, default.lfu_decay_time),
        }
    }

    /// Changes the eviction settings for all processes. Numbers must be below 2^63. After a switch
    /// between an LRU and an LFU policy, the recorded uses of keys take some time to adjust.
    pub fn set_eviction(&self, eviction: Eviction) -> Result<(), Error> {
        self.change_eviction(EvictionChange::Samples(eviction.samples))?;
        self.change_eviction(EvictionChange::LfuLogFactor(eviction.lfu_log_factor))?;
        self.change_eviction(EvictionChange::LfuDecayTime(eviction.lfu_decay_time))?;
        self.change_eviction(EvictionChange::Policy(eviction.policy))
    }

    /// Changes one eviction setting for all processes. A concurrent change to another setting is
    /// not lost.
    pub fn change_eviction(&self, change: EvictionChange) -> Result<(), Error> {
        // A stored 0 stands for the default, so numbers are stored incremented by one.
        let (setting, value) = match change {
            EvictionChange::Policy(policy) => (Setting::EvictionPolicy, policy as u64),
            EvictionChange::Samples(samples) => (Setting::EvictionSamples, samples + 1),
            EvictionChange::LfuLogFactor(factor) => (Setting::LfuLogFactor, factor + 1),
            EvictionChange::LfuDecayTime(minutes) => (Setting::LfuDecayTime, minutes + 1),
        };
        Ok(self.segment.set_setting(setting, value)?)
    }
}
