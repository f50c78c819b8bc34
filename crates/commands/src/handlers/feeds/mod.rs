//! Feeds: FEED.CREATE, FEED.ADD, FEED.RANGE and their like.
//!
//! - `parse`: attributes, filters and positions as clients write them.
//! - `read`: what reads feeds.
//! - `write`: what changes them.

mod parse;
mod read;
mod write;

pub(crate) use read::{count, info, pos, range};
pub(crate) use write::{add, compact, create, del, delwhere, hide, move_item, pop, setattr, show};
