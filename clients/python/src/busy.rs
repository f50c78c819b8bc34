//! State that several threads use, each of which may wait for a lock of the store
//! meanwhile.

use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use pyo3::Python;

/// Before another look at what another thread has in use.
const PAUSE: Duration = Duration::from_micros(20);

/// A value for one thread at a time. Who has it may let other threads run, so
/// that those who want it must do so, too.
pub(crate) struct Busy<T>(Mutex<T>);

impl<T> Busy<T> {
    pub(crate) fn new(value: T) -> Busy<T> {
        Busy(Mutex::new(value))
    }

    /// The value, once no other thread has it.
    pub(crate) fn lock(&self, py: Python<'_>) -> MutexGuard<'_, T> {
        loop {
            match self.0.try_lock() {
                Ok(value) => return value,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => py.detach(|| std::thread::sleep(PAUSE)),
            }
        }
    }
}
