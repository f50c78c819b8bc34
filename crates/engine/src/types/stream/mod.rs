//! Implements streams, which consist of entries ordered by ID and of the consumer groups to which
//! entries are delivered. `types/registry` uses `contract`, and commands call the other modules.
//!
//! A stream has two counted trees. One contains its entries, which are packed in leaves, and the
//! other contains its groups, ordered by name. A group has a tree of its pending entries and a tree
//! of its consumers. Each consumer has a tree of its own pending entries.
//!
//! - `claim`: transfers pending entries to another consumer.
//! - `contract`: implements the type interface.
//! - `entries`: implements the tree of a stream's entries.
//! - `found`: represents entries outside the store.
//! - `free`: frees trees that are no longer referenced.
//! - `group`: implements groups and their consumers.
//! - `hot`: provides the operations that embedded clients call most often.
//! - `id`: defines entry IDs.
//! - `info`: answers queries about streams, groups and consumers.
//! - `leaves`: reads, adds and removes entries in leaves.
//! - `listpack`: encodes and decodes streams in Redis' RDB format.
//! - `rows`: stores ordered rows of a few words in a tree.
//! - `parts`: splits large deliveries and claims into several changes.
//! - `records`: converts a stream to and from a flat list.
//! - `root`: loads, copies, measures and checks complete streams.
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
