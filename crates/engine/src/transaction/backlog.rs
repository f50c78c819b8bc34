//! What is still to be done behind commits, where a lock stood in the way.
//!
//! A commit stands whatever comes behind it: the message that tells of it, the
//! clients that it serves, the wait that it ended. So does the end of a
//! subscriber. Where another process holds a lock that these need, they are kept
//! here and done by this process later:
//! before it writes again, whenever somebody [settles](Store::settle_waits),
//! and the messages in their order. They are lost only with the process.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::time::Duration;

use undercroft_memory::{are_signals_deferred, coarse_milliseconds, defer_signals};

use crate::error::Error;
use crate::messages::parcel::MessageKind;
use crate::messages::subscriber::Departure;
use crate::store::Store;
use crate::waiting::{Queue, Ticket};

/// Bytes of messages kept at most; those beyond are lost.
const LETTERS_MAX: usize = 16 << 20;
/// Between two tries of what a lock stands in the way of.
const RETRY: Duration = Duration::from_millis(1);
/// And of what anything else does, such as want of memory, in milliseconds.
const RETRY_OTHERS: u64 = 100;

/// What is to be done by this process later.
#[derive(Default)]
pub(crate) struct Backlog {
    /// The process that is to do it: a forked child's copy is its parent's.
    process: u32,
    /// In the order in which they are tried; each once.
    tasks: VecDeque<Task>,
    known: HashSet<Task>,
    /// Tasks are not tried before this time, as something other than a lock
    /// stood in the way of one.
    tasks_from: u64,
    /// Subscribers that are gone.
    departures: VecDeque<Departure>,
    letters: VecDeque<Letter>,
    letters_bytes: usize,
    /// Some thread sends the first message just now.
    sending: bool,
}

/// Something else than a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Task {
    /// Serving a queue.
    Serve(Queue),
    /// Ending the wait of a client that is gone.
    End(Ticket),
}

/// A message that was not sent yet.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    pub(crate) kind: MessageKind,
    pub(crate) name: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

impl Letter {
    fn bytes(&self) -> usize {
        size_of::<Letter>() + self.name.len() + self.body.len()
    }
}

impl Backlog {
    fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.departures.is_empty() && !self.has_letters()
    }

    fn has_letters(&self) -> bool {
        self.sending || !self.letters.is_empty()
    }

    fn add(&mut self, task: Task) {
        if self.known.insert(task) {
            self.tasks.push_back(task);
        }
    }

    fn next_task(&mut self) -> Option<Task> {
        let task = self.tasks.pop_front()?;
        self.known.remove(&task);
        Some(task)
    }

    fn keep(&mut self, letter: Letter) {
        if self.letters_bytes + letter.bytes() <= LETTERS_MAX {
            self.letters_bytes += letter.bytes();
            self.letters.push_back(letter);
        }
    }

    /// Takes the first message out, to be sent by the caller, who says with
    /// `sent` what became of it.
    fn begin_to_send(&mut self) -> Option<Letter> {
        let letter = self.letters.pop_front()?;
        self.letters_bytes -= letter.bytes();
        self.sending = true;
        Some(letter)
    }

    fn end_sending(&mut self, unsent: Option<Letter>) {
        self.sending = false;
        if let Some(letter) = unsent {
            self.letters_bytes += letter.bytes();
            self.letters.push_front(letter);
        }
    }
}

impl Store {
    /// Calls `body` with what is to be done, for a moment.
    #[cold]
    fn backlog<R>(&self, body: impl FnOnce(&mut Backlog) -> R) -> R {
        let mut backlog = self.backlog.lock();
        let process = std::process::id();
        if backlog.process != process {
            *backlog = Backlog {
                process,
                ..Backlog::default()
            };
        }
        let result = body(&mut backlog);
        self.has_backlog
            .store(!backlog.is_empty(), Ordering::Release);
        result
    }

    /// How much is to be done, but for messages.
    #[cfg(test)]
    pub(crate) fn tasks(&self) -> usize {
        self.backlog(|backlog| backlog.tasks.len())
    }

