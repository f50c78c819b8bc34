//! Sends the replies of connections whose changes have become durable (J4).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use undercroft_commands::statistics::latency::Event;

use crate::worker::state::Worker;
use crate::worker::unsynced::Unsynced;

/// How long a thread that serves connections waits for a sync of another process.
const OWN_PATIENCE: Duration = Duration::from_millis(5);

impl Worker {
    /// Requests a sync for all changes of the round, so that one sync serves them together. If all
    /// connections of the thread wait for it, the thread has nothing else to do, and syncs the
    /// journal itself.
    pub(super) fn request_sync(&mut self) {
        let Some(position) = self.unsynced.take_request() else {
            return;
        };
        if self.has_only_unsynced() {
            let store = self.shared.store();
            let start = Instant::now();
            let synced = store.wait_until_durable(position, OWN_PATIENCE);
            self.shared.note_latency(Event::FsyncAlways, start);
            drop(store);
            match synced {
                Ok(()) => return self.send_durable(),
                Err(error) if error.is_busy() => {}
                Err(error) => {
                    self.shared.commits.fail_now(position, &error);
                    return self.send_durable();
                }
            }
        }
        self.shared.commits.request(position, self.index);
    }

    /// Returns whether all connections of the thread wait until their changes are durable.
    fn has_only_unsynced(&self) -> bool {
        let connections = &self.shared.threads[self.index].connections;
        self.queue.is_empty() && self.unsynced.tokens.len() == connections.load(Ordering::Relaxed)
    }

    /// Sends the replies of connections whose changes have become durable. Closes connections whose
    /// changes could not be made durable, because their replies would report a success.
    pub(super) fn send_durable(&mut self) {
        if self.unsynced.tokens.is_empty() {
            return;
        }
        let store = self.shared.store();
        let mut left = Vec::new();
        for token in std::mem::take(&mut self.unsynced.tokens) {
            let Some(connection) = self.connections.get(token) else {
                continue;
            };
            let Some(position) = connection.unsynced else {
                continue;
            };
            if store.is_durable(position) {
                let next = connection.synced(&self.limits, &mut self.space);
                self.settle(token, next);
            } else if self.shared.commits.has_failed(position) {
                self.close(token);
            } else {
                left.push(token);
            }
        }
        // Connections that were settled here may have been added again.
        left.append(&mut self.unsynced.tokens);
        self.unsynced.tokens = left;
    }

    /// Forgets the connections before the store is replaced. The caller must have closed them.
    pub(super) fn forget_unsynced(&mut self) {
        self.unsynced = Unsynced::default();
    }
}
