//! Messages that a transaction leaves to be sent after its commit.

use crate::structures::roots::SUBSCRIPTIONS;

/// What is subscribed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// A channel, by its name.
    Channel,
    /// All channels whose names match.
    Pattern,
    /// A shard channel, by its name; in a name space of its own.
    Shard,
}

impl Topic {
    /// All of them.
    pub const ALL: [Topic; 3] = [Topic::Channel, Topic::Pattern, Topic::Shard];

    /// The number of its dictionary.
    pub(crate) const fn database(self) -> usize {
        SUBSCRIPTIONS + self as usize
    }

    pub(crate) fn from_kind(kind: u8) -> Option<Topic> {
        Topic::ALL.into_iter().find(|&topic| topic as u8 == kind)
    }
}

/// Set in the kind of a record that names a parcel.
const BY_NAME: u8 = 0x80;

/// What the kind of a record says of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageKind {
    pub(crate) topic: Topic,
    /// Whether the body is the name of a parcel, and not the message itself.
    pub(crate) by_name: bool,
}

impl MessageKind {
    /// A message that lies in its record.
    pub(crate) fn whole(topic: Topic) -> MessageKind {
        MessageKind {
            topic,
            by_name: false,
        }
    }

    pub(crate) fn pack(self) -> u8 {
        self.topic as u8 | if self.by_name { BY_NAME } else { 0 }
    }

    /// None where it is no message's.
    pub(crate) fn unpack(kind: u8) -> Option<MessageKind> {
        Some(MessageKind {
            topic: Topic::from_kind(kind & !BY_NAME)?,
            by_name: kind & BY_NAME != 0,
        })
    }
}

/// A message that is to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    pub(crate) kind: MessageKind,
    pub(crate) name: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

impl Letter {
    /// Memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Letter>() + self.name.len() + self.body.len()
    }
}
