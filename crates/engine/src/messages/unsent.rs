//! Messages and unsubscriptions of this process that a locked shard delayed.
//!
//! A commit stands even if its messages cannot be sent at once, and so does the end of a
//! subscriber. If another process holds a lock that this work needs, this process keeps the work
//! here and does it later: before its next write and whenever a caller
//! [settles](Store::settle_waits). Messages keep their order. Kept work is lost only if the process
//! dies.

use std::collections::VecDeque;
use std::time::Duration;

use undercroft_memory::ForkMutex;

use crate::error::Error;
use crate::handle::store::{Backlog, Store};
use crate::messages::seating::Seating;
use crate::transaction::message::{Letter, Topic};

/// Maximum number of bytes of kept messages; further messages are lost.
const LETTERS_MAX: usize = 16 << 20;
/// Time between two attempts at work that a lock delayed.
const RETRY: Duration = Duration::from_millis(1);

/// The kept messages and unsubscriptions, as a part of the store handle.
#[derive(Default)]
pub(crate) struct Unsent(ForkMutex<Content>);

#[derive(Default)]
struct Content {
    /// The process that owns this work. After a fork, the child's copy still names its parent and
    /// is discarded.
    process: u32,
    /// Dropped subscribers whose subscriptions are not all canceled.
    departures: VecDeque<Departure>,
    letters: VecDeque<Letter>,
    letters_bytes: usize,
    /// Whether a thread is sending the first message now.
    sending: bool,
}

/// A dropped subscriber: its seat and its remaining subscriptions.
pub(crate) struct Departure {
    pub(crate) seating: Seating,
    pub(crate) left: Vec<(Topic, Names)>,
}

/// Names, with the number of subscriptions to each.
type Names = Vec<(Vec<u8>, i64)>;

impl Content {
    fn is_empty(&self) -> bool {
        self.departures.is_empty() && !self.has_letters()
    }

    fn has_letters(&self) -> bool {
        self.sending || !self.letters.is_empty()
    }

    fn keep(&mut self, letter: Letter) {
        if self.letters_bytes + letter.bytes() <= LETTERS_MAX {
            self.letters_bytes += letter.bytes();
            self.letters.push_back(letter);
        }
    }

    /// Takes out the first message for the caller to send. The caller reports the outcome with
    /// `end_sending`.
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
    /// Calls `body` with the kept work, while its mutex is held.
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

    /// Keeps a dropped subscriber, to cancel its subscriptions later.
    #[cold]
    pub(crate) fn depart_later(&self, departure: Departure) {
        self.unsent(|content| content.departures.push_back(departure));
    }

    /// Keeps a message, to send it after the messages already kept.
    pub(crate) fn send_later(&self, letter: Letter) {
        self.unsent(|content| content.keep(letter));
    }

    /// Returns whether messages are kept, so that new ones must wait for them.
    #[inline]
    pub(crate) fn has_letters(&self) -> bool {
        self.has_backlog() && self.unsent(|content| content.has_letters())
    }

    /// Sends the kept messages with `publish`, in order. Returns false if another thread is sending
    /// them.
    ///
    /// # Errors
    /// Fails if the ring's lock cannot be taken. Messages that were not sent are kept.
    pub(crate) fn send_kept(
        &self,
        publish: impl Fn(&Letter) -> Result<(), Error>,
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
                // A message that can never be sent must not block the next ones.
                _ => self.unsent(|content| content.end_sending(None)),
            }
        }
    }

    /// Ends the dropped subscribers with `depart`, which returns the remainder of a subscriber that
    /// a lock delays. Returns the time until the next attempt if any work is left.
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
