//! Scripts that take long: each on a thread of its own, so that other connections go on.
//!
//! The connection goes there and comes back behind one command. It is not listened to meanwhile, and messages for it are
//! held. What else it has sent is run by its own thread again.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::connection::{Connection, Moved, Next, Workspace};
use crate::limits::Limits;
use crate::shared::{Message, Shared};

/// How much the thread of a script gives way to others, as `nice` has it.
const PRIORITY: i32 = 10;

/// A connection whose command has run.
pub(crate) struct Returned {
    pub(crate) connection: Box<Connection>,
    /// What it needs now.
    pub(crate) next: Next,
    pub(crate) moved: Moved,
}

/// Runs a connection's next command on a new thread, which hands the connection back to its own.
///
/// # Errors
/// The connection, where there can be no such thread.
pub(crate) fn run(
    shared: &Arc<Shared>,
    limits: Limits,
    connection: Box<Connection>,
) -> Result<(), Box<Connection>> {
    // A thread that cannot be started drops what it was given.
    let given = Arc::new(Mutex::new(Some(connection)));
    let take =
        |given: &Mutex<Option<_>>| given.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (taken, server) = (given.clone(), shared.clone());
    let started = thread::Builder::new().name("script".into()).spawn(move || {
        if let Some(connection) = take(&taken) {
            serve(&server, &limits, connection);
        }
    });
    match started {
        Ok(_) => Ok(()),
        Err(_) => take(&given).map_or(Ok(()), Err),
    }
}

fn serve(shared: &Shared, limits: &Limits, mut connection: Box<Connection>) {
    let guard = StopOnPanic(shared);
    // Threads that serve others go first. Where that is refused it goes without.
    let _ = rustix::process::setpriority_process(None, PRIORITY);
    let mut space = Workspace::new();
    connection.session.apart = true;
    let next = connection.run_rest(shared, limits, &mut space);
    connection.session.apart = false;
    std::mem::forget(guard);
    let thread = connection.session.route.0;
    shared.mailboxes[thread].send(Message::Back(Box::new(Returned {
        connection,
        next,
        moved: space.moved,
    })));
    // It counts until it is on its way back, see `Shared::has_all_back`.
    shared.return_apart();
}

/// Stops the whole server where the thread panics: its connection would hang.
struct StopOnPanic<'s>(&'s Shared);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
