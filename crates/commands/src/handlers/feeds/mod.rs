//! Feeds: FEED.CREATE, FEED.ADD, FEED.RANGE and their like. `execute` calls them, and clients their typed calls.
//!
//! - `parse`: attributes, filters and positions as clients write them.
//! - `read`: what reads feeds.
//! - `values`: values as clients write them.
//! - `write`: what changes them.

mod parse;
pub(crate) mod read;
mod values;
pub(crate) mod write;

pub use parse::selection;
pub use read::{append_between, count_between};
