//! Implements streams: entries ordered by ID, and the consumer groups to which entries are
//! delivered. `types/registry` uses `contract`; commands call the other modules.
//!
//! A stream has two trees that count their items: its entries, which are packed in leaves, and its
//! groups, ordered by name. A group has a tree of its pending entries and a tree of its consumers.
//! Each consumer has a tree of its own pending entries.
//!
//! - `claim`: transfers pending entries to another consumer.
//! - `contract`: the implementation of the type interface.
//! - `entries`: the tree of a stream's entries.
//! - `found`: entries outside the store.
//! - `free`: frees trees that are no longer referenced.
//! - `group`: groups and their consumers.
//! - `hot`: the operations that embedded clients call most often.
//! - `id`: entry IDs.
//! - `info`: queries about streams, groups and consumers.
//! - `leaves`: leaves of entries: reading, adding and removing entries.
//! - `listpack`: streams in Redis' RDB format.
//! - `rows`: ordered rows of a few words, stored in a tree.
//! - `parts`: splits large deliveries and claims into several changes.
//! - `records`: a stream as a flat list.
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
