//! The messages of PUBLISH and SPUBLISH, of all processes, that replicas receive.

use undercroft_engine::messages::{Event, Subscriber, Topic};
use undercroft_engine::{Error, Store};
use undercroft_resp::encode::command;

use crate::log::log;

/// The maximum number of bytes of messages that are taken at once.
const TAKEN_MAX: usize = 1 << 20;

/// The messages that were published and are not in the stream yet.
pub(super) struct Messages<'s> {
    subscriber: Subscriber<&'s Store>,
    /// The messages as commands.
    unsent: Vec<u8>,
    /// Whether the subscriber receives messages. Begun again in each round until it succeeds.
    observes: bool,
    /// Whether the log has told that messages were lost.
    has_told: bool,
}

impl<'s> Messages<'s> {
    pub(super) fn new(store: &'s Store) -> Messages<'s> {
        let mut messages = Messages {
            subscriber: store.subscriber(),
            unsent: Vec::new(),
            observes: false,
            has_told: false,
        };
        if let Err(error) = messages.observe() {
            log(format_args!(
                "replicas do not receive messages yet: {error}"
            ));
        }
        messages
    }

    fn observe(&mut self) -> Result<(), Error> {
        if !self.observes {
            self.subscriber.observe()?;
            self.observes = true;
        }
        Ok(())
    }

    /// Returns commands that publish the messages which were not [forgotten](Self::forget) yet.
    /// Redis before 7.0 has no shard channels, so `is_old` leaves their messages out.
    pub(super) fn take(&mut self, is_old: bool) -> Vec<u8> {
        // The store may be full, or a lock may be held.
        let _ = self.observe();
        while self.unsent.len() < TAKEN_MAX {
            match self.subscriber.try_next() {
                Ok(Some(Event::Message(message))) => {
                    if is_old && message.topic == Topic::Shard {
                        continue;
                    }
                    let name = match message.topic {
                        Topic::Shard => &b"SPUBLISH"[..],
                        Topic::Channel | Topic::Pattern => b"PUBLISH",
                    };
                    command(&mut self.unsent, &[name, message.channel, message.payload]);
                }
                Ok(Some(Event::Lost(_))) if !self.has_told => {
                    self.has_told = true;
                    log(format_args!(
                        "messages were lost to replicas: programs publish faster than they are sent"
                    ));
                }
                Ok(Some(Event::Lost(_))) => {}
                // Locks and removed files are looked at again in the next round.
                Ok(None) | Err(_) => break,
            }
        }
        self.unsent.clone()
    }

    /// Forgets the messages that were taken, because they are in the stream.
    pub(super) fn forget(&mut self) {
        self.unsent.clear();
    }
}
