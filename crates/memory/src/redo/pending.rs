//! The redo record of a transaction that has not ended, and its buffers, which a thread keeps for its
//! next transaction.

use std::cell::Cell;

use crate::mapped::thread_cached::ThreadCached;
use crate::redo::changes::Changes;

thread_local! {
    static KEPT: Cell<Option<Box<PendingRecord>>> = const { Cell::new(None) };
}

/// The record of a transaction.
#[derive(Default)]
pub(crate) struct PendingRecord {
    /// The ranges that were filled without an entry in a log, and, while the record is appended, all
    /// other ranges.
    pub(crate) changes: Changes,
    /// The position of a record that was appended and is not settled, plus 1. 0 means none.
    pub(crate) appended: u64,
    /// The positions at which the last record that was appended starts and ends. 0 means none.
    pub(crate) place: (u64, u64),
}

impl PendingRecord {
    /// Returns an empty record.
    #[inline]
    pub(crate) fn take() -> Box<PendingRecord> {
        KEPT.take_cached().unwrap_or_default()
    }

    /// Keeps the buffers for the next transaction of this thread, if they are small.
    #[inline]
    pub(crate) fn put_back(mut self: Box<Self>) {
        if self.changes.is_small() {
            self.changes.clear();
            self.appended = 0;
            self.place = (0, 0);
            KEPT.put_back(Some(self));
        }
    }
}
