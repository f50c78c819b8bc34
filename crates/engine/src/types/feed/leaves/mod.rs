//! The leaves of a feed: reading, changing and summarizing them.
//!
//! - `image`: items outside the store in the layout of a leaf.
//! - `insert`: inserts items between those of a leaf.
//! - `labels`: labels, by which the path to a leaf is found.
//! - `leaf`: the layout of a leaf, and how to read it.
//! - `single`: finds, removes and moves single items.
//! - `summary`: the notes that inner nodes keep of their children.

pub(super) mod image;
pub(super) mod insert;
pub(super) mod labels;
pub(super) mod leaf;
pub(super) mod single;
pub(super) mod summary;
