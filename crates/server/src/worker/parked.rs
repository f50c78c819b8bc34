//! Manages the connections of one thread whose next command is waiting for a lock.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The pause before the first retry. Later pauses grow up to `LAST_RETRY`.
const FIRST_RETRY: Duration = Duration::from_millis(1);
const LAST_RETRY: Duration = Duration::from_millis(16);

/// The parked connections and the time of their next retry.
pub(super) struct Parked {
    /// The tokens of the parked connections, in the order of their retries.
    pub(super) tokens: VecDeque<u64>,
    pub(super) retry_at: Instant,
    retry_delay: Duration,
}

impl Parked {
    pub(super) fn new() -> Parked {
        Parked {
            tokens: VecDeque::new(),
            retry_at: Instant::now(),
            retry_delay: FIRST_RETRY,
        }
    }

    /// Adds a connection.
    pub(super) fn add(&mut self, token: u64) {
        if self.tokens.is_empty() {
            self.retry_delay = FIRST_RETRY;
            self.retry_at = Instant::now() + FIRST_RETRY;
        }
        self.tokens.push_back(token);
    }

    /// Schedules the next round of retries.
    pub(super) fn plan_retry(&mut self, has_succeeded: bool) {
        self.retry_delay = if has_succeeded {
            FIRST_RETRY
        } else {
            (self.retry_delay * 2).min(LAST_RETRY)
        };
        self.retry_at = Instant::now() + self.retry_delay;
    }
}
