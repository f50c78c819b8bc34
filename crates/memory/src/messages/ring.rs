//! The message ring (M3): records are appended under the ring's own lock and read without a lock.
//!
//! Positions grow forever. The data of a record is at the record's position modulo the ring's size.
//! A writer first announces how far it will overwrite, then writes the record, then moves the tail
//! with one store. A record is therefore visible completely or not at all, and the next writer
//! overwrites anything that a killed writer left after the tail. A reader copies a record and then
//! checks the announcement: if that is more than a ring's length ahead, the copy may be torn, and
//! the reader has been lapped. Writers never wait for readers.
//!
//! Counters show lapped readers how many records they missed. A record contains the values that the
//! counters have after it, so that the next owner of the lock can finish counting for a writer that
//! died. Several records with one name may be appended together, which moves the tail and the
//! counters only once.

use std::sync::atomic::{Ordering, compiler_fence};

use crate::error::{Error, Fault};
use crate::mapped::layout::{record, ring};
use crate::probes::fault;
use crate::segment::Segment;
use crate::segment::counter::Version;

/// The maximum length of a record is the ring's size divided by this number.
pub(crate) const LONGEST_PART: u64 = 4;

/// Announces that the writer is about to overwrite everything more than a ring's length before
/// `end`. The announcement is never withdrawn, because a dead writer may already have overwritten
/// that data.
#[inline(always)]
pub(crate) fn announce<V: Version>(announced: &V, end: u64) {
    if announced.get(Ordering::Relaxed) < end {
        announced.put(end, Ordering::Relaxed);
    }
    V::fence(Ordering::Release);
}

/// Publishes all records up to `end`.
#[inline(always)]
pub(crate) fn move_tail<V: Version>(tail: &V, end: u64) {
    tail.put(end, Ordering::Release);
}

/// Returns the position before which all records are complete.
#[inline(always)]
pub(crate) fn published<V: Version>(tail: &V) -> u64 {
    tail.get(Ordering::Acquire)
}

/// Returns true if the data that a reader copied, starting at `position`, was not overwritten
/// during the copy.
#[inline(always)]
pub(crate) fn still_there<V: Version>(announced: &V, position: u64, size: u64) -> bool {
    V::fence(Ordering::Acquire);
    announced.get(Ordering::Relaxed).saturating_sub(position) <= size
}

/// Returns the file offset of a word in the ring's control page, or of the ring's data.
#[inline(always)]
pub(crate) fn at(segment: &Segment, field: u64) -> u64 {
    segment.mapping.layout().ring + field
}

/// Loads a word from the ring's control page, or a counter.
#[inline(always)]
pub(crate) fn word(segment: &Segment, field: u64) -> u64 {
    segment.mapping.load(at(segment, field))
}

/// Stores a word in the ring's control page, or a counter. Compiler fences keep the stores in
/// program order, because the process may be killed between any two of them.
pub(crate) fn set_word(segment: &Segment, field: u64, value: u64) {
    compiler_fence(Ordering::SeqCst);
    segment.mapping.store(at(segment, field), value);
    compiler_fence(Ordering::SeqCst);
    fault::step();
}

/// Returns the file offset of the byte at a position, and the number of bytes from that byte to the
/// ring's end.
#[inline(always)]
pub(crate) fn place(segment: &Segment, position: u64) -> (u64, u64) {
    let size = segment.mapping.layout().ring_size;
    let offset = position & (size - 1);
    (at(segment, ring::DATA) + offset, size - offset)
}

/// Returns the error for a position at which there is no valid record.
pub(crate) fn damaged(segment: &Segment, position: u64) -> Error {
    Error::Damaged(Fault {
        at: place(segment, position & !7).0,
        what: "a valid record in the ring of messages",
    })
}

/// Rounds a number of bytes up to a multiple of the word size.
pub(crate) fn padded(length: usize) -> u64 {
    (length as u64).next_multiple_of(8)
}

/// Returns the index of the counter for records with a given name, based on the name's hash.
pub fn counter_of(hash: u64) -> usize {
    (hash & (ring::COUNTER_COUNT - 1)) as usize
}

/// Returns the offset of the counter for records with a given name, based on the name's hash.
pub(crate) fn counter(hash: u64) -> u64 {
    ring::COUNTERS + counter_of(hash) as u64 * 8
}

impl Segment {
    /// Returns the size of the ring's data, in bytes.
    pub fn ring_size(&self) -> u64 {
        self.mapping.layout().ring_size
    }

    /// Returns the number of bytes of the ring's data that are backed with memory.
    pub fn ring_reserved(&self) -> u64 {
        word(self, ring::RESERVED)
    }

    /// Returns the maximum total length of a record's name and body, in bytes.
    pub fn record_max(&self) -> u64 {
        self.ring_size() / LONGEST_PART - record::NAME - 16
    }

    /// Returns the number of records ever appended, for statistics.
    pub fn ring_records(&self) -> u64 {
        word(self, ring::RECORDS)
    }

    /// Returns the position after the last complete record.
    #[inline]
    pub fn ring_tail(&self) -> u64 {
        published(self.mapping.word(at(self, ring::TAIL)))
    }
}
