//! Implements feeds: long lists of fixed-size values. Each value has attributes of a few bits each
//! and a bit that hides the value. `types/registry` uses `contract`, and commands call the other
//! modules.
//!
//! A feed of any length is a counted tree with packed leaves. For each child, an inner node stores
//! a note: the number of hidden items and the attribute values that can occur. A query can
//! therefore count only the items that it selects, and skip subtrees that cannot contain a match.
//!
//! - `leaves`: reads, changes and summarizes the leaves of a feed.
//! - `check`: integrity checks.
//! - `contract`: the implementation of the type interface.
//! - `edit`: inserts, removes and hides items in leaves.
//! - `index`: maps values to leaves, using a tree of sorted words.
//! - `indexed`: feeds with an index: index updates, and lookups by value.
//! - `order`: the possible orders of a feed, and comparisons of values in a sorted feed.
//! - `query`: selects items of a feed and locates them.
//! - `read`: reads feeds, optimistically or under a lock.
//! - `root`: loads a feed from its root words.
//! - `schema`: the value size, attributes and order of a feed.
//! - `sorted`: sorted feeds: lookups by value, and insertion in order.
//! - `object`: copies, rebuilds, moves and discards complete feeds.
//! - `write`: the operations that change feeds.

mod check;
mod contract;
mod edit;
mod index;
mod indexed;
mod leaves;
mod object;
mod order;
mod query;
mod read;
mod root;
mod schema;
mod sorted;
mod write;

pub(crate) use contract::Feeds;
pub use leaves::image::Rows;
pub use order::{FeedType, Order};
pub use query::filter::{Filter, Seen, Selection, Test};
pub use query::found::FoundItems;
pub use query::tally::Untallied;
pub use read::{FeedInfo, FeedRange};
pub use root::Feed;
pub use schema::{ATTRIBUTES_MAX, Schema};

use crate::structures::entry::Kind;
use crate::types::value_type::ValueType;

const FEED: Kind = ValueType::Feed.kind(0);
