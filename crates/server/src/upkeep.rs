//! What the first thread does a few times a second for the store and for INFO.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use undercroft_commands::session::Host;

use crate::log::log;
use crate::shared::Shared;

/// Buckets that one step of the sweep looks at in each shard.
const BUCKETS: u64 = 16;
/// A round of steps goes on while it finds much, for this long at most.
const SWEEP_TIME: Duration = Duration::from_millis(2);
/// A step that removes fewer keys than this ends its round.
const WORTH_MORE: usize = 16;
/// Samples that the commands per second are the mean of.
const SAMPLES: usize = 10;

/// Between two looks for what dead processes left of their waits and subscriptions.
const FORGET: Duration = Duration::from_secs(2);

/// Timers of the first thread.
pub(crate) struct Upkeep {
    next: Instant,
    next_forgetting: Instant,
    /// When, and how many commands had been run.
    samples: VecDeque<(Instant, u64)>,
    /// Whether the loss of the store's file was logged.
    told_removed: bool,
    told_failure: bool,
}

impl Upkeep {
    pub(crate) fn new() -> Upkeep {
        Upkeep {
            next: Instant::now(),
            next_forgetting: Instant::now() + FORGET,
            samples: VecDeque::new(),
            told_removed: false,
            told_failure: false,
        }
    }

    /// When it is due.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Does what is due: sweeps, samples, looks after the store's file.
    pub(crate) fn run(&mut self, shared: &Shared, now: Instant) {
        if now < self.next {
            return;
        }
        let hz = shared.config.integer("hz").clamp(1, 500) as u32;
        self.next = now + Duration::from_secs(1) / hz;
        self.sweep(shared);
        self.sample(shared, now);
        if now >= self.next_forgetting && !self.told_removed {
            self.next_forgetting = now + FORGET;
            // What a lock stands in the way of goes the next time.
            let _ = shared.store.free_all_of_the_dead();
        }
        if !self.told_removed && shared.store.removed() {
            self.told_removed = true;
            log(format_args!(
                "the store file {} was removed or replaced while it was in use (a clean-up of /dev/shm, such as \
                 systemd's RemoveIPC, does this); commands that write answer an error until the server is restarted",
                shared.store.path().display()
            ));
        }
    }

    fn sweep(&mut self, shared: &Shared) {
        if self.told_removed {
            return;
        }
        let start = Instant::now();
        // What is in the way of this is in the way of the sweep, which tells it.
        let _ = shared.store.reclaim(|| start.elapsed() >= SWEEP_TIME);
        // As in Redis, the data stay as they are while clients are paused.
        let paused = shared.keeps_expired();
        let start = Instant::now();
        while start.elapsed() < SWEEP_TIME {
            let step = match paused {
                true => shared.store.tidy(BUCKETS).map(|()| 0),
                false => shared.store.sweep(BUCKETS),
            };
            match step {
                Ok(removed) => {
                    self.told_failure = false;
                    shared
                        .totals
                        .expired
                        .fetch_add(removed as u64, Ordering::Relaxed);
                    if removed < WORTH_MORE {
                        return;
                    }
                }
                // Somebody else works on it, and the next round comes soon.
                Err(error) if error.is_wait() => return,
                Err(error) => {
                    if !self.told_failure {
                        log(format_args!("removing expired keys: {error}"));
                    }
                    self.told_failure = true;
                    return;
                }
            }
        }
    }

    fn sample(&mut self, shared: &Shared, now: Instant) {
        let commands = shared.totals.commands_ever.load(Ordering::Relaxed);
        self.samples.push_back((now, commands));
        if self.samples.len() > SAMPLES + 1 {
            self.samples.pop_front();
        }
        if let Some((then, before)) = self.samples.front() {
            let seconds = now.duration_since(*then).as_secs_f64();
            if seconds > 0.0 {
                let rate = (commands - before) as f64 / seconds;
                shared
                    .totals
                    .commands_per_second
                    .store(rate.round() as u64, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use undercroft_commands::config::Config;
    use undercroft_engine::{
        Condition, EvictionChange, EvictionPolicy, Expiry, Options, SetOptions, Store,
    };

    use super::*;

    #[test]
    fn a_pause_keeps_expired_keys_and_those_above_the_limit() {
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

        let shared = Shared::new(store, Config::new(), Vec::new(), 0, String::new());
        let (mut upkeep, start) = (Upkeep::new(), Instant::now());
        let mut keys_after = |seconds| {
            upkeep.run(&shared, start + Duration::from_secs(seconds));
            shared.store.count_keys(0).expect("no lock is held")
        };
        shared.pause.begin(i64::MAX, false);
        assert_eq!(keys_after(1), 2);
        shared.pause.end();
        assert_eq!(keys_after(2), 0);
    }
}
