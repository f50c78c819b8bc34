//! What a thread has done so far, counted: tests hold a command's work against
//! the number of its items. In a build without the `fault` feature it is nothing
//! at all.

/// What was done, in words of 8 bytes and in numbers. Of a body that ran again only the last run's words count: where an
/// earlier one stopped depends on the room that there was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Words put into undo logs, with their descriptions.
    pub logged: u64,
    /// Words copied into the store, out of it or within it, or searched through
    /// in memory of the process' own; and a cache line for each place looked at.
    pub touched: u64,
    /// Transactions begun.
    pub transactions: u64,
    /// Runs of their bodies.
    pub runs: u64,
}

/// Words of a cache line.
pub(crate) const LINE: u64 = 8;

#[cfg(feature = "fault")]
mod counting {
    use std::cell::Cell;

    use super::Work;

    thread_local! {
        static DONE: Cell<Work> = const {
            Cell::new(Work { logged: 0, touched: 0, transactions: 0, runs: 0 })
        };
        /// What was done when the body of the last transaction ran first; none before that.
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

    /// Counts words that were copied or searched through.
    pub fn touched(words: u64) {
        change(|work| work.touched += words);
    }

    /// All that this thread has done so far.
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

    /// Counts words that were copied or searched through.
    #[inline(always)]
    pub fn touched(_: u64) {}
}

#[cfg(not(feature = "fault"))]
pub use nothing::touched;
#[cfg(not(feature = "fault"))]
pub(crate) use nothing::{logged, run, transaction};
