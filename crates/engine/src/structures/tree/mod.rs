//! The counted B+tree: lists and sorted sets by position.
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
//! - `splice`: replacing leaves by others: splits, merges, a new root.
//! - `tally`: numbers that large nodes have of all that is below them.

mod build;
mod cut;
mod free;
mod node;
mod note;
mod ordered;
mod splice;
mod tally;

use std::marker::PhantomData;

use undercroft_memory::{Fault, Offset, Transaction, View};

use crate::error::Error;
pub(crate) use build::Builder;
pub(crate) use cut::Subtree;
pub(crate) use free::{for_each_left, free_next};
pub(crate) use node::{Child, Node};
pub(crate) use note::Least;
pub(crate) use tally::TALLY;

/// The most levels of inner nodes. With a quarter of the smallest node's
/// children in each, that is more items than memory holds.
pub(crate) const HEIGHT_MAX: usize = 8;

/// Root word: the root node, or the only leaf; 0 is an empty tree.
const ROOT: u64 = 0;
/// Root word: the number of items.
const COUNT: u64 = 8;
/// Root word: levels of inner nodes.
const HEIGHT: u64 = 16;

/// What is noted of a node, by what it notes of its children.
pub(crate) trait Merge<const K: usize> {
    /// The note of a node with these children, at least one.
    fn of(children: &[Child<K>]) -> [u64; K];

    /// The note of a node one of whose children has this note now; none where it is what it was.
    fn above(
        view: &View<'_>,
        node: &Node<K>,
        index: usize,
        note: [u64; K],
    ) -> Result<Option<[u64; K]>, Error>;
}

/// A tree: its root words, and where they lie.
#[derive(Debug)]
pub(crate) struct Tree<const K: usize, M = Least> {
    words: Offset,
    root: Offset,
    count: u64,
    height: usize,
    merge: PhantomData<M>,
}

/// The way to a leaf: on each level the node, and the place of the child taken
/// in it. The root is first.
#[derive(Clone, Debug)]
pub(crate) struct Path<const K: usize> {
    steps: [Step<K>; HEIGHT_MAX],
    height: usize,
}

#[derive(Clone, Copy, Debug)]
struct Step<const K: usize> {
    node: Node<K>,
    index: usize,
}

/// A leaf that was found.
#[derive(Clone, Debug)]
pub(crate) struct Place<const K: usize> {
    pub(crate) path: Path<K>,
    pub(crate) leaf: Offset,
    /// Items of the tree before the leaf.
    pub(crate) before: u64,
    /// Items in the leaf, as the node above it counts them.
    pub(crate) count: u64,
}

fn fault(at: Offset) -> Error {
    Fault {
        at,
        what: "a tree whose counts agree",
    }
    .into()
}

impl<const K: usize, M: Merge<K>> Tree<K, M> {
    /// Reads the root words.
    #[inline]
    pub(crate) fn load(view: &View<'_>, words: Offset) -> Result<Tree<K, M>, Error> {
        let [root, count, height] = view.words::<3>(words)?;
        if height > HEIGHT_MAX as u64 {
            return Err(fault(words));
        }
        Ok(Tree {
            words,
            root,
            count,
            height: height as usize,
            merge: PhantomData,
        })
    }

    /// The root words of a tree.
    pub(crate) fn root_words(root: Offset, count: u64, height: usize) -> [u64; 3] {
        [root, count, height as u64]
    }

    /// Number of items.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Levels of inner nodes.
    pub(crate) fn height(&self) -> usize {
        self.height
    }

    /// The root node, or the only leaf.
    pub(crate) fn root(&self) -> Offset {
        self.root
    }

    /// The number of leaves, or a lower limit of it. O(1).
    pub(crate) fn leaves_at_least(&self, view: &View<'_>) -> Result<u64, Error> {
        if self.height == 0 {
            return Ok(u64::from(self.root != 0));
        }
        let root = Node::<K>::load(view, self.root, self.height)?;
        Ok(root.children() as u64)
    }

    /// The leaf that holds the item at a position, or the last leaf where the
    /// position is the end. O(log n).
    #[inline]
    pub(crate) fn find(&self, view: &View<'_>, position: u64) -> Result<Place<K>, Error> {
        let mut path = Path::new(self.height);
        let (mut at, mut total, mut rest) = (self.root, self.count, position);
        for depth in 0..self.height {
            let node = Node::<K>::load(view, at, self.height - depth)?;
            let (index, before) = node.seek(view, total, rest)?;
            path.steps[depth] = Step { node, index };
            (at, total) = node.child(view, index)?;
            rest = rest.checked_sub(before).ok_or_else(|| fault(at))?;
            if depth + 1 < self.height {
                Node::<K>::prefetch(view, at, total, rest);
            }
        }
        Ok(Place {
            path,
            leaf: at,
            before: position.wrapping_sub(rest),
            count: total,
        })
    }

