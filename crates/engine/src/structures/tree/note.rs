//! What inner nodes note of their children beside the number of items: `K` words, which the tree only carries. The user
//! of a tree says what a node's note is by those of its children.

use undercroft_memory::{Transaction, View};

use super::{Child, Merge, Node, Path, Step, Tree};
use crate::error::Error;

/// The least key of a subtree: that of its first child. Of a tree in which the position alone counts nothing is noted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Least;

impl<const K: usize> Merge<K> for Least {
    #[inline(always)]
    fn of(children: &[Child<K>]) -> [u64; K] {
        children.first().map_or([0; K], |first| first.note)
    }

    #[inline(always)]
    fn above(
        _view: &View<'_>,
        _node: &Node<K>,
        index: usize,
        note: [u64; K],
    ) -> Result<Option<[u64; K]>, Error> {
        Ok((index == 0).then_some(note))
    }
}

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
