//! What took long in this process: events, and the samples of each that LATENCY shows.
//!
//! As in Redis, an event is noted where it took at least `latency-monitor-threshold` milliseconds, and of all that are
//! noted in one second the longest is kept. Without a threshold, which is the default, nothing is.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use undercroft_engine::{ForkGuard, ForkMutex};

use crate::config::Config;

/// Samples kept of each event.
const SAMPLES: usize = 160;

/// What may take long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A command.
    Command,
    /// A command that is said to be fast.
    FastCommand,
    /// Making room where `maxmemory` is reached.
    EvictionCycle,
    /// A step of the store's upkeep that removed expired keys.
    ExpireCycle,
    /// A step of the store's upkeep that only gave memory back and put structures in order.
    Upkeep,
    /// A command of a connection that waited for a lock which another process held.
    LockWait,
}

impl Event {
    /// All of them.
    const ALL: [Event; 6] = [
        Event::Command,
        Event::FastCommand,
        Event::EvictionCycle,
        Event::ExpireCycle,
        Event::Upkeep,
        Event::LockWait,
    ];

    /// As LATENCY calls it; Redis' name, where Redis has it.
    pub fn name(self) -> &'static str {
        match self {
            Event::Command => "command",
            Event::FastCommand => "fast-command",
            Event::EvictionCycle => "eviction-cycle",
            Event::ExpireCycle => "expire-cycle",
            Event::Upkeep => "upkeep",
            Event::LockWait => "lock-wait",
        }
    }

    /// The event of this name.
    pub fn from_name(name: &[u8]) -> Option<Event> {
        let mut all = Event::ALL.into_iter();
        all.find(|event| event.name().as_bytes() == name)
    }
}

/// The longest of the events of one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When, in Unix seconds.
    pub time: i64,
    /// How long it took.
    pub milliseconds: i64,
}

/// What is known of one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// Oldest first; at least one.
    pub kept: VecDeque<Sample>,
    /// The longest that there ever was, in milliseconds.
    pub longest: i64,
}

/// The events of a process. Safe to share between threads.
#[derive(Debug, Default)]
pub struct Latency {
    threshold: AtomicI64,
    events: ForkMutex<BTreeMap<Event, Samples>>,
}

impl Latency {
    /// Takes over `latency-monitor-threshold`.
    pub fn configure(&self, config: &Config) {
        let threshold = config.integer("latency-monitor-threshold");
        self.threshold.store(threshold, Ordering::Relaxed);
    }

    /// Whether anything is noted.
    #[inline]
    pub fn watches(&self) -> bool {
        self.threshold.load(Ordering::Relaxed) > 0
    }

    /// Takes note of an event, where it took long enough; `now` tells the time in Unix seconds.
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

    /// What is known of an event, where it happened since it was forgotten.
    pub fn samples(&self, event: Event) -> Option<Samples> {
        self.lock().get(&event).cloned()
    }

    /// What is known of each event that happened.
    pub fn all(&self) -> Vec<(Event, Samples)> {
        let events = self.lock();
        let all = events.iter();
        all.map(|(event, samples)| (*event, samples.clone()))
            .collect()
    }

    /// Forgets an event. Returns whether it had happened.
    pub fn forget(&self, event: Event) -> bool {
        self.lock().remove(&event).is_some()
    }

    /// Forgets all events. Returns how many had happened.
    pub fn forget_all(&self) -> usize {
        std::mem::take(&mut *self.lock()).len()
    }

    fn lock(&self) -> ForkGuard<'_, BTreeMap<Event, Samples>> {
        // A panic elsewhere leaves at worst a sample too few.
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
    fn the_longest_of_each_second_is_kept_and_the_oldest_go() {
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
    fn without_a_threshold_nothing_is_noted() {
        let latency = watching("0");
        note(&latency, 1_000_000, 1);
        assert!(!latency.watches() && latency.all().is_empty());
    }

    #[test]
    fn events_are_known_by_their_names() {
        for event in Event::ALL {
            assert_eq!(Event::from_name(event.name().as_bytes()), Some(event));
        }
        assert_eq!(Event::from_name(b"COMMAND"), None);
    }
}
