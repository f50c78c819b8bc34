//! Connections on their way from one thread to another.

use std::sync::{Arc, Mutex, PoisonError};

use undercroft_commands::session::Session;

use crate::connection::state::{Connection, Next};
use crate::shared::registry::Card;
use crate::shared::state::Shared;
use crate::shared::totals::Traffic;
use crate::sockets::listener::Accepted;

/// What one thread hands to another.
pub(crate) enum Message {
    /// A connection to serve.
    Serve(Accepted, Box<Session>, Arc<Card>),
    /// A connection of the thread whose script has run elsewhere.
    Back(Box<Returned>),
}

/// A connection whose command has run.
pub(crate) struct Returned {
    pub(crate) connection: Box<Connection>,
    /// What it needs now.
    pub(crate) next: Next,
    pub(crate) traffic: Traffic,
}

/// The messages for each thread.
pub(crate) struct Mailboxes(Vec<Mutex<Vec<Message>>>);

impl Mailboxes {
    pub(crate) fn new(threads: usize) -> Mailboxes {
        Mailboxes((0..threads).map(|_| Mutex::default()).collect())
    }

    /// Hands a message to a thread, and wakes it.
    pub(crate) fn send(&self, shared: &Shared, thread: usize, message: Message) {
        self.0[thread]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(message);
        shared.threads[thread].waker.wake();
    }

    /// The messages that have come for a thread.
    pub(crate) fn take(&self, thread: usize) -> Vec<Message> {
        std::mem::take(
            &mut *self.0[thread]
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}
