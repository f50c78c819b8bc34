//! Frees, copies, checks and measures complete sorted sets.

use undercroft_memory::{Fault, Offset, Pool, Transaction, View};

use super::Large;
use super::leaf::{Leaf, Ranked};
use super::ranks::Ranks;
use crate::error::Error;
use crate::structures::bulk;
use crate::structures::dictionary::Dictionary;
use crate::structures::element::Element;
use crate::structures::elements::element_key;
use crate::structures::entry::Entry;
use crate::structures::graveyard;
use crate::structures::roots::ARENA;
use crate::structures::tree::for_each_left;

/// The tag of a sorted set's tree in a graveyard record. The graveyard is the queue of large values
/// to free.
pub(super) const TREE: u64 = 3;

impl Large {
    /// Queues the tree and the dictionary of a sorted set without an arena, so that both are freed
    /// in small steps (W8). The caller frees the root words. O(1).
    pub(super) fn discard(&self, transaction: &mut Transaction<'_>) -> Result<(), Error> {
        let ranks = self.ranks(transaction.view())?;
        self.elements.discard(transaction)?;
        match (ranks.root(), ranks.height()) {
            (0, _) => Ok(()),
            (leaf, 0) => free_leaf(transaction, self.pool, leaf),
            (root, height) => {
                let words = [root, height as u64, 0, 0, 0];
                graveyard::bury(transaction, self.pool.shard(), TREE, words).map(drop)
            }
        }
    }
}

/// Frees a leaf. Does not free the elements to which the leaf refers, because they belong to the
/// dictionary.
pub(super) fn free_leaf(
    transaction: &mut Transaction<'_>,
    pool: Pool,
    at: Offset,
) -> Result<(), Error> {
    transaction.free(pool, at);
    Ok(())
}

/// Copies a large sorted set into another memory pool and returns the copy's root words. O(n).
pub(super) fn copy(
    transaction: &mut Transaction<'_>,
    large: &Large,
    pool: Pool,
) -> Result<Vec<u64>, Error> {
    let ranks = large.ranks(transaction.view())?;
    let mut members = Vec::new();
    let view = transaction.view();
    ranks.for_each(view, (0, ranks.count()), false, |at| {
        members.push(Element::load(view, at)?);
        Ok(())
    })?;
    let (words, placed) = bulk::copy(transaction, pool, &members)?;
    let view = transaction.view();
    let ranked = placed.iter().map(|&(_, copy)| Ranked::load(view, copy));
    let ranked = ranked.collect::<Result<Vec<_>, _>>()?;
    let tree = Ranks::build(transaction, pool, &ranked)?;
    Ok([&words[..], &tree].concat())
}

/// Calls `reach` for every block in the tree of a large sorted set, and verifies that the tree
/// contains the dictionary's members in order.
pub(super) fn check(
    view: &View<'_>,
    secret: [u64; 2],
    entry: &Entry,
    reach: &mut dyn FnMut(Offset),
) -> Result<(), Error> {
    let large = Large::to_read(entry)?;
    let ranks = large.ranks(view)?;
    let fault = |at, what| Err(Fault { at, what }.into());
    let mut leaves = Vec::new();
    let counted = match (ranks.root(), ranks.height()) {
        (root, 0) => {
            leaves.push((root, ranks.count()));
            ranks.count()
        }
        subtree => for_each_left::<2>(view, subtree, 0, &mut |at, count| {
            match count {
                None => reach(at),
                Some(count) => leaves.push((at, count)),
            }
            Ok(())
        })?,
    };
    if counted != ranks.count() || counted == 0 || counted != large.elements.length(view)? {
        return fault(entry.at, "a sorted set with as many members as it counts");
    }
    let mut last: Option<(u64, Vec<u8>)> = None;
    for (at, count) in leaves {
        reach(at);
        let leaf = Leaf::load(view, at)?;
        let items = leaf.items(view)?;
        if items.len() as u64 != count || !leaf.digests_are_true(view, &items)? {
            return fault(at, "a leaf with as many members as its parent counts");
        }
        // Verify that every member of the leaf is in the dictionary.
        for Ranked { order, at } in items {
            let mut member = Vec::new();
            Element::load(view, at)?.append_key(view, &mut member)?;
            let found = large.elements.find(view, &element_key(secret, &member))?;
            if found.is_none_or(|element| element.at != at) {
                return fault(at, "a ranked member that exists in the dictionary");
            }
            let this = (order, member);
            if last.as_ref().is_some_and(|last| *last >= this) {
                return fault(at, "members in score order");
            }
            last = Some(this);
        }
    }
    ranks.check_least(view)
}

/// Calls `reach` for every remaining block in the tree of a partly freed sorted set.
pub(super) fn check_left(
    view: &View<'_>,
    subtree: (Offset, usize),
    progress: u64,
    reach: &mut dyn FnMut(Offset),
) -> Result<(), Error> {
    for_each_left::<2>(view, subtree, progress, &mut |at, _| {
        reach(at);
        Ok(())
    })
    .map(drop)
}

/// Returns the number of bytes that a large sorted set uses in addition to its entry. The size of
/// the members is estimated from about `samples` members, or computed from all members if `samples`
/// is 0.
pub(super) fn memory_usage(view: &View<'_>, entry: &Entry, samples: u64) -> Result<u64, Error> {
    let large = Large::to_read(entry)?;
    let ranks = large.ranks(view)?;
    // With an arena, the size of the arena already includes the tree.
    let in_arena = large.elements.word(view, ARENA)? != 0;
    let mut bytes = large.elements.memory_usage(view, samples)?;
    if ranks.count() == 0 || in_arena {
        return Ok(bytes);
    }
    let mut place = ranks.find(view, 0)?;
    loop {
        let leaf = Leaf::load(view, place.leaf)?;
        bytes = bytes.saturating_add(place.nodes_begun() + leaf.block_size());
        // Revalidate the view, so that a loop over a torn tree stops early (R3).
        view.recheck()?;
        if !place.step(view, true)? {
            return Ok(bytes);
        }
    }
}
