//! Performs the first thread's periodic work for the store and for INFO.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use undercroft_commands::statistics::latency::Event;
use undercroft_engine::{Pace, coarse_milliseconds};

use crate::log::log;
use crate::shared::state::Shared;
use crate::shared::store_change::{AGAIN, GRACE};

/// The pause between upkeep steps while much work remains.
const HURRY: Duration = Duration::from_millis(4);
/// The number of samples over which the command and byte rates are averaged.
const SAMPLES: usize = 10;

/// The interval at which the waits and subscriptions of dead processes are removed.
const FORGET: Duration = Duration::from_secs(2);

/// The timers of the first thread.
pub(crate) struct Upkeep {
    next: Instant,
    next_sample: Instant,
    next_forgetting: Instant,
    /// Samples: the time, the number of commands, and the numbers of bytes received and sent.
    samples: VecDeque<(Instant, [u64; 3])>,
    /// The time at which the removal of the store's file was noticed and logged, if it was removed.
    lost: Option<Instant>,
    /// The time of the next attempt to switch to another store.
    next_change: Instant,
    told_failure: bool,
}

impl Upkeep {
    pub(crate) fn new() -> Upkeep {
        Upkeep {
            next: Instant::now(),
            next_sample: Instant::now(),
            next_forgetting: Instant::now() + FORGET,
            samples: VecDeque::new(),
            lost: None,
            next_change: Instant::now(),
            told_failure: false,
        }
    }

    /// Returns the time of the next periodic work.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Performs the work that is due: upkeep of the store, samples, and the check of the store's
    /// file.
    pub(crate) fn run(&mut self, shared: &Shared, now: Instant) {
        if now < self.next {
            return;
        }
        let hz = shared.process.config.integer("hz").clamp(1, 500) as u32;
        let regularly = Duration::from_secs(1) / hz;
        self.next = now
            + match self.keep(shared) {
                Pace::Hurry => HURRY.min(regularly),
                _ => regularly,
            };
        shared.watch_users();
        shared.renew_requirement();
        if now >= self.next_sample {
            self.next_sample = now + regularly;
            self.sample(shared, now);
        }
        if now >= self.next_forgetting && self.lost.is_none() {
            self.next_forgetting = now + FORGET;
            // If a lock is held, the next pass frees the state of the dead processes.
            let _ = shared.store().free_all_of_the_dead();
        }
        if self.lost.is_none() && shared.store().removed() {
            self.lost = Some(now);
            let next = match shared.change.reopen() {
                Some(_) => "the server continues with the store that now has this name",
                None => "commands that write fail until the server is restarted",
            };
            log(format_args!(
                "the store file {} was removed or replaced while it was in use (cleanup of \
                 /dev/shm does this, such as systemd's RemoveIPC); {next}",
                shared.store().path().display()
            ));
        }
    }

    /// Returns whether it is time to switch to the store that now has the served store's name: no
    /// connection is blocked or parked, or the grace period has ended.
    pub(crate) fn is_change_due(&self, shared: &Shared, now: Instant) -> bool {
        let Some(lost) = self.lost else {
            return false;
        };
        let has_waits = shared.blocked.load(Ordering::Relaxed) > 0;
        shared.change.reopen().is_some()
            && now >= self.next_change
            && (!has_waits || now.duration_since(lost) >= GRACE)
    }

    /// Records and logs the result of an attempt to switch to another store. A failure is logged
    /// only once.
    pub(crate) fn has_changed(&mut self, shared: &Shared, changed: Result<bool, String>) {
        self.next_change = Instant::now() + AGAIN;
        match changed {
            Ok(true) => {
                self.lost = None;
                self.told_failure = false;
                log(format_args!(
                    "serving the new store {}; clients with unfinished work in the removed store \
                     were disconnected",
                    shared.store().path().display()
                ));
            }
            // Retry the switch later, because a thread is running a long command or a script.
            Ok(false) => {}
            Err(text) => {
                if !self.told_failure {
                    log(format_args!(
                        "the new store cannot be opened; trying again twice a second: {text}"
                    ));
                }
                self.told_failure = true;
            }
        }
    }

