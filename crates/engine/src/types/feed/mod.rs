//! Feeds: long lists of values of one size, each with attributes of a few bits and a mark that hides it.
//!
//! A feed is a counted tree of packed leaves, of whatever length it is. Inner nodes note of each child how many of its
//! items are hidden and which values of attributes may be there, so that positions count only what a query sees, and
//! subtrees in which nothing can match are passed over.
//!
//! - `ahead`: asking for leaves ahead of their use.
//! - `check`: checking feeds.
//! - `contract`: what feeds answer as a type of value.
//! - `edit`: changing the leaves of a feed: items put in, taken out, marked.
//! - `filter`: which items a query sees: conditions on attributes, many items at a time.
//! - `found`: items that were read out of a feed.
//! - `image`: items outside the store, laid out as leaves are.
//! - `index`: which leaves have a value: words in order, as a tree.
//! - `indexed`: feeds with an index: what it is told, and items by their values.
//! - `labels`: labels of leaves, by which the way to one is found.
//! - `leaf`: a leaf: its layout, reading it.
//! - `order`: how a feed is ordered, and how the values of a sorted one compare.
//! - `read`: reading feeds, optimistically or under a lock.
//! - `room`: items put in between those of a leaf.
//! - `schema`: what the items of a feed are.
//! - `single`: one item by itself: found, taken out of its leaf, moved.
//! - `sorted`: sorted feeds: finding by value, and putting items where their values say.
//! - `summary`: what inner nodes note of their children.
//! - `tally`: what is counted of all that is below a node.
//! - `walk`: the items of a query, leaf after leaf.
//! - `whole`: whole feeds: their root words, copying, making anew, measuring.
//! - `write`: changing feeds.

mod ahead;
mod check;
mod contract;
mod edit;
mod filter;
mod found;
mod image;
mod index;
mod indexed;
mod labels;
mod leaf;
mod order;
mod read;
mod room;
mod schema;
mod single;
mod sorted;
mod summary;
mod tally;
mod walk;
mod whole;
mod write;

pub(crate) use contract::Feeds;
pub use filter::{Filter, Seen, Selection, Test};
pub use found::FoundItems;
pub use image::Rows;
pub use order::{FeedType, Order};
pub use read::{FeedInfo, FeedRange};
pub use schema::{ATTRIBUTES_MAX, Schema};
pub use tally::Untallied;
pub use whole::Feed;

use crate::structures::entry::Kind;
use crate::types::registry::ValueType;

const FEED: Kind = Kind {
    value_type: ValueType::Feed,
    detail: 0,
};
