//! All replicas, and the stream that they receive.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use undercroft_engine::Stream;
use undercroft_links::send::Sender;

use crate::log::log;
use crate::shared::replica::Replica;

/// All replicas of the server.
#[derive(Default)]
pub(crate) struct Registered {
    state: Mutex<State>,
    /// Notified when WAIT needs acknowledgements.
    pub(crate) wanted: Condvar,
    /// Whether the log has named the keys that replicas do not receive.
    has_told_left_out: AtomicBool,
    /// Whether another process sends the changes of the store, as of the last look. It decides how many
    /// replicas changes require.
    pub(crate) is_sent_by_another: AtomicBool,
    /// The writer of the stream, while the publisher runs. Taking a data set excludes sending.
    pub(crate) sender: Mutex<Option<Sender>>,
}

/// The state that the threads share.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) replicas: Vec<Arc<Replica>>,
    /// The stream after the last changes, or `None` if there never was a replica.
    pub(crate) stream: Option<Stream>,
    /// Whether the thread that appends changes to the stream runs.
    pub(crate) is_publishing: bool,
    /// The number of requests for acknowledgements.
    pub(crate) requests: u64,
    /// The number of requests that were sent to the replicas, and the end of the changes that were
    /// made before the last of them.
    pub(crate) sent_requests: u64,
    pub(crate) requested: u64,
}

impl State {
    /// Returns the number of replicas that have acknowledged the stream up to an offset.
    pub(crate) fn count(&self, offset: u64) -> usize {
        let has = |replica: &&Arc<Replica>| {
            replica.acknowledges && replica.is_online() && replica.acknowledged() >= offset
        };
        self.replicas.iter().filter(has).count()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is a plain assignment, so the state is still consistent after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registered {
    /// Names in the log, once, the keys that replicas do not receive.
    pub(crate) fn tell_left_out(&self, left_out: fmt::Arguments<'_>) {
        if !self.has_told_left_out.swap(true, Ordering::Relaxed) {
            log(format_args!("replicas do not receive {left_out}"));
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Closes the connections of all replicas.
    pub(crate) fn drop_all(&self) {
        for replica in &self.state().replicas {
            replica.drop_connection();
        }
    }

    /// Announces that the stream has grown.
    pub(crate) fn announce(&self, stream: Stream) {
        let mut state = self.state();
        state.stream = Some(stream);
        for replica in &state.replicas {
            replica.waker.wake();
        }
    }
}
