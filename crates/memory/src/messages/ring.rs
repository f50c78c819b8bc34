//! The ring of messages (M3): records appended under a lock of its own, read
//! without one.
//!
//! Positions grow for ever; a record lies at its position modulo the ring's
//! size. A writer first announces how far it will overwrite, then writes the
//! record, then moves the tail with one store: a record is there as a whole or
//! not at all, and what a killed writer left behind the tail is overwritten by
//! the next. A reader copies first and looks at the announcement afterwards:
//! if it is more than a ring ahead, what was copied may be torn, and the reader
//! has been lapped. Writers never wait for readers.
//!
//! Counters tell readers that were lapped how much they missed. A record holds
//! the values they get by it, so that whoever has the lock next can finish the
//! counting of a writer that died. Records of one name may be appended many at
//! once, which moves the tail and the counters once.

use std::sync::atomic::{Ordering, compiler_fence};

use crate::error::{Error, Fault};
use crate::mapped::layout::{record, ring};
use crate::probes::fault;
use crate::segment::Segment;
use crate::segment::counter::Version;

/// A record is at most this part of the ring.
pub(crate) const LONGEST_PART: u64 = 4;

/// The writer is about to overwrite everything a ring's length below `end`.
/// Never taken back: what a dead writer announced may have been overwritten.
#[inline(always)]
pub(crate) fn announce<V: Version>(announced: &V, end: u64) {
    if announced.get(Ordering::Relaxed) < end {
        announced.put(end, Ordering::Relaxed);
    }
    V::fence(Ordering::Release);
}

/// The record that ends at `end` is whole.
#[inline(always)]
pub(crate) fn move_tail<V: Version>(tail: &V, end: u64) {
    tail.put(end, Ordering::Release);
}

/// Up to where records are whole.
#[inline(always)]
pub(crate) fn published<V: Version>(tail: &V) -> u64 {
    tail.get(Ordering::Acquire)
}

/// Whether what a reader copied from `position` on was not overwritten.
#[inline(always)]
pub(crate) fn still_there<V: Version>(announced: &V, position: u64, size: u64) -> bool {
    V::fence(Ordering::Acquire);
    announced.get(Ordering::Relaxed).saturating_sub(position) <= size
}

/// Where a word of the control page, or the data, lies.
#[inline(always)]
pub(crate) fn at(segment: &Segment, field: u64) -> u64 {
    segment.mapping.layout().ring + field
}

/// A word of the control page, or a counter.
#[inline(always)]
pub(crate) fn word(segment: &Segment, field: u64) -> u64 {
    segment.mapping.load(at(segment, field))
}

/// A store into the ring's control page or counters, in the order of the
/// program as a kill sees it.
pub(crate) fn set_word(segment: &Segment, field: u64, value: u64) {
    compiler_fence(Ordering::SeqCst);
    segment.mapping.store(at(segment, field), value);
    compiler_fence(Ordering::SeqCst);
    fault::step();
}

/// Where the byte at a position lies in the file, and how many follow it
/// before the ring's end.
#[inline(always)]
pub(crate) fn place(segment: &Segment, position: u64) -> (u64, u64) {
    let size = segment.mapping.layout().ring_size;
    let offset = position & (size - 1);
    (at(segment, ring::DATA) + offset, size - offset)
}

/// The error for a position at which no sound record lies.
pub(crate) fn damaged(segment: &Segment, position: u64) -> Error {
    Error::Damaged(Fault {
        at: place(segment, position & !7).0,
        what: "a sound record in the ring of messages",
    })
}

/// Bytes rounded up to whole words.
pub(crate) fn padded(length: usize) -> u64 {
    (length as u64).next_multiple_of(8)
}

/// Number of the counter that counts the records of a name.
pub fn counter_of(hash: u64) -> usize {
    (hash & (ring::COUNTER_COUNT - 1)) as usize
}

/// Where the counter of the records of a name lies.
pub(crate) fn counter(hash: u64) -> u64 {
    ring::COUNTERS + counter_of(hash) as u64 * 8
}

impl Segment {
    /// Bytes of the ring's data.
    pub fn ring_size(&self) -> u64 {
        self.mapping.layout().ring_size
    }

    /// Bytes of the ring's data backed by memory so far.
    pub fn ring_reserved(&self) -> u64 {
        word(self, ring::RESERVED)
    }

    /// Longest name and body of one record together.
    pub fn record_max(&self) -> u64 {
        self.ring_size() / LONGEST_PART - record::NAME - 16
    }

    /// Records ever appended, as a figure.
    pub fn ring_records(&self) -> u64 {
        word(self, ring::RECORDS)
    }

    /// The position behind the last whole record.
    #[inline]
    pub fn ring_tail(&self) -> u64 {
        published(self.mapping.word(at(self, ring::TAIL)))
    }
}
