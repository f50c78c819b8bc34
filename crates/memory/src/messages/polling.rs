//! How long a waiter looks again and again before it sleeps.
//!
//! To sleep and be woken costs two system calls and two changes of threads, and
//! on a core that went idle many times that. So who waits looks for a moment
//! first, about as long as sleeping costs; and where its last wait was short,
//! for as long as a whole such wait. Between two looks it offers its core to
//! other threads. Where one of them kept the core for long and little had come
//! meanwhile, there is more work than cores: the next waits sleep at once, as
//! the kernel then prefers who was asleep.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// About what it costs to sleep and to be woken.
const SLEEP: u64 = 20_000;
/// A core that was given away for longer than this is wanted by others.
const AWAY: u64 = 50_000;
/// Looks before the core is offered to others.
const LOOKS: u32 = 16;
/// Waits that sleep at once after others wanted the core: at first, and at most.
const FEWEST_RESTS: u32 = 16;
const MOST_RESTS: u32 = 4096;

/// How long a waiter looks before it sleeps, as its last waits have shown.
/// Times are in nanoseconds.
#[derive(Debug)]
pub struct Polling {
    longest: u64,
    window: AtomicU64,
    /// For how long the core was given away while the last wait looked, which
    /// is none where it did not look.
    away: AtomicU64,
    /// What had been received when it began.
    progress: AtomicU64,
    /// Waits yet to sleep at once, and how many it will be the next time.
    rests: AtomicU32,
    next_rests: AtomicU32,
}

impl Polling {
    /// Looks for so long at most; not at all, where that is zero.
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

    /// A wait begins, when so much was received. Returns for how long to look.
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

    /// Looks for at most so many nanoseconds. Returns whether it is there.
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

    /// The wait ended: after so long what was waited for was there, or it was
    /// not.
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
    fn short_waits_are_looked_through_and_long_ones_slept_through() {
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
    fn who_is_told_not_to_look_never_does() {
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
    fn where_others_want_the_core_it_is_left_to_them() {
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
    fn a_core_given_to_a_publisher_was_well_used() {
        let polling = Polling::new(LONGEST);
        polling.end(SHORT, true);
        for burst in 1..10 {
            polling.away.store(3_000_000, Ordering::Relaxed);
            assert_eq!(polling.begin(burst * 10_000), 500_000);
        }
    }
}
