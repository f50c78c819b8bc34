//! Holds the state of one thread, and performs the next steps of connections after their turns.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use undercroft_commands::Blocked;
use undercroft_commands::session::Counters;
use undercroft_engine::messages::Topic;

use crate::connection::state::{Next, Workspace};
use crate::log::log;
use crate::replicas::serving;
use crate::shared::limits::Limits;
use crate::shared::state::Shared;
use crate::sockets::listener::Listener;
use crate::sockets::poll::{Interest, Poll};
use crate::worker::bell::Bell;
use crate::worker::blocked::Blocked as BlockedConnections;
use crate::worker::delayed::Delayed;
use crate::worker::invalidations::Invalidations;
use crate::worker::mailbox::{Mailboxes, Returned};
use crate::worker::own_thread;
use crate::worker::parked::Parked;
use crate::worker::slots::Slots;
use crate::worker::unsynced::Unsynced;
use crate::worker::upkeep::Upkeep;

/// Tokens that identify descriptors other than connections.
pub(super) const WAKER: u64 = u64::MAX;
pub(super) const HUB: u64 = u64::MAX - 1;
pub(super) const ANSWERS: u64 = u64::MAX - 2;
pub(super) const TRACKED: u64 = u64::MAX - 3;
pub(super) const LISTENERS: u64 = u64::MAX - 1024;

/// The state of one thread of the server.
pub(crate) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) mailboxes: Arc<Mailboxes>,
    /// The index of the thread.
    pub(super) index: usize,
    pub(super) poll: Poll,
    pub(super) connections: Slots,
    pub(super) space: Workspace,
    pub(super) limits: Limits,
    /// The tokens of the connections whose replies are held back.
    pub(super) held: Vec<u64>,
    /// The tokens of the connections with unexecuted commands, in the order of their turns.
    pub(super) queue: VecDeque<u64>,
    /// The connections whose next command is waiting for a lock.
    pub(super) parked: Parked,
    /// The connections whose login waits, or that wait for replicas.
    pub(super) delayed: Delayed,
    /// The stamp of the users that all connections of the thread have, or `None` if the users could
    /// not be read.
    pub(super) users: Option<u64>,
    /// The connections that are blocked on keys.
    pub(super) blocked: BlockedConnections,
    /// The connections whose replies wait until their changes are durable.
    pub(super) unsynced: Unsynced,
    pub(super) counters: Counters,
    /// The bell that announces messages for the thread's connections.
    pub(super) messages: Bell,
    /// The invalidations for the thread's connections.
    pub(super) invalidations: Invalidations,
    /// The listening sockets. Every idle thread accepts connections, so that no connection has to
    /// wait for a busy thread.
    pub(super) listeners: Arc<Vec<Listener>>,
    pub(super) paused_until: Option<Instant>,
    /// The state of the periodic work, which only the first thread performs.
    pub(super) upkeep: Option<Upkeep>,
}

/// Removes a connection from the lists and counts when it is closed, in whatever way its thread ends.
struct Closed {
    shared: Arc<Shared>,
    id: u64,
    thread: usize,
}

impl Drop for Closed {
    fn drop(&mut self) {
        self.shared.count_closed(self.id, self.thread);
    }
}

impl Worker {
    pub(crate) fn new(
        (shared, mailboxes): (Arc<Shared>, Arc<Mailboxes>),
        index: usize,
        poll: Poll,
        listeners: Arc<Vec<Listener>>,
    ) -> io::Result<Worker> {
        poll.add(&shared.threads[index].waker, WAKER, Interest::READ)?;
        for (token, listener) in (LISTENERS..).zip(&*listeners) {
            poll.add_shared(&listener.socket, token)?;
        }
        Ok(Worker {
            limits: Limits::of(&shared.process.config),
            shared,
            mailboxes,
            index,
            poll,
            connections: Slots::default(),
            space: Workspace::new(),
            held: Vec::new(),
            queue: VecDeque::new(),
            parked: Parked::new(),
            delayed: Delayed::default(),
            users: None,
            blocked: BlockedConnections::new(),
            unsynced: Unsynced::default(),
            counters: Counters::default(),
            messages: Bell::default(),
            invalidations: Invalidations::default(),
            listeners,
            paused_until: None,
            upkeep: (index == 0).then(Upkeep::new),
        })
    }

