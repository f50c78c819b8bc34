//! Defines entry IDs, which consist of a time in milliseconds and a sequence number.

/// The ID of an entry. IDs sort in the order of their entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// The Unix time in milliseconds, or any other number that the client chose.
    pub ms: u64,
    /// The sequence number among the IDs with the same milliseconds.
    pub seq: u64,
}

impl StreamId {
    /// The lowest ID. No entry has this ID.
    pub const MIN: StreamId = StreamId { ms: 0, seq: 0 };
    /// The highest possible ID.
    pub const MAX: StreamId = StreamId {
        ms: u64::MAX,
        seq: u64::MAX,
    };

    /// Returns the next higher ID, or `None` if this is the highest ID.
    pub fn next(self) -> Option<StreamId> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => Some(StreamId {
                ms: self.ms.checked_add(1)?,
                seq: 0,
            }),
        }
    }

    /// Returns the next lower ID, or `None` if this is the lowest ID.
    pub fn before(self) -> Option<StreamId> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => Some(StreamId {
                ms: self.ms.checked_sub(1)?,
                seq: u64::MAX,
            }),
        }
    }

    /// Encodes the ID as 16 big-endian bytes.
    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.ms) << 64 | u128::from(self.seq)).to_be_bytes()
    }

    /// Decodes an ID from 16 big-endian bytes. Returns `None` if the length of `bytes` is not 16.
    pub fn from_bytes(bytes: &[u8]) -> Option<StreamId> {
        let both = u128::from_be_bytes(bytes.try_into().ok()?);
        let (ms, seq) = ((both >> 64) as u64, both as u64);
        Some(StreamId { ms, seq })
    }

    pub(super) fn words(self) -> [u64; 2] {
        [self.ms, self.seq]
    }

    pub(super) fn of_words([ms, seq]: [u64; 2]) -> StreamId {
        StreamId { ms, seq }
    }

    /// Returns the ID as text in Redis' format, such as `1700000000000-0`.
    pub fn text(self) -> IdText {
        let mut text = IdText {
            bytes: [0; IdText::MOST],
            length: 0,
        };
        let mut digits = itoa::Buffer::new();
        text.push(digits.format(self.ms).as_bytes());
        text.push(b"-");
        text.push(digits.format(self.seq).as_bytes());
        text
    }
}

/// The text of an entry ID.
#[derive(Clone, Copy, Debug)]
pub struct IdText {
    bytes: [u8; IdText::MOST],
    length: usize,
}

impl IdText {
    /// The maximum length of an ID's text in bytes. The text consists of two 64-bit numbers and a
    /// hyphen.
    const MOST: usize = 41;

    /// Returns the text as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn push(&mut self, part: &[u8]) {
        let end = self.length + part.len();
        self.bytes[self.length..end].copy_from_slice(part);
        self.length = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_and_before_step_across_milliseconds() {
        let id = |ms, seq| StreamId { ms, seq };
        assert_eq!(id(1, 2).next(), Some(id(1, 3)));
        assert_eq!(id(1, u64::MAX).next(), Some(id(2, 0)));
        assert_eq!(StreamId::MAX.next(), None);
        assert_eq!(id(2, 0).before(), Some(id(1, u64::MAX)));
        assert_eq!(StreamId::MIN.before(), None);
        assert!(id(1, 9) < id(2, 0));
        assert_eq!(id(7, 8).text().as_bytes(), b"7-8");
        let greatest = format!("{0}-{0}", u64::MAX);
        assert_eq!(StreamId::MAX.text().as_bytes(), greatest.as_bytes());
    }
}
