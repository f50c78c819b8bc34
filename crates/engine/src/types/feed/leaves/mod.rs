//! Reads, changes and summarizes the leaves of a feed.
//!
//! - `image`: items outside the store in the layout of a leaf.
//! - `insert`: inserts items between the items of a leaf.
//! - `labels`: labels, by which the path to a leaf is found.
//! - `leaf`: the layout of a leaf, and how to read it.
//! - `single`: finds, removes and moves single items.
//! - `summary`: the notes in which inner nodes summarize their children.

pub(super) mod image;
pub(super) mod insert;
pub(super) mod labels;
pub(super) mod leaf;
pub(super) mod single;
pub(super) mod summary;
