//! Streams: entries in the order of their ids, and groups of consumers that share them.
//! `types/registry` asks its contract; commands make its calls.
//!
//! A stream is two counted trees: its entries, packed into leaves, and its groups by name. A group has trees of its
//! pending entries and of its consumers, each of which has one of what is pending at it.
//!
//! - `claim`: giving pending entries to another consumer.
//! - `contract`: what streams answer as a type of value.
//! - `entries`: the tree of a stream's entries.
//! - `found`: entries outside the store.
//! - `free`: freeing what is no longer reached.
//! - `group`: groups and their consumers.
//! - `hot`: the calls that embedded clients make most.
//! - `id`: the ids of entries.
//! - `info`: what is asked about streams, groups and consumers.
//! - `leaves`: leaves of entries: reading them, adding entries, taking them out.
//! - `listpack`: the nodes of a stream in Redis' form.
//! - `rows`: rows of a few words in order, in a counted tree.
//! - `parts`: large deliveries and claims in parts.
//! - `records`: the flat list that a stream is to the outside.
//! - `root`: whole streams: their root words, copying, measuring, checking.
//! - `write`: adding, deleting, trimming, delivering.

mod claim;
mod contract;
mod entries;
mod found;
mod free;
mod group;
mod hot;
mod id;
mod info;
mod leaves;
mod listpack;
mod parts;
mod records;
mod root;
mod rows;
mod write;

pub use claim::{Claim, Claimed};
pub(crate) use contract::Streams;
pub use entries::IdRange;
pub use found::StreamEntries;
pub use id::{IdText, StreamId};
pub use info::{ConsumerInfo, GroupInfo, PendingEntry, PendingInfo};
pub use leaves::limits::StreamLimits;
pub use parts::Delivery;
pub use records::StreamRecord;
pub use root::Stream;
pub use write::{AddedEntry, EntryId, SetId, Trim, TrimTo};

use crate::structures::entry::Kind;
use crate::types::value_type::ValueType;

const STREAM: Kind = ValueType::Stream.kind(0);
