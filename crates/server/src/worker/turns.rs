//! Runs turns of connections with unexecuted commands, and retries commands that are waiting for a
//! lock.

use std::time::{Duration, Instant};

use undercroft_commands::Blocked;
use undercroft_commands::statistics::latency::Event;

use crate::connection::state::Next;
use crate::worker::state::Worker;

/// The maximum time that a command waits for a lock before it fails with an error.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// The maximum duration of the retries in one round.
const RETRY_TIME: Duration = Duration::from_millis(1);

impl Worker {
    /// Sends replies that were held back.
    pub(super) fn send_held(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        for token in held.drain(..) {
            if let Some(connection) = self.connections.get(token) {
                let next = connection.send_held(&self.limits, &mut self.space);
                self.settle(token, next);
            }
        }
        self.held = held;
    }

    /// Runs one turn for each connection in the queue.
    pub(super) fn take_turns(&mut self) {
        for _ in 0..self.queue.len() {
            let Some(token) = self.queue.pop_front() else {
                return;
            };
            let Some(connection) = self.connections.get(token) else {
                continue;
            };
            connection.queued = false;
            let (shared, limits) = (&*self.shared, &self.limits);
            let next = connection.run_rest(shared, limits, &mut self.space);
            self.settle(token, next);
        }
    }

    /// Queues the delayed connections whose time has come, and those that wait for replicas if their
    /// waits may have ended.
    pub(super) fn end_delays(&mut self, now: Instant) {
        while let Some(token) = self.delayed.take_due(now) {
            self.end_delay(token);
        }
        if self.delayed.waits() > 0 && self.shared.threads[self.index].take_ended_waits() {
            self.look_at_waits();
        }
    }

    /// Queues the connections that wait for replicas.
    pub(super) fn look_at_waits(&mut self) {
        for token in self.delayed.take_waits() {
            self.end_delay(token);
        }
    }

    fn end_delay(&mut self, token: u64) {
        if let Some(connection) = self.connections.get(token) {
            connection.is_delayed = false;
            if connection.session.waits_for_replicas() {
                connection.card.end_wait(&mut connection.session);
            }
            self.settle(token, Next::Turn);
        }
    }

    /// Retries the commands that are waiting for a lock, oldest first, for a limited time.
    pub(super) fn retry(&mut self, start: Instant) {
        let mut succeeded = false;
        for _ in 0..self.parked.tokens.len() {
            if start.elapsed() >= RETRY_TIME {
                break;
            }
            let Some(token) = self.parked.tokens.pop_front() else {
                break;
            };
            let Some(connection) = self.connections.get(token) else {
                continue;
            };
            let Some(since) = connection.parked else {
                continue;
            };
            let (shared, limits) = (&*self.shared, &self.limits);
            let mut next = connection.run_rest(shared, limits, &mut self.space);
            if matches!(next, Next::OwnThread) && !shared.has_own_thread() {
                next = Next::Park(Blocked::Long);
            }
            if let Next::Park(blocked @ (Blocked::Lock(_) | Blocked::Long)) = &next
                && since.elapsed() >= LONGEST_WAIT
            {
                connection.refuse_parked(blocked, shared, &mut self.space);
                // Another turn executes the rest of the connection's input, and can wait for a lock
                // again.
                next = Next::Turn;
            }
            if let Next::Park(blocked) = &next {
                if matches!(blocked, Blocked::Paused) {
                    // A pause does not count as waiting for a lock, so restart the measurement of
                    // the waiting time.
                    connection.parked = Some(Instant::now());
                }
                self.parked.tokens.push_back(token);
            } else {
                connection.parked = None;
                if connection.locked {
                    self.shared.note_latency(Event::LockWait, since);
                }
                self.shared.unpark();
                succeeded = true;
            }
            self.settle(token, next);
        }
        self.parked.plan_retry(succeeded);
    }
}
