//! The notes that inner nodes store about their children in addition to the item counts. The tree
//! only stores the `K` words of each note. The user of the tree defines how the note of a node is
//! computed from the notes of its children.

use undercroft_memory::Transaction;

use super::node::Merge;
use super::path::{Path, Step};
use super::root::Tree;
use crate::error::Error;

impl<const K: usize, M: Merge<K>> Tree<K, M> {
    /// Changes the note of the leaf at the end of a path, and updates the notes of the nodes above
    /// as far up as they change.
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

    /// Changes the note of the child at the end of `steps`, and updates the notes of the nodes
    /// above as far up as they change.
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
