//! What inner nodes note of their children beside the number of items: `K` words, which the tree only carries. The user
//! of a tree says what a node's note is by those of its children.

use undercroft_memory::Transaction;

use super::node::Merge;
use super::path::{Path, Step};
use super::root::Tree;
use crate::error::Error;

impl<const K: usize, M: Merge<K>> Tree<K, M> {
    /// Notes something of the leaf that a path leads to and that has changed, as far up as anything changes by it.
    pub(crate) fn set_note(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        path: &Path<K>,
        note: &[u64; K],
    ) -> Result<(), Error> {
        Self::forget_tallies(transaction, shard, path)?;
        Self::set_note_above(transaction, shard, path.steps(), note)
    }

    /// The same of the child that the last of some steps leads to.
    pub(super) fn set_note_above(
        transaction: &mut Transaction<'_>,
        shard: usize,
        steps: &[Step<K>],
        note: &[u64; K],
    ) -> Result<(), Error> {
        if K == 0 {
            return Ok(());
        }
        let mut note = *note;
        for step in steps.iter().rev() {
            if !step.node.set_note(transaction, shard, step.index, &note)? {
                break;
            }
            match M::above(transaction.view(), &step.node, step.index, note)? {
                Some(above) => note = above,
                None => break,
            }
        }
        Ok(())
    }
}
