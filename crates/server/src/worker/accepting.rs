//! Handles new connections: rejects them, or assigns them to the thread with the fewest
//! connections.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::net::{SendFlags, send};
use undercroft_commands::session::{Login, Session};

use crate::connection::proxied::{IS_PROTECTED, PROTECTED};
use crate::connection::state::Connection;
use crate::log::log;
use crate::shared::registry::Card;
use crate::sockets::listener::{Accepted, tune};
use crate::sockets::poll::Interest;
use crate::sockets::transport::Transport;
use crate::worker::mailbox::Message;
use crate::worker::state::{LISTENERS, Worker};

/// The maximum number of connections to accept in one round.
const ACCEPTS: usize = 256;
/// The pause before the next attempt to accept a connection after the system ran out of
/// descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl Worker {
    pub(super) fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPTS {
            if self.paused_until.is_some() {
                return;
            }
            match self.listeners[index].accept() {
                Ok(None) => return,
                Ok(Some(accepted)) => self.admit(accepted),
                Err(error) => {
                    log(format_args!("accepting a connection: {error}"));
                    // The process has no descriptors left. Without this pause, the listener would
                    // immediately be reported as ready again.
                    self.paused_until = Some(Instant::now() + ACCEPT_PAUSE);
                    for listener in &*self.listeners {
                        let _ = self.poll.remove(&listener.socket);
                    }
                    return;
                }
            }
        }
    }

    /// Rejects a connection, or assigns it to the thread that has the fewest connections and is not
    /// stalled.
    pub(super) fn admit(&mut self, mut accepted: Accepted) {
        const FULL: &[u8] = b"-ERR max number of clients reached\r\n";
        let shared = &self.shared;
        // The address of the client is known only once its proxy has announced it.
        let is_proxied = !accepted.unix && shared.files.proxies.contain(&accepted.address);
        accepted.is_proxied = is_proxied;
        let refusal = if !shared.has_room() {
            Some(FULL)
        } else if !is_proxied && !accepted.local && shared.is_protected() {
            Some(PROTECTED)
        } else {
            None
        };
        if let Some(text) = refusal {
            shared.totals.rejected.fetch_add(1, Ordering::Relaxed);
            let reason = match text == PROTECTED {
                true => IS_PROTECTED,
                false => "max number of clients reached",
            };
            shared.audit_connection(&accepted.address, 0, reason);
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            // The rejected client may already have disconnected, so ignore an error. An encrypted
            // reason would need a handshake, which costs more than a connection.
            if !accepted.is_encrypted {
                let _ = send(&accepted.socket, text, flags);
            }
            return;
        }
        tune(
            &accepted.socket,
            accepted.unix,
            shared.process.config.integer("tcp-keepalive"),
        );
        let now = shared.process.now_microseconds() / 1000;
        let loads = shared.threads.iter().enumerate().map(|(index, thread)| {
            let is_stalled = index != self.index && thread.is_stalled(now);
            (is_stalled, thread.connections.load(Ordering::Relaxed))
        });
        let worker = loads
            .enumerate()
            .min_by_key(|(_, load)| *load)
            .map_or(0, |(w, _)| w);
        let mut session = Session::new(shared.registry.next_id(), Login::unknown(), now);
        shared.look_up_user(&mut session);
        session.peer.address.clone_from(&accepted.address);
        session
            .peer
            .local_address
            .clone_from(&accepted.local_address);
        session.peer.unix_socket = accepted.unix;
        session.peer.descriptor = std::os::fd::AsRawFd::as_raw_fd(&accepted.socket);
        let card = Arc::new(Card::new(&session, worker));
        shared.registry.add(card.clone());
        shared.connected.fetch_add(1, Ordering::Relaxed);
        shared.totals.connections.fetch_add(1, Ordering::Relaxed);
        shared.threads[worker]
            .connections
            .fetch_add(1, Ordering::Relaxed);
        if worker == self.index {
            self.serve(accepted, session, card);
        } else {
            let message = Message::Serve(accepted, Box::new(session), card);
            self.mailboxes.send(shared, worker, message);
        }
    }

    pub(super) fn serve(&mut self, accepted: Accepted, session: Session, card: Arc<Card>) {
        let tls = match accepted.is_encrypted {
            true => self
                .shared
                .certificates()
                .map(|loaded| loaded.config.clone()),
            false => None,
        };
        let transport = match Transport::new(accepted.socket, tls, accepted.is_proxied) {
            Ok(transport) => transport,
            Err(error) => {
                log(format_args!("serving a new connection: {error}"));
                return self.shared.count_closed(card.id, self.index);
            }
        };
        let connection = Connection::new(transport, session, card, &self.limits);
        let token = self.connections.add(connection);
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        connection.session.peer.route = (self.index, token);
        connection.card.set_token(token);
        connection.registered = Some(Interest::READ);
        if let Err(error) = self.poll.add(&connection.socket, token, Interest::READ) {
            log(format_args!("serving a new connection: {error}"));
            self.close(token);
        }
    }

    pub(super) fn look_after_front(&mut self, now: Instant) {
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
}
