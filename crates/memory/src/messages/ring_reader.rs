//! Reads the message ring (M3) in pieces, without a lock.
//!
//! A reader copies the next few kilobytes and then checks whether it was lapped during the copy. It
//! then parses records in its copy. A lagging reader therefore accesses the words shared with
//! writers only once for many records, and its copy cannot be overwritten.

use std::ops::Range;

use crate::error::Error;
use crate::mapped::layout::{record, ring as field};
use crate::messages::ring::{self, LONGEST_PART, padded, still_there};
use crate::segment::Segment;

/// The number of bytes in one copy, unless a record is longer. Copying records meant for other
/// readers is wasted work, so the number is small.
const PIECE: u64 = 4096;
/// The maximum size in bytes of a buffer that is retained for reuse.
const KEPT: usize = 1 << 20;

/// The header of a record.
#[derive(Clone, Copy, Debug)]
pub struct RingRecord {
    /// A value that the writer chooses freely.
    pub kind: u8,
    /// The hash of the name, by which readers select records without reading the name.
    pub hash: u64,
    /// The number of records ever appended to the ring, up to and including this one.
    pub number: u64,
    /// The value of this record's counter after counting this record; see
    /// [`RingCounts::count`](crate::RingCounts::count).
    pub count: u64,
    /// The position of the record.
    pub at: u64,
    /// The position of the next record.
    pub next: u64,
    name_length: u32,
    body_length: u32,
}

/// The result of inspecting a position in the ring.
#[derive(Clone, Copy, Debug)]
pub enum Look {
    /// The position is at the end of the ring, and the next record has not been written yet.
    End,
    /// A record is at the position.
    Record(RingRecord),
    /// The data at the position has been overwritten.
    Lapped,
}

/// A reader that traverses the ring's records in order.
#[derive(Debug, Default)]
pub struct RingReader {
    position: u64,
    /// The data copied from the ring, starting at position `start`, when the ring's tail was
    /// `tail`.
    piece: Vec<u8>,
    start: u64,
    tail: u64,
    /// The ranges of the name and the body of the most recently taken record within `piece`.
    name: Range<usize>,
    body: Range<usize>,
}

impl RingRecord {
    /// Parses a record's header, or returns `None` if its lengths are inconsistent.
    fn parse(at: u64, bytes: &[u8; record::NAME as usize], ring_size: u64) -> Option<RingRecord> {
        let field = |field: u64| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[field as usize..field as usize + 8]);
            u64::from_le_bytes(word)
        };
        let (length, parts) = (field(record::LENGTH), field(record::PARTS));
        let (name_length, body_length) = (parts as u32, (parts >> 32) as u32);
        let whole = record::NAME + padded(name_length as usize) + padded(body_length as usize);
        let sound = length & 0xffff_ffff == whole && whole <= ring_size / LONGEST_PART;
        sound.then(|| RingRecord {
            kind: (length >> 32) as u8,
            hash: field(record::HASH),
            number: field(record::NUMBER),
            count: field(record::COUNT),
            at,
            next: at + whole,
            name_length,
            body_length,
        })
    }
}

impl RingReader {
    /// Creates a reader that starts at a position, which must have been obtained from a record or
    /// the tail.
    pub fn at(position: u64) -> RingReader {
        RingReader {
            position,
            start: position,
            ..RingReader::default()
        }
    }

    /// Returns the position of the next record.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Moves the reader to another position.
    pub fn go_to(&mut self, position: u64) {
        self.piece.clear();
        (self.name, self.body) = (0..0, 0..0);
        (self.start, self.position) = (position, position);
    }

    /// Returns the remaining part of the copied data, starting at the current position.
    #[inline]
    fn rest(&self) -> &[u8] {
        &self.piece[((self.position - self.start) as usize).min(self.piece.len())..]
    }

