//! Scripts that take long: each on a thread of its own, so that other connections go on.
//!
//! The connection goes there and comes back behind one command. It is not listened to meanwhile, and messages for it are
//! held. What else it has sent is run by its own thread again.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::connection::state::{Connection, Workspace};
use crate::shared::limits::Limits;
use crate::shared::state::Shared;
use crate::worker::mailbox::{Mailboxes, Message, Returned};

/// How much the thread of a script gives way to others, as `nice` has it.
const PRIORITY: i32 = 10;

/// Runs a connection's next command on a new thread, which hands the connection back to its own.
///
/// # Errors
/// The connection, where there can be no such thread.
pub(crate) fn run(
    (shared, mailboxes): (&Arc<Shared>, &Arc<Mailboxes>),
    limits: Limits,
    connection: Box<Connection>,
) -> Result<(), Box<Connection>> {
    // A thread that cannot be started drops what it was given.
    let given = Arc::new(Mutex::new(Some(connection)));
    let take =
        |given: &Mutex<Option<_>>| given.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (taken, server, mailboxes) = (given.clone(), shared.clone(), mailboxes.clone());
    let started = thread::Builder::new().name("script".into()).spawn(move || {
        if let Some(connection) = take(&taken) {
            serve((&server, &mailboxes), &limits, connection);
        }
    });
    match started {
        Ok(_) => Ok(()),
        Err(_) => take(&given).map_or(Ok(()), Err),
    }
}

fn serve(
    (shared, mailboxes): (&Shared, &Mailboxes),
    limits: &Limits,
    mut connection: Box<Connection>,
) {
    let guard = StopOnPanic(shared);
    // Threads that serve others go first. Where that is refused it goes without.
    let _ = rustix::process::setpriority_process(None, PRIORITY);
    let mut space = Workspace::new();
    connection.session.scripts.has_own_thread = true;
    let next = connection.run_rest(shared, limits, &mut space);
    connection.session.scripts.has_own_thread = false;
    std::mem::forget(guard);
    let thread = connection.session.peer.route.0;
    let returned = Returned {
        connection,
        next,
        traffic: space.traffic,
    };
    mailboxes.send(shared, thread, Message::Back(Box::new(returned)));
}

/// Stops the whole server where the thread panics: its connection would hang.
struct StopOnPanic<'s>(&'s Shared);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
