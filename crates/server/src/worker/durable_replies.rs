//! Sends the replies of connections whose changes have become durable (J4).

use crate::worker::state::Worker;
use crate::worker::unsynced::Unsynced;

impl Worker {
    /// Requests a sync for all changes of the round, so that one sync serves them together.
    pub(super) fn request_sync(&mut self) {
        if let Some(position) = self.unsynced.take_request() {
            self.shared.commits.request(position, self.index);
        }
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
