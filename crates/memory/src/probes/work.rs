//! Counts the work that a thread has done, so that tests can compare it with the number of items in
//! a command. In a build without the `fault` feature, all of this compiles to nothing.

/// The work done, as numbers of 8-byte words and of operations. If a body ran more than once, only
/// the words of its last run count, because the amount of free memory determines where an earlier
/// run stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Words written to undo logs, including their descriptions.
    pub logged: u64,
    /// Words copied into, out of or within the store, or searched in this process's memory, plus
    /// one cache line for each place that was examined.
    pub touched: u64,
    /// The number of transactions started.
    pub transactions: u64,
    /// The number of runs of transaction bodies.
    pub runs: u64,
}

/// The number of words in a cache line.
pub(crate) const LINE: u64 = 8;

#[cfg(feature = "fault")]
mod counting {
    use std::cell::Cell;

    use super::Work;

    thread_local! {
        static DONE: Cell<Work> = const {
            Cell::new(Work { logged: 0, touched: 0, transactions: 0, runs: 0 })
        };
        /// The counts at the first run of the last transaction's body, or `None` before the first
        /// transaction.
        static BEGUN: Cell<Option<Work>> = const { Cell::new(None) };
    }

    fn change(change: impl FnOnce(&mut Work)) {
        let mut work = DONE.get();
        change(&mut work);
        DONE.set(work);
    }

    pub(crate) fn logged(words: u64) {
        change(|work| work.logged += words);
    }

    pub(crate) fn transaction() {
        change(|work| work.transactions += 1);
        BEGUN.set(None);
    }

    pub(crate) fn run() {
        let begun = BEGUN.get().unwrap_or_else(done);
        BEGUN.set(Some(begun));
        change(|work| {
            (work.logged, work.touched) = (begun.logged, begun.touched);
            work.runs += 1;
        });
    }

    /// Counts words that were copied or searched.
    pub fn touched(words: u64) {
        change(|work| work.touched += words);
    }

    /// Returns all work that this thread has done so far.
    pub fn done() -> Work {
        DONE.get()
    }
}

#[cfg(feature = "fault")]
pub use counting::{done, touched};
#[cfg(feature = "fault")]
pub(crate) use counting::{logged, run, transaction};

#[cfg(not(feature = "fault"))]
mod nothing {
    #[inline(always)]
    pub(crate) fn logged(_: u64) {}

    #[inline(always)]
    pub(crate) fn transaction() {}

    #[inline(always)]
    pub(crate) fn run() {}

    /// Counts words that were copied or searched.
    #[inline(always)]
    pub fn touched(_: u64) {}
}

#[cfg(not(feature = "fault"))]
pub use nothing::touched;
#[cfg(not(feature = "fault"))]
pub(crate) use nothing::{logged, run, transaction};
