//! The counted B+tree: lists and sorted sets by position. The types of values use it.
//!
//! Inner nodes hold, for each child, at which position it begins, so that a
//! position leads to its item, and an item to its position, in O(log n). What
//! the leaves hold is the business of whoever uses the tree: here a leaf is a
//! block with a number of items. For each child `K` words more may be noted, whose
//! meaning is the user's ([`Merge`]): the least key in trees in order, sums and sets
//! in feeds, nothing where the position alone counts.
//!
//! ```text
//! an inner node of 256, 1024 or 4096 bytes:
//! | level, number of children, size |                 8 bytes
//! | positions at which they begin   |                 8 for each place, and 8
//! | children                        |                 8 for each place
//! | notes of the children           |                 K * 8 for each place
//! | a tally                         |                 512 in the largest nodes of trees with sums
//! ```
//!
//! The positions are counted from any number, so that growth at the head is one
//! store as growth at the tail is; the one behind the last is where that ends.
//!
//! All leaves have level 0, so that nodes of one level are equally high. The
//! root words lie in the entry of the key.
//!
//! - `build`: a whole tree from its leaves, in order.
//! - `cut`: taking a range of leaves out of a tree.
//! - `free`: freeing a tree that nobody reaches any more.
//! - `node`: an inner node: its layout, reading it, changing one child of it.
//! - `note`: what is noted of children beside the number of items.
//! - `ordered`: finding by key in a tree in order.
//! - `path`: the way to a leaf, and steps from leaf to leaf.
//! - `root`: a tree from its root words: finding leaves by position.
//! - `splice`: replacing leaves by others: splits, merges, a new root.
//! - `tally`: numbers that large nodes have of all that is below them.

mod build;
mod cut;
mod free;
mod node;
mod note;
mod ordered;
mod path;
mod root;
mod splice;
mod tally;

pub(crate) use build::Builder;
pub(crate) use cut::Subtree;
pub(crate) use free::{for_each_left, free_next};
pub(crate) use node::{Child, HEIGHT_MAX, Least, Merge, Node, TALLY};
pub(crate) use path::Place;
pub(crate) use root::Tree;
