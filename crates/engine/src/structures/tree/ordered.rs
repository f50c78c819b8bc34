//! Finds a key in an ordered tree.

use undercroft_memory::View;

use super::node::{Merge, Node};
use super::path::{Path, Place, Step};
use super::root::Tree;
use crate::error::Error;

impl<const K: usize, M: Merge<K>> Tree<K, M> {
    /// Finds the last leaf whose least key satisfies `before`, or the first leaf if no key does.
    /// The items that satisfy `before` must be a prefix of all items. Calls `before` with the least
    /// keys of subtrees, O(log n) times.
    pub(crate) fn find_by(
        &self,
        view: &View<'_>,
        mut before: impl FnMut([u64; K]) -> Result<bool, Error>,
    ) -> Result<Place<K>, Error> {
        let mut path = Path::new(self.height);
        let (mut at, mut total, mut skipped) = (self.root, self.count, 0_u64);
        for depth in 0..self.height {
            let node = Node::<K>::load(view, at, self.height - depth)?;
            // The note that a node stores about a child is the least key in the child's subtree.
            let low = node.seek_key(view, &mut before)?;
            skipped = skipped.wrapping_add(node.count_before(view, low)?);
            path.steps[depth] = Step { node, index: low };
            (at, total) = node.child(view, low)?;
        }
        Ok(Place {
            path,
            leaf: at,
            before: skipped,
            count: total,
        })
    }
}
