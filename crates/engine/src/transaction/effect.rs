//! The effects of changes on keys, as reported to WATCH, waiting clients and replicas.

/// The effect of a change on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The value or the expiry of the key changed.
    Changed = 0,
    /// The key was removed, either explicitly or because its last element was removed.
    Removed = 1,
    /// The key was removed because it had expired.
    Expired = 2,
    /// The key was evicted to free memory.
    Evicted = 3,
}

impl Effect {
    /// Returns the effect of removing elements from a key. `gone` indicates whether this also
    /// removed the key.
    #[inline(always)]
    pub(crate) fn of_taking(gone: bool) -> Effect {
        if gone {
            Effect::Removed
        } else {
            Effect::Changed
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Effect> {
        const ALL: [Effect; 4] = [
            Effect::Changed,
            Effect::Removed,
            Effect::Expired,
            Effect::Evicted,
        ];
        ALL.get(usize::from(byte)).copied()
    }
}

/// The only part of a key that a change concerns, so that a replica need not receive the complete
/// value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangedPart<'n> {
    /// A field of a hash, or a member of a set or sorted set.
    Member(&'n [u8]),
    /// The expiry of the key.
    Expiry,
    /// These bytes of a string.
    Bytes {
        /// The position of the first byte.
        position: u64,
        /// The number of bytes.
        length: u64,
    },
    /// Items were added at one end of a list, or removed from it.
    Items {
        /// Whether it was the left end.
        left: bool,
        /// Whether the items were added.
        added: bool,
        /// The number of items.
        count: u64,
        /// The length of the list after the change.
        length: u64,
    },
    /// An entry was appended to a stream, or deleted from it.
    Entry {
        /// The milliseconds of the entry's ID.
        ms: u64,
        /// The sequence number of the entry's ID.
        seq: u64,
    },
    /// The oldest entries of a stream were removed.
    Trimmed,
    /// The position of a consumer group of a stream.
    Group(&'n [u8]),
    /// A consumer of a group was used, and perhaps created.
    Consumer {
        /// The name of the group.
        group: &'n [u8],
        /// The name of the consumer.
        name: &'n [u8],
    },
    /// An entry that is pending in a group, or no longer.
    Pending {
        /// The name of the group.
        group: &'n [u8],
        /// The milliseconds of the entry's ID.
        ms: u64,
        /// The sequence number of the entry's ID.
        seq: u64,
    },
}

/// A change to one or more keys, as [`Changes::iter`](crate::Changes::iter) returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'c> {
    /// A change to one key, given by its database and name.
    Key(usize, &'c [u8], Effect),
    /// A change to a part of one key, given by its database and name. The key exists, and its type is
    /// the one that it had before.
    Part(usize, &'c [u8], ChangedPart<'c>),
    /// All keys of a database in one shard were removed.
    Emptied {
        /// The number of the database.
        database: usize,
        /// The number of the shard.
        shard: usize,
    },
    /// The keys of two databases in one shard were swapped.
    Swapped {
        /// The numbers of the databases.
        databases: [usize; 2],
        /// The number of the shard.
        shard: usize,
    },
    /// The function libraries changed.
    Libraries,
}
