//! Implements the event loop, which runs commands on the thread that receives them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::connection::state::{Connection, Next};
use crate::sockets::poll::{Events, Ready};
use crate::worker::mailbox::Message;
use crate::worker::state::{ANSWERS, HUB, LISTENERS, TRACKED, WAKER, Worker};

/// The maximum number of connections whose replies are held back. It is limited because the replies
/// of the first connection wait until the commands of the last one have run.
const HELD: usize = 16;
/// The interval between periodic checks of a thread's connections.
const LOOK: Duration = Duration::from_millis(1000);
/// The interval between checks for messages if no descriptor is available for notifications.
const WITHOUT_BELL: Duration = Duration::from_millis(10);

/// The interval between attempts to read the users after a failure.
const WITHOUT_USERS: Duration = Duration::from_millis(10);

impl Worker {
    /// Serves connections until the server stops.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::new();
        let mut next_look = Instant::now() + LOOK;
        let mut now = Instant::now();
        while !self.shared.stopping() {
            if self.shared.change.is_begun() {
                self.leave_store();
                self.shared.change.wait(|| self.shared.stopping());
                continue;
            }
            let patience = self.patience(next_look, now);
            self.shared.threads[self.index].set_busy(0);
            self.poll.wait(&mut events, patience)?;
            let store = Arc::clone(&self.shared.store());
            // No step of the loop waits until its changes are durable.
            now = store.deferring(|| self.round(&events, &mut next_look)).0;
        }
        Ok(())
    }

    /// Handles the events of one wait, and all other steps that are due. Returns the time of the
    /// timers' steps.
    fn round(&mut self, events: &Events, next_look: &mut Instant) -> Instant {
        self.blocked.awake(&self.shared, self.index);
        self.limits.refresh(&self.shared.process.config);
        let time = self.shared.process.now_microseconds() / 1000;
        self.shared.threads[self.index].set_busy(time);
        self.check_users();
        self.space.holds = events.are_many();
        for ready in events.iter() {
            self.event(ready, time);
            if self.held.len() == HELD {
                self.send_held();
            }
        }
        self.send_held();
        self.space.holds = false;
        self.end_delays(Instant::now());
        self.take_turns();
        self.send_durable();
        // All timers below and the next wait use this time.
        let now = Instant::now();
        if !self.parked.tokens.is_empty() && now >= self.parked.retry_at {
            self.retry(now);
        }
        // Deliver only after all steps that run commands, because a first subscription or a
        // newly blocked command must register its descriptor before the thread sleeps.
        self.deliver();
        self.answer();
        self.invalidate();
        self.request_sync();
        self.show();
        self.add_totals();
        if now >= *next_look {
            *next_look = now + LOOK;
            self.look_after_all(time);
            // Another process can have made the store a replica, which refuses WAIT.
            self.look_at_waits();
        }
        self.look_after_front(now);
        now
    }

    /// Returns the maximum duration of the next wait for events.
    pub(super) fn patience(&self, next_look: Instant, now: Instant) -> Duration {
        if !self.queue.is_empty() || self.messages.more {
            return Duration::ZERO;
        }
        let thread = &self.shared.threads[self.index];
        thread.set_waits(self.delayed.waits());
        if self.delayed.waits() > 0 && thread.has_ended_waits() {
            return Duration::ZERO;
        }
        let mut until = next_look;
        if !self.parked.tokens.is_empty() {
            until = until.min(self.parked.retry_at);
        }
        if let Some(next) = self.blocked.next(now) {
            until = until.min(next);
        }
        if let Some(next) = self.delayed.next() {
            until = until.min(next);
        }
        if self.users.is_none() {
            until = until.min(now + WITHOUT_USERS);
        }
        if let Some(next) = self.unsynced.next(now) {
            until = until.min(next);
        }
        if self.messages.no_bell || self.invalidations.is_late {
            until = until.min(now + WITHOUT_BELL);
        }
        if let Some(upkeep) = &self.upkeep {
            until = until.min(upkeep.next());
        }
        if let Some(resume) = self.paused_until {
            until = until.min(resume);
        }
        until.saturating_duration_since(now)
    }

    pub(super) fn event(&mut self, ready: Ready, now: i64) {
        match ready.token {
            WAKER => return self.take_messages(),
            HUB => return self.messages.rung = true,
            ANSWERS => return self.blocked.ring(),
            TRACKED => return self.invalidations.rung = true,
            token if token >= LISTENERS => return self.accept((token - LISTENERS) as usize),
            _ => {}
        }
        let token = ready.token;
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        let reads = connection.registered.is_some_and(|interest| interest.read);
        let next = if ready.readable && reads {
            if connection.unsynced.is_some() {
                // The input stays in the socket until the replies have been sent.
                return self.settle(token, Next::Wait);
            }
            connection.session.activity.last_command_at = now;
            let (shared, limits) = (&*self.shared, &self.limits);
            let session = &connection.session;
            if session.waiting.is_some() || session.waits_for_replicas() {
                let next = connection.read_ahead(limits, &mut self.space);
                return self.settle(token, next);
            }
            connection.read_and_run(shared, limits, &mut self.space)
        } else if ready.writable {
            connection.write(&self.limits, &mut self.space)
        } else if ready.hung_up {
            if connection.hang_up() {
                return self.close(token);
            }
            // Remove the socket from the epoll instance, because the event would otherwise be
            // reported again in every round.
            connection.registered = None;
            let _ = self.poll.remove(&connection.socket);
            return;
        } else {
            return;
        };
        self.settle(token, next);
    }

    pub(super) fn take_messages(&mut self) {
        let thread = &self.shared.threads[self.index];
        thread.waker.clear();
        let has_killed = thread.take_killed();
        for message in self.mailboxes.take(self.index) {
            match message {
                Message::Serve(accepted, session, card) => self.serve(accepted, *session, card),
                Message::Back(returned) => self.take_back(*returned),
            }
        }
        if has_killed {
            let is_killed = |c: &mut Connection| c.card.killed.load(Ordering::Acquire);
            for token in self.connections.tokens(is_killed) {
                self.close(token);
            }
        }
    }

    pub(super) fn add_totals(&mut self) {
        let (counters, traffic) = (
            std::mem::take(&mut self.counters),
            std::mem::take(&mut self.space.traffic),
        );
        self.shared.totals.add(counters, traffic);
    }

    pub(super) fn look_after_all(&mut self, now: i64) {
        self.space.spares.look_after();
        let limits = self.limits;
        // No message can arrive in a file that other processes can no longer find, so subscriptions
        // end, as waits do (M7).
        let is_over = self.shared.store().removed();
        let shared = self.shared.clone();
        let ends = |c: &mut Connection| {
            c.look_after(&shared, &limits, now) || is_over && !c.session.subscriptions.is_empty()
        };
        for token in self.connections.tokens(ends) {
            self.close(token);
        }
        for connection in self.connections.all() {
            connection.limit_parser(&limits);
        }
    }
}
