//! Places, copies, frees, checks and measures complete lists.

use undercroft_memory::{BlockStock, Offset, Pool, Transaction, View, block_size};

use super::fill::write_part;
use super::items::INLINE_ITEM_MAX;
use super::leaf::{LEAF_MAX, Leaf};
use super::sequence::{Sequence, WORDS, free_leaf, root_words};
use crate::error::Error;
use crate::structures::detached;
use crate::structures::elements::OUTGROWN;
use crate::structures::entry::Entry;
use crate::structures::graveyard;
use crate::structures::tree::{Builder, Child, Subtree, for_each_left};
use crate::transaction::writer::Writer;
use crate::types::value_type::ValueType;

/// The tag of a list tree in a graveyard record. The graveyard is the queue of large values to
/// free.
pub(super) const TREE: u64 = 2;

/// The offset of the root word that identifies the list's arena. The word is 0 if the list has no
/// arena. The preceding root words belong to the tree.
const ARENA: u64 = 24;

/// Returns the memory pool of a large list in this shard, which is either the shard's slabs or the
/// list's arena.
pub(super) fn pool_of(view: &View<'_>, shard: usize, entry: &Entry) -> Result<Pool, Error> {
    if entry.header.value_length() != WORDS as u64 * 8 {
        return Err(entry.fault().into());
    }
    let arena = view.word(entry.value_at() + ARENA)?;
    Ok(Pool::new(shard, arena))
}

/// Queues the tree of a list without an arena in the graveyard, from which it is freed in small
/// steps. A tree with a single leaf is freed immediately.
pub(super) fn discard(
    transaction: &mut Transaction<'_>,
    pool: Pool,
    entry: &Entry,
) -> Result<(), Error> {
    let tree = Sequence::load(transaction.view(), entry.value_at())?;
    discard_subtree(transaction, pool, (tree.root(), tree.height()))
}

/// Queues a subtree that was detached from a list, so that it is freed in small steps. A single
/// leaf is freed immediately.
pub(super) fn discard_subtree(
    transaction: &mut Transaction<'_>,
    pool: Pool,
    (root, height): Subtree,
) -> Result<(), Error> {
    match (root, height) {
        (0, _) => Ok(()),
        (leaf, 0) => free_leaf(transaction, pool, leaf).map(drop),
        subtree if pool.arena() != 0 => detached::bury(
            transaction,
            pool,
            ValueType::List.number_of_parts(),
            subtree,
        ),
        (root, height) => {
            let words = [root, height as u64, 0, 0, 0];
            graveyard::bury(transaction, pool.shard(), TREE, words).map(drop)
        }
    }
}

/// Copies a list into another memory pool and returns the copy's root words. O(n).
pub(super) fn copy(
    transaction: &mut Transaction<'_>,
    entry: &Entry,
    to: Pool,
) -> Result<[u64; WORDS], Error> {
    let tree = Sequence::load(transaction.view(), entry.value_at())?;
    let mut builder: Builder<0> = Builder::new();
    let mut stock = BlockStock::new(to);
    let mut place = tree.find(transaction.view(), 0)?;
    loop {
        let leaf = Leaf::load(transaction.view(), place.leaf)?;
        let at = copy_leaf(transaction, &leaf, &mut stock)?;
        let (count, note) = (leaf.count, []);
        builder.push(transaction, to, Child { at, count, note })?;
        if !place.step(transaction.view(), true)? {
            let tree = builder.finish(transaction, to)?;
            stock.close(transaction);
            return Ok(root_words(tree, to));
        }
    }
}

impl Writer<'_, '_> {
    /// Returns the memory pool for a list to which `values` will be added. If the list would
    /// outgrow its shard's slabs, moves it to an arena first (H4). At most [`OUTGROWN`] bytes are
    /// moved.
    #[inline]
    pub(super) fn settle_list(
        &mut self,
        pool: Pool,
        entry: &Entry,
        tree: &mut Sequence,
        values: &[&[u8]],
    ) -> Result<Pool, Error> {
        if pool.arena() != 0 {
            return Ok(pool);
        }
        self.settle_in_slabs(pool, entry, tree, values)
    }

