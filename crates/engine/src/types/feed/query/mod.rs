//! Queries of a feed: which items they see, and the way to them. The rest of the feed uses it.
//!
//! - `filter`: which items a query sees: conditions on attributes, many items at a time.
//! - `found`: items that were read out of a feed.
//! - `prefetch`: asking for leaves ahead of their use.
//! - `tally`: what is counted of all that is below a node.
//! - `walk`: the items of a query, leaf after leaf.

pub(super) mod filter;
pub(super) mod found;
pub(super) mod prefetch;
pub(super) mod tally;
pub(super) mod walk;
