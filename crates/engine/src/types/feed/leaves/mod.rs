//! Leaves of a feed: reading them, changing them, what is noted of them. The rest of the feed uses it.
//!
//! - `image`: items outside the store, laid out as leaves are.
//! - `insert`: items put in between those of a leaf.
//! - `labels`: labels of leaves, by which the way to one is found.
//! - `leaf`: a leaf: its layout, reading it.
//! - `single`: one item by itself: found, taken out of its leaf, moved.
//! - `summary`: what inner nodes note of their children.

pub(super) mod image;
pub(super) mod insert;
pub(super) mod labels;
pub(super) mod leaf;
pub(super) mod single;
pub(super) mod summary;
