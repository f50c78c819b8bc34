//! Settings that all processes share. They are words in the control page, most of which only the
//! engine interprets.

use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::mapped::layout::control;
use crate::mapped::platform::coarse_milliseconds;
use crate::segment::Segment;

/// A word in the control page that only the engine interprets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Setting {
    /// The eviction policy.
    EvictionPolicy = control::EVICTION_POLICY,
    /// The number of keys sampled for each eviction.
    EvictionSamples = control::EVICTION_SAMPLES,
    /// How slowly LFU counters grow.
    LfuLogFactor = control::LFU_LOG_FACTOR,
    /// How slowly LFU counters decay.
    LfuDecayTime = control::LFU_DECAY_TIME,
    /// The classes of keyspace events that are published.
    ToldEvents = control::TOLD_EVENTS,
    /// The rate of checkpoints that begin by themselves, in bytes a second, plus 1. 1 means no limit.
    CheckpointRate = control::CHECKPOINT_RATE,
    /// By how many percent of the last checkpoint's size the journal grows before a checkpoint begins
    /// by itself, plus 1. 1 means never.
    CheckpointGrowth = control::CHECKPOINT_GROWTH,
    /// Whether the store is a replica.
    Replica = control::REPLICA,
    /// The number of times that the script cache has been flushed.
    ScriptsForgotten = control::SCRIPTS_FORGOTTEN,
    /// The number of times that the function libraries have changed.
    LibrariesChanged = control::LIBRARIES_CHANGED,
    /// The number of times that running scripts have been asked to stop.
    ScriptsKilled = control::SCRIPTS_KILLED,
    /// When a long-running script was last observed.
    ScriptSeen = control::SCRIPT_SEEN,
    /// The number of times that the users of servers have changed.
    UsersChanged = control::USERS_CHANGED,
}

/// The settings that count changes to data that processes cache.
pub(crate) const CACHE_COUNTS: [Setting; 3] = [
    Setting::ScriptsForgotten,
    Setting::LibrariesChanged,
    Setting::UsersChanged,
];

impl Setting {
    /// Returns whether the setting belongs to the store's state, which a journal preserves.
    pub(crate) fn is_state(self) -> bool {
        matches!(
            self,
            Setting::EvictionPolicy
                | Setting::EvictionSamples
                | Setting::LfuLogFactor
                | Setting::LfuDecayTime
                | Setting::ToldEvents
                | Setting::CheckpointRate
                | Setting::CheckpointGrowth
                | Setting::Replica
        )
    }
}

impl Segment {
    /// Returns the limit on the total size of allocated blocks, in bytes. 0 means no limit.
    #[inline]
    pub fn max_memory(&self) -> u64 {
        self.mapping.load(control::MAX_MEMORY)
    }

    /// Returns a setting that all processes share. 0 means the default.
    #[inline(always)]
    pub fn setting(&self, setting: Setting) -> u64 {
        self.mapping.load(setting as u64)
    }

    /// Returns the flags of a long-running script, if one was observed in the last second. The
    /// setting consists of the coarse time of the observation and two flag bits.
    pub fn script_seen(&self) -> Option<u64> {
        /// A script that was last observed this many milliseconds ago is no longer running.
        const LATELY: u64 = 1000;
        let seen = self.setting(Setting::ScriptSeen);
        let age = coarse_milliseconds().wrapping_sub(seen >> 2);
        (seen != 0 && age < LATELY).then_some(seen & 3)
    }

    /// Increments a setting for all processes. Concurrent increments all take effect. Needs no
    /// transaction, because it changes a single word atomically.
    pub fn count_up(&self, setting: Setting) -> Result<(), Error> {
        if !self.writable() {
            return Err(Error::ReadOnly);
        }
        self.mapping
            .word(setting as u64)
            .fetch_add(1, Ordering::AcqRel);
        Ok(())
    }
}
