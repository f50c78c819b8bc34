//! Lists the connections of one thread whose changes are not durable yet, in the mode `always` (J4).

use std::time::{Duration, Instant};

/// The interval at which the positions are checked even if no sync is reported (M4).
const RECHECK: Duration = Duration::from_millis(100);

/// The connections of one thread whose replies wait for the disk.
#[derive(Default)]
pub(super) struct Unsynced {
    /// The tokens of the connections, in the order of their changes. A token can be listed twice.
    pub(super) tokens: Vec<u64>,
    /// The highest position for which a connection waits.
    position: u64,
    /// The highest position for which a sync was requested.
    requested: u64,
}

impl Unsynced {
    /// Adds a connection whose replies wait until a position is durable.
    pub(super) fn add(&mut self, token: u64, position: u64) {
        self.tokens.push(token);
        self.position = self.position.max(position);
    }

    /// Returns the position up to which a sync must be requested, and records that it is.
    pub(super) fn take_request(&mut self) -> Option<u64> {
        let is_new = self.position > self.requested;
        self.requested = self.position;
        is_new.then_some(self.position)
    }

    /// Returns the time of the next check.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        (!self.tokens.is_empty()).then(|| now + RECHECK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_position_is_requested_once() {
        let mut unsynced = Unsynced::default();
        assert_eq!(unsynced.take_request(), None);
        unsynced.add(1, 10);
        unsynced.add(2, 30);
        unsynced.add(3, 20);
        assert_eq!(unsynced.take_request(), Some(30));
        assert_eq!(unsynced.take_request(), None);
        unsynced.add(1, 40);
        assert_eq!(unsynced.take_request(), Some(40));
        assert_eq!(unsynced.tokens, [1, 2, 3, 1]);
    }
}
