//! Passes invalidations of keys to the connections that track them.

use std::os::fd::OwnedFd;

use undercroft_engine::Error;

use crate::shared::tracking::Push;
use crate::sockets::poll::Interest;
use crate::worker::state::{TRACKED, Worker};

/// The maximum number of invalidations that are kept for connections on separate threads. Beyond it,
/// one invalidation of all keys replaces those of each connection.
const KEPT: usize = 1000;

/// The state of a thread that concerns changed keys.
#[derive(Default)]
pub(super) struct Invalidations {
    /// The descriptor that becomes readable when keys were changed. Only the first thread has it.
    pub(super) bell: Option<OwnedFd>,
    /// Whether the descriptor was readable in this round.
    pub(super) rung: bool,
    /// Whether changed keys could not be collected because of a lock, or cannot be waited for.
    pub(super) is_late: bool,
    /// The pushes for connections that are currently on another thread.
    kept: Vec<Push>,
}

impl Invalidations {
    fn keep(&mut self, push: Push) {
        if self.kept.len() < KEPT {
            return self.kept.push(push);
        }
        let mut all: Vec<Push> = self.kept.drain(..).chain([push]).collect();
        all.sort_by_key(|push| push.token);
        all.dedup_by_key(|push| push.token);
        self.kept = all.iter().map(Push::all_of).collect();
    }
}

impl Worker {
    /// Collects changed keys, and sends the invalidations for the thread's connections. Takes two
    /// loads if no connection tracks keys.
    pub(super) fn invalidate(&mut self) {
        let shared = self.shared.clone();
        if shared.tracking.any() {
            self.invalidations.is_late = self.collect_changes().is_err();
        } else {
            self.invalidations.is_late = false;
        }
        if !shared.tracking.has_any_for(self.index) && self.invalidations.kept.is_empty() {
            return;
        }
        let mut pushes = std::mem::take(&mut self.invalidations.kept);
        pushes.extend(shared.tracking.take(self.index));
        // No key may be named whose right was revoked before it was changed.
        self.check_users();
        let mut waits = |push: &Push| {
            let connection = self.connections.get(push.token);
            connection.is_some_and(|connection| connection.session.waiting.is_some())
        };
        if pushes.iter().any(&mut waits) {
            // A change that answers a connection is invalidated after the answer, as in Redis.
            self.blocked.ring();
            self.answer();
        }
        let mut receivers = Vec::new();
        for push in pushes {
            match self.connections.get(push.token) {
                Some(connection) => {
                    if connection.push(&push, &self.limits, &mut self.space) {
                        receivers.push(push.token);
                    }
                }
                None if shared.hub(self.index).holds(push.token) => self.invalidations.keep(push),
                None => {}
            }
        }
        for token in receivers {
            if let Some(connection) = self.connections.get(token) {
                let next = connection.send_messages(&self.limits, &mut self.space);
                self.settle(token, next);
            }
        }
    }

    /// Collects changed keys. On the first thread, also prepares to be woken by the next change.
    fn collect_changes(&mut self) -> Result<(), Error> {
        let shared = &self.shared;
        shared.collect_changes()?;
        if self.index != 0 {
            return Ok(());
        }
        let state = &mut self.invalidations;
        let rung = std::mem::take(&mut state.rung);
        if state.bell.is_none() {
            state.bell = shared.tracking.descriptor();
            let bell = state.bell.as_ref();
            let added = bell.map(|bell| self.poll.add(bell, TRACKED, Interest::READ));
            if !matches!(added, Some(Ok(()))) {
                // Try again in the next round.
                state.bell = None;
                return Err(Error::Overflow);
            }
        }
        match shared.tracking.arm(rung) {
            true => shared.collect_changes(),
            false => Ok(()),
        }
    }

    /// Forgets the descriptor of a store that is about to be replaced.
    pub(super) fn leave_changes(&mut self) {
        if let Some(bell) = self.invalidations.bell.take() {
            let _ = self.poll.remove(&bell);
        }
        self.invalidations.rung = false;
    }
}
