//! A lock for state that several threads share. Its owner may wait for store locks.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use undercroft_engine::unlimited_patience;

use crate::error::ConnectionError;

/// The delay between attempts to lock a value that another thread has locked.
const PAUSE: Duration = Duration::from_micros(20);

/// The number of forks between the process that loaded the module and this process.
static FORKS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// A variable whose address identifies the thread.
    static HERE: u8 = const { 0 };
}

/// Returns a number that is unique to the calling thread among living threads.
fn this_thread() -> usize {
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

/// A value that only one thread at a time can lock. The owner may release the interpreter lock, so
/// a waiting thread must release it too. The owner may also run signal handlers, which cannot wait
/// for a lock that the interrupted frame owns.
pub(crate) struct Busy<T> {
    value: Mutex<T>,
    /// The value of `FORKS` when the value was last locked.
    locked: AtomicU32,
    /// The thread that last locked the value. Threads own the interpreter lock here, so no thread
    /// can observe the value locked before its owner is set.
    owner: AtomicUsize,
}

impl<T> Busy<T> {
    pub(crate) fn new(value: T) -> Busy<T> {
        Busy {
            value: Mutex::new(value),
            locked: AtomicU32::new(0),
            owner: AtomicUsize::new(0),
        }
    }

    /// Whether the calling thread has already locked the value. This is true in a signal handler if
    /// the interrupted call has locked the value.
    pub(crate) fn is_interrupted(&self, _: Python<'_>) -> bool {
        let is_locked = matches!(self.value.try_lock(), Err(TryLockError::WouldBlock));
        is_locked && self.owner.load(Ordering::Relaxed) == this_thread()
    }

    /// Returns the value without locking it, because the exclusive reference excludes other users.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.value.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the value, waiting while another thread has it locked.
    ///
    /// # Errors
    /// Fails with the exception of a signal handler that ran during the wait. Fails in a forked
    /// child if a thread of the parent had locked the value. Fails in a signal handler if the
    /// interrupted call has locked the value.
    pub(crate) fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, T>> {
        let forks = FORKS.load(Ordering::Relaxed);
        loop {
            let value = match self.value.try_lock() {
                Ok(value) => value,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    if self.locked.load(Ordering::Relaxed) != forks {
                        return Err(ConnectionError::new_err(
                            "another thread was using the connection when the process forked; \
                             open a new one",
                        ));
                    }
                    if self.owner.load(Ordering::Relaxed) == this_thread() {
                        return Err(ConnectionError::new_err(
                            "the connection is in use by the call that the signal interrupted",
                        ));
                    }
                    // Remove this call's limit on lock waits, because signal handlers are program
                    // code and may wait longer.
                    unlimited_patience(|| py.check_signals())?;
                    py.detach(|| std::thread::sleep(PAUSE));
                    continue;
                }
            };
            self.locked.store(forks, Ordering::Relaxed);
            self.owner.store(this_thread(), Ordering::Relaxed);
            return Ok(value);
        }
    }
}

#[pyfunction]
fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Registers the function that counts forks in child processes.
pub(crate) fn watch_forks(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let hooks = PyDict::new(py);
    hooks.set_item("after_in_child", wrap_pyfunction!(forked, module)?)?;
    py.import("os")?
        .call_method("register_at_fork", (), Some(&hooks))?;
    Ok(())
}
