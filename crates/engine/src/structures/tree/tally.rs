//! Tallies: totals that the largest nodes of trees with sums cache about their subtrees. The user
//! of the tree defines what a tally counts.
//!
//! A tally is created after a read that missed it. The tree drops the tally on every change below
//! its node, so users need not invalidate it. A part of the tree that changes constantly has no
//! tally and only pays for reading the header. A part that does not change is counted once.

use undercroft_memory::{Offset, Transaction, View};

use super::node::{Merge, Node, TALLIED, TALLY, TALLY_BYTES, fault, may_tally, tally_room};
use super::path::Path;
use super::root::Tree;
use crate::error::Error;

impl<const K: usize> Node<K> {
    /// Returns the offset of the node's tally (cached totals), or `None` if the node has no room
    /// for a tally.
    fn tally_at(&self) -> Option<Offset> {
        let size = self.size();
        (tally_room(size, K) > 0).then(|| self.at + size - TALLY_BYTES)
    }

    /// Returns whether the node has room for a tally (cached totals) but does not have one.
    pub(crate) fn lacks_tally(&self) -> bool {
        !self.is_tallied() && self.tally_at().is_some()
    }

    /// Reads entries of the tally (cached totals), starting at index `from`, until `numbers` is
    /// full. `from` and the length of `numbers` must be even. Returns whether the node has a tally.
    pub(crate) fn read_tally(
        &self,
        view: &View<'_>,
        from: usize,
        numbers: &mut [u32],
    ) -> Result<bool, Error> {
        let Some(at) = self.tally_at().filter(|_| self.is_tallied()) else {
            return Ok(false);
        };
        if from + numbers.len() > TALLY {
            return Err(fault(at));
        }
        let block = view.block(self.at)?;
        let first = at - self.at + from as u64 * 4;
        for (pair, offset) in numbers
            .as_chunks_mut::<2>()
            .0
            .iter_mut()
            .zip((first..).step_by(8))
        {
            let word = block.word(offset)?;
            *pair = [word as u32, (word >> 32) as u32];
        }
        Ok(true)
    }

    /// Adds a tally (cached totals) to a node that has none. The bytes of the tally were unused, so
    /// this write needs no undo log (W4).
    pub(crate) fn set_tally(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        tally: &[u32; TALLY],
    ) -> Result<(), Error> {
        let Some(at) = self.tally_at().filter(|_| !self.is_tallied()) else {
            return Ok(());
        };
        let bytes: Vec<u8> = tally
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        transaction.fill_slack(shard, at, &bytes)?;
        let header = transaction.view().word(self.at)?;
        Ok(transaction.store(shard, self.at, header | TALLIED)?)
    }

    /// Drops the tally (cached totals) of the node, because something in the node's subtree
    /// changes.
    #[inline(always)]
    pub(super) fn forget_tally(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
    ) -> Result<(), Error> {
        if !may_tally(K) || !self.is_tallied() {
            return Ok(());
        }
        // A rollback restores the tally, so later writes to these bytes in this transaction must be
        // logged.
        transaction.note_cut();
        let header = transaction.view().word(self.at)?;
        Ok(transaction.store(shard, self.at, header & !TALLIED)?)
    }
}

impl<const K: usize, M: Merge<K>> Tree<K, M> {
    /// Drops the tallies (cached totals) of all nodes on a path.
    #[inline]
    pub(super) fn forget_tallies(
        transaction: &mut Transaction<'_>,
        shard: usize,
        path: &Path<K>,
    ) -> Result<(), Error> {
        if may_tally(K) {
            for step in path.steps() {
                step.node.forget_tally(transaction, shard)?;
            }
        }
        Ok(())
    }
}

impl<const K: usize> Path<K> {
    /// Returns the nodes on the path, from the lowest node to the root.
    pub(crate) fn nodes_upwards(&self) -> impl Iterator<Item = Node<K>> {
        self.steps().iter().rev().map(|step| step.node)
    }
}
