//! Manages the connections of one thread whose login waits, because earlier logins have failed.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The delayed connections, by the time of their next turn.
#[derive(Default)]
pub(super) struct Delayed {
    tokens: BTreeSet<(Instant, u64)>,
}

impl Delayed {
    /// Adds a connection.
    pub(super) fn add(&mut self, token: u64, delay: Duration) {
        self.tokens.insert((Instant::now() + delay, token));
    }

    /// Returns the time of the next turn of any connection.
    pub(super) fn next(&self) -> Option<Instant> {
        self.tokens.first().map(|(time, _)| *time)
    }

    /// Removes and returns a connection whose turn has come. It may have been closed since.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<u64> {
        let (time, token) = *self.tokens.first()?;
        (time <= now).then(|| {
            self.tokens.pop_first();
            token
        })
    }
}
