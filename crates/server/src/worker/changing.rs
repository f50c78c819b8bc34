//! Switches a thread to the store that now has the served store's name.

use crate::worker::state::Worker;

impl Worker {
    /// Closes the connections that reference state in a store that is about to be replaced.
    pub(super) fn leave_store(&mut self) {
        for token in self.connections.tokens(|c| c.holds_of_store()) {
            self.close(token);
        }
        self.forget_unsynced();
        if let Some(bell) = self.messages.bell.take() {
            let _ = self.poll.remove(&bell);
        }
        self.messages.rung = false;
        self.messages.more = false;
        self.leave_changes();
        self.blocked.leave(&self.poll);
    }

    #[cold]
    pub(super) fn try_change(&mut self) {
        let changed = self.change_store();
        if let Some(upkeep) = &mut self.upkeep {
            upkeep.has_changed(&self.shared, changed);
        }
    }

    /// Switches to the store that now has the served store's name, while all threads are stopped.
    /// Returns whether the switch took place.
    pub(super) fn change_store(&mut self) -> Result<bool, String> {
        let shared = self.shared.clone();
        let Some(reopen) = shared.change.reopen() else {
            return Ok(false);
        };
        let store = reopen(&shared.process.config)?;
        shared.define_users(&store)?;
        self.leave_store();
        let wake = || shared.threads.iter().for_each(|it| it.waker.wake());
        let others = shared.threads.len() - 1;
        let stopped = shared.change.begin(others, wake, || shared.stopping());
        let changes = stopped && shared.has_all_back();
        if changes {
            shared.change_to(store);
        }
        shared.change.end();
        Ok(changes)
    }
}