    fn settle_in_slabs(
        &mut self,
        pool: Pool,
        entry: &Entry,
        tree: &mut Sequence,
        values: &[&[u8]],
    ) -> Result<Pool, Error> {
        let more: usize = values.iter().map(|value| value.len()).sum();
        let held = if values.iter().any(|value| value.len() > INLINE_ITEM_MAX) {
            memory_usage(self.view(), entry)?
        } else {
            tree.leaves_at_least(self.view())? * LEAF_MAX
        };
        if held.saturating_add(more as u64) < OUTGROWN {
            return Ok(pool);
        }
        let arena = self.transaction.create_arena(pool.shard())?;
        let words = copy(self.transaction, entry, arena)?;
        discard(self.transaction, pool, entry)?;
        for (at, word) in (entry.value_at()..).step_by(8).zip(words) {
            self.transaction.store(pool.shard(), at, word)?;
        }
        *tree = Sequence::load(self.view(), entry.value_at())?;
        Ok(arena)
    }
}

fn copy_leaf(
    transaction: &mut Transaction<'_>,
    leaf: &Leaf,
    stock: &mut BlockStock,
) -> Result<Offset, Error> {
    let to = stock.pool();
    let at = transaction.allocate(to, leaf.size)?;
    transaction.fill_from(at, leaf.at, leaf.size)?;
    let mut blocks = Vec::new();
    let view = transaction.view();
    leaf.for_each_block(view, 0, leaf.count, |block, length, position| {
        blocks.push((block, length, position));
        stock.expect(length);
    })?;
    for (block, length, position) in blocks {
        let own = stock.take(transaction, length)?;
        transaction.fill_from(own, block, length)?;
        write_part(
            transaction,
            to.shard(),
            at,
            position,
            &own.to_le_bytes(),
            false,
        )?;
    }
    Ok(at)
}

/// Calls `reach` for every block of a list, and verifies the item counts in its tree. Returns the
/// number of items.
pub(super) fn check(
    view: &View<'_>,
    entry: &Entry,
    reach: &mut dyn FnMut(Offset),
) -> Result<u64, Error> {
    let tree = Sequence::load(view, entry.value_at())?;
    let counted = match (tree.root(), tree.height()) {
        (root, 0) => check_leaf(view, root, Some(tree.count()), reach)?,
        subtree => check_subtree(view, subtree, 0, reach)?,
    };
    if counted != tree.count() || counted == 0 {
        return Err(undercroft_memory::Fault {
            at: entry.at,
            what: "a list with as many items as it counts",
        }
        .into());
    }
    Ok(counted)
}

/// Calls `reach` for every remaining block of a partly freed list tree, and verifies the leaves.
pub(super) fn check_subtree(
    view: &View<'_>,
    subtree: (Offset, usize),
    progress: u64,
    reach: &mut dyn FnMut(Offset),
) -> Result<u64, Error> {
    for_each_left::<0>(view, subtree, progress, &mut |at, count| match count {
        None => {
            reach(at);
            Ok(())
        }
        count => check_leaf(view, at, count, reach).map(drop),
    })
}

fn check_leaf(
    view: &View<'_>,
    at: Offset,
    count: Option<u64>,
    reach: &mut dyn FnMut(Offset),
) -> Result<u64, Error> {
    reach(at);
    let leaf = Leaf::load(view, at)?;
    let counted = leaf.items(view)?.len() as u64;
    if Some(counted) != count
        || leaf.offset_of(view, counted)? != leaf.bytes_behind(view, counted)?
    {
        return Err(undercroft_memory::Fault {
            at,
            what: "a leaf with as many items as its parent counts",
        }
        .into());
    }
    let mut blocks = Vec::new();
    leaf.for_each_block(view, 0, counted, |block, length, _| {
        blocks.push((block, length))
    })?;
    for (block, length) in blocks {
        reach(block);
        view.check(block, length)?;
    }
    Ok(counted)
}

/// Returns the number of bytes that a list uses in addition to its entry. This is the size of the
/// list's arena, or the total size of its leaves, item blocks and inner nodes. O(1) with an arena,
/// O([`OUTGROWN`]) without an arena.
pub(super) fn memory_usage(view: &View<'_>, entry: &Entry) -> Result<u64, Error> {
    let arena = pool_of(view, 0, entry)?.arena();
    if arena != 0 {
        return Ok(view.arena_bytes(arena)?);
    }
    let tree = Sequence::load(view, entry.value_at())?;
    if tree.count() == 0 {
        return Ok(0);
    }
    let mut place = tree.find(view, 0)?;
    let mut bytes = 0_u64;
    loop {
        let leaf = Leaf::load(view, place.leaf)?;
        bytes = bytes.saturating_add(place.nodes_begun() + block_size(leaf.size));
        leaf.for_each_block(view, 0, leaf.count, |_, length, _| {
            bytes = bytes.saturating_add(block_size(length));
        })?;
        // Revalidate the view, so that a loop over a torn list stops early (R3).
        view.recheck()?;
        if !place.step(view, true)? {
            return Ok(bytes);
        }
    }
}
