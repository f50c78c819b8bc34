//! Switches to another store after the served store's file was removed or replaced.
//!
//! All threads stop between two rounds of their loops, so that no command is running or starting.
//! Connections that reference state in the old store (a subscription, a wait, a transaction,
//! watched keys, or a value that is being received) are closed first. All other connections
//! continue in the new store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use undercroft_commands::config::Config;
use undercroft_engine::Store;

/// A function that opens or creates the store that now has the served store's name, and applies the
/// store's settings to the configuration.
pub type Reopen = Box<dyn Fn(&Config) -> Result<Store, String> + Send + Sync>;

/// The grace period in which pending waits can end with an error before their connections are
/// closed. Longer than any wait can last after the store's file is removed (M7).
pub(crate) const GRACE: Duration = Duration::from_millis(2500);
/// The time within which the other threads must stop. If a thread is running a long command, the
/// switch is attempted again later.
const MEET: Duration = Duration::from_millis(100);
/// The pause between attempts to switch.
pub(crate) const AGAIN: Duration = Duration::from_millis(500);
/// The interval at which a stopped thread checks whether the server is stopping.
const LOOK: Duration = Duration::from_millis(50);

/// The point at which a server's threads stop while the store is replaced.
#[derive(Default)]
pub(crate) struct Change {
    reopen: OnceLock<Reopen>,
    begun: AtomicBool,
    /// The number of threads that have stopped.
    stopped: Mutex<usize>,
    moved: Condvar,
}

impl Change {
    /// Sets the function that reopens the store. Without this function, the server keeps using its
    /// original store.
    pub(crate) fn reopen_by(&self, reopen: Reopen) {
        // If a function has already been set, keep it.
        let _ = self.reopen.set(reopen);
    }

    pub(crate) fn reopen(&self) -> Option<&Reopen> {
        self.reopen.get()
    }

    /// Returns whether threads must stop.
    pub(crate) fn is_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    fn stopped(&self) -> MutexGuard<'_, usize> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks a thread until the switch is complete or the server stops.
    pub(crate) fn wait(&self, is_ending: impl Fn() -> bool) {
        let mut stopped = self.stopped();
        *stopped += 1;
        self.moved.notify_all();
        while self.is_begun() && !is_ending() {
            stopped = self.sleep(stopped);
        }
        *stopped -= 1;
    }

    /// Stops the `others` other threads, which `wake` wakes. Returns false if the server is
    /// stopping, or if a thread does not stop in time because it is running a long command.
    pub(crate) fn begin(
        &self,
        others: usize,
        wake: impl Fn(),
        is_ending: impl Fn() -> bool,
    ) -> bool {
        self.begun.store(true, Ordering::Release);
        wake();
        let begun = Instant::now();
        let mut stopped = self.stopped();
        while *stopped < others && !is_ending() && begun.elapsed() < MEET {
            stopped = self.sleep(stopped);
        }
        *stopped == others && !is_ending()
    }

    /// Resumes the stopped threads.
    pub(crate) fn end(&self) {
        let _stopped = self.stopped();
        self.begun.store(false, Ordering::Release);
        self.moved.notify_all();
    }

    fn sleep<'a>(&self, stopped: MutexGuard<'a, usize>) -> MutexGuard<'a, usize> {
        let woken = self.moved.wait_timeout(stopped, LOOK);
        woken.unwrap_or_else(PoisonError::into_inner).0
    }
}
