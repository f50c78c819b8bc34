//! Resuming a read of a leaf where the thread's last read ended.

use std::cell::Cell;

use std::ops::Range;
use undercroft_memory::ThreadCached;

use super::image::{Image, Reached};
use super::leaf::{FILL_AT, Leaf};
use super::leaf_edit::KEPT;
use crate::types::stream::id::StreamId;

/// The position where a thread's last read ended. A read that continues from there, like that of a
/// consumer, skips the earlier entries of the leaf if the leaf has the same bytes up to that
/// position.
#[derive(Debug, Default)]
pub(in crate::types::stream) struct LastRead {
    bytes: Vec<u8>,
    /// Offset of the leaf's first entry during the last read.
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
    /// Returns the saved position, if it applies to this leaf and is before the id `from`.
    pub(in crate::types::stream) fn find(
        &self,
        image: &Image<'_>,
        from: StreamId,
    ) -> Option<Reached> {
        // The header word with the number and end of the entries changes when entries are added
        // after the position.
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

    /// Saves the position reached in a leaf, and takes over the buffer with the leaf's bytes.
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
