//! Calls made in an event loop: they do not wait for locks (M6).
//!
//! A client that [hurries](crate::client::Client) is one of `undercroft.asyncio`: its calls wait
//! for a moment, and then raise [`Locked`] with nothing changed. The loop tries them again.
//!
//! Whoever comes to a store does so by [`Client::enter`](crate::client::Client::enter), or by
//! [`Client::hasten`](crate::client::Client::hasten) with a store that it holds: these see to it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use pyo3::create_exception;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use undercroft_embedded::OpenStore;
use undercroft_engine::{PatienceLimited, limit_patience};

use crate::error::BusyError;

/// For how long a call waits: more than others hold a lock where nothing is wrong.
const MOMENT: Duration = Duration::from_millis(1);

/// The calls of this process that are to be tried again.
static PARKED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// This thread makes a parked call that may wait all the same.
    static WAITS: Cell<bool> = const { Cell::new(false) };
    /// This thread makes a call beside the event loop, which may take long; and what says that it is to end.
    static BESIDE: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

create_exception!(
    undercroft._native,
    Locked,
    BusyError,
    "A call of a client that hurries met a lock, and has changed nothing."
);

/// Limits what the calling thread waits for locks to a moment.
///
/// While calls are to be tried again none waits at all but the one whose turn it is: with many of
/// them that would add up, and who comes back later finds the lock as well.
#[inline(always)]
pub(crate) fn hasten() -> PatienceLimited {
    limit_patience(match PARKED.load(Ordering::Relaxed) {
        0 => MOMENT,
        _ => moment(),
    })
}

create_exception!(
    undercroft._native,
    TakesLong,
    Locked,
    "A call of a client that hurries is a script which takes long, and has changed nothing."
);

/// Whether this thread makes a call beside the event loop.
pub(crate) fn is_beside() -> bool {
    is_stopped().is_some()
}

/// Whether the call that this thread makes beside the event loop is to end; none where it makes no such call.
pub(crate) fn is_stopped() -> Option<bool> {
    // A thread that ends makes none.
    let stop = BESIDE.try_with(|beside| beside.borrow().clone()).ok()?;
    stop.map(|stop| stop.load(Ordering::Relaxed))
}

/// A call that a thread makes beside the event loop, as it takes long: it may wait for locks, and its scripts let other
/// threads run.
#[pyclass(frozen, module = "undercroft._native")]
pub(crate) struct Beside(Arc<AtomicBool>);

#[pymethods]
impl Beside {
    #[new]
    fn new() -> Beside {
        Beside(Arc::default())
    }

    /// Make the call.
    fn make<'py>(
        &self,
        call: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        options: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyAny>> {
        /// The thread makes other calls behind it.
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

    /// End its script, unless that has changed something.
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

/// A call that is to be tried again. While it lives, no other call that hurries waits for a lock.
#[pyclass(frozen, module = "undercroft._native")]
pub(crate) struct Parked(());

#[pymethods]
impl Parked {
    #[new]
    fn new() -> Parked {
        PARKED.fetch_add(1, Ordering::Relaxed);
        Parked(())
    }

    /// Make the call. It may wait for locks for a moment, as if nothing were parked.
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

/// A store in which calls have left something to be done behind them. It stays open as long.
#[pyclass(frozen, module = "undercroft._native")]
pub(crate) struct Backlog(pub(crate) Arc<OpenStore>);

#[pymethods]
impl Backlog {
    /// Do what can be done now, without waiting for a lock. Return whether nothing is left, or
    /// the store is gone.
    fn settle(&self) -> bool {
        let _limited = limit_patience(Duration::ZERO);
        self.0.store.settle_waits().is_none() || self.0.store.removed()
    }

    /// What tells one store from another.
    #[getter]
    fn store(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}
