//! Builds a tree from its leaves, in order. Nodes are filled completely, from left to right.

use std::marker::PhantomData;

use undercroft_memory::{Pool, Transaction};

use super::node::{Child, Least, Merge, Node, children_max, fault};
use super::root::Tree;
use crate::error::Error;

/// Collects leaves in order and creates the inner nodes above them.
pub(crate) struct Builder<const K: usize, M = Least> {
    /// For each level, the nodes that have not been assigned to a parent node yet.
    levels: Vec<Vec<Child<K>>>,
    merge: PhantomData<M>,
}

impl<const K: usize, M: Merge<K>> Builder<K, M> {
    pub(crate) fn new() -> Builder<K, M> {
        Builder {
            levels: vec![Vec::new()],
            merge: PhantomData,
        }
    }

    /// Appends the next leaf of the tree.
    pub(crate) fn push(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        leaf: Child<K>,
    ) -> Result<(), Error> {
        let mut child = leaf;
        for level in 0.. {
            if level == self.levels.len() {
                self.levels.push(Vec::new());
            }
            let nodes = &mut self.levels[level];
            if nodes.len() < children_max(K) {
                nodes.push(child);
                break;
            }
            let full = Node::create::<M>(transaction, pool, level + 1, nodes)?;
            nodes.clear();
            nodes.push(child);
            child = full;
        }
        Ok(())
    }

    /// Completes the tree and returns its root words. At least one leaf must have been added.
    pub(crate) fn finish(
        self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
    ) -> Result<[u64; 3], Error> {
        let mut below: Vec<Child<K>> = Vec::new();
        let top = self.levels.len() - 1;
        for (level, mut nodes) in self.levels.into_iter().enumerate() {
            nodes.append(&mut below);
            if let (true, [root]) = (level == top, nodes.as_slice()) {
                return Ok(Tree::<K, M>::root_words(root.at, root.count, level));
            }
            for nodes in nodes.chunks(children_max(K)) {
                below.push(Node::create::<M>(transaction, pool, level + 1, nodes)?);
            }
        }
        // At this point, the top level contains at most two nodes.
        match below.as_slice() {
            [] => Err(fault(0)),
            [root] => Ok(Tree::<K, M>::root_words(root.at, root.count, top + 1)),
            several => {
                let root = Node::create::<M>(transaction, pool, top + 2, several)?;
                Ok(Tree::<K, M>::root_words(root.at, root.count, top + 2))
            }
        }
    }
}
