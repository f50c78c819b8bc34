//! Collects the requests of all threads to sync the journal (J4).
//!
//! In the mode `always`, a reply is sent only once the connection's changes are durable. No thread
//! that serves connections waits for the disk: it keeps the replies, goes on with other
//! connections, and requests a sync once per round of its loop. One more thread
//! (`worker/sync_thread.rs`) syncs the journal. All requests that arrive during a sync are served by
//! the next one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use undercroft_engine::Error;

use crate::log::log;

/// The requests for syncs, and the positions that could not be made durable.
#[derive(Default)]
pub(crate) struct GroupCommit {
    requests: Mutex<Requests>,
    has_requests: Condvar,
    /// The highest position that could not be made durable.
    failed: AtomicU64,
}

#[derive(Default)]
struct Requests {
    /// The highest requested position.
    position: u64,
    /// The threads that requested a sync since the last one began.
    threads: Vec<usize>,
    /// The number of times that the store was replaced. Positions of another store mean nothing.
    stores: u64,
}

impl GroupCommit {
    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests that the journal is synced up to a position, for the thread with the given index.
    pub(crate) fn request(&self, position: u64, thread: usize) {
        let mut requests = self.requests();
        requests.position = requests.position.max(position);
        if !requests.threads.contains(&thread) {
            requests.threads.push(thread);
        }
        self.has_requests.notify_one();
    }

    /// Returns whether a position could not be made durable.
    pub(crate) fn has_failed(&self, position: u64) -> bool {
        position <= self.failed.load(Ordering::Acquire)
    }

    /// Forgets all requests, because the store is replaced.
    pub(crate) fn forget(&self) {
        let mut requests = self.requests();
        requests.position = 0;
        requests.threads.clear();
        requests.stores += 1;
        self.failed.store(0, Ordering::Release);
    }

    /// Wakes the thread that syncs, so that it notices that the server is stopping.
    pub(crate) fn stop(&self) {
        let _requests = self.requests();
        self.has_requests.notify_all();
    }

    /// Waits for the next request. Returns the position, the threads that requested it, and the
    /// number of the store, or `None` once the server is stopping.
    pub(crate) fn next(&self, is_stopping: impl Fn() -> bool) -> Option<(u64, Vec<usize>, u64)> {
        let mut requests = self.requests();
        loop {
            if is_stopping() {
                return None;
            }
            if !requests.threads.is_empty() {
                let threads = std::mem::take(&mut requests.threads);
                return Some((requests.position, threads, requests.stores));
            }
            let woken = self.has_requests.wait(requests);
            requests = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Records a position of the served store that could not be made durable. The caller must be a
    /// thread that stops before the store is replaced.
    pub(crate) fn fail_now(&self, position: u64, error: &Error) {
        let store = self.requests().stores;
        self.fail(position, store, error);
    }

    /// Records a position of a store that could not be made durable.
    pub(crate) fn fail(&self, position: u64, store: u64, error: &Error) {
        let requests = self.requests();
        if requests.stores == store {
            self.failed.fetch_max(position, Ordering::AcqRel);
            log(format_args!(
                "closing the clients whose changes may not be durable: {error}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_during_a_sync_are_served_by_the_next_one() {
        let commits = GroupCommit::default();
        commits.request(10, 1);
        assert_eq!(commits.next(|| false), Some((10, vec![1], 0)));
        commits.request(30, 0);
        commits.request(20, 1);
        commits.request(25, 0);
        assert_eq!(commits.next(|| false), Some((30, vec![0, 1], 0)));
        assert_eq!(commits.next(|| true), None);
    }

    #[test]
    fn failure_concerns_the_positions_of_its_store() {
        let commits = GroupCommit::default();
        assert!(!commits.has_failed(1));
        let error = Error::interrupted();
        commits.fail(10, 0, &error);
        assert!(commits.has_failed(10) && !commits.has_failed(11));
        commits.forget();
        commits.fail(50, 0, &error);
        assert!(!commits.has_failed(1));
    }
}
