//! Calls made in an event loop, which do not wait for locks (M6).
//!
//! A client that [hurries](crate::client::Client) belongs to `undercroft.asyncio`. Its calls wait
//! for at most 1 ms and then raise [`Locked`] without having changed anything. The event loop
//! retries them.
//!
//! Every access to a store begins with [`Client::enter`](crate::client::Client::enter), or with
//! [`Client::hasten`](crate::client::Client::hasten) if the caller already has a reference to the
//! store. Both apply the limit. After `enter`, a change that must wait until it is durable raises
//! [`MustSync`] instead, and the event loop repeats it in another thread.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use pyo3::create_exception;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use undercroft_embedded::OpenStore;
use undercroft_engine::{PatienceLimited, limit_patience, limit_patience_without_sync};

use crate::error::BusyError;

/// The maximum time that a call waits for a lock. A running process normally holds a lock for less
/// time than this.
const MOMENT: Duration = Duration::from_millis(1);

/// The number of parked calls in this process, which are waiting for a retry.
static PARKED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread is making a parked call, which may wait for locks.
    static WAITS: Cell<bool> = const { Cell::new(false) };
    /// The stop flag of the call that this thread is making off the event loop, if any.
    static BESIDE: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

create_exception!(
    undercroft._native,
    Locked,
    BusyError,
    "A non-blocking call found a lock held and changed nothing."
);

/// Limits the calling thread's lock waits to [`MOMENT`].
///
/// While calls are parked, only a call made with [`Parked`] waits at all. The waits of many calls
/// would otherwise add up, and each call would find the same lock held.
#[inline(always)]
pub(crate) fn hasten() -> PatienceLimited {
    limit_patience(longest())
}

/// Limits the calling thread's lock waits like [`hasten`]. In addition, a change that would have to
/// wait for the disk fails with [`MustSync`].
#[inline(always)]
pub(crate) fn hasten_without_sync() -> PatienceLimited {
    limit_patience_without_sync(longest())
}

#[inline(always)]
fn longest() -> Duration {
    match PARKED.load(Ordering::Relaxed) {
        0 => MOMENT,
        _ => moment(),
    }
}

create_exception!(
    undercroft._native,
    TakesLong,
    Locked,
    "A non-blocking call needs to run a long script. It has changed nothing."
);

create_exception!(
    undercroft._native,
    MustSync,
    TakesLong,
    "A non-blocking call needs to wait for the disk. It has changed nothing."
);

/// Whether this thread is making a call off the event loop.
pub(crate) fn is_beside() -> bool {
    is_stopped().is_some()
}

/// Whether the call that this thread is making off the event loop must stop, or None if the thread
/// is making no such call.
pub(crate) fn is_stopped() -> Option<bool> {
    // If the thread's local storage has been destroyed, the thread is making no call.
    let stop = BESIDE.try_with(|beside| beside.borrow().clone()).ok()?;
    stop.map(|stop| stop.load(Ordering::Relaxed))
}

/// A long call that a thread makes off the event loop. It may wait for locks, and its scripts allow
/// other threads to run.
#[pyclass(frozen, module = "undercroft._native")]
pub(crate) struct Beside(Arc<AtomicBool>);

#[pymethods]
impl Beside {
    #[new]
    fn new() -> Beside {
        Beside(Arc::default())
    }

    /// Make the call on the calling thread.
    fn make<'py>(
        &self,
        call: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        options: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyAny>> {
        /// Clears the stop flag when the call ends, because the thread later makes other calls.
        struct Behind;
        impl Drop for Behind {
            fn drop(&mut self) {
                let _ = BESIDE.try_with(|beside| beside.replace(None));
            }
        }
        let _ = BESIDE.try_with(|beside| beside.replace(Some(self.0.clone())));
        let _behind = Behind;
        call.call(args, Some(options))
    }

    /// Stop the call's script unless it has already changed data.
    fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cold]
fn moment() -> Duration {
    match WAITS.get() {
        true => MOMENT,
        false => Duration::ZERO,
    }
}

/// A call that awaits a retry. While this object exists, a hurried call waits for locks only if it
/// is made through the `make` method.
#[pyclass(frozen, module = "undercroft._native")]
pub(crate) struct Parked(());

#[pymethods]
impl Parked {
    #[new]
    fn new() -> Parked {
        PARKED.fetch_add(1, Ordering::Relaxed);
        Parked(())
    }

    /// Make the call, waiting for locks for at most 1 ms.
    #[pyo3(signature = (call, args, options))]
    fn make<'py>(
        &self,
        call: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        options: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyAny>> {
        WAITS.set(true);
        let made = call.call(args, Some(options));
        WAITS.set(false);
        made
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        PARKED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A store in which hurried calls left work unfinished. The store stays open while this object
/// exists.
#[pyclass(frozen, module = "undercroft._native")]
pub(crate) struct Backlog(pub(crate) Arc<OpenStore>);

#[pymethods]
impl Backlog {
    /// Finish the work that does not need to wait for a lock.
    ///
    /// Return whether no work remains or the store was removed.
    fn settle(&self) -> bool {
        let _limited = limit_patience(Duration::ZERO);
        self.0.store.settle_waits().is_none() || self.0.store.removed()
    }

    /// A number that identifies the store.
    #[getter]
    fn store(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}
