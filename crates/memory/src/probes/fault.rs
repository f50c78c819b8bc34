//! Fail points, which make a thread "die" at the N-th step of an operation in a test.
//!
//! Every store into the file that matters to recovery is followed by a call to `step`. In a build
//! without the `fault` feature, `step` compiles to nothing.
//!
//! With that feature and `UNDERCROFT_RERUN=1` in the environment, the first run of every write is
//! rolled back, so that every test shows whether a run leaks state into the next run (W10).

/// Whether the fail points are compiled in.
pub const ENABLED: bool = cfg!(feature = "fault");

/// The panic payload of a thread that reached its fail point.
#[derive(Debug)]
pub struct Abandoned;

#[cfg(feature = "fault")]
mod counting {
    use std::cell::{Cell, RefCell};
    use std::sync::LazyLock;

    /// Whether the first run of every write is rolled back.
    static RERUN: LazyLock<bool> =
        LazyLock::new(|| std::env::var_os("UNDERCROFT_RERUN").is_some_and(|value| value == "1"));

    /// A callback for each range that this thread has written to disk.
    pub type Synced = Box<dyn FnMut(u64, u64)>;
    /// A callback for each step that this thread performs.
    pub type AtStep = Box<dyn FnMut()>;

    thread_local! {
        static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
        static TAKEN: Cell<u64> = const { Cell::new(0) };
        static ABANDONED: Cell<bool> = const { Cell::new(false) };
        static SYNCED: RefCell<Option<Synced>> = const { RefCell::new(None) };
        static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
        static AT_STEP: RefCell<Option<AtStep>> = const { RefCell::new(None) };
    }

    pub(crate) fn step() {
        TAKEN.set(TAKEN.get() + 1);
        if IS_WATCHED.get() {
            watched();
        }
        match LEFT.get() {
            None => {}
            Some(0) => {
                LEFT.set(None);
                ABANDONED.set(true);
                // Bypass the panic hook: printing a message for each of thousands of deaths would
                // take longer than the deaths themselves.
                std::panic::resume_unwind(Box::new(super::Abandoned));
            }
            Some(left) => LEFT.set(Some(left - 1)),
        }
    }

    /// Sets a callback for each step of this thread, and returns the previous callback. During the
    /// callback, the thread does nothing else, so the callback sees the store as other processes
    /// would if this thread were stopped. Steps of the callback itself are not reported.
    pub fn on_step(called: Option<AtStep>) -> Option<AtStep> {
        IS_WATCHED.set(called.is_some());
        AT_STEP.replace(called)
    }

    #[cold]
    fn watched() {
        let called = on_step(None);
        if let Some(mut called) = called {
            called();
            on_step(Some(called));
        }
    }

    /// Sets or removes a callback for each range of a store that this thread has written to disk.
    /// The callback receives the range's start and length.
    pub fn on_sync(told: Option<Synced>) {
        SYNCED.replace(told);
    }

    pub(crate) fn synced(start: u64, length: u64) {
        // Remove the callback during the call, because it may sync a store itself.
        if let Some(mut told) = SYNCED.take() {
            told(start, length);
            SYNCED.replace(Some(told));
        }
    }

    pub(crate) fn abandoned() -> bool {
        ABANDONED.get()
    }

    /// Runs `operation` and makes the thread "die" after `steps` steps. Returns `None` if the
    /// thread died. In that case, the caller must call
    /// [`Segment::abandon`](crate::Segment::abandon) on the handle that the thread used, because
    /// nothing was cleaned up.
    pub fn die_after<R>(steps: u64, operation: impl FnOnce() -> R) -> Option<R> {
        LEFT.set(Some(steps));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(operation));
        LEFT.set(None);
        ABANDONED.set(false);
        match result {
            Ok(value) => Some(value),
            Err(payload) if payload.is::<super::Abandoned>() => None,
            Err(payload) => std::panic::resume_unwind(payload),
        }
    }

    /// Returns whether the first run of every write is rolled back.
    pub(crate) fn reruns() -> bool {
        *RERUN
    }

    /// Returns the number of steps that this thread has performed.
    pub fn steps_taken() -> u64 {
        TAKEN.get()
    }
}

#[cfg(feature = "fault")]
pub use counting::{AtStep, Synced, die_after, on_step, on_sync, steps_taken};
#[cfg(feature = "fault")]
pub(crate) use counting::{abandoned, reruns, step, synced};

#[cfg(not(feature = "fault"))]
#[inline(always)]
pub(crate) fn step() {}

#[cfg(not(feature = "fault"))]
#[inline(always)]
pub(crate) fn synced(_start: u64, _length: u64) {}

#[cfg(not(feature = "fault"))]
#[inline(always)]
pub(crate) fn reruns() -> bool {
    false
}

#[cfg(not(feature = "fault"))]
#[inline(always)]
pub(crate) fn abandoned() -> bool {
    false
}