    /// The first leaf, or the last one. O(height).
    #[inline]
    pub(crate) fn find_end(&self, view: &View<'_>, last: bool) -> Result<Place<K>, Error> {
        let mut path = Path::new(self.height);
        let (mut at, mut count) = (self.root, self.count);
        for depth in 0..self.height {
            let node = Node::<K>::load(view, at, self.height - depth)?;
            let index = if last { node.children() - 1 } else { 0 };
            path.steps[depth] = Step { node, index };
            (at, count) = node.child(view, index)?;
        }
        let before = if last {
            self.count.wrapping_sub(count)
        } else {
            0
        };
        Ok(Place {
            path,
            leaf: at,
            before,
            count,
        })
    }

    /// Adds to the number of items in a leaf, all the way up.
    #[inline]
    pub(crate) fn add(
        &mut self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        path: &Path<K>,
        change: i64,
    ) -> Result<(), Error> {
        for step in path.steps() {
            step.node.add(transaction, shard, step.index, change)?;
        }
        self.count = self.count.wrapping_add_signed(change);
        Ok(transaction.store(shard, self.words + COUNT, self.count)?)
    }

    fn set_root(
        &mut self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        root: Offset,
        height: usize,
    ) -> Result<(), Error> {
        if height > HEIGHT_MAX {
            return Err(fault(root));
        }
        if self.root != root {
            transaction.store(shard, self.words + ROOT, root)?;
        }
        if self.height != height {
            transaction.store(shard, self.words + HEIGHT, height as u64)?;
        }
        (self.root, self.height) = (root, height);
        Ok(())
    }
}

impl<const K: usize> Path<K> {
    #[inline(always)]
    fn new(height: usize) -> Path<K> {
        let none = Step {
            node: Node::NONE,
            index: 0,
        };
        Path {
            steps: [none; HEIGHT_MAX],
            height,
        }
    }

    fn steps(&self) -> &[Step<K>] {
        &self.steps[..self.height]
    }
}

impl<const K: usize> Place<K> {
    /// What is noted of the leaf; none where it is the only one.
    pub(crate) fn note(&self, view: &View<'_>) -> Result<Option<[u64; K]>, Error> {
        match self.path.steps().last() {
            Some(step) => step.node.note(view, step.index).map(Some),
            None => Ok(None),
        }
    }

    /// Bytes of the inner nodes that this leaf is the first one of.
    pub(crate) fn nodes_begun(&self) -> u64 {
        let steps = self.path.steps().iter().rev();
        steps
            .take_while(|step| step.index == 0)
            .map(|step| step.node.size())
            .sum()
    }

    /// The leaf behind this one under the same node, for fetching it ahead.
    #[inline]
    pub(crate) fn next_leaf(&self, view: &View<'_>) -> Option<Offset> {
        let step = self.path.steps().last()?;
        let (leaf, _) = step.node.child(view, step.index + 1).ok()?;
        Some(leaf)
    }

    /// Goes to the leaf behind (`forward`) or before this one. Returns whether
    /// there was one. O(1) on average.
    #[inline]
    pub(crate) fn step(&mut self, view: &View<'_>, forward: bool) -> Result<bool, Error> {
        let height = self.path.height;
        let mut depth = height;
        loop {
            if depth == 0 {
                return Ok(false);
            }
            depth -= 1;
            let step = &mut self.path.steps[depth];
            if forward && step.index + 1 < step.node.children() {
                step.index += 1;
                break;
            }
            if !forward && step.index > 0 {
                step.index -= 1;
                break;
            }
        }
        let step = self.path.steps[depth];
        let (mut at, mut count) = step.node.child(view, step.index)?;
        for below in depth + 1..height {
            let node = Node::<K>::load(view, at, height - below)?;
            let index = if forward { 0 } else { node.children() - 1 };
            self.path.steps[below] = Step { node, index };
            (at, count) = node.child(view, index)?;
        }
        self.before = if forward {
            self.before.wrapping_add(self.count)
        } else {
            self.before.wrapping_sub(count)
        };
        (self.leaf, self.count) = (at, count);
        Ok(true)
    }

    /// The leaf before or behind this one under the same node, with its number
    /// of items.
    pub(crate) fn sibling(
        &self,
        view: &View<'_>,
        forward: bool,
    ) -> Result<Option<(Offset, u64)>, Error> {
        let Some(step) = self.path.steps().last() else {
            return Ok(None);
        };
        if forward && step.index + 1 < step.node.children() {
            return step.node.child(view, step.index + 1).map(Some);
        }
        if !forward && step.index > 0 {
            return step.node.child(view, step.index - 1).map(Some);
        }
        Ok(None)
    }
}
