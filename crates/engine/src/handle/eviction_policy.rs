//! Which keys make room for others where the memory limit is reached: settings of the store, which all processes obey.

use undercroft_memory::Setting;

use crate::error::Error;
use crate::handle::store::Store;

/// Which keys make room for others where the memory limit is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u64)]
pub enum EvictionPolicy {
    /// None: writing fails instead.
    #[default]
    NoEviction = 0,
    /// The least recently used.
    AllKeysLru = 1,
    /// The least frequently used.
    AllKeysLfu = 2,
    /// Any.
    AllKeysRandom = 3,
    /// The least recently used of those that expire.
    VolatileLru = 4,
    /// The least frequently used of those that expire.
    VolatileLfu = 5,
    /// Any of those that expire.
    VolatileRandom = 6,
    /// Those that expire first.
    VolatileTtl = 7,
}

/// By what keys are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// The time since they were used.
    Idle,
    /// How often they were used.
    Frequency,
    /// When they expire.
    Deadline,
    /// Nothing.
    None,
}

impl EvictionPolicy {
    /// Every policy.
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

    /// The name that `maxmemory-policy` has for it.
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

    /// The policy of this name.
    pub fn from_name(name: &str) -> Option<EvictionPolicy> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Whether uses are counted, rather than their time noted.
    pub fn is_lfu(self) -> bool {
        Self::counts_uses(self as u64)
    }

    /// [`is_lfu`](Self::is_lfu) of a policy's number in the store.
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

/// How the processes that share a store make room in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// Which keys go.
    pub policy: EvictionPolicy,
    /// Keys looked at for each that goes (default 5).
    pub samples: u64,
    /// How slowly the counters of use grow (default 10).
    pub lfu_log_factor: u64,
    /// Minutes in which an unused key's counter loses a point; 0 is never
    /// (default 1).
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

/// One of the values of an [`Eviction`]; the numbers are below 2^63.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionChange {
    /// [`Eviction::policy`].
    Policy(EvictionPolicy),
    /// [`Eviction::samples`].
    Samples(u64),
    /// [`Eviction::lfu_log_factor`].
    LfuLogFactor(u64),
    /// [`Eviction::lfu_decay_time`].
    LfuDecayTime(u64),
}

impl Store {
    /// How the processes that share this store make room in it.
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

    /// Sets how all processes make room, each of the numbers below 2^63. When
    /// uses begin or cease to be counted, what is known of the keys needs some
    /// time to adjust.
    pub fn set_eviction(&self, eviction: Eviction) -> Result<(), Error> {
        self.change_eviction(EvictionChange::Samples(eviction.samples))?;
        self.change_eviction(EvictionChange::LfuLogFactor(eviction.lfu_log_factor))?;
        self.change_eviction(EvictionChange::LfuDecayTime(eviction.lfu_decay_time))?;
        self.change_eviction(EvictionChange::Policy(eviction.policy))
    }

    /// Sets one value of how all processes make room; what another process does
    /// to the others at the same time stays.
    pub fn change_eviction(&self, change: EvictionChange) -> Result<(), Error> {
        // 0 is the default of each number.
        let (setting, value) = match change {
            EvictionChange::Policy(policy) => (Setting::EvictionPolicy, policy as u64),
            EvictionChange::Samples(samples) => (Setting::EvictionSamples, samples + 1),
            EvictionChange::LfuLogFactor(factor) => (Setting::LfuLogFactor, factor + 1),
            EvictionChange::LfuDecayTime(minutes) => (Setting::LfuDecayTime, minutes + 1),
        };
        Ok(self.segment.set_setting(setting, value)?)
    }
}
