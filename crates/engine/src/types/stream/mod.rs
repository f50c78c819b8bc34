//! Streams: entries in the order of their ids, and groups of consumers that share them.
//!
//! A stream is two counted trees: its entries, packed into leaves, and its groups by name. A group has trees of its
//! pending entries and of its consumers, each of which has one of what is pending at it.
//!
//! - `alike`: entries in a row that are laid out alike.
//! - `claim`: giving pending entries to another consumer.
//! - `code`: how ids, names and values are written into a leaf.
//! - `contract`: what streams answer as a type of value.
//! - `entries`: the tree of a stream's entries.
//! - `finger`: reading on where the last read of a thread has ended.
//! - `found`: entries outside the store.
//! - `free`: freeing what is no longer reached.
//! - `group`: groups and their consumers.
//! - `hot`: the calls that embedded clients make most.
//! - `id`: the ids of entries.
//! - `image`: the entries of a leaf, written and read.
//! - `info`: what is asked about streams, groups and consumers.
//! - `leaf`: a leaf of entries: its layout, reading it, changing it.
//! - `listpack`: the nodes of a stream in Redis' form.
//! - `rows`: rows of a few words in order, in a counted tree.
//! - `parts`: large deliveries and claims in parts.
//! - `records`: the flat list that a stream is to the outside.
//! - `whole`: whole streams: their root words, copying, measuring, checking.
//! - `write`: adding, deleting, trimming, delivering.

mod alike;
mod claim;
mod code;
mod contract;
mod entries;
mod finger;
mod found;
mod free;
mod group;
mod hot;
mod id;
mod image;
mod info;
mod leaf;
mod listpack;
mod parts;
mod records;
mod rows;
mod whole;
mod write;

pub use claim::{Claim, Claimed};
pub(crate) use contract::Streams;
pub use entries::IdRange;
pub use found::StreamEntries;
pub use id::{IdText, StreamId};
pub use info::{ConsumerInfo, GroupInfo, PendingEntry, PendingInfo};
pub use parts::Delivery;
pub use records::StreamRecord;
pub use whole::Stream;
pub use write::{AddedEntry, EntryId, SetId, Trim, TrimTo};

use crate::structures::entry::Kind;
use crate::types::registry::ValueType;

const STREAM: Kind = Kind {
    value_type: ValueType::Stream,
    detail: 0,
};

/// Up to where a leaf of a stream is added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// The most entries of a leaf; 0 is as many as fit.
    pub entries: u64,
    /// The most bytes that its entries take in Redis, 4,096 at most; 0 is as many as fit.
    pub bytes: u64,
}

impl StreamLimits {
    /// Redis' defaults.
    pub const DEFAULT: StreamLimits = StreamLimits {
        entries: 100,
        bytes: 4096,
    };

    /// How many entries go at once where about so many as are wanted are to stay: those of a hundred leaves.
    pub fn trimmed_at_once(&self) -> u64 {
        match self.entries.saturating_mul(100) {
            0 => 10_000,
            most => most.min(1_000_000),
        }
    }

    fn entries(&self) -> u64 {
        let most = leaf::ENTRIES_MAX as u64;
        if self.entries == 0 {
            most
        } else {
            self.entries.min(most)
        }
    }

    fn bytes(&self) -> u64 {
        if self.bytes == 0 {
            u64::MAX
        } else {
            self.bytes
        }
    }
}
