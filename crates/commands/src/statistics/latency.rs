//! Records the slow events of this process, which LATENCY shows.
//!
//! As in Redis, an event is recorded if it takes at least `latency-monitor-threshold` milliseconds,
//! and only the longest sample of each second is retained. The default threshold of 0 disables
//! recording.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use undercroft_engine::{ForkGuard, ForkMutex};

use crate::config::Config;

/// The maximum number of samples to retain for each kind of event.
const SAMPLES: usize = 160;

/// A kind of event whose latency is monitored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// Running a command that does not have the `fast` flag.
    Command,
    /// Running a command that has the `fast` flag.
    FastCommand,
    /// Evicting keys because the `maxmemory` limit was reached.
    EvictionCycle,
    /// An upkeep step that removed at least one expired key.
    ExpireCycle,
    /// An upkeep step that removed no keys, but freed memory or tidied data structures.
    Upkeep,
    /// Waiting for a lock that another process held.
    LockWait,
    /// Syncing the journal in the mode `always`, while replies wait for it.
    FsyncAlways,
}

impl Event {
    /// All kinds of events.
    const ALL: [Event; 7] = [
        Event::Command,
        Event::FastCommand,
        Event::EvictionCycle,
        Event::ExpireCycle,
        Event::Upkeep,
        Event::LockWait,
        Event::FsyncAlways,
    ];

    /// Returns the name that LATENCY uses for the event. This is Redis' name if Redis has the
    /// event.
    pub fn name(self) -> &'static str {
        match self {
            Event::Command => "command",
            Event::FastCommand => "fast-command",
            Event::EvictionCycle => "eviction-cycle",
            Event::ExpireCycle => "expire-cycle",
            Event::Upkeep => "upkeep",
            Event::LockWait => "lock-wait",
            Event::FsyncAlways => "aof-fsync-always",
        }
    }

    /// Returns the event with this name, if it exists.
    pub fn from_name(name: &[u8]) -> Option<Event> {
        let mut all = Event::ALL.into_iter();
        all.find(|event| event.name().as_bytes() == name)
    }
}

/// The longest occurrence of an event within one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The time when the event occurred, in Unix seconds.
    pub time: i64,
    /// The duration of the event in milliseconds.
    pub milliseconds: i64,
}

/// The recorded samples of one kind of event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// The samples, oldest first. Never empty.
    pub kept: VecDeque<Sample>,
    /// The longest duration recorded since the last reset, in milliseconds.
    pub longest: i64,
}

/// The latency monitor of a process. Threads can share it.
#[derive(Debug, Default)]
pub struct Latency {
    threshold: AtomicI64,
    events: ForkMutex<BTreeMap<Event, Samples>>,
}

impl Latency {
    /// Applies the `latency-monitor-threshold` parameter.
    pub fn configure(&self, config: &Config) {
        let threshold = config.integer("latency-monitor-threshold");
        self.threshold.store(threshold, Ordering::Relaxed);
    }

    /// Returns whether events are recorded.
    #[inline]
    pub fn watches(&self) -> bool {
        self.threshold.load(Ordering::Relaxed) > 0
    }

    /// Records an event if its duration is at least the threshold. `now` returns the current time
    /// in Unix seconds.
    #[inline]
    pub fn note(&self, event: Event, time: Duration, now: impl FnOnce() -> i64) {
        let threshold = self.threshold.load(Ordering::Relaxed);
        let milliseconds = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        if threshold > 0 && milliseconds >= threshold {
            self.record(event, milliseconds, now());
        }
    }

    #[cold]
    fn record(&self, event: Event, milliseconds: i64, time: i64) {
        let mut events = self.lock();
        let samples = events.entry(event).or_default();
        samples.longest = samples.longest.max(milliseconds);
        if let Some(last) = samples.kept.back_mut()
            && last.time == time
        {
            last.milliseconds = last.milliseconds.max(milliseconds);
            return;
        }
        if samples.kept.len() == SAMPLES {
            samples.kept.pop_front();
        }
        samples.kept.push_back(Sample { time, milliseconds });
    }

    /// Returns the samples of an event, or `None` if the event has not occurred since its last
    /// reset.
    pub fn samples(&self, event: Event) -> Option<Samples> {
        self.lock().get(&event).cloned()
    }

    /// Returns the samples of every event that has occurred.
    pub fn all(&self) -> Vec<(Event, Samples)> {
        let events = self.lock();
        let all = events.iter();
        all.map(|(event, samples)| (*event, samples.clone()))
            .collect()
    }

    /// Removes the samples of an event. Returns whether the event had any samples.
    pub fn forget(&self, event: Event) -> bool {
        self.lock().remove(&event).is_some()
    }

    /// Removes the samples of all events. Returns how many events had samples.
    pub fn forget_all(&self) -> usize {
        std::mem::take(&mut *self.lock()).len()
    }

    fn lock(&self) -> ForkGuard<'_, BTreeMap<Event, Samples>> {
        // Ignore poisoning: a panic while the lock is held loses at most one sample.
        self.events.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watching(threshold: &str) -> Latency {
        let (latency, config) = (Latency::default(), Config::new());
        let set = config.set_at_start("latency-monitor-threshold", threshold);
        assert_eq!(set, Ok(None));
        latency.configure(&config);
        latency
    }

    fn note(latency: &Latency, milliseconds: u64, time: i64) {
        latency.note(Event::Command, Duration::from_millis(milliseconds), || time);
    }

    #[test]
    fn longest_sample_of_each_second_is_kept_and_old_samples_are_dropped() {
        let latency = watching("10");
        for (milliseconds, time) in [(9, 1), (10, 2), (30, 2), (20, 2), (11, 3)] {
            note(&latency, milliseconds, time);
        }
        let samples = latency.samples(Event::Command).expect("it happened");
        let kept: Vec<(i64, i64)> = samples
            .kept
            .iter()
            .map(|sample| (sample.time, sample.milliseconds))
            .collect();
        assert_eq!((kept, samples.longest), (vec![(2, 30), (3, 11)], 30));
        for time in 4..4 + SAMPLES as i64 {
            note(&latency, 10, time);
        }
        let samples = latency.samples(Event::Command).expect("it happened");
        assert_eq!((samples.kept.len(), samples.kept[0].time), (SAMPLES, 4));
        assert_eq!(samples.longest, 30);
        assert!(latency.forget(Event::Command) && !latency.forget(Event::Command));
        assert_eq!(latency.forget_all(), 0);
    }

    #[test]
    fn nothing_is_recorded_without_a_threshold() {
        let latency = watching("0");
        note(&latency, 1_000_000, 1);
        assert!(!latency.watches() && latency.all().is_empty());
    }

    #[test]
    fn events_are_found_by_name() {
        for event in Event::ALL {
            assert_eq!(Event::from_name(event.name().as_bytes()), Some(event));
        }
        assert_eq!(Event::from_name(b"COMMAND"), None);
    }
}
