//! Messages and departures of this process that a lock stood in the way of.
//!
//! A commit stands whatever comes after it: the message that tells of it, too. So does the end of a subscriber. Where
//! another process holds a lock that these need, they are kept here and done by this process later: before it writes
//! again, whenever somebody [settles](Store::settle_waits), and the messages in their order. They are lost only with
//! the process.

use std::collections::VecDeque;
use std::time::Duration;

use undercroft_memory::ForkMutex;

use crate::error::Error;
use crate::handle::store::{Backlog, Store};
use crate::messages::seating::Seating;
use crate::transaction::message::{Letter, Topic};

/// Bytes of messages kept at most; those beyond are lost.
const LETTERS_MAX: usize = 16 << 20;
/// Between two tries of what a lock stands in the way of.
const RETRY: Duration = Duration::from_millis(1);

/// What is kept: a part of the handle.
#[derive(Default)]
pub(crate) struct Unsent(ForkMutex<Content>);

#[derive(Default)]
struct Content {
    /// The process that is to do it: a forked child's copy is its parent's.
    process: u32,
    /// Subscribers that are gone.
    departures: VecDeque<Departure>,
    letters: VecDeque<Letter>,
    letters_bytes: usize,
    /// Some thread sends the first message just now.
    sending: bool,
}

/// A subscriber that is gone: its seat, and what is still subscribed to there.
pub(crate) struct Departure {
    pub(crate) seating: Seating,
    pub(crate) left: Vec<(Topic, Names)>,
}

/// Names, and how often each is subscribed to.
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

    /// Takes the first message out, to be sent by the caller, which says with
    /// `end_sending` what became of it.
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
    /// Calls `body` with what is kept, for a moment.
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

    /// Has the subscriptions of a subscriber that is gone taken back later.
    #[cold]
    pub(crate) fn depart_later(&self, departure: Departure) {
        self.unsent(|content| content.departures.push_back(departure));
    }

    /// Has a message sent later, after those that are kept already.
    pub(crate) fn send_later(&self, letter: Letter) {
        self.unsent(|content| content.keep(letter));
    }

    /// Whether messages are kept, so that others must go after them.
    #[inline]
    pub(crate) fn has_letters(&self) -> bool {
        self.has_backlog() && self.unsent(|content| content.has_letters())
    }

    /// Sends the messages that are kept with `publish`, in their order. Returns false where
    /// another thread does so now.
    ///
    /// # Errors
    /// The ring's lock cannot be had; what was not sent is kept.
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
                // One that can never be sent holds up no other.
                _ => self.unsent(|content| content.end_sending(None)),
            }
        }
    }

    /// Ends the subscribers that are gone with `depart`, which gives back what is left of one that a lock stands in
    /// the way of. Returns after what time to try again, where anything is left.
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
