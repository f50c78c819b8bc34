//! State that several threads use, each of which may wait for a lock of the store
//! meanwhile.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use undercroft_engine::unlimited_patience;

use crate::error::ConnectionError;

/// Before another look at what another thread has in use.
const PAUSE: Duration = Duration::from_micros(20);

/// How many forks lie between the process that loaded the module and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Its address names the thread.
    static HERE: u8 = const { 0 };
}

/// What names the calling thread while it lives.
fn this_thread() -> usize {
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

/// A value for one thread at a time. Its owner may let other threads run, so
/// that those who want it must do so, too. It may also run signal handlers, which
/// cannot wait for what is below them.
pub(crate) struct Busy<T> {
    value: Mutex<T>,
    /// `FORKS` when it was locked last.
    locked: AtomicU32,
    /// The thread that locked it last. Threads take turns with the interpreter's
    /// lock, so that none sees it locked and not yet named.
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

    /// Whether this thread has it: a signal's handler asks, and the call that it
    /// interrupts has it.
    pub(crate) fn is_interrupted(&self, _: Python<'_>) -> bool {
        let is_locked = matches!(self.value.try_lock(), Err(TryLockError::WouldBlock));
        is_locked && self.owner.load(Ordering::Relaxed) == this_thread()
    }

    /// The value, where nobody else can have it.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.value.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value, once no other thread has it.
    ///
    /// # Errors
    /// What a signal's handler raised meanwhile; in a forked child, that a thread
    /// which is not there has it; in a signal's handler, that what it interrupts
    /// has it.
    pub(crate) fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, T>> {
        let forks = FORKS.load(Ordering::Relaxed);
        loop {
            let value = match self.value.try_lock() {
                Ok(value) => value,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    if self.locked.load(Ordering::Relaxed) != forks {
                        return Err(ConnectionError::new_err(
                            "another thread was using this when the process was forked",
                        ));
                    }
                    if self.owner.load(Ordering::Relaxed) == this_thread() {
                        return Err(ConnectionError::new_err(
                            "this is in use by the call that a signal has interrupted",
                        ));
                    }
                    // The handlers are the program's own.
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

/// Lets a forked child know that it is one.
pub(crate) fn watch_forks(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let hooks = PyDict::new(py);
    hooks.set_item("after_in_child", wrap_pyfunction!(forked, module)?)?;
    py.import("os")?
        .call_method("register_at_fork", (), Some(&hooks))?;
    Ok(())
}
