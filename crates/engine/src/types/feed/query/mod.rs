//! Implements queries on a feed: selects items and locates them.
//!
//! - `filter`: selects items by visibility, attributes and value, many items at a time.
//! - `found`: items that were read from a feed.
//! - `prefetch`: prefetches leaves that a query is about to read.
//! - `tally`: the number of items below a node for each attribute value.
//! - `walk`: visits or counts the selected items leaf by leaf.

pub(super) mod filter;
pub(super) mod found;
pub(super) mod prefetch;
pub(super) mod tally;
pub(super) mod walk;
