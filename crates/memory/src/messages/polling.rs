//! How long a waiter polls before it sleeps.
//!
//! Sleeping and being woken costs two system calls and two context switches, and many times that on
//! a core that has gone idle. A waiter therefore polls first: for about as long as sleeping costs
//! or, if its last wait was short, for the configured maximum. Between polls, it yields its core to
//! other threads.
//!
//! If another thread used the core for a long time and few items arrived in the meantime, there is
//! more work than the cores can do. The next waits then sleep without polling, because the kernel
//! favors threads that have been asleep.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The approximate cost of sleeping and being woken, in nanoseconds.
const SLEEP: u64 = 20_000;
/// If a yield lasts longer than this, in nanoseconds, other threads need the core.
const AWAY: u64 = 50_000;
/// How many times a waiter checks before it yields the core to other threads.
const LOOKS: u32 = 16;
/// How many waits sleep without polling after other threads needed the core: the initial number and
/// the maximum.
const FEWEST_RESTS: u32 = 16;
const MOST_RESTS: u32 = 4096;

/// How long a waiter polls before it sleeps, adapted to its recent waits. Times are in nanoseconds.
#[derive(Debug)]
pub struct Polling {
    longest: u64,
    window: AtomicU64,
    /// The duration of the longest yield of the core during the last wait, or 0 if that wait did
    /// not poll.
    away: AtomicU64,
    /// The number of items received before the last wait.
    progress: AtomicU64,
    /// The number of upcoming waits that sleep without polling, and the number to use the next time
    /// that other threads need the core.
    rests: AtomicU32,
    next_rests: AtomicU32,
}

impl Polling {
    /// Creates a policy that polls for at most `longest`. A duration of zero disables polling.
    pub fn new(longest: Duration) -> Polling {
        let longest = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        Polling {
            longest,
            window: AtomicU64::new(longest.min(SLEEP)),
            away: AtomicU64::new(0),
            progress: AtomicU64::new(0),
            rests: AtomicU32::new(0),
            next_rests: AtomicU32::new(FEWEST_RESTS),
        }
    }

    /// Begins a wait, given the number of items received so far. Returns how long to poll, in
    /// nanoseconds.
    pub(crate) fn begin(&self, progress: u64) -> u64 {
        let received = progress.wrapping_sub(self.progress.swap(progress, Ordering::Relaxed));
        let away = self.away.swap(0, Ordering::Relaxed);
        if away > AWAY && away / received.max(1) > SLEEP {
            let rests = self.next_rests.load(Ordering::Relaxed);
            self.rests.store(rests, Ordering::Relaxed);
            let next = (rests * 2).min(MOST_RESTS);
            self.next_rests.store(next, Ordering::Relaxed);
        }
        let rests = self.rests.load(Ordering::Relaxed);
        if rests > 0 {
            self.rests.store(rests - 1, Ordering::Relaxed);
            return 0;
        }
        self.window.load(Ordering::Relaxed)
    }

    /// Polls for at most `window` nanoseconds. Returns whether `is_there` returned true.
    pub(crate) fn look(&self, window: u64, is_there: &mut impl FnMut() -> bool) -> bool {
        if window == 0 {
            return is_there();
        }
        let start = Instant::now();
        let (mut last, mut away) = (0, 0);
        loop {
            let found = (0..LOOKS).any(|_| {
                std::hint::spin_loop();
                is_there()
            });
            let now = nanoseconds(start.elapsed());
            away = away.max(now - last);
            if found || now >= window {
                self.away.store(away.max(1), Ordering::Relaxed);
                return found;
            }
            last = now;
            std::thread::yield_now();
        }
    }

    /// Ends a wait that lasted `took`. `found` is true if the awaited item arrived.
    pub(crate) fn end(&self, took: Duration, found: bool) {
        let took = nanoseconds(took);
        let short = found && took <= self.longest;
        let window = if short {
            self.longest
        } else {
            self.longest.min(SLEEP)
        };
        self.window.store(window, Ordering::Relaxed);
        if short && (1..=AWAY).contains(&self.away.load(Ordering::Relaxed)) {
            self.next_rests.store(FEWEST_RESTS, Ordering::Relaxed);
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_micros(500);
    const SHORT: Duration = Duration::from_micros(300);
    const LONG: Duration = Duration::from_millis(10);

    #[test]
    fn short_waits_lengthen_polling_and_long_waits_reset_it() {
        let polling = Polling::new(LONGEST);
        assert_eq!(polling.begin(0), SLEEP);
        polling.end(SHORT, true);
        assert_eq!(polling.begin(1), 500_000);
        polling.end(LONG, true);
        assert_eq!(polling.begin(2), SLEEP);
        polling.end(SHORT, false);
        assert_eq!(polling.begin(2), SLEEP);
    }

    #[test]
    fn zero_limit_disables_polling() {
        let polling = Polling::new(Duration::ZERO);
        for progress in 0..5 {
            assert_eq!(polling.begin(progress), 0);
            polling.end(Duration::ZERO, true);
        }
        let mut looks = 0;
        let mut is_there = || {
            looks += 1;
            false
        };
        assert!(!polling.look(0, &mut is_there));
        assert_eq!(looks, 1);
    }

    #[test]
    fn waits_sleep_immediately_while_other_threads_need_the_core() {
        let polling = Polling::new(LONGEST);
        polling.end(SHORT, true);
        let mut progress = 0;
        let mut rests = FEWEST_RESTS;
        while rests < MOST_RESTS {
            polling.away.store(3_000_000, Ordering::Relaxed);
            for rest in 0..rests {
                progress += 10;
                assert_eq!(polling.begin(progress), 0, "rest {rest} of {rests}");
                polling.end(SHORT, true);
            }
            assert_eq!(polling.begin(progress), 500_000);
            rests *= 2;
        }
    }

    #[test]
    fn polling_continues_while_a_publisher_uses_the_core() {
        let polling = Polling::new(LONGEST);
        polling.end(SHORT, true);
        for burst in 1..10 {
            polling.away.store(3_000_000, Ordering::Relaxed);
            assert_eq!(polling.begin(burst * 10_000), 500_000);
        }
    }
}
