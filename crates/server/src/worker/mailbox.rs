//! Passes connections from one thread to another.

use std::sync::{Arc, Mutex, PoisonError};

use undercroft_commands::session::Session;

use crate::connection::state::{Connection, Next};
use crate::shared::registry::Card;
use crate::shared::state::Shared;
use crate::shared::totals::Traffic;
use crate::sockets::listener::Accepted;

/// A message that one thread sends to another.
pub(crate) enum Message {
    /// A new connection that the receiving thread must serve.
    Serve(Accepted, Box<Session>, Arc<Card>),
    /// A connection that returns to the receiving thread after its script ran on a separate thread.
    Back(Box<Returned>),
}

/// A connection whose script has run on a separate thread.
pub(crate) struct Returned {
    pub(crate) connection: Box<Connection>,
    /// The next step for the connection after its script.
    pub(crate) next: Next,
    pub(crate) traffic: Traffic,
}

/// The mailboxes of all threads: the messages that each thread has not yet received.
pub(crate) struct Mailboxes(Vec<Mutex<Vec<Message>>>);

impl Mailboxes {
    pub(crate) fn new(threads: usize) -> Mailboxes {
        Mailboxes((0..threads).map(|_| Mutex::default()).collect())
    }

    /// Sends a message to a thread and wakes the thread.
    pub(crate) fn send(&self, shared: &Shared, thread: usize, message: Message) {
        self.0[thread]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(message);
        shared.threads[thread].waker.wake();
    }

    /// Removes and returns the messages for a thread.
    pub(crate) fn take(&self, thread: usize) -> Vec<Message> {
        std::mem::take(
            &mut *self.0[thread]
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}
