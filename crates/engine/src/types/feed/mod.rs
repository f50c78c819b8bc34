//! Feeds: long lists of values of one size, each with attributes of a few bits and a mark that hides it.
//! `types/registry` asks its contract; commands make its calls.
//!
//! A feed is a counted tree of packed leaves, of whatever length it is. Inner nodes note of each child how many of its
//! items are hidden and which values of attributes may be there, so that positions count only what a query sees, and
//! subtrees in which nothing can match are passed over.
//!
//! - `leaves`: leaves of a feed: reading them, changing them, what is noted of them.
//! - `check`: checking feeds.
//! - `contract`: what feeds answer as a type of value.
//! - `edit`: changing the leaves of a feed: items put in, taken out, marked.
//! - `index`: which leaves have a value: words in order, as a tree.
//! - `indexed`: feeds with an index: what it is told, and items by their values.
//! - `order`: how a feed is ordered, and how the values of a sorted one compare.
//! - `query`: queries of a feed: which items they see, and the way to them.
//! - `read`: reading feeds, optimistically or under a lock.
//! - `root`: a feed from its root words.
//! - `schema`: what the items of a feed are.
//! - `sorted`: sorted feeds: finding by value, and putting items where their values say.
//! - `object`: feeds as a whole: copied, made anew, let go of.
//! - `write`: changing feeds.

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
