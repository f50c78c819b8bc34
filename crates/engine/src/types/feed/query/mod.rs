//! Queries of a feed: selecting items, and finding the way to them.
//!
//! - `filter`: selects items by mark, attributes and value, many items at a time.
//! - `found`: items that were read from a feed.
//! - `prefetch`: prefetches leaves that a query is about to read.
//! - `tally`: counts of the attribute values below a node.
//! - `walk`: visits or counts the selected items leaf by leaf.

pub(super) mod filter;
pub(super) mod found;
pub(super) mod prefetch;
pub(super) mod tally;
pub(super) mod walk;
