//! Closes connections whose users were deleted or may no longer use their subscriptions.

use crate::connection::state::Connection;
use crate::worker::state::Worker;

impl Worker {
    /// Looks up the users of all connections of the thread again, if the users have changed, and closes
    /// the connections that have lost rights. Must run before messages are delivered. Takes two
    /// atomic loads if nothing has changed.
    #[inline]
    pub(super) fn check_users(&mut self) {
        let stamp = self
            .shared
            .process
            .users
            .stamp(&self.shared.store().access());
        if self.users != Some(stamp) {
            self.check_changed_users();
        }
    }

    #[cold]
    fn check_changed_users(&mut self) {
        let shared = self.shared.clone();
        let store = shared.store();
        let Ok((stamp, users)) = shared.process.users.now(store.access()) else {
            // Another process holds a lock. Connections run no commands in the meantime.
            self.users = None;
            return;
        };
        self.users = Some(stamp);
        let loses = |connection: &mut Connection| {
            // The login may already be current, if the connection has run a command since.
            connection.session.login.refresh(&users, stamp);
            connection.session.loses_rights()
        };
        for token in self.connections.tokens(loses) {
            self.close(token);
        }
        for connection in self.connections.all() {
            connection.update_card();
        }
    }
}
