//! Reading on where the last read of a thread has ended.

use std::cell::Cell;

use std::ops::Range;
use undercroft_memory::Lent;

use super::id::StreamId;
use super::image::Image;
use super::leaf::{FILL_AT, KEPT, Leaf};

/// The first entries of a leaf, as far as somebody has read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reached {
    pub(super) entries: usize,
    /// Where they end.
    pub(super) end: usize,
    /// The id of the last one.
    pub(super) last: StreamId,
}

/// Where the last read has come to. Who reads on from there, as consumers do, need not pass over the entries before it
/// again: those of a leaf that has the same bytes up to there.
#[derive(Debug, Default)]
pub(super) struct Finger {
    bytes: Vec<u8>,
    /// Where the leaf's first entry lay.
    start: usize,
    reached: Option<Reached>,
}

thread_local! {
    /// Where this thread's last read has come to.
    static FINGER: Cell<Finger> = const {
        Cell::new(Finger {
            bytes: Vec::new(),
            start: 0,
            reached: None,
        })
    };
}

/// Calls `body` with this thread's finger.
#[inline]
pub(super) fn with_finger<R>(body: impl FnOnce(&mut Finger) -> R) -> R {
    let mut finger = FINGER.lent();
    let result = body(&mut finger);
    if finger.bytes.capacity() <= KEPT {
        FINGER.returned(finger);
    }
    result
}

impl Finger {
    /// What was reached, where it is before an id in this leaf.
    pub(super) fn find(&self, image: &Image<'_>, from: StreamId) -> Option<Reached> {
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
    pub(super) fn keep(&mut self, leaf: &Leaf, reached: Option<Reached>, bytes: &mut Vec<u8>) {
        if reached.is_some() {
            std::mem::swap(&mut self.bytes, bytes);
            (self.start, self.reached) = (leaf.start, reached);
        }
    }
}
