//! Retries this process' tasks that a locked shard delayed, such as serving a queue or ending a
//! wait.
//!
//! A commit is final even if the work after it, such as serving waiters, must be delayed. If
//! another process holds a lock that this work needs, this process does the work before its next
//! write, or whenever a caller [settles](Store::settle_waits) its unfinished work. A task is lost
//! only if the process dies.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use undercroft_memory::{ForkMutex, coarse_milliseconds};

use crate::error::Error;
use crate::handle::store::{Backlog, Store};
use crate::transaction::notice::Queue;
use crate::waiting::record::Ticket;

/// The time between two attempts at a task that a lock delayed.
const RETRY: Duration = Duration::from_millis(1);
/// The time in milliseconds between two attempts after any other failure, such as a full store.
const RETRY_OTHERS: u64 = 100;

/// The postponed tasks, which are kept in the store handle.
#[derive(Default)]
pub(crate) struct Postponed(ForkMutex<Tasks>);

#[derive(Default)]
struct Tasks {
    /// The process that owns the tasks. After a fork, the child's copy still names the parent, so
    /// the child discards it.
    process: u32,
    /// The tasks in the order in which they will be attempted, without duplicates.
    tasks: VecDeque<Task>,
    known: HashSet<Task>,
    /// The time before which no task is attempted, because a task failed for a reason other than a
    /// lock.
    from: u64,
}

/// A task that was postponed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Task {
    /// Serve the queue of a key.
    Serve(Queue),
    /// End the wait of a client that has disconnected or died.
    End(Ticket),
}

impl Tasks {
    fn add(&mut self, task: Task) {
        if self.known.insert(task) {
            self.tasks.push_back(task);
        }
    }

    fn next(&mut self) -> Option<Task> {
        let task = self.tasks.pop_front()?;
        self.known.remove(&task);
        Some(task)
    }
}

impl Store {
    /// Calls `body` with the postponed tasks, holding their mutex.
    #[cold]
    fn postponed<R>(&self, body: impl FnOnce(&mut Tasks) -> R) -> R {
        let mut tasks = self.part::<Postponed>().0.lock();
        let process = std::process::id();
        if tasks.process != process {
            *tasks = Tasks {
                process,
                ..Tasks::default()
            };
        }
        let result = body(&mut tasks);
        self.note_backlog(Backlog::Waiting, !tasks.tasks.is_empty());
        result
    }

    /// Returns the number of postponed tasks.
    #[cfg(test)]
    pub(crate) fn tasks(&self) -> usize {
        self.postponed(|tasks| tasks.tasks.len())
    }

    /// Postpones a task whose attempt failed with `error`.
    pub(crate) fn do_later(&self, task: Task, error: &Error) {
        self.postponed(|tasks| {
            tasks.add(task);
            if !error.is_wait() {
                tasks.from = coarse_milliseconds() + RETRY_OTHERS;
            }
        });
    }

    /// Attempts each task once, but stops at the first task that a lock delays. Returns the time
    /// until the next attempt if any tasks remain.
    pub(crate) fn do_postponed(
        &self,
        perform: impl Fn(Task) -> Result<(), Error>,
    ) -> Option<Duration> {
        let now = coarse_milliseconds();
        let mut left = self.postponed(|tasks| match tasks.from <= now {
            true => tasks.tasks.len(),
            false => 0,
        });
        while left > 0
            && let Some(task) = self.postponed(Tasks::next)
        {
            left -= 1;
            if let Err(error) = perform(task) {
                self.do_later(task, &error);
                if error.is_wait() {
                    break;
                }
            }
        }
        self.postponed(|tasks| {
            let others = tasks.from.saturating_sub(coarse_milliseconds());
            let is_left = !tasks.tasks.is_empty();
            is_left.then(|| RETRY.max(Duration::from_millis(others)))
        })
    }
}
