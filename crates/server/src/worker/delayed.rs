//! Manages the connections of one thread whose command rests: logins that wait, because earlier logins
//! have failed, and commands that wait for replicas.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// The connections whose command rests.
#[derive(Default)]
pub(super) struct Delayed {
    /// The connections with a time of their next turn.
    due: BTreeSet<(Instant, u64)>,
    /// The connections that wait for replicas, each with the time in `due`, if there is one.
    waits: HashMap<u64, Option<Instant>>,
}

impl Delayed {
    /// Adds a connection.
    pub(super) fn add(&mut self, token: u64, delay: Duration) {
        self.due.insert((Instant::now() + delay, token));
    }

    /// Adds a connection that waits for replicas, at most for a time.
    pub(super) fn add_wait(&mut self, token: u64, time: Option<Duration>) {
        // If the time exceeds the range of the clock, the wait never times out.
        let due = time.and_then(|time| Instant::now().checked_add(time));
        self.due.extend(due.map(|due| (due, token)));
        self.waits.insert(token, due);
    }

    /// Returns the number of connections that wait for replicas.
    pub(super) fn waits(&self) -> usize {
        self.waits.len()
    }

    /// Removes and returns the connections that wait for replicas.
    pub(super) fn take_waits(&mut self) -> Vec<u64> {
        let tokens: Vec<u64> = self.waits.keys().copied().collect();
        tokens.iter().for_each(|token| self.remove(*token));
        tokens
    }

    /// Removes a connection that waits for replicas, if it is one.
    pub(super) fn remove(&mut self, token: u64) {
        if let Some(Some(due)) = self.waits.remove(&token) {
            self.due.remove(&(due, token));
        }
    }

    /// Returns the time of the next turn of any connection.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(time, _)| *time)
    }

    /// Removes and returns a connection whose turn has come. It may have been closed since.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<u64> {
        let (time, token) = *self.due.first()?;
        (time <= now).then(|| {
            self.due.pop_first();
            self.waits.remove(&token);
            token
        })
    }
}
