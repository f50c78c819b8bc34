//! Tallies: numbers that the largest nodes of trees with sums have of all that is below them. What is counted is the
//! business of whoever uses the tree.
//!
//! A tally is made behind a read that missed it, and every change below its node lets go of it, within the tree: no user
//! has to. So what changes all the time has none and pays a look at a header for it, and what rests is counted once.

use undercroft_memory::{Offset, Transaction, View};

use super::node::{Merge, Node, TALLIED, TALLY, TALLY_BYTES, fault, may_tally, tally_room};
use super::path::Path;
use super::root::Tree;
use crate::error::Error;

impl<const K: usize> Node<K> {
    /// Where the tally lies; none where there is no room for one.
    fn tally_at(&self) -> Option<Offset> {
        let size = self.size();
        (tally_room(size, K) > 0).then(|| self.at + size - TALLY_BYTES)
    }

    /// Whether it could have a tally and has none.
    pub(crate) fn lacks_tally(&self) -> bool {
        !self.is_tallied() && self.tally_at().is_some()
    }

    /// Reads as many numbers of its tally as there is room for, from one on; both are even. Returns whether it has one.
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

    /// Gives a tally to a node that lacks one. Nothing is where it comes, so that it is not logged (W4).
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

    /// Lets go of its tally, as what is below it changes.
    #[inline(always)]
    pub(super) fn forget_tally(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
    ) -> Result<(), Error> {
        if !may_tally(K) || !self.is_tallied() {
            return Ok(());
        }
        // A rollback brings the tally back, so that whoever comes to its place in this transaction must log it.
        transaction.note_cut();
        let header = transaction.view().word(self.at)?;
        Ok(transaction.store(shard, self.at, header & !TALLIED)?)
    }
}

impl<const K: usize, M: Merge<K>> Tree<K, M> {
    /// Lets go of the tallies of all nodes on a path.
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
    /// The nodes on the way, the lowest first.
    pub(crate) fn nodes_upwards(&self) -> impl Iterator<Item = Node<K>> {
        self.steps().iter().rev().map(|step| step.node)
    }
}
