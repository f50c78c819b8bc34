//! Changes to the store that the name means now, after the file of the served one was removed or replaced.
//!
//! All threads stop between two rounds of their loops, so that no command runs and none begins. A connection that holds
//! something of the old store (a subscription, a wait, a transaction, watched keys, a value on its way) is closed before;
//! the others go on in the new one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use undercroft_commands::config::Config;
use undercroft_engine::Store;

/// Opens or creates the store that the name means now, and brings the configuration into line with it.
pub type Reopen = Box<dyn Fn(&Config) -> Result<Store, String> + Send + Sync>;

/// How long waits have to end with the error before the connections that still wait are closed: longer than a wait goes on
/// without its file (M7).
pub(crate) const GRACE: Duration = Duration::from_millis(2500);
/// How long the other threads have to stop: one that runs a long command is asked again later.
const MEET: Duration = Duration::from_millis(100);
/// Between two attempts.
pub(crate) const AGAIN: Duration = Duration::from_millis(500);
/// How long a stopped thread sleeps before it looks whether the server ends.
const LOOK: Duration = Duration::from_millis(50);

/// Where the threads of a server meet while its store is changed.
#[derive(Default)]
pub(crate) struct Change {
    reopen: OnceLock<Reopen>,
    begun: AtomicBool,
    /// Threads that have stopped.
    stopped: Mutex<usize>,
    moved: Condvar,
}

impl Change {
    /// Sets how the store is opened again. Without that, the server stays with the store that it was given.
    pub(crate) fn reopen_by(&self, reopen: Reopen) {
        // The first one stays.
        let _ = self.reopen.set(reopen);
    }

    pub(crate) fn reopen(&self) -> Option<&Reopen> {
        self.reopen.get()
    }

    /// Whether threads are to stop.
    pub(crate) fn is_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    fn stopped(&self) -> MutexGuard<'_, usize> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops a thread until the change is over, or the server ends.
    pub(crate) fn wait(&self, is_ending: impl Fn() -> bool) {
        let mut stopped = self.stopped();
        *stopped += 1;
        self.moved.notify_all();
        while self.is_begun() && !is_ending() {
            stopped = self.sleep(stopped);
        }
        *stopped -= 1;
    }

    /// Asks the other threads, `others` in number, to stop; `wake` wakes them. Returns false if the server ends, or if one of
    /// them runs a long command.
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

    /// Lets them go on.
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