    /// Performs the next step of a connection after its turn.
    pub(super) fn settle(&mut self, token: u64, next: Next) {
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        let next = match next {
            Next::Send => return self.held.push(token),
            Next::OwnThread if !self.shared.take_own_thread() => Next::Park(Blocked::Long),
            next => next,
        };
        let counters = std::mem::take(&mut connection.session.activity.counters);
        self.counters.commands += counters.commands;
        self.counters.hits += counters.hits;
        self.counters.misses += counters.misses;
        self.counters.errors += counters.errors;
        let waits = connection.session.waits_for_replicas();
        if waits != connection.is_counted {
            connection.is_counted = waits;
            self.shared.block(if waits { 1 } else { -1 });
        }
        match &next {
            Next::Close => return self.close(token),
            Next::OwnThread => return self.run_on_own_thread(token),
            Next::Replica => return self.hand_over(token),
            Next::Wait | Next::Send => {}
            Next::Sync(position) => self.unsynced.add(token, *position),
            Next::Delay(delay) => {
                if !connection.is_delayed {
                    connection.is_delayed = true;
                    self.delayed.add(token, *delay);
                }
            }
            Next::Rest(time) => {
                if !connection.is_delayed {
                    connection.is_delayed = true;
                    self.delayed.add_wait(token, *time);
                }
            }
            Next::Turn => {
                if !connection.queued {
                    connection.queued = true;
                    self.queue.push_back(token);
                }
            }
            Next::Park(blocked) => {
                connection.locked = matches!(blocked, Blocked::Lock(_));
                if connection.parked.is_none() {
                    connection.parked = Some(Instant::now());
                    self.shared.park();
                    self.parked.add(token);
                }
            }
        }
        if let Some(wait) = &connection.session.waiting {
            self.blocked.add(wait, token, &self.shared);
        }
        connection.update_card();
        let registered = connection.registered.unwrap_or_default();
        let interest = match next {
            // Most clients send nothing until they get their replies.
            Next::Sync(_) if !registered.write => return,
            _ => connection.interest(&self.limits),
        };
        if connection.registered.is_some_and(|old| old != interest) {
            connection.registered = Some(interest);
            if self
                .poll
                .modify(&connection.socket, token, interest)
                .is_err()
            {
                self.close(token);
            }
        }
    }

    /// Moves a connection to a separate thread, which runs its next command.
    pub(super) fn run_on_own_thread(&mut self, token: u64) {
        let Some(mut connection) = self.connections.lend(token) else {
            return;
        };
        // Remove the socket from the epoll instance, because its events cannot be handled while the
        // connection is on another thread.
        if connection.registered.take().is_some() {
            let _ = self.poll.remove(&connection.socket);
        }
        self.shared
            .hub(self.index)
            .hold(token, self.limits.messages.hard);
        if let Err(connection) =
            own_thread::run((&self.shared, &self.mailboxes), self.limits, connection)
        {
            log(format_args!(
                "closed a client: its script takes long, and no thread could be started for it"
            ));
            self.shared.return_own_thread();
            self.connections.give_back(token, connection);
            self.close(token);
        }
    }

    /// Takes back a connection whose script has run on a separate thread.
    pub(super) fn take_back(&mut self, returned: Returned) {
        let Returned {
            mut connection,
            next,
            traffic,
        } = returned;
        self.shared.return_own_thread();
        let token = connection.session.peer.route.1;
        let is_killed = connection.card.killed.load(Ordering::Acquire);
        let messages = self.shared.hub(self.index).release(token);
        let is_added = self
            .poll
            .add(&connection.socket, token, Interest::READ)
            .is_ok();
        connection.registered = Some(Interest::READ);
        self.space.traffic.add(traffic);
        let Some(messages) = messages.filter(|_| is_added && !is_killed) else {
            self.connections.give_back(token, connection);
            return self.close(token);
        };
        for message in messages {
            connection.post(&message, &self.limits, &mut self.space);
        }
        // The users may have changed while the connection was away.
        self.users = None;
        let next = match next {
            Next::Wait if connection.has_output() => {
                connection.write(&self.limits, &mut self.space)
            }
            next => next,
        };
        self.connections.give_back(token, connection);
        self.settle(token, next);
    }

    /// Hands a connection over to the threads that serve replicas.
    fn hand_over(&mut self, token: u64) {
        let Some(mut connection) = self.connections.remove(token) else {
            return;
        };
        if connection.session.tracking.take().is_some() {
            self.shared.tracking.end(connection.card.id);
        }
        connection.update_card();
        if connection.registered.take().is_some() {
            let _ = self.poll.remove(&connection.socket);
        }
        let closed = Closed {
            shared: self.shared.clone(),
            id: connection.card.id,
            thread: self.index,
        };
        serving::start(&self.shared, connection.into_replica(), closed);
    }

    pub(super) fn close(&mut self, token: u64) {
        let Some(mut connection) = self.connections.remove(token) else {
            return;
        };
        connection.socket.say_goodbye();
        if connection.parked.is_some() {
            self.parked.tokens.retain(|parked| *parked != token);
            self.shared.unpark();
        }
        if let Some(wait) = &connection.session.waiting {
            self.blocked.give_up(wait, &self.shared, self.index);
        }
        if connection.is_counted {
            self.shared.block(-1);
        }
        self.delayed.remove(token);
        if connection.session.tracking.is_some() {
            self.shared.tracking.end(connection.card.id);
        }
        if connection.session.monitors {
            self.shared.monitors.end((self.index, token));
        }
        for topic in Topic::ALL {
            let names: Vec<&[u8]> = connection
                .session
                .subscriptions
                .names(topic)
                .map(Vec::as_slice)
                .collect();
            if !names.is_empty() {
                self.shared
                    .hub(self.index)
                    .unsubscribe(token, topic, &names);
            }
        }
        self.shared.count_closed(connection.card.id, self.index);
        // Dropping the connection closes its socket, which removes the socket from the epoll
        // instance.
    }
}