    /// Returns the next record without advancing.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if the data at the position is not a valid record.
    #[inline]
    pub fn look(&mut self, segment: &Segment) -> Result<Look, Error> {
        if self.rest().len() < record::NAME as usize {
            match self.copy(segment, PIECE)? {
                Copied::Nothing => return Ok(Look::End),
                Copied::Torn => return Ok(Look::Lapped),
                Copied::Whole => {}
            }
        }
        let header = self.rest().first_chunk();
        let found =
            header.and_then(|header| RingRecord::parse(self.position, header, segment.ring_size()));
        match found.filter(|found| found.next <= self.tail) {
            Some(found) => Ok(Look::Record(found)),
            None => Err(ring::damaged(segment, self.position)),
        }
    }

    /// Skips a record, without reading its name and body.
    #[inline]
    pub fn pass(&mut self, found: &RingRecord) {
        self.position = found.next;
    }

    /// Reads a record and advances past it. Returns false if the record was overwritten in the
    /// meantime.
    #[inline]
    pub fn take(&mut self, segment: &Segment, found: &RingRecord) -> Result<bool, Error> {
        let length = found.next - found.at;
        if (self.rest().len() as u64) < length
            && !matches!(self.copy(segment, length)?, Copied::Whole)
        {
            return Ok(false);
        }
        let name = (self.position - self.start + record::NAME) as usize;
        let body = name + padded(found.name_length as usize) as usize;
        self.name = name..name + found.name_length as usize;
        self.body = body..body + found.body_length as usize;
        self.position = found.next;
        Ok(true)
    }

    /// Returns the name of the most recently taken record. Valid until the next call to `look`.
    #[inline]
    pub fn name(&self) -> &[u8] {
        &self.piece[self.name.clone()]
    }

    /// Returns the body of the most recently taken record. Valid until the next call to `look`.
    #[inline]
    pub fn body(&self) -> &[u8] {
        &self.piece[self.body.clone()]
    }

    /// Copies up to `most` bytes, starting at the current position.
    fn copy(&mut self, segment: &Segment, most: u64) -> Result<Copied, Error> {
        self.go_to(self.position);
        if self.piece.capacity() > KEPT {
            self.piece = Vec::new();
        }
        let tail = segment.ring_tail();
        if self.position >= tail {
            return Ok(Copied::Nothing);
        }
        let size = segment.ring_size();
        if !self.position.is_multiple_of(8) || segment.ring_reserved() < tail.min(size) {
            return Err(ring::damaged(segment, self.position));
        }
        let length = most.min(tail - self.position).min(size);
        copy_out(segment, self.position, length, &mut self.piece);
        let announced = segment.mapping.word(ring::at(segment, field::ANNOUNCED));
        if !still_there(announced, self.position, size) {
            self.piece.clear();
            return Ok(Copied::Torn);
        }
        self.tail = tail;
        Ok(Copied::Whole)
    }
}

/// The result of a copy from the ring.
enum Copied {
    Nothing,
    Torn,
    Whole,
}

/// Copies bytes out of the ring, wrapping around at its end.
#[inline]
fn copy_out(segment: &Segment, position: u64, length: u64, out: &mut Vec<u8>) {
    let (at, left) = ring::place(segment, position);
    let first = length.min(left);
    segment.mapping.append_to(at, first as usize, out);
    if first < length {
        let start = ring::at(segment, field::DATA);
        segment
            .mapping
            .append_to(start, (length - first) as usize, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_with_inconsistent_lengths_is_rejected() {
        let header = |length: u64, parts: u64| {
            let words = [length, 7, 1, 1, parts];
            let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
            RingRecord::parse(8, bytes.first_chunk().expect("40 bytes"), 1 << 16)
        };
        let found = header(5 << 32 | 56, 3 | 8 << 32).expect("a record");
        assert_eq!((found.kind, found.at, found.next), (5, 8, 64));
        assert!(header(48, 3 | 8 << 32).is_none());
        assert!(header(40 + (1 << 14), 1 << 46).is_none());
        assert!(header(u64::MAX, u64::MAX).is_none());
    }
}
