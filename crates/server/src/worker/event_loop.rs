//! One thread: an event loop that runs commands right where their bytes arrive.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::net::{SendFlags, send};
use undercroft_commands::Blocked;
use undercroft_commands::host::Connections;
use undercroft_commands::latency::Event;
use undercroft_commands::session::{Counters, Session};
use undercroft_engine::Topic;

use crate::apart::{self, Returned};
use crate::blocked::Blocked as BlockedConnections;
use crate::connection::{Connection, Next, Workspace};
use crate::limits::Limits;
use crate::listener::{Accepted, Listener, tune};
use crate::log::log;
use crate::poll::{Events, Interest, Poll, Ready};
use crate::registry::Card;
use crate::shared::{Message, Shared};
use crate::upkeep::Upkeep;

/// Tokens from here on are not connections.
const WAKER: u64 = u64::MAX;
const HUB: u64 = u64::MAX - 1;
const ANSWERS: u64 = u64::MAX - 2;
const LISTENERS: u64 = u64::MAX - 1024;
/// Connections whose replies wait for one another at most: the first of them for the commands of so many.
const HELD: usize = 16;
/// Connections accepted in one round at most.
const ACCEPTS: usize = 256;
/// Between two looks at all connections of a thread.
const LOOK: Duration = Duration::from_millis(1000);
/// How long a command waits for a lock before it is answered with an error.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Between two tries of commands that wait for a lock: at first, and at most.
const FIRST_RETRY: Duration = Duration::from_millis(1);
const LAST_RETRY: Duration = Duration::from_millis(16);
/// Spent on tries in one round at most.
const RETRY_TIME: Duration = Duration::from_millis(1);
/// Between two looks for messages where nothing can tell of them: the system has no descriptor left.
const WITHOUT_BELL: Duration = Duration::from_millis(10);
/// Accepting pauses for this long where the system has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A thread of the server.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    /// Its place among the threads.
    index: usize,
    poll: Poll,
    connections: Slots,
    space: Workspace,
    limits: Limits,
    /// Connections whose replies are held back.
    held: Vec<u64>,
    /// Connections with commands left, in the order of their turns.
    queue: VecDeque<u64>,
    /// Connections whose next command waits for a lock.
    parked: VecDeque<u64>,
    /// Connections whose command waits for keys.
    blocked: BlockedConnections,
    retry_at: Instant,
    retry_delay: Duration,
    counters: Counters,
    /// Readable when messages come for its connections; from the first subscription on.
    bell: Option<OwnedFd>,
    /// It was readable in this round.
    rung: bool,
    /// The last round left messages in the ring.
    more_messages: bool,
    /// Messages are awaited, and the bell could not be had.
    no_bell: bool,
    /// Where connections come in: at each thread that waits, so that none waits for one that works.
    listeners: Arc<Vec<Listener>>,
    paused_until: Option<Instant>,
    /// Of the first thread only.
    upkeep: Option<Upkeep>,
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        index: usize,
        poll: Poll,
        listeners: Arc<Vec<Listener>>,
    ) -> io::Result<Worker> {
        poll.add(&shared.mailboxes[index].waker, WAKER, Interest::READ)?;
        for (token, listener) in (LISTENERS..).zip(&*listeners) {
            poll.add_shared(&listener.socket, token)?;
        }
        Ok(Worker {
            limits: Limits::of(&shared.process.config),
            shared,
            index,
            poll,
            connections: Slots::default(),
            space: Workspace::new(),
            held: Vec::new(),
            queue: VecDeque::new(),
            parked: VecDeque::new(),
            blocked: BlockedConnections::new(),
            retry_at: Instant::now(),
            retry_delay: FIRST_RETRY,
            counters: Counters::default(),
            bell: None,
            rung: false,
            more_messages: false,
            no_bell: false,
            listeners,
            paused_until: None,
            upkeep: (index == 0).then(Upkeep::new),
        })
    }

    /// Serves until the server stops.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::new();
        let mut now = Instant::now();
        let mut next_look = now + LOOK;
        while !self.shared.stopping() {
            if self.shared.change.is_begun() {
                self.leave_store();
                self.shared.change.wait(|| self.shared.stopping());
                continue;
            }
            let patience = self.patience(next_look, now);
            self.shared.mailboxes[self.index].set_busy(0);
            self.poll.wait(&mut events, patience)?;
            self.blocked.awake(&self.shared, self.index);
            self.limits.refresh(&self.shared.process.config);
            let time = self.shared.process.now_microseconds() / 1000;
            self.shared.mailboxes[self.index].set_busy(time);
            self.space.holds = events.are_many();
            for ready in events.iter() {
                self.event(ready, time);
                if self.held.len() == HELD {
                    self.send_held();
                }
            }
            self.send_held();
            self.space.holds = false;
            self.take_turns();
            // For all that is due, and for the next wait.
            now = Instant::now();
            if !self.parked.is_empty() && now >= self.retry_at {
                self.retry(now);
            }
            // Behind all that runs commands: the first that subscribes or waits needs a bell before the thread sleeps.
            self.deliver();
            self.answer();
            self.show();
            self.add_totals();
            if now >= next_look {
                next_look = now + LOOK;
                self.look_after_all(time);
            }
            self.look_after_front(now);
        }
        Ok(())
    }

    /// How long the next wait may be.
    fn patience(&self, next_look: Instant, now: Instant) -> Duration {
        if !self.queue.is_empty() || self.more_messages {
            return Duration::ZERO;
        }
        let mut until = next_look;
        if !self.parked.is_empty() {
            until = until.min(self.retry_at);
        }
        if let Some(next) = self.blocked.next(now) {
            until = until.min(next);
        }
        if self.no_bell {
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

    fn event(&mut self, ready: Ready, now: i64) {
        match ready.token {
            WAKER => return self.take_messages(),
            HUB => return self.rung = true,
            ANSWERS => return self.blocked.ring(),
            token if token >= LISTENERS => return self.accept((token - LISTENERS) as usize),
            _ => {}
        }
        let token = ready.token;
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        let reads = connection.registered.is_some_and(|interest| interest.read);
        let next = if ready.readable && reads {
            connection.session.last_command_at = now;
            let (shared, limits) = (&*self.shared, &self.limits);
            if connection.session.waiting.is_some() {
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
            // It would be reported again and again.
            connection.registered = None;
            let _ = self.poll.remove(&connection.socket);
            return;
        } else {
            return;
        };
        self.settle(token, next);
    }

    /// Sends the replies that were held back.
    fn send_held(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        for token in held.drain(..) {
            if let Some(connection) = self.connections.get(token) {
                let next = connection.send_held(&self.limits, &mut self.space);
                self.settle(token, next);
            }
        }
        self.held = held;
    }

    /// Does what a connection needs after its turn.
    fn settle(&mut self, token: u64, next: Next) {
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        let next = match next {
            Next::Send => return self.held.push(token),
            Next::Apart if !self.shared.take_apart() => Next::Park(Blocked::Long),
            next => next,
        };
        let counters = std::mem::take(&mut connection.session.counters);
        self.counters.commands += counters.commands;
        self.counters.hits += counters.hits;
        self.counters.misses += counters.misses;
        self.counters.errors += counters.errors;
        match next {
            Next::Close => return self.close(token),
            Next::Apart => return self.set_apart(token),
            Next::Wait | Next::Send => {}
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
                    if self.parked.is_empty() {
                        self.retry_delay = FIRST_RETRY;
                        self.retry_at = Instant::now() + FIRST_RETRY;
                    }
                    self.parked.push_back(token);
                }
            }
        }
        if let Some(wait) = &connection.session.waiting {
            self.blocked.add(wait, token, &self.shared);
        }
        connection.update_card();
        let interest = connection.interest(&self.limits);
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

    /// Hands the messages that have come to the connections that they are for.
    fn deliver(&mut self) {
        let mut hub = self.shared.hub(self.index);
        let rung = std::mem::take(&mut self.rung);
        if !hub.is_active() && !rung {
            self.no_bell = false;
            return;
        }
        if self.bell.is_none() {
            self.bell = hub.descriptor().ok();
            let added = self
                .bell
                .as_ref()
                .map(|bell| self.poll.add(bell, HUB, Interest::READ));
            if !matches!(added, Some(Ok(()))) {
                // The next round tries again; until then each looks for messages by itself.
                self.bell = None;
            }
        }
        self.no_bell = self.bell.is_none();
        self.more_messages = hub.collect(rung);
        let (parcels, lost) = (hub.take(), hub.take_lost());
        drop(hub);
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
                "{lost} messages were overwritten before they could be sent; closing the connections that subscribe"
            ));
            let subscribed = |c: &mut Connection| !c.session.subscriptions.is_empty();
            for token in self.connections.tokens(subscribed) {
                self.close(token);
            }
        }
    }

    /// Hands the lines that have come to the connections that monitor.
    fn show(&mut self) {
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
                    "a connection that monitors is closed: there was more than it can be shown"
                ));
                self.close(token);
            } else {
                self.settle(token, next);
            }
        }
    }

    /// Answers the connections whose wait for keys is over.
    fn answer(&mut self) {
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

    /// Gives each connection in the queue one turn.
    fn take_turns(&mut self) {
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

    /// Tries commands that wait for a lock again, the oldest first, for a bounded time.
    fn retry(&mut self, start: Instant) {
        let mut succeeded = false;
        for _ in 0..self.parked.len() {
            if start.elapsed() >= RETRY_TIME {
                break;
            }
            let Some(token) = self.parked.pop_front() else {
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
            if matches!(next, Next::Apart) && !shared.has_apart() {
                next = Next::Park(Blocked::Long);
            }
            if let Next::Park(blocked @ (Blocked::Lock(_) | Blocked::Long)) = &next
                && since.elapsed() >= LONGEST_WAIT
            {
                connection.refuse_parked(blocked, shared, &mut self.space);
                // The rest of its input has its own wait before it.
                next = Next::Turn;
            }
            if let Next::Park(blocked) = &next {
                if matches!(blocked, Blocked::Paused) {
                    // A pause is no wait for a lock: that begins behind it.
                    connection.parked = Some(Instant::now());
                }
                self.parked.push_back(token);
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
        self.retry_delay = if succeeded {
            FIRST_RETRY
        } else {
            (self.retry_delay * 2).min(LAST_RETRY)
        };
        self.retry_at = Instant::now() + self.retry_delay;
    }

    /// Has a connection's next command run by a thread of its own.
    fn set_apart(&mut self, token: u64) {
        let Some(mut connection) = self.connections.lend(token) else {
            return;
        };
        // Its events would find nobody.
        if connection.registered.take().is_some() {
            let _ = self.poll.remove(&connection.socket);
        }
        self.shared
            .hub(self.index)
            .hold(token, self.limits.messages.hard);
        if let Err(connection) = apart::run(&self.shared, self.limits, connection) {
            log(format_args!(
                "a client is closed: its script takes long, and no thread can be started for it"
            ));
            self.shared.return_apart();
            self.connections.give_back(token, connection);
            self.close(token);
        }
    }

    /// A connection is at hand again, whose script has run elsewhere.
    fn take_back(&mut self, returned: Returned) {
        let Returned {
            mut connection,
            next,
            moved,
        } = returned;
        let token = connection.session.route.1;
        let is_killed = connection.card.killed.load(Ordering::Acquire);
        let messages = self.shared.hub(self.index).release(token);
        let is_added = self
            .poll
            .add(&connection.socket, token, Interest::READ)
            .is_ok();
        connection.registered = Some(Interest::READ);
        self.space.moved.add(moved);
        let Some(messages) = messages.filter(|_| is_added && !is_killed) else {
            self.connections.give_back(token, connection);
            return self.close(token);
        };
        for message in messages {
            connection.post(&message, &self.limits, &mut self.space);
        }
        let next = match next {
            Next::Wait if connection.has_output() => {
                connection.write(&self.limits, &mut self.space)
            }
            next => next,
        };
        self.connections.give_back(token, connection);
        self.settle(token, next);
    }

    fn take_messages(&mut self) {
        let mailbox = &self.shared.mailboxes[self.index];
        mailbox.waker.clear();
        for message in mailbox.take() {
            match message {
                Message::Serve(accepted, session, card) => self.serve(accepted, *session, card),
                Message::Back(returned) => self.take_back(*returned),
                Message::Kill => {
                    for token in self
                        .connections
                        .tokens(|c| c.card.killed.load(Ordering::Acquire))
                    {
                        self.close(token);
                    }
                }
            }
        }
    }

    fn serve(&mut self, accepted: Accepted, session: Session, card: Arc<Card>) {
        let connection = Connection::new(accepted.socket, session, card, &self.limits);
        let token = self.connections.add(connection);
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        connection.session.route = (self.index, token);
        connection.registered = Some(Interest::READ);
        if let Err(error) = self.poll.add(&connection.socket, token, Interest::READ) {
            log(format_args!("a connection cannot be served: {error}"));
            self.close(token);
        }
    }

    fn close(&mut self, token: u64) {
        let Some(connection) = self.connections.remove(token) else {
            return;
        };
        if connection.parked.is_some() {
            self.parked.retain(|parked| *parked != token);
            self.shared.unpark();
        }
        if let Some(wait) = &connection.session.waiting {
            self.blocked.give_up(wait, &self.shared, self.index);
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
        self.shared.registry.remove(connection.card.id);
        self.shared.mailboxes[self.index]
            .connections
            .fetch_sub(1, Ordering::Relaxed);
        self.shared.connected.fetch_sub(1, Ordering::Relaxed);
        // Closing the socket takes it out of the epoll instance.
    }

    fn add_totals(&mut self) {
        let (counters, moved) = (
            std::mem::take(&mut self.counters),
            std::mem::take(&mut self.space.moved),
        );
        self.shared.totals.add(counters, moved);
    }

    fn look_after_all(&mut self, now: i64) {
        self.space.spares.look_after();
        let limits = self.limits;
        // No message comes through a file that nobody finds any more, as other waits end (M7).
        let is_over = self.shared.store().removed();
        let ends = |c: &mut Connection| {
            c.look_after(&limits, now) || is_over && !c.session.subscriptions.is_empty()
        };
        for token in self.connections.tokens(ends) {
            self.close(token);
        }
        for connection in self.connections.all() {
            connection.limit_parser(&limits);
        }
    }

    /// Closes the connections that hold something of a store that is to be changed for another one.
    fn leave_store(&mut self) {
        for token in self.connections.tokens(|c| c.holds_of_store()) {
            self.close(token);
        }
        if let Some(bell) = self.bell.take() {
            let _ = self.poll.remove(&bell);
        }
        self.rung = false;
        self.more_messages = false;
        self.blocked.leave(&self.poll);
    }

    #[cold]
    fn try_change(&mut self) {
        let changed = self.change_store();
        if let Some(upkeep) = &mut self.upkeep {
            upkeep.has_changed(&self.shared, changed);
        }
    }

    /// Changes to the store that the name means now, with all threads stopped. Returns whether that came about.
    fn change_store(&mut self) -> Result<bool, String> {
        let shared = self.shared.clone();
        let Some(reopen) = shared.change.reopen() else {
            return Ok(false);
        };
        let store = reopen(&shared.process.config)?;
        self.leave_store();
        let wake = || shared.mailboxes.iter().for_each(|it| it.waker.wake());
        let others = shared.mailboxes.len() - 1;
        let stopped = shared.change.begin(others, wake, || shared.stopping());
        let changes = stopped && shared.has_all_back();
        if changes {
            shared.change_to(store);
        }
        shared.change.end();
        Ok(changes)
    }

    fn look_after_front(&mut self, now: Instant) {
        if let Some(upkeep) = &mut self.upkeep {
            upkeep.run(&self.shared, now);
            if upkeep.is_change_due(&self.shared, now) {
                self.try_change();
            }
        }
        if self.paused_until.is_some_and(|resume| now >= resume) {
            self.paused_until = None;
            for (token, listener) in (LISTENERS..).zip(&*self.listeners) {
                if let Err(error) = self.poll.add_shared(&listener.socket, token) {
                    log(format_args!("accepting connections: {error}"));
                }
            }
        }
    }

    fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPTS {
            if self.paused_until.is_some() {
                return;
            }
            match self.listeners[index].accept() {
                Ok(None) => return,
                Ok(Some(accepted)) => self.admit(accepted),
                Err(error) => {
                    log(format_args!("accepting a connection: {error}"));
                    // No descriptor is left: the listener would be ready again at once.
                    self.paused_until = Some(Instant::now() + ACCEPT_PAUSE);
                    for listener in &*self.listeners {
                        let _ = self.poll.remove(&listener.socket);
                    }
                    return;
                }
            }
        }
    }

    /// Turns a connection away, or hands it to the thread with the fewest of those that are not stalled.
    fn admit(&mut self, accepted: Accepted) {
        const FULL: &[u8] = b"-ERR max number of clients reached\r\n";
        const PROTECTED: &[u8] = b"-DENIED Undercroft is in protected mode, as no password is set: connections are \
            accepted from this machine only. Set a password (--requirepass), or allow it with 'protected-mode no'.\r\n";
        let shared = &self.shared;
        let refusal = if !shared.has_room() {
            Some(FULL)
        } else if !accepted.local && shared.is_protected() {
            Some(PROTECTED)
        } else {
            None
        };
        if let Some(text) = refusal {
            shared.totals.rejected.fetch_add(1, Ordering::Relaxed);
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            // A client that is turned away may be gone already.
            let _ = send(&accepted.socket, text, flags);
            return;
        }
        tune(
            &accepted.socket,
            accepted.unix,
            shared.process.config.integer("tcp-keepalive"),
        );
        let now = shared.process.now_microseconds() / 1000;
        let loads = shared.mailboxes.iter().enumerate().map(|(index, mailbox)| {
            let is_stalled = index != self.index && mailbox.is_stalled(now);
            (is_stalled, mailbox.connections.load(Ordering::Relaxed))
        });
        let worker = loads
            .enumerate()
            .min_by_key(|(_, load)| *load)
            .map_or(0, |(w, _)| w);
        let mut session = Session::new(shared.registry.next_id(), shared.initial_user(), now);
        session.address.clone_from(&accepted.address);
        session.local_address.clone_from(&accepted.local_address);
        session.unix_socket = accepted.unix;
        session.descriptor = std::os::fd::AsRawFd::as_raw_fd(&accepted.socket);
        let card = Arc::new(Card::new(&session, worker));
        shared.registry.add(card.clone());
        shared.connected.fetch_add(1, Ordering::Relaxed);
        shared.totals.connections.fetch_add(1, Ordering::Relaxed);
        let mailbox = &shared.mailboxes[worker];
        mailbox.connections.fetch_add(1, Ordering::Relaxed);
        if worker == self.index {
            self.serve(accepted, session, card);
        } else {
            mailbox.send(Message::Serve(accepted, Box::new(session), card));
        }
    }
}

/// Connections by token: place and generation, so that an event for one that is gone meets nobody.
#[derive(Default)]
struct Slots {
    slots: Vec<(u32, Option<Box<Connection>>)>,
    free: Vec<u32>,
}

impl Slots {
    fn add(&mut self, connection: Connection) -> u64 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[place as usize];
        slot.1 = Some(Box::new(connection));
        token(place, slot.0)
    }

    #[inline]
    fn get(&mut self, token: u64) -> Option<&mut Connection> {
        let (generation, connection) = self.slots.get_mut((token & 0xffff_ffff) as usize)?;
        if u64::from(*generation) != token >> 32 {
            return None;
        }
        connection.as_deref_mut()
    }

    fn remove(&mut self, token: u64) -> Option<Box<Connection>> {
        self.get(token)?;
        let place = token as u32;
        let slot = &mut self.slots[place as usize];
        // Stays below the tokens of wakers and listeners.
        slot.0 = (slot.0 + 1) & 0x7fff_ffff;
        self.free.push(place);
        slot.1.take()
    }

    /// Takes a connection out whose place is kept for it.
    fn lend(&mut self, token: u64) -> Option<Box<Connection>> {
        self.get(token)?;
        self.slots[token as u32 as usize].1.take()
    }

    fn give_back(&mut self, token: u64, connection: Box<Connection>) {
        self.slots[token as u32 as usize].1 = Some(connection);
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.slots
            .iter_mut()
            .filter_map(|slot| slot.1.as_deref_mut())
    }

    /// The tokens of connections for which something is true.
    fn tokens(&mut self, mut is_meant: impl FnMut(&mut Connection) -> bool) -> Vec<u64> {
        let slots = self.slots.iter_mut().enumerate();
        slots
            .filter_map(|(place, (generation, connection))| {
                let meant = is_meant(connection.as_deref_mut()?);
                meant.then(|| token(place as u32, *generation))
            })
            .collect()
    }
}

fn token(place: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(place)
}
