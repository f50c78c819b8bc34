//! The way to a leaf, and steps from leaf to leaf.

use undercroft_memory::{Offset, View};

use super::node::{HEIGHT_MAX, Node};
use crate::error::Error;

/// The way to a leaf: on each level the node, and the place of the child taken
/// in it. The root is first.
#[derive(Clone, Debug)]
pub(crate) struct Path<const K: usize> {
    pub(super) steps: [Step<K>; HEIGHT_MAX],
    pub(super) height: usize,
}

/// A node on the way, and the place of the child taken in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step<const K: usize> {
    pub(super) node: Node<K>,
    pub(super) index: usize,
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
