//! Tasks of this process that a lock stood in the way of: queues to be served, and waits to be ended.
//!
//! A commit stands whatever comes after it: the clients that it serves, and the wait that it ended, too. Where another
//! process holds a lock that these need, they are done by this process later: before it writes again, and whenever
//! somebody [settles](Store::settle_waits). They are lost only with the process.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use undercroft_memory::{ForkMutex, coarse_milliseconds};

use crate::error::Error;
use crate::handle::store::{Backlog, Store};
use crate::transaction::notice::Queue;
use crate::waiting::record::Ticket;

/// Between two tries of what a lock stands in the way of.
const RETRY: Duration = Duration::from_millis(1);
/// And of what anything else does, such as want of memory, in milliseconds.
const RETRY_OTHERS: u64 = 100;

/// What is postponed: a part of the handle.
#[derive(Default)]
pub(crate) struct Postponed(ForkMutex<Tasks>);

#[derive(Default)]
struct Tasks {
    /// The process that is to do them: a forked child's copy is its parent's.
    process: u32,
    /// In the order in which they are tried; each once.
    tasks: VecDeque<Task>,
    known: HashSet<Task>,
    /// They are not tried before this time, as something other than a lock
    /// stood in the way of one.
    from: u64,
}

/// What is to be done later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Task {
    /// Serving a queue.
    Serve(Queue),
    /// Ending the wait of a client that is gone.
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
    /// Calls `body` with what is postponed, for a moment.
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

    /// How many tasks are postponed.
    #[cfg(test)]
    pub(crate) fn tasks(&self) -> usize {
        self.postponed(|tasks| tasks.tasks.len())
    }

    /// Has something done later that this error stood in the way of.
    pub(crate) fn do_later(&self, task: Task, error: &Error) {
        self.postponed(|tasks| {
            tasks.add(task);
            if !error.is_wait() {
                tasks.from = coarse_milliseconds() + RETRY_OTHERS;
            }
        });
    }

    /// Tries each of the tasks once, up to the first that a lock stands in the way of. Returns after what time to try
    /// again, where any is left.
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
