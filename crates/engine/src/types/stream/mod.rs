//! Streams: entries in the order of their ids, and the consumer groups that share them.
//! `types/registry` uses the contract; commands call the other operations.
//!
//! A stream has two counted trees: its entries, packed into leaves, and its groups by name. A group
//! has a tree of its pending entries and a tree of its consumers. Each consumer has a tree of the
//! entries that are pending for it.
//!
//! - `claim`: transfers pending entries to another consumer.
//! - `contract`: the implementation of the type interface.
//! - `entries`: the tree of a stream's entries.
//! - `found`: entries outside the store.
//! - `free`: frees trees that are no longer referenced.
//! - `group`: groups and their consumers.
//! - `hot`: the calls that embedded clients make most often.
//! - `id`: entry ids.
//! - `info`: queries about streams, groups and consumers.
//! - `leaves`: leaves of entries: reading, adding and removing entries.
//! - `listpack`: streams in Redis' RDB form.
//! - `rows`: ordered rows of a few words, in a counted tree.
//! - `parts`: splits large deliveries and claims into parts.
//! - `records`: the flat list form of a stream.
//! - `root`: complete streams: root words, copying, measuring and checking.
//! - `write`: adds, deletes, trims and delivers entries.

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
