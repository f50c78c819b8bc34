use std::hint;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The maximum time to poll before sleeping, and the number of checks before each yield to the
/// scheduler.
const WINDOW: Duration = Duration::from_micros(50);
const LOOKS: u32 = 4;
/// The backoff after a poll that found nothing: the initial and the maximum number of waits that
/// skip polling.
const RESTS: (u32, u32) = (1, 64);

/// The maximum time that a call waits for room or for a message.
#[derive(Clone, Copy, Debug)]
pub enum ChannelPatience {
    /// Does not wait.
    None,
    /// Waits until this time.
    Until(Instant),
    /// Waits without a limit.
    Ever,
}

impl ChannelPatience {
    /// Returns the patience of a call that begins now and waits for `timeout`. A timeout beyond the
    /// clock's range means an unlimited wait.
    pub fn of(timeout: Duration) -> ChannelPatience {
        match Instant::now().checked_add(timeout) {
            _ if timeout.is_zero() => ChannelPatience::None,
            Some(until) => ChannelPatience::Until(until),
            None => ChannelPatience::Ever,
        }
    }

    /// Returns the remaining time, or `None` if no time remains.
    pub fn left(&self) -> Option<Duration> {
        match self {
            ChannelPatience::None => None,
            ChannelPatience::Ever => Some(Duration::MAX),
            ChannelPatience::Until(until) => {
                let left = until.saturating_duration_since(Instant::now());
                (!left.is_zero()).then_some(left)
            }
        }
    }

    /// Returns the patience of a part of the wait that takes up to `most`, and whether it is the last
    /// part.
    pub(super) fn slice(&self, most: Duration) -> (ChannelPatience, bool) {
        match self.left() {
            Some(left) if left > most => (ChannelPatience::of(most), false),
            _ => (*self, true),
        }
    }

    /// Returns whether the call does not wait at all.
    pub(super) fn is_none(&self) -> bool {
        matches!(self, ChannelPatience::None)
    }
}

/// Backoff that decides whether to poll before sleeping, based on recent success.
#[derive(Debug)]
pub(super) struct Eagerness {
    rests: AtomicU32,
    next: AtomicU32,
}

impl Eagerness {
    pub(super) fn new() -> Eagerness {
        Eagerness {
            rests: AtomicU32::new(0),
            next: AtomicU32::new(RESTS.0),
        }
    }

    /// Polls for up to [`WINDOW`] and returns whether the condition became true. Returns false
    /// without polling during the backoff after a poll that found nothing.
    pub(super) fn look(&self, mut is_there: impl FnMut() -> bool) -> bool {
        let rests = self.rests.load(Ordering::Relaxed);
        if rests > 0 {
            self.rests.store(rests - 1, Ordering::Relaxed);
            return false;
        }
        let start = Instant::now();
        loop {
            for _ in 0..LOOKS {
                if is_there() {
                    self.next.store(RESTS.0, Ordering::Relaxed);
                    return true;
                }
                hint::spin_loop();
            }
            if start.elapsed() >= WINDOW {
                break;
            }
            thread::yield_now();
        }
        let next = self.next.load(Ordering::Relaxed);
        self.rests.store(next, Ordering::Relaxed);
        self.next.store((next * 2).min(RESTS.1), Ordering::Relaxed);
        false
    }
}
