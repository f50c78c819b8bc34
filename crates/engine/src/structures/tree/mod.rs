//! The counted B+tree of lists, sorted sets, streams and feeds. The value types use it.
//!
//! Inner nodes store the position at which each child begins, so finding an item by position and
//! finding the position of an item both take O(log n). The user of the tree defines the content of
//! its leaves: to the tree, a leaf is a block with a number of items. A node also stores a note of
//! `K` words for each child. The user defines the meaning of these notes ([`Merge`]): the least key
//! in ordered trees, sums and sets in feeds, or nothing if only positions matter.
//!
//! ```text
//! an inner node of 256, 1024 or 4096 bytes:
//! | level, number of children, size |                 8 bytes
//! | start positions of the children |                 8 for each place, and 8 for the end
//! | children                        |                 8 for each place
//! | notes of the children           |                 K * 8 for each place
//! | a tally                         |                 512 in the largest nodes of trees with sums
//! ```
//!
//! Positions are relative to an arbitrary base, so growth at the head takes one store, like growth
//! at the tail. The position after the last child is the end of that child.
//!
//! All leaves have level 0, so nodes of the same level have the same height. The root words are in
//! the entry of the key.
//!
//! - `build`: building a tree from its leaves, in order.
//! - `cut`: removing a range of leaves from a tree.
//! - `free`: freeing a tree that is no longer reachable.
//! - `node`: the layout of inner nodes, reading them, and changing one child.
//! - `note`: the notes that nodes store about their children.
//! - `ordered`: finding a key in an ordered tree.
//! - `path`: the path to a leaf, and steps from leaf to leaf.
//! - `root`: loading a tree from its root words, and finding leaves by position.
//! - `splice`: replacing leaves, with splits, merges and new roots.
//! - `tally`: cached totals that large nodes store about their subtree.

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
