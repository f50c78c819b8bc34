//! Removes a range of leaves from a tree. Entire subtrees are cut off and freed later (W8), so the
//! work is bounded by the height of the tree.

use undercroft_memory::{Pool, Transaction};

use super::node::{Child, Merge, Node, children_max, fault};
use super::root::{COUNT, Tree};
use crate::error::Error;

/// A subtree that was cut off, given by its root and its number of levels of inner nodes.
pub(crate) type Subtree = (u64, usize);

impl<const K: usize, M: Merge<K>> Tree<K, M> {
    /// Cuts off the items `from..to`. Each of the two positions must be the start of a leaf or the
    /// end of the tree. Appends the subtrees that were cut off to `off`, for the caller to free.
    /// O(log n).
    pub(crate) fn cut(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        from: u64,
        to: u64,
        off: &mut Vec<Subtree>,
    ) -> Result<(), Error> {
        if from >= to {
            return Ok(());
        }
        let (root, height) = (self.root, self.height);
        let left = if from == 0 && to == self.count {
            off.push((root, height));
            None
        } else {
            Self::cut_below(transaction, pool, root, height, (from, to), off)?
        };
        self.count = self
            .count
            .checked_sub(to - from)
            .ok_or_else(|| fault(root))?;
        transaction.store(pool.shard(), self.words + COUNT, self.count)?;
        match left {
            Some(child) => self.set_root(transaction, pool.shard(), child.at, height)?,
            None => self.set_root(transaction, pool.shard(), 0, 0)?,
        }
        self.lower_root(transaction, pool)
    }

    /// Cuts off a range of the items below a node. Returns the remainder of the node, or `None` if
    /// nothing remains.
    fn cut_below(
        transaction: &mut Transaction<'_>,
        pool: Pool,
        at: u64,
        level: usize,
        (from, to): (u64, u64),
        off: &mut Vec<Subtree>,
    ) -> Result<Option<Child<K>>, Error> {
        if level == 0 {
            return Err(fault(at));
        }
        let node = Node::<K>::load(transaction.view(), at, level)?;
        let children = node.load_children(transaction.view())?;
        let (mut kept, mut gone) = (Vec::new(), Vec::new());
        let mut partial = Vec::new();
        let mut first_changed = None;
        let mut start = 0;
        for (index, child) in children.iter().enumerate() {
            let end = start + child.count;
            let (low, high) = (from.max(start), to.min(end));
            if low >= high {
                kept.push(*child);
            } else {
                first_changed.get_or_insert(index);
                if low == start && high == end {
                    gone.push(*child);
                } else {
                    let range = (low - start, high - start);
                    let rest = Self::cut_below(transaction, pool, child.at, level - 1, range, off)?;
                    if let Some(rest) = rest {
                        partial.push(kept.len());
                        kept.push(rest);
                    }
                }
            }
            start = end;
        }
        Self::join_partial(transaction, pool, level - 1, &mut kept, &partial)?;
        match gone.as_slice() {
            [] => {}
            [child] => off.push((child.at, level - 1)),
            several => {
                let subtree = Node::create::<M>(transaction, pool, level, several)?;
                off.push((subtree.at, level));
            }
        }
        if kept.is_empty() {
            transaction.free(pool, node.at);
            return Ok(None);
        }
        let first = first_changed.unwrap_or(children.len());
        node.set_children(transaction, pool.shard(), first, &kept)?;
        Ok(Some(Child {
            at: node.at,
            count: kept.iter().map(|child| child.count).sum(),
            note: M::of(&kept),
        }))
    }

    /// Merges the two nodes that a cut has shortened, if their children fit in one node.
    fn join_partial(
        transaction: &mut Transaction<'_>,
        pool: Pool,
        level: usize,
        kept: &mut Vec<Child<K>>,
        partial: &[usize],
    ) -> Result<(), Error> {
        let &[left, right] = partial else {
            return Ok(());
        };
        let view = transaction.view();
        let one = Node::<K>::load(view, kept[left].at, level)?;
        let other = Node::<K>::load(view, kept[right].at, level)?;
        if one.children() + other.children() > children_max(K) * 3 / 4 {
            return Ok(());
        }
        let mut all = one.load_children(view)?;
        all.extend(other.load_children(view)?);
        kept[left] = Node::create::<M>(transaction, pool, level, &all)?;
        kept.remove(right);
        transaction.free(pool, one.at);
        transaction.free(pool, other.at);
        Ok(())
    }
}
