//! Messages and unsubscriptions of this process that a locked shard delayed.
//!
//! A commit is final even if its messages are delayed, and dropping a subscriber is final even if
//! its unsubscriptions are. If another process holds a lock that this work needs, this process does
//! the work before its next write, or whenever a caller [settles](Store::settle_waits) its
//! unfinished work. Messages keep their order. Unfinished work is lost only if the process dies.

use std::collections::VecDeque;
use std::time::Duration;

use undercroft_memory::ForkMutex;

use crate::error::Error;
use crate::handle::store::{Backlog, Store};
use crate::messages::seating::Seating;
use crate::transaction::message::{QueuedMessage, Topic};

/// The maximum total size of the pending messages in bytes. Messages beyond this limit are lost.
const LETTERS_MAX: usize = 16 << 20;
/// The time between two attempts at work that a lock delayed.
const RETRY: Duration = Duration::from_millis(1);

/// The pending messages and unsubscriptions, kept in the store handle.
#[derive(Default)]
pub(crate) struct Unsent(ForkMutex<Content>);

#[derive(Default)]
struct Content {
    /// The process that owns this work. After a fork, the child's copy still names the parent, so
    /// the child discards it.
    process: u32,
    /// Dropped subscribers with subscriptions that have not been canceled yet.
    departures: VecDeque<Departure>,
    letters: VecDeque<QueuedMessage>,
    letters_bytes: usize,
    /// Whether a thread is currently sending the first message.
    sending: bool,
}

/// A dropped subscriber: its seat (its futex slot) and its remaining subscriptions.
pub(crate) struct Departure {
    pub(crate) seating: Seating,
    pub(crate) left: Vec<(Topic, Names)>,
}

/// Subscribed names, with the number of subscriptions to each name.
type Names = Vec<(Vec<u8>, i64)>;

impl Content {
    fn is_empty(&self) -> bool {
        self.departures.is_empty() && !self.has_letters()
    }

    fn has_letters(&self) -> bool {
        self.sending || !self.letters.is_empty()
    }

    fn keep(&mut self, letter: QueuedMessage) {
        if self.letters_bytes + letter.bytes() <= LETTERS_MAX {
            self.letters_bytes += letter.bytes();
            self.letters.push_back(letter);
        }
    }

    /// Removes and returns the first message, for the caller to send. The caller must report the
    /// outcome with `end_sending`.
    fn begin_to_send(&mut self) -> Option<QueuedMessage> {
        let letter = self.letters.pop_front()?;
        self.letters_bytes -= letter.bytes();
        self.sending = true;
        Some(letter)
    }

    fn end_sending(&mut self, unsent: Option<QueuedMessage>) {
        self.sending = false;
        if let Some(letter) = unsent {
            self.letters_bytes += letter.bytes();
            self.letters.push_front(letter);
        }
    }
}

impl Store {
    /// Calls `body` with the pending work, holding its mutex.
    #[cold]
    fn unsent<R>(&self, body: impl FnOnce(&mut Content) -> R) -> R {
        let mut content = self.part::<Unsent>().0.lock();
        let process = std::process::id();
        if content.process != process {
            *content = Content {
                process,
                ..Content::default()
            };
        }
        let result = body(&mut content);
        self.note_backlog(Backlog::Messages, !content.is_empty());
        result
    }

    /// Queues a dropped subscriber, so that its subscriptions are canceled later.
    #[cold]
    pub(crate) fn depart_later(&self, departure: Departure) {
        self.unsent(|content| content.departures.push_back(departure));
    }

    /// Queues a message, to send it after the messages that are already pending.
    pub(crate) fn send_later(&self, letter: QueuedMessage) {
        self.unsent(|content| content.keep(letter));
    }

    /// Returns whether there are pending messages, which must be sent before any new message.
    #[inline]
    pub(crate) fn has_letters(&self) -> bool {
        self.has_backlog() && self.unsent(|content| content.has_letters())
    }

    /// Sends the pending messages with `publish`, in order. Returns false if another thread is
    /// already sending them.
    ///
    /// # Errors
    /// Fails if the lock of the message ring cannot be acquired. Messages that were not sent stay
    /// pending.
    pub(crate) fn send_kept(
        &self,
        publish: impl Fn(&QueuedMessage) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        loop {
            let first = self.unsent(|content| match content.sending {
                true => Err(()),
                false => Ok(content.begin_to_send()),
            });
            let Ok(first) = first else {
                return Ok(false);
            };
            let Some(letter) = first else {
                return Ok(true);
            };
            match publish(&letter) {
                Err(error) if error.is_wait() => {
                    self.unsent(|content| content.end_sending(Some(letter)));
                    return Err(error);
                }
                // A message that can never be sent must not block the following messages.
                _ => self.unsent(|content| content.end_sending(None)),
            }
        }
    }

    /// Cancels the subscriptions of the dropped subscribers with `depart`, which returns the
    /// remaining work if a lock delays it. Returns the time until the next attempt if any work
    /// remains.
    pub(crate) fn depart_kept(
        &self,
        depart: impl Fn(Departure) -> Result<(), Departure>,
    ) -> Option<Duration> {
        while let Some(departure) = self.unsent(|content| content.departures.pop_front()) {
            if let Err(departure) = depart(departure) {
                self.unsent(|content| content.departures.push_front(departure));
                break;
            }
        }
        self.unsent(|content| {
            let is_left = !content.letters.is_empty() || !content.departures.is_empty();
            is_left.then_some(RETRY)
        })
    }
}
