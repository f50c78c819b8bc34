//! Feeds: FEED.CREATE, FEED.ADD, FEED.RANGE and their like.
//!
//! - `parse`: attributes, filters and positions as clients write them.
//! - `read`: what reads feeds.
//! - `values`: values as clients write them.
//! - `write`: what changes them.

mod parse;
mod read;
mod values;
mod write;

pub use parse::selection;
pub use read::{append_between, count_between};
pub(crate) use read::{between, count, info, pos, range};
pub(crate) use write::{add, compact, create, del, delwhere, hide, move_item, pop, setattr, show};
