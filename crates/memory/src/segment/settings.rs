//! Settings that the processes share: words of the control page, most of them with a meaning to the engine only.

use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::mapped::layout::control;
use crate::mapped::platform::coarse_milliseconds;
use crate::segment::Segment;

/// A word of the control page that means something to the engine only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Setting {
    /// Which keys make room for others.
    EvictionPolicy = control::EVICTION_POLICY,
    /// Keys looked at for each that is evicted.
    EvictionSamples = control::EVICTION_SAMPLES,
    /// How slowly counters of use grow.
    LfuLogFactor = control::LFU_LOG_FACTOR,
    /// How slowly they decay.
    LfuDecayTime = control::LFU_DECAY_TIME,
    /// Which classes of keyspace events are told.
    ToldEvents = control::TOLD_EVENTS,
    /// How often the texts of scripts were forgotten.
    ScriptsForgotten = control::SCRIPTS_FORGOTTEN,
    /// How often the libraries of functions were changed.
    LibrariesChanged = control::LIBRARIES_CHANGED,
    /// How often scripts that ran were told to end.
    ScriptsKilled = control::SCRIPTS_KILLED,
    /// When a script that takes long was last seen running.
    ScriptSeen = control::SCRIPT_SEEN,
}

impl Segment {
    /// The limit on the bytes in allocated blocks; 0 is none.
    #[inline]
    pub fn max_memory(&self) -> u64 {
        self.mapping.load(control::MAX_MEMORY)
    }

    /// Sets the limit on the bytes in allocated blocks; 0 is none. One store of
    /// one word, so it needs no transaction.
    pub fn set_max_memory(&self, bytes: u64) -> Result<(), Error> {
        if !self.writable() {
            return Err(Error::ReadOnly);
        }
        self.mapping.store(control::MAX_MEMORY, bytes);
        Ok(())
    }

    /// A setting that the processes share; 0 is its default. One load.
    #[inline(always)]
    pub fn setting(&self, setting: Setting) -> u64 {
        self.mapping.load(setting as u64)
    }

    /// The flags of a script that takes long, if one was seen lately. Its word is when it was seen, by the coarse clock,
    /// and two bits of flags.
    pub fn script_seen(&self) -> Option<u64> {
        /// A script that was last seen longer ago runs no more, in milliseconds.
        const LATELY: u64 = 1000;
        let seen = self.setting(Setting::ScriptSeen);
        let age = coarse_milliseconds().wrapping_sub(seen >> 2);
        (seen != 0 && age < LATELY).then_some(seen & 3)
    }

    /// Changes a setting for all processes. One store of one word, so it needs
    /// no transaction.
    pub fn set_setting(&self, setting: Setting, value: u64) -> Result<(), Error> {
        if !self.writable() {
            return Err(Error::ReadOnly);
        }
        self.mapping.store(setting as u64, value);
        Ok(())
    }

    /// Counts a setting up for all processes: of those who do it at once, each is counted. One change of one word, so it
    /// needs no transaction.
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
