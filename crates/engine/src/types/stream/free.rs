//! Frees the trees of a stream, which contain entries, pending entries, and groups with everything
//! to which they refer.

use undercroft_memory::{Offset, Pool, Transaction, View};

use super::group::{Consumer, Group};
use super::id::StreamId;
use super::rows::{self, Kind};
use super::{STREAM, leaves::leaf};
use crate::error::Error;
use crate::structures::detached;
use crate::structures::graveyard;
use crate::structures::tree::{self, Subtree, for_each_left};

/// The tag of a stream's tree in a graveyard record. The graveyard is the queue of large values to
/// free.
pub(super) const TREE: u64 = 6;

/// Queues a tree, so that it is freed in small steps. A single leaf is freed immediately. O(1), or
/// O(leaf) for a single leaf.
pub(super) fn discard_tree(
    transaction: &mut Transaction<'_>,
    pool: Pool,
    (root, height): Subtree,
) -> Result<(), Error> {
    match (root, height) {
        (0, _) => Ok(()),
        (at, 0) => free_leaf(transaction, pool, at).map(drop),
        subtree if pool.arena() != 0 => detached::bury(transaction, pool, STREAM.number, subtree),
        (root, height) => {
            let words = [root, height as u64, 0, 0, 0];
            graveyard::bury(transaction, pool.shard(), TREE, words).map(drop)
        }
    }
}

/// Frees a leaf in any of a stream's trees, and the records to which the leaf refers. Returns the
/// number of records freed.
fn free_leaf(transaction: &mut Transaction<'_>, pool: Pool, at: Offset) -> Result<usize, Error> {
    let mut blocks = 0;
    if !leaf::is_entries(transaction.view().word(at)?) {
        let leaf = rows::Leaf::load_any(transaction.view(), at)?;
        if leaf.kind.name_at().is_some() {
            blocks = leaf.count;
            for row in leaf.rows(transaction.view())? {
                for tree in trees_of(transaction.view(), leaf.kind, row[1], pool)? {
                    discard_tree(transaction, pool, tree)?;
                }
                transaction.free(pool, row[1]);
            }
        }
    }
    transaction.free(pool, at);
    Ok(blocks)
}

/// Returns the trees to which a record refers.
pub(super) fn trees_of(
    view: &View<'_>,
    kind: Kind,
    record: Offset,
    pool: Pool,
) -> Result<Vec<Subtree>, Error> {
    let all = match kind {
        Kind::Pending | Kind::Own => Vec::new(),
        Kind::Consumers => vec![Consumer::load(view, record, pool)?.own(view)?],
        Kind::Groups => {
            let group = Group::load(view, record, pool)?;
            vec![group.pending(view)?, group.consumers(view)?]
        }
    };
    Ok(all
        .iter()
        .map(|rows| (rows.tree.root(), rows.tree.height()))
        .collect())
}

/// Frees the next leaf of a partly freed stream tree.
pub(super) fn free_next_leaf(
    transaction: &mut Transaction<'_>,
    pool: Pool,
    subtree: Subtree,
    progress: u64,
) -> Result<(Option<u64>, usize), Error> {
    let mut blocks = 0;
    let further =
        tree::free_next::<2>(transaction, pool, subtree, progress, |transaction, leaf| {
            blocks = free_leaf(transaction, pool, leaf)?;
            Ok(())
        })?;
    Ok((further, blocks))
}

/// Calls `reach` for every remaining block of a partly freed tree.
pub(super) fn check_left(
    view: &View<'_>,
    subtree: Subtree,
    progress: u64,
    reach: &mut dyn FnMut(Offset),
) -> Result<(), Error> {
    let mut below = Vec::new();
    for_each_left::<2>(view, subtree, progress, &mut |at, count| {
        reach(at);
        let is_rows = count.is_some() && !leaf::is_entries(view.word(at)?);
        if is_rows {
            let leaf = rows::Leaf::load_any(view, at)?;
            if leaf.kind.name_at().is_some() {
                for row in leaf.rows(view)? {
                    reach(row[1]);
                    below.extend(trees_of(view, leaf.kind, row[1], Pool::from(0))?);
                }
            }
        }
        Ok(())
    })?;
    for (root, height) in below {
        check_tree(view, (root, height), reach)?;
    }
    Ok(())
}

/// Calls `reach` for every block in a complete tree of rows, and for every block to which the rows
/// refer.
fn check_tree(
    view: &View<'_>,
    (root, height): Subtree,
    reach: &mut dyn FnMut(Offset),
) -> Result<(), Error> {
    if root == 0 {
        return Ok(());
    }
    if height > 0 {
        return check_left(view, (root, height), 0, reach);
    }
    reach(root);
    let leaf = rows::Leaf::load_any(view, root)?;
    if leaf.kind.name_at().is_some() {
        for row in leaf.rows(view)? {
            reach(row[1]);
            for tree in trees_of(view, leaf.kind, row[1], Pool::from(0))? {
                check_tree(view, tree, reach)?;
            }
        }
    }
    Ok(())
}

impl Group {
    /// Removes a consumer and its pending entries. Returns the number of its pending entries, or
    /// `None` if the consumer does not exist. O(pending * log n).
    pub(super) fn delete_consumer(
        &self,
        transaction: &mut Transaction<'_>,
        name: &[u8],
    ) -> Result<Option<u64>, Error> {
        let Some(found) = self.find_consumer(transaction.view(), name)? else {
            return Ok(None);
        };
        let consumer = Consumer::load(transaction.view(), found.row[1], self.pool)?;
        let own = consumer.own(transaction.view())?;
        let mut ids = Vec::new();
        own.for_each(transaction.view(), |row| {
            ids.push([row[0], row[1]]);
            Ok(())
        })?;
        let mut pending = self.pending(transaction.view())?;
        for id in &ids {
            if let Some(found) = pending.find_key(transaction.view(), *id)? {
                pending.remove(transaction, found)?;
            }
            if transaction.is_in_parts() {
                consumer.forget(transaction, StreamId::of_words(*id))?;
                transaction.end_of_part()?;
            }
        }
        let own = consumer.own(transaction.view())?;
        discard_tree(transaction, self.pool, (own.tree.root(), own.tree.height()))?;
        transaction.free(self.pool, consumer.at);
        self.consumers(transaction.view())?
            .remove(transaction, found)?;
        Ok(Some(ids.len() as u64))
    }
}