    /// Performs a step of the store's upkeep, unless another process is performing it. Reports long
    /// steps to LATENCY.
    fn keep(&mut self, shared: &Shared) -> Pace {
        if self.lost.is_some() {
            return Pace::Idle;
        }
        // As in Redis, keys do not expire and are not evicted while clients are paused.
        if !shared.store().keeps_expired() {
            // If the store is full and nothing can be evicted, ignore the error: commands that
            // write will report it.
            let start = Instant::now();
            let _ = shared.store().check_memory_for(0);
            shared.note_latency(Event::EvictionCycle, start);
        }
        let start = Instant::now();
        match shared.store().upkeep(coarse_milliseconds()) {
            Ok(None) => Pace::Idle,
            Ok(Some(upkept)) => {
                self.told_failure = false;
                let event = match upkept.expired {
                    0 => Event::Upkeep,
                    _ => Event::ExpireCycle,
                };
                shared.note_latency(event, start);
                upkept.pace
            }
            // Another process holds a lock, so try again in the next round.
            Err(error) if error.is_wait() => Pace::Steady,
            Err(error) => {
                if !self.told_failure {
                    log(format_args!("upkeep of the store: {error}"));
                }
                self.told_failure = true;
                Pace::Steady
            }
        }
    }

    fn sample(&mut self, shared: &Shared, now: Instant) {
        let totals = &shared.totals;
        let counted = [
            &totals.commands_ever,
            &totals.input_bytes,
            &totals.output_bytes,
        ];
        let counts = counted.map(|total| total.load(Ordering::Relaxed));
        self.samples.push_back((now, counts));
        if self.samples.len() > SAMPLES + 1 {
            self.samples.pop_front();
        }
        if let Some((then, before)) = self.samples.front() {
            let seconds = now.duration_since(*then).as_secs_f64();
            let rates = [
                &totals.commands_per_second,
                &totals.input_per_second,
                &totals.output_per_second,
            ];
            for ((rate, count), before) in rates.into_iter().zip(counts).zip(before) {
                // CONFIG RESETSTAT resets the byte counts, so the new count can be smaller than the
                // old one.
                let new = count.saturating_sub(*before);
                if seconds > 0.0 {
                    rate.store((new as f64 / seconds).round() as u64, Ordering::Relaxed);
                }
            }
        }
        shared
            .process
            .statistics
            .see_memory(shared.store().used_memory());
    }
}

#[cfg(test)]
mod tests {
    use undercroft_commands::config::Config;
    use undercroft_commands::context::Connections;
    use undercroft_engine::eviction::{EvictionChange, EvictionPolicy};
    use undercroft_engine::strings::{Condition, SetOptions};
    use undercroft_engine::{Expiry, Options, Store};

    use super::*;
    use crate::shared::state::Files;

    #[test]
    fn pause_stops_expiry_and_eviction() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let options = Options {
            shards: Some(1),
            ..Options::default()
        };
        let store = Store::create(&directory.path().join("store"), &options).expect("a store");
        store.set_time(1_000);
        let expires = SetOptions {
            condition: Condition::Always,
            expiry: Expiry::At(1_001),
        };
        store.set_with(0, b"expires", b"v", expires).expect("room");
        store.set(0, b"stays", b"v").expect("room");
        store.set_time(2_000);
        let policy = EvictionChange::Policy(EvictionPolicy::AllKeysRandom);
        store.change_eviction(policy).expect("it may write");
        store.set_max_memory(1).expect("it may write");

        let shared = Shared::new(store, Config::new(), Vec::new(), 0, Files::default());
        let (mut upkeep, start) = (Upkeep::new(), Instant::now());
        let mut keys_after = |seconds| {
            upkeep.run(&shared, start + Duration::from_secs(seconds));
            shared.store().count_keys(0).expect("no lock is held")
        };
        shared
            .pause(i64::MAX, false)
            .expect("there are connections");
        assert_eq!(keys_after(1), 2);
        shared.unpause();
        // Expiry and eviction can take several steps of upkeep.
        assert!((2..).any(|seconds| keys_after(seconds) == 0));
    }
}
