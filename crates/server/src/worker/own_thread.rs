//! Runs each long script on a separate thread, so that other connections are not blocked.
//!
//! The connection moves to the new thread for a single command and then moves back. In the
//! meantime, the connection's socket is not read, and messages for the connection are held. The
//! original thread executes the rest of the connection's input.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::connection::state::{Connection, Workspace};
use crate::shared::limits::Limits;
use crate::shared::state::Shared;
use crate::worker::mailbox::{Mailboxes, Message, Returned};

/// The niceness of a thread that runs a long script.
const PRIORITY: i32 = 10;

/// Runs a connection's next command on a new thread, which then returns the connection to its
/// original thread.
///
/// # Errors
/// Returns the connection if the thread cannot be started.
pub(crate) fn run(
    (shared, mailboxes): (&Arc<Shared>, &Arc<Mailboxes>),
    limits: Limits,
    connection: Box<Connection>,
) -> Result<(), Box<Connection>> {
    // Store the connection in a shared slot: if the thread cannot be started, its closure is
    // dropped, but the connection must survive.
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
    // Threads that serve connections have priority. Ignore an error if the system refuses the
    // change.
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

/// Stops the server if the thread panics, because the thread's connection would otherwise hang.
struct StopOnPanic<'s>(&'s Shared);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
