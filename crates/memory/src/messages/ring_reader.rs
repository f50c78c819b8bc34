//! Reading the ring of messages (M3): in pieces, without a lock.
//!
//! A reader copies what lies before it, some kilobytes at once, and looks
//! afterwards whether it was lapped meanwhile. Records are then taken out of the
//! copy, so that a reader that is behind touches the words that writers write
//! once for many records, and what it has copied cannot be overwritten.

use std::ops::Range;

use crate::error::Error;
use crate::mapped::layout::{record, ring as field};
use crate::messages::ring::{self, LONGEST_PART, padded, still_there};
use crate::segment::Segment;

/// Bytes copied at once, unless one record is longer: what is read in vain
/// where the records are not for the reader.
const PIECE: u64 = 4096;
/// A longer copy is not kept.
const KEPT: usize = 1 << 20;

/// What a record says of itself.
#[derive(Clone, Copy, Debug)]
pub struct RingRecord {
    /// The writer's own use.
    pub kind: u8,
    /// Hash of the name, by which readers choose without looking at it.
    pub hash: u64,
    /// How many records the ring had with it.
    pub number: u64,
    /// How many of these its counter had counted; see
    /// [`RingCounts::count`](crate::RingCounts::count).
    pub count: u64,
    /// Where it starts.
    pub at: u64,
    /// Where the next record starts.
    pub next: u64,
    name_length: u32,
    body_length: u32,
}

/// What lies at a position of the ring.
#[derive(Clone, Copy, Debug)]
pub enum Look {
    /// Nothing yet.
    End,
    /// A record.
    Record(RingRecord),
    /// What was there has been overwritten.
    Lapped,
}

/// Reads the ring's records one after the other.
#[derive(Debug, Default)]
pub struct RingReader {
    position: u64,
    /// What was copied, from `start` on, when the ring ended at `tail`.
    piece: Vec<u8>,
    start: u64,
    tail: u64,
    /// Where in the piece the record lies that was taken last.
    name: Range<usize>,
    body: Range<usize>,
}

impl RingRecord {
    /// Reads a record's first words; none where they are not a record's.
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
    /// A reader of what lies from a position on, which a record or a tail gave.
    pub fn at(position: u64) -> RingReader {
        RingReader {
            position,
            start: position,
            ..RingReader::default()
        }
    }

    /// Where the next record starts.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Goes on elsewhere.
    pub fn go_to(&mut self, position: u64) {
        self.piece.clear();
        (self.name, self.body) = (0..0, 0..0);
        (self.start, self.position) = (position, position);
    }

    /// The bytes of the piece from the position on.
    #[inline]
    fn rest(&self) -> &[u8] {
        &self.piece[((self.position - self.start) as usize).min(self.piece.len())..]
    }

    /// Looks at the next record, without going on.
    ///
    /// # Errors
    /// [`Error::Damaged`] where something else lies there.
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

    /// Goes on behind a record that was found, without its name and body.
    #[inline]
    pub fn pass(&mut self, found: &RingRecord) {
        self.position = found.next;
    }

    /// Takes a record that was found, and goes on behind it. Returns false where
    /// it was overwritten meanwhile.
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

    /// The name of the record that was taken last; until the next look.
    #[inline]
    pub fn name(&self) -> &[u8] {
        &self.piece[self.name.clone()]
    }

    /// The body of the record that was taken last; until the next look.
    #[inline]
    pub fn body(&self) -> &[u8] {
        &self.piece[self.body.clone()]
    }

    /// Copies what lies from the position on, so many bytes where they are there.
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

/// What became of a copy.
enum Copied {
    Nothing,
    Torn,
    Whole,
}

/// Copies bytes of the ring, over its end where they go round.
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
    fn lengths_that_do_not_fit_are_no_record() {
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
