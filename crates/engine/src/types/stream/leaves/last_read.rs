//! Reading on where the last read of a thread has ended.

use std::cell::Cell;

use std::ops::Range;
use undercroft_memory::ThreadCached;

use super::image::{Image, Reached};
use super::leaf::{FILL_AT, Leaf};
use super::leaf_edit::KEPT;
use crate::types::stream::id::StreamId;

/// Where the last read has come to. Who reads on from there, as consumers do, need not pass over the entries before it
/// again: those of a leaf that has the same bytes up to there.
#[derive(Debug, Default)]
pub(in crate::types::stream) struct LastRead {
    bytes: Vec<u8>,
    /// Where the leaf's first entry lay.
    start: usize,
    reached: Option<Reached>,
}

thread_local! {
    /// Where this thread's last read has come to.
    static LAST_READ: Cell<LastRead> = const {
        Cell::new(LastRead {
            bytes: Vec::new(),
            start: 0,
            reached: None,
        })
    };
}

/// Calls `body` with this thread's finger.
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
    /// What was reached, where it is before an id in this leaf.
    pub(in crate::types::stream) fn find(
        &self,
        image: &Image<'_>,
        from: StreamId,
    ) -> Option<Reached> {
        // Number of entries and the like, which change behind it.
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

    /// Remembers what was reached in a leaf, whose bytes it takes.
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
