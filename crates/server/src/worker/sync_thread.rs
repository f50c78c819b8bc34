//! The thread that syncs the journal for the connections of all threads (J4).

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use undercroft_commands::statistics::latency::Event;

use crate::shared::state::Shared;

/// How long a sync may be delayed by another process, which is probably stopped.
const PATIENCE: Duration = Duration::from_secs(5);

/// Starts the thread, which ends when the server stops.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<JoinHandle<()>> {
    let shared = shared.clone();
    let thread = thread::Builder::new().name("sync".into());
    thread.spawn(move || {
        let guard = StopOnPanic(&shared);
        run(&shared);
        std::mem::forget(guard);
    })
}

fn run(shared: &Shared) {
    let is_stopping = || shared.stopping();
    while let Some((position, threads, store)) = shared.commits.next(is_stopping) {
        let start = Instant::now();
        let synced = shared.store().wait_until_durable(position, PATIENCE);
        shared.note_latency(Event::FsyncAlways, start);
        if let Err(error) = synced {
            shared.commits.fail(position, store, &error);
        }
        for thread in threads {
            shared.threads[thread].waker.wake();
        }
    }
}

/// Stops the server if the thread panics, because clients would otherwise get no replies.
struct StopOnPanic<'s>(&'s Shared);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
