//! Delivers messages, MONITOR lines, answers and invalidations to the connections of a thread.

use undercroft_engine::Error;

use crate::connection::state::Connection;
use crate::log::log;
use crate::shared::tracking::Push;
use crate::sockets::poll::Interest;
use crate::worker::state::{ANSWERS, HUB, TRACKED, Worker};

impl Worker {
    /// Passes newly arrived messages to the subscribed connections.
    pub(super) fn deliver(&mut self) {
        let mut hub = self.shared.hub(self.index);
        let rung = std::mem::take(&mut self.messages.rung);
        if !hub.is_active() && !rung {
            self.messages.no_bell = false;
            return;
        }
        if self.messages.bell.is_none() {
            self.messages.bell = hub.descriptor().ok();
            let added = self
                .messages
                .bell
                .as_ref()
                .map(|bell| self.poll.add(bell, HUB, Interest::READ));
            if !matches!(added, Some(Ok(()))) {
                // Try again in the next round. Until then, the thread checks for messages
                // periodically.
                self.messages.bell = None;
            }
        }
        self.messages.no_bell = self.messages.bell.is_none();
        self.messages.more = hub.collect(rung);
        let (parcels, lost) = (hub.take(), hub.take_lost());
        drop(hub);
        // No message that was published after a channel was revoked may reach the subscriber.
        self.check_users();
        let mut receivers = Vec::new();
        for (token, parcel) in parcels {
            if let Some(connection) = self.connections.get(token)
                && connection.post(&parcel, &self.limits, &mut self.space)
            {
                receivers.push(token);
            }
        }
        for token in receivers {
            if let Some(connection) = self.connections.get(token) {
                let next = connection.send_messages(&self.limits, &mut self.space);
                self.settle(token, next);
            }
        }
        if lost > 0 {
            log(format_args!(
                "{lost} messages were overwritten before they were sent; closing the connections \
                 that subscribe"
            ));
            let subscribed = |c: &mut Connection| !c.session.subscriptions.is_empty();
            for token in self.connections.tokens(subscribed) {
                self.close(token);
            }
        }
    }

    /// Passes newly arrived MONITOR lines to the connections that monitor.
    pub(super) fn show(&mut self) {
        if !self.shared.monitors.any() {
            return;
        }
        let Some(taken) = self.shared.monitors.take(self.index) else {
            return;
        };
        for (token, start) in taken.listeners {
            let Some(connection) = self.connections.get(token) else {
                continue;
            };
            let lines = &taken.lines[start..];
            if lines.is_empty() && !taken.overrun {
                continue;
            }
            let next = connection.send_lines(lines, &self.limits, &mut self.space);
            if taken.overrun {
                log(format_args!(
                    "closed a connection in MONITOR mode: it could not keep up with the commands"
                ));
                self.close(token);
            } else {
                self.settle(token, next);
            }
        }
    }

    /// Replies to connections whose commands are no longer blocked.
    pub(super) fn answer(&mut self) {
        let poll = (&self.poll, ANSWERS);
        for (token, answer) in self.blocked.answers(&self.shared, self.index, poll) {
            let Some(connection) = self.connections.get(token) else {
                continue;
            };
            if let Some(wait) = connection.session.waiting {
                self.blocked.end(&wait, &self.shared);
            }
            let next = connection.answer(&answer, &self.shared, &self.limits, &mut self.space);
            self.settle(token, next);
        }
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
            // Nothing else would clear a descriptor that has become readable, and it does so ten times
            // a second.
            self.leave_changes();
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
            let Some(connection) = self.connections.get(push.token) else {
                if shared.hub(self.index).holds(push.token) {
                    self.invalidations.keep(push);
                }
                continue;
            };
            if connection.push(&push, &self.limits, &mut self.space) {
                receivers.push(push.token);
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

    /// Forgets the descriptor, because no connection tracks keys or the store is about to be replaced.
    pub(super) fn leave_changes(&mut self) {
        if let Some(bell) = self.invalidations.bell.take() {
            let _ = self.poll.remove(&bell);
        }
        self.invalidations.rung = false;
    }
}
