//! The path to a leaf, and moving from leaf to leaf.

use undercroft_memory::{Offset, View};

use super::node::{HEIGHT_MAX, Node};
use crate::error::Error;

/// The path from the root to a leaf: the node at each level, and the index of the child on the
/// path.
#[derive(Clone, Debug)]
pub(crate) struct Path<const K: usize> {
    pub(super) steps: [Step<K>; HEIGHT_MAX],
    pub(super) height: usize,
}

/// A node on a path, and the index of its child on the path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step<const K: usize> {
    pub(super) node: Node<K>,
    pub(super) index: usize,
}

/// A leaf of a tree, with the path to it.
#[derive(Clone, Debug)]
pub(crate) struct Place<const K: usize> {
    pub(crate) path: Path<K>,
    pub(crate) leaf: Offset,
    /// The number of items in the tree before the leaf.
    pub(crate) before: u64,
    /// The number of items in the leaf, as stored in its parent node.
    pub(crate) count: u64,
}

impl<const K: usize> Path<K> {
    #[inline(always)]
    pub(super) fn new(height: usize) -> Path<K> {
        let none = Step {
            node: Node::NONE,
            index: 0,
        };
        Path {
            steps: [none; HEIGHT_MAX],
            height,
        }
    }

    pub(super) fn steps(&self) -> &[Step<K>] {
        &self.steps[..self.height]
    }
}

impl<const K: usize> Place<K> {
    /// Returns the note that the parent node stores about the leaf, or `None` if the leaf is the
    /// root.
    pub(crate) fn note(&self, view: &View<'_>) -> Result<Option<[u64; K]>, Error> {
        match self.path.steps().last() {
            Some(step) => step.node.note(view, step.index).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the total size in bytes of the inner nodes that begin with this leaf.
    pub(crate) fn nodes_begun(&self) -> u64 {
        let steps = self.path.steps().iter().rev();
        steps
            .take_while(|step| step.index == 0)
            .map(|step| step.node.size())
            .sum()
    }

    /// Returns the next leaf under the same parent node, for prefetching.
    #[inline]
    pub(crate) fn next_leaf(&self, view: &View<'_>) -> Option<Offset> {
        let step = self.path.steps().last()?;
        let (leaf, _) = step.node.child(view, step.index + 1).ok()?;
        Some(leaf)
    }

    /// Moves to the next leaf, or to the previous leaf if `forward` is false. Returns false if
    /// there is no such leaf. O(1) on average.
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

    /// Returns the next or the previous leaf under the same parent node, and the number of items in
    /// it.
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
