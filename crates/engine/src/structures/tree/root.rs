//! Loads a tree from its root words, and finds leaves by position.

use std::marker::PhantomData;

use undercroft_memory::{Offset, Transaction, View};

use super::node::{HEIGHT_MAX, Least, Merge, Node, fault};
use super::path::{Path, Place, Step};
use crate::error::Error;

/// The offset of the root word that contains the root node or the only leaf, or 0 if the tree is
/// empty.
const ROOT: u64 = 0;
/// The offset of the root word with the number of items.
pub(super) const COUNT: u64 = 8;
/// The offset of the root word with the number of levels of inner nodes.
const HEIGHT: u64 = 16;

/// A tree: the offset and the values of its root words.
#[derive(Debug)]
pub(crate) struct Tree<const K: usize, M = Least> {
    pub(super) words: Offset,
    pub(super) root: Offset,
    pub(super) count: u64,
    pub(super) height: usize,
    pub(super) merge: PhantomData<M>,
}

impl<const K: usize, M: Merge<K>> Tree<K, M> {
    /// Loads a tree from its root words.
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

    /// Returns the root words that describe a tree.
    pub(crate) fn root_words(root: Offset, count: u64, height: usize) -> [u64; 3] {
        [root, count, height as u64]
    }

    /// Returns the number of items in the tree.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of levels of inner nodes in the tree.
    pub(crate) fn height(&self) -> usize {
        self.height
    }

    /// Returns the root node or the only leaf, or 0 for an empty tree.
    pub(crate) fn root(&self) -> Offset {
        self.root
    }

    /// Returns a lower bound for the number of leaves. O(1).
    pub(crate) fn leaves_at_least(&self, view: &View<'_>) -> Result<u64, Error> {
        if self.height == 0 {
            return Ok(u64::from(self.root != 0));
        }
        let root = Node::<K>::load(view, self.root, self.height)?;
        Ok(root.children() as u64)
    }

    /// Finds the leaf that contains the item at `position`. If `position` is the end of the tree,
    /// finds the last leaf. O(log n).
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

    /// Finds the first or the last leaf. O(height).
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

    /// Adds `change` to the item counts of all nodes on the path to a leaf, and to the item count
    /// of the tree.
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

    pub(super) fn set_root(
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
