//! Finding by key in a tree in order.

use undercroft_memory::View;

use super::node::{Merge, Node};
use super::path::{Path, Place, Step};
use super::root::Tree;
use crate::error::Error;

impl<const K: usize, M: Merge<K>> Tree<K, M> {
    /// The leaf in which the items that `before` holds for end: it holds for
    /// the first items of the tree and for no others, and is asked about the
    /// least keys of subtrees. O(log n) questions.
    pub(crate) fn find_by(
        &self,
        view: &View<'_>,
        mut before: impl FnMut([u64; K]) -> Result<bool, Error>,
    ) -> Result<Place<K>, Error> {
        let mut path = Path::new(self.height);
        let (mut at, mut total, mut skipped) = (self.root, self.count, 0_u64);
        for depth in 0..self.height {
            let node = Node::<K>::load(view, at, self.height - depth)?;
            // What lies below a child begins with its least key.
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