    /// Has something done later that this error stood in the way of.
    pub(crate) fn do_later(&self, task: Task, error: &Error) {
        self.backlog(|backlog| {
            backlog.add(task);
            if !error.is_wait() {
                backlog.tasks_from = coarse_milliseconds() + RETRY_OTHERS;
            }
        });
    }

    /// Has the subscriptions of a subscriber that is gone taken back later.
    #[cold]
    pub(crate) fn depart_later(&self, departure: Departure) {
        self.backlog(|backlog| backlog.departures.push_back(departure));
    }

    /// Has a message sent later, behind those that are kept already.
    pub(crate) fn send_later(&self, letter: Letter) {
        self.backlog(|backlog| backlog.keep(letter));
    }

    /// Whether messages are kept, so that others must go behind them.
    #[inline]
    pub(crate) fn has_letters(&self) -> bool {
        self.has_backlog() && self.backlog(|backlog| backlog.has_letters())
    }

    /// Whether anything is to be done behind what was committed, for
    /// [`settle_waits`](Self::settle_waits) to try again. One load.
    #[inline(always)]
    pub fn has_backlog(&self) -> bool {
        self.has_backlog.load(Ordering::Acquire)
    }

    /// Tries again what a lock stood in the way of: served queues, waits and
    /// subscriptions that ended, messages that tell of a commit. It ends with the first lock that
    /// cannot be had. Returns after what time to call it again, where something
    /// is left. Almost free where there is nothing; every write does it, too.
    pub fn settle_waits(&self) -> Option<Duration> {
        if !self.has_backlog() {
            return None;
        }
        self.settle()
    }

    /// [`settle_waits`](Self::settle_waits) before a change, unless this is
    /// behind another one.
    #[cold]
    pub(crate) fn settle_first(&self) {
        if !are_signals_deferred() {
            self.settle();
        }
    }

    #[cold]
    fn settle(&self) -> Option<Duration> {
        let _deferred = defer_signals();
        // Whether they were sent shows in what is left.
        let _ = self.send_kept();
        let now = coarse_milliseconds();
        // Each is tried once.
        let mut left = self.backlog(|backlog| match backlog.tasks_from <= now {
            true => backlog.tasks.len(),
            false => 0,
        });
        while left > 0
            && let Some(task) = self.backlog(Backlog::next_task)
        {
            left -= 1;
            let done = match task {
                Task::Serve(queue) => self.serve_again(queue),
                Task::End(ticket) => self.end_for_good(ticket),
            };
            if let Err(error) = done {
                self.do_later(task, &error);
                if error.is_wait() {
                    break;
                }
            }
        }
        while let Some(departure) = self.backlog(|backlog| backlog.departures.pop_front()) {
            if let Err(departure) = self.depart(departure) {
                self.backlog(|backlog| backlog.departures.push_front(departure));
                break;
            }
        }
        self.backlog(|backlog| {
            let now = coarse_milliseconds();
            let others = Duration::from_millis(backlog.tasks_from.saturating_sub(now));
            let soon = !backlog.letters.is_empty() || !backlog.departures.is_empty();
            match (backlog.tasks.is_empty(), soon) {
                (_, true) => Some(RETRY),
                (false, false) => Some(RETRY.max(others)),
                (true, false) => None,
            }
        })
    }

    /// Sends the messages that are kept, in their order. Returns false where
    /// another thread does so now.
    ///
    /// # Errors
    /// The ring's lock cannot be had; what was not sent is kept.
    pub(crate) fn send_kept(&self) -> Result<bool, Error> {
        loop {
            let first = self.backlog(|backlog| match backlog.sending {
                true => Err(()),
                false => Ok(backlog.begin_to_send()),
            });
            let Ok(first) = first else {
                return Ok(false);
            };
            let Some(letter) = first else {
                return Ok(true);
            };
            match self.publish_now(letter.kind, &letter.name, &letter.body) {
                Err(error) if error.is_wait() => {
                    self.backlog(|backlog| backlog.end_sending(Some(letter)));
                    return Err(error);
                }
                // One that can never be sent holds up no other.
                _ => self.backlog(|backlog| backlog.end_sending(None)),
            }
        }
    }
}
