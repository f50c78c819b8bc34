//! Replaces leaves, and propagates the change to the nodes above by splits, merges and new roots.

use undercroft_memory::{Pool, Transaction};

use super::node::{Child, Merge, Node, children_max};
use super::path::Path;
use super::root::{COUNT, Tree};
use crate::error::Error;

/// The maximum number of leaves that one splice inserts.
pub(crate) const SPLICE_MAX: usize = 64;

/// The result of replacing a node: the range of its parent's children to replace, and the new
/// children.
struct Outcome<const K: usize> {
    first: usize,
    remove: usize,
    new: Vec<Child<K>>,
}

impl<const K: usize, M: Merge<K>> Tree<K, M> {
    /// Replaces `remove` leaves, starting with the leaf at the end of `path`, with `leaves`. All
    /// removed leaves must have the same parent node, and the caller must free them. This
    /// invalidates all paths. For an empty tree, `path` has no steps. O(log n).
    ///
    /// # Panics
    /// Panics if more than [`SPLICE_MAX`] leaves are inserted.
    pub(crate) fn splice(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        path: &Path<K>,
        remove: usize,
        leaves: &[Child<K>],
    ) -> Result<(), Error> {
        assert!(leaves.len() <= SPLICE_MAX);
        let shard = pool.shard();
        Self::forget_tallies(transaction, shard, path)?;
        let new: u64 = leaves.iter().map(|leaf| leaf.count).sum();
        let steps = path.steps();
        let mut old = if steps.is_empty() { self.count } else { 0 };
        let mut todo = Outcome {
            first: steps.last().map_or(0, |step| step.index),
            remove,
            new: leaves.to_vec(),
        };
        let mut depth = steps.len();
        let mut in_place = false;
        while depth > 0 && !in_place {
            depth -= 1;
            let node = steps[depth].node;
            let mut children = node.load_children(transaction.view())?;
            let replaced = todo.first..todo.first + todo.remove;
            if depth + 1 == steps.len() {
                let gone = children[replaced.clone()].iter();
                old = gone.map(|child| child.count).sum();
            }
            let at_end = replaced.end == children.len();
            children.splice(replaced, todo.new.iter().copied());
            let above = depth.checked_sub(1).map(|above| steps[above]);
            match Self::settle(
                transaction,
                pool,
                node,
                todo.first,
                at_end,
                &children,
                above.map(|step| (step.node, step.index)),
            )? {
                Some(outcome) => todo = outcome,
                None => {
                    in_place = true;
                    self.raise(
                        transaction,
                        shard,
                        path,
                        depth,
                        &M::of(&children),
                        new.wrapping_sub(old) as i64,
                    )?;
                }
            }
        }
        let count = self.count.wrapping_add(new).wrapping_sub(old);
        if count != self.count {
            self.count = count;
            transaction.store(shard, self.words + COUNT, count)?;
        }
        if !in_place {
            let height = self.height;
            match todo.new.as_slice() {
                [] => self.set_root(transaction, shard, 0, 0)?,
                [root] => self.set_root(transaction, shard, root.at, height)?,
                children => {
                    let root = Node::create::<M>(transaction, pool, height + 1, children)?;
                    self.set_root(transaction, shard, root.at, height + 1)?;
                }
            }
        }
        self.lower_root(transaction, pool)
    }

    /// Stores the new children of a node in place and returns `None`. If the children do not fit,
    /// or too few are left, returns the nodes that replace this node instead.
    fn settle(
        transaction: &mut Transaction<'_>,
        pool: Pool,
        node: Node<K>,
        first: usize,
        at_end: bool,
        children: &[Child<K>],
        above: Option<(Node<K>, usize)>,
    ) -> Result<Option<Outcome<K>>, Error> {
        let (index, max) = (above.map_or(0, |(_, index)| index), children_max(K));
        let outcome = |first, remove, new| Some(Outcome { first, remove, new });
        if children.is_empty() {
            transaction.free(pool, node.at);
            return Ok(outcome(index, 1, Vec::new()));
        }
        if let Some((parent, _)) = above
            && children.len() < max / 4
            && children.len() < node.children()
            && let Some(merged) = Self::merge(transaction, pool, node, children, parent, index)?
        {
            return Ok(Some(merged));
        }
        if node.fits(children.len()) {
            node.set_children(transaction, pool.shard(), first, children)?;
            return Ok(None);
        }
        transaction.free(pool, node.at);
        let level = node.level();
        if children.len() <= max {
            let larger = Node::create::<M>(transaction, pool, level, children)?;
            return Ok(outcome(index, 1, vec![larger]));
        }
        // If the tree grows at either end, fill the other node completely.
        let left = if at_end {
            max
        } else if first == 0 {
            children.len() - max
        } else {
            children.len() / 2
        };
        let (left, right) = children.split_at(left);
        let left = Node::create::<M>(transaction, pool, level, left)?;
        let right = Node::create::<M>(transaction, pool, level, right)?;
        Ok(outcome(index, 1, vec![left, right]))
    }

    /// Merges a node that has few children with a neighbor, if the neighbor has room.
    fn merge(
        transaction: &mut Transaction<'_>,
        pool: Pool,
        node: Node<K>,
        children: &[Child<K>],
        parent: Node<K>,
        index: usize,
    ) -> Result<Option<Outcome<K>>, Error> {
        let (other, before) = if index > 0 {
            (index - 1, true)
        } else if parent.children() > 1 {
            (1, false)
        } else {
            return Ok(None);
        };
        let view = transaction.view();
        let neighbour = Node::<K>::load(view, parent.child(view, other)?.0, node.level())?;
        if neighbour.children() + children.len() > children_max(K) * 3 / 4 {
            return Ok(None);
        }
        let mut all = neighbour.load_children(view)?;
        let place = if before { all.len() } else { 0 };
        all.splice(place..place, children.iter().copied());
        let merged = Node::create::<M>(transaction, pool, node.level(), &all)?;
        transaction.free(pool, node.at);
        transaction.free(pool, neighbour.at);
        Ok(Some(Outcome {
            first: other.min(index),
            remove: 2,
            new: vec![merged],
        }))
    }

    /// Updates the counts and notes of the nodes above a node that was changed in place.
    fn raise(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        path: &Path<K>,
        depth: usize,
        note: &[u64; K],
        change: i64,
    ) -> Result<(), Error> {
        let above = &path.steps()[..depth];
        if change != 0 {
            for step in above.iter().rev() {
                step.node.add(transaction, shard, step.index, change)?;
            }
        }
        Self::set_note_above(transaction, shard, above, note)
    }

    /// Replaces the root with its child as long as the root has only one child.
    pub(super) fn lower_root(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
    ) -> Result<(), Error> {
        while self.height > 0 {
            let view = transaction.view();
            let root = Node::<K>::load(view, self.root, self.height)?;
            if root.children() > 1 {
                break;
            }
            let (child, _) = root.child(view, 0)?;
            transaction.free(pool, root.at);
            self.set_root(transaction, pool.shard(), child, self.height - 1)?;
        }
        Ok(())
    }
}
