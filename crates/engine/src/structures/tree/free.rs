//! Frees an unreachable tree leaf by leaf (W8).
//!
//! The progress is stored in one word. Each byte of the word, starting with the lowest level of
//! inner nodes, is the index of the next child to free at that level.

use undercroft_memory::{Offset, Pool, Transaction, View};

use super::node::{HEIGHT_MAX, Node, fault};
use crate::error::Error;

/// Frees the next leaf of a tree that has at least one level of inner nodes. Also frees each inner
/// node whose last leaf this is. Returns the new progress, or `None` once the entire tree has been
/// freed. `free_leaf` must free the leaf and everything that it refers to.
pub(crate) fn free_next<const K: usize>(
    transaction: &mut Transaction<'_>,
    pool: Pool,
    (root, height): (Offset, usize),
    progress: u64,
    free_leaf: impl FnOnce(&mut Transaction<'_>, Offset) -> Result<(), Error>,
) -> Result<Option<u64>, Error> {
    let nodes = way::<K>(transaction.view(), root, height, progress)?;
    let place = |level: usize| (progress >> (level * 8) & 0xff) as usize;
    let Some(lowest) = nodes.first() else {
        return Err(fault(root));
    };
    let (leaf, _) = lowest.child(transaction.view(), place(0))?;
    free_leaf(transaction, leaf)?;
    let mut progress = progress;
    for (level, node) in nodes.iter().enumerate() {
        if place(level) + 1 < node.children() {
            return Ok(Some(progress + (1 << (level * 8))));
        }
        progress &= !(0xff << (level * 8));
        transaction.free(pool, node.at);
    }
    Ok(None)
}

/// Returns the nodes on the path to the next leaf, from the lowest node to the root.
fn way<const K: usize>(
    view: &View<'_>,
    root: Offset,
    height: usize,
    progress: u64,
) -> Result<Vec<Node<K>>, Error> {
    if height > HEIGHT_MAX {
        return Err(fault(root));
    }
    let mut nodes = Vec::with_capacity(height);
    let mut at = root;
    for level in (1..=height).rev() {
        let node = Node::<K>::load(view, at, level)?;
        let place = (progress >> ((level - 1) * 8) & 0xff) as usize;
        (at, _) = node.child(view, place)?;
        nodes.push(node);
    }
    nodes.reverse();
    Ok(nodes)
}

/// Visits the remaining nodes of a partly freed tree in order: each inner node before its children,
/// and each leaf with the item count that its parent stores for it. An error from `visit` ends the
/// walk. Returns the number of items.
pub(crate) fn for_each_left<const K: usize>(
    view: &View<'_>,
    (root, height): (Offset, usize),
    progress: u64,
    visit: &mut dyn FnMut(Offset, Option<u64>) -> Result<(), Error>,
) -> Result<u64, Error> {
    if height > HEIGHT_MAX {
        return Err(fault(root));
    }
    let node = Node::<K>::load(view, root, height)?;
    visit(root, None)?;
    let first = (progress >> ((height - 1) * 8) & 0xff) as usize;
    let mut sum = 0_u64;
    for index in first..node.children() {
        let (child, count) = node.child(view, index)?;
        if height == 1 {
            visit(child, Some(count))?;
        } else {
            // Only the subtree on the path to the next leaf can be partly freed.
            let below = if index == first { progress } else { 0 };
            let counted = for_each_left::<K>(view, (child, height - 1), below, visit)?;
            if below == 0 && counted != count {
                return Err(fault(child));
            }
        }
        sum = sum.wrapping_add(count);
    }
    Ok(sum)
}

const _: () = assert!(HEIGHT_MAX <= 8 && super::node::children_max(0) <= 256);
