//! The inbox of an in-process connection, which receives published messages and the results of
//! blocked commands.

use std::sync::Arc;
use std::time::Duration;

use undercroft_embedded::{OpenStore, Receiver, StoreOf};
use undercroft_engine::messages::{Event, Message, Subscriber, Topic};
use undercroft_engine::waiting::{WaitOutcome, Waiters, Wanted};
use undercroft_engine::{Access, Error};
use undercroft_resp::{Version, encode};

/// Receives the connection's messages and the results of its blocked commands.
pub(super) struct Inbox {
    pub(super) subscriber: Subscriber<StoreOf>,
    pub(super) waiters: Waiters<StoreOf>,
    pub(super) version: Version,
    /// Encoded messages that precede the reply of the current command.
    pub(super) messages: Vec<u8>,
    /// Whether messages were overwritten before they were read.
    pub(super) lost: bool,
}

impl Inbox {
    pub(super) fn new(shared: &Arc<OpenStore>) -> Inbox {
        Inbox {
            subscriber: Subscriber::new(StoreOf(shared.clone())),
            waiters: Waiters::new(StoreOf(shared.clone())),
            version: Version::Resp2,
            messages: Vec::new(),
            lost: false,
        }
    }

    /// Reads the next message, if any. `rung` states whether a descriptor may have become readable.
    pub(super) fn take(&mut self, rung: bool) -> Result<bool, Error> {
        match self.subscriber.try_next_after(rung)? {
            Some(Event::Message(message)) => append(&mut self.messages, self.version, &message),
            Some(Event::Lost(_)) => self.lost = true,
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Reads all messages that were published before this call. The size of the ring limits their
    /// number.
    pub(super) fn take_all(&mut self) -> Result<(), Error> {
        let newest = self.subscriber.newest();
        let mut before = None;
        while let Some(position) = self.subscriber.position()
            && position < newest
            && before != Some(position)
        {
            before = Some(position);
            self.take(false)?;
        }
        Ok(())
    }
}

fn append(out: &mut Vec<u8>, version: Version, message: &Message<'_>) {
    let mut write = |parts: &[&[u8]]| {
        encode::push(out, version, parts.len());
        parts.iter().for_each(|part| encode::bulk(out, part));
    };
    if message.direct {
        let kind: &[u8] = match message.topic {
            Topic::Shard => b"smessage",
            _ => b"message",
        };
        write(&[kind, message.channel, message.payload]);
    }
    for pattern in message.patterns {
        write(&[b"pmessage", pattern, message.channel, message.payload]);
    }
}

impl Receiver for Inbox {
    fn take_or_wait(
        &mut self,
        _: Access<'_>,
        wanted: &Wanted<'_>,
        _: Option<Duration>,
    ) -> Result<WaitOutcome, Error> {
        // Begin without a timeout, because the receiving call handles timeouts.
        self.waiters.begin(wanted)
    }

    fn subscribe(&mut self, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        self.subscriber.subscribe(topic, names)
    }

    fn unsubscribe(&mut self, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        // First read the messages published before the unsubscription, because they are still
        // delivered.
        self.take_all()?;
        self.subscriber.unsubscribe(topic, names)
    }
}
