//! Messages that a transaction queues, to be sent after its commit.

use crate::structures::roots::SUBSCRIPTIONS;

/// The kind of name that a client subscribes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// A channel, given by its name.
    Channel,
    /// A pattern, which stands for all channels whose names match it.
    Pattern,
    /// A shard channel, given by its name. Shard channels have a separate namespace.
    Shard,
}

impl Topic {
    /// All kinds of topics.
    pub const ALL: [Topic; 3] = [Topic::Channel, Topic::Pattern, Topic::Shard];

    /// Returns the number of the hidden dictionary that contains the subscriptions of this kind.
    pub(crate) const fn database(self) -> usize {
        SUBSCRIPTIONS + self as usize
    }

    pub(crate) fn from_kind(kind: u8) -> Option<Topic> {
        Topic::ALL.into_iter().find(|&topic| topic as u8 == kind)
    }
}

/// The flag in a record's kind that marks the body as the name of a parcel (a long message in the
/// store).
const BY_NAME: u8 = 0x80;

/// The kind of a record in the message ring, which describes its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageKind {
    pub(crate) topic: Topic,
    /// Whether the body is the name of a parcel (a long message in the store) rather than the
    /// message itself.
    pub(crate) by_name: bool,
}

impl MessageKind {
    /// Returns the kind of a message whose body is stored in the record itself.
    pub(crate) fn whole(topic: Topic) -> MessageKind {
        MessageKind {
            topic,
            by_name: false,
        }
    }

    pub(crate) fn pack(self) -> u8 {
        self.topic as u8 | if self.by_name { BY_NAME } else { 0 }
    }

    /// Decodes the kind of a record. Returns `None` if the record is not a message.
    pub(crate) fn unpack(kind: u8) -> Option<MessageKind> {
        Some(MessageKind {
            topic: Topic::from_kind(kind & !BY_NAME)?,
            by_name: kind & BY_NAME != 0,
        })
    }
}

/// A message to be sent after the commit.
#[derive(Clone, Debug)]
pub(crate) struct QueuedMessage {
    pub(crate) kind: MessageKind,
    pub(crate) name: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

impl QueuedMessage {
    /// Returns the memory that the message occupies, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<QueuedMessage>() + self.name.len() + self.body.len()
    }
}
