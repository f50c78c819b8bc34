//! Opens stores in this process and waits for their locks.

use std::sync::Arc;

use pyo3::Python;
use pyo3::ffi;
use undercroft_embedded::{OpenStore, Place};
use undercroft_engine::{Error, WaitHook, unlimited_patience};

use crate::threads::nonblocking::{is_beside, is_stopped};

/// Opens a store, or returns it if this process has already opened it.
pub(crate) fn open(place: &Place) -> Result<Arc<OpenStore>, Error> {
    place.open(|| Some(Box::new(Interpreter)))
}

/// A wait hook that releases the interpreter lock while a thread waits for a store lock.
struct Interpreter;

/// The sleep function of one thread's wait, which never leaves that thread.
struct Sleep<'a>(&'a mut dyn FnMut());

// SAFETY: `Python::detach` runs its closure on the calling thread.
unsafe impl Send for Sleep<'_> {}

impl Sleep<'_> {
    fn begin(self) {
        (self.0)();
    }
}

impl WaitHook for Interpreter {
    fn blocked(&self, block: &mut dyn FnMut()) {
        Python::attach(|py| {
            let sleep = Sleep(block);
            py.detach(move || sleep.begin());
        });
    }

    fn interrupted(&self) -> bool {
        // In a call made off the event loop, another thread runs the signal handlers.
        if let Some(is_stopped) = is_stopped() {
            return is_stopped;
        }
        // Remove this call's limit on lock waits, because signal handlers are program code and may
        // wait longer.
        unlimited_patience(|| {
            // SAFETY: the thread is attached. Handlers may use the store, because the waiting
            // thread holds none of its locks.
            Python::attach(|_| unsafe { ffi::PyErr_CheckSignals() } != 0)
        })
    }

    fn is_signalled(&self) -> bool {
        if let Some(is_stopped) = is_stopped() {
            return is_stopped;
        }
        // SAFETY: the thread is attached. The first call clears the pending Ctrl-C and the second
        // sets it again, so no handler runs.
        Python::attach(|_| unsafe {
            let pressed = ffi::PyOS_InterruptOccurred() != 0;
            if pressed {
                ffi::PyErr_SetInterrupt();
            }
            pressed
        })
    }

    fn script(&self, run: &mut dyn FnMut()) {
        match is_beside() {
            true => self.blocked(run),
            false => run(),
        }
    }
}
