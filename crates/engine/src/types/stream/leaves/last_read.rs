//! Resumes a read of a leaf at the position where the thread's last read ended.

use std::cell::Cell;

use std::ops::Range;
use undercroft_memory::ThreadCached;

use super::image::{Image, Reached};
use super::leaf::{FILL_AT, Leaf};
use super::leaf_edit::KEPT;
use crate::types::stream::id::StreamId;

/// The position where a thread's last read ended. If the next read continues there, as a consumer's
/// reads do, it skips the earlier entries of the leaf, provided that the leaf's bytes up to this
/// position have not changed.
#[derive(Debug, Default)]
pub(in crate::types::stream) struct LastRead {
    bytes: Vec<u8>,
    /// The offset of the leaf's first entry at the time of the last read.
    start: usize,
    reached: Option<Reached>,
}

thread_local! {
    /// The position where this thread's last read ended.
    static LAST_READ: Cell<LastRead> = const {
        Cell::new(LastRead {
            bytes: Vec::new(),
            start: 0,
            reached: None,
        })
    };
}

/// Calls `body` with the position of this thread's last read.
#[inline]
pub(in crate::types::stream) fn with_last_read<R>(body: impl FnOnce(&mut LastRead) -> R) -> R {
    let mut finger = LAST_READ.take_cached();
    let result = body(&mut finger);
    if finger.bytes.capacity() <= KEPT {
        LAST_READ.put_back(finger);
    }
    result
}

impl LastRead {
    /// Returns the saved position if it is valid for this leaf and precedes the ID `from`.
    pub(in crate::types::stream) fn find(
        &self,
        image: &Image<'_>,
        from: StreamId,
    ) -> Option<Reached> {
        // Ignore the header word that contains the number of entries and the offset of their end,
        // because it changes when entries are added after the position.
        const FILL: Range<usize> = FILL_AT as usize..FILL_AT as usize + 8;
        let reached = self.reached?;
        let same = |range: Range<usize>| {
            let (old, new) = (self.bytes.get(range.clone()), image.bytes.get(range));
            old.is_some() && old == new
        };
        let is_it = reached.last < from
            && self.start == image.leaf.start
            && same(0..FILL.start)
            && same(FILL.end..reached.end);
        is_it.then_some(reached)
    }

    /// Saves the position that a read reached in a leaf, together with the buffer that contains the
    /// leaf's bytes.
    pub(in crate::types::stream) fn keep(
        &mut self,
        leaf: &Leaf,
        reached: Option<Reached>,
        bytes: &mut Vec<u8>,
    ) {
        if reached.is_some() {
            std::mem::swap(&mut self.bytes, bytes);
            (self.start, self.reached) = (leaf.start, reached);
        }
    }
}
