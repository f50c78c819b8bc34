//! The format of a redo record, in the ring and in journal files.
//!
//! A record is a header of six words and a body of entries. An entry is one word, which packs an
//! offset and a number of words, and then these words. An entry without words names a page: the
//! first page of a run that a heap step granted to a shard.
//!
//! ```text
//! | position | length, kind | owner, record | number | shards | state or CRC | entries ... |
//! ```

/// The number of words in a record's header.
pub(crate) const HEADER: u64 = 6;

/// In a header: the journal position of the record, in bytes.
pub(crate) const POSITION: u64 = 0;
/// In a header: the length of the record in words, header included, and its kind in the upper half.
pub(crate) const LENGTH: u64 = 1;
/// In a header: the process that appended the record, encoded as in a lock word, and the number of
/// its transaction record in the upper half.
pub(crate) const OWNER: u64 = 2;
/// In a header: the transaction's number (W6).
pub(crate) const NUMBER: u64 = 3;
/// In a header: the shards that the step changed, as bits.
pub(crate) const SHARDS: u64 = 4;
/// In a header: the state in the ring, or the CRC-32C of all other words in a file.
pub(crate) const STATE: u64 = 5;

/// A kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    /// The changes of a transaction, or of a part of one.
    Transaction = 1,
    /// The changes of a heap step.
    HeapStep = 2,
    /// The old contents of changes that are undone, for a checkpoint that may have copied the
    /// changes.
    Restore = 3,
    /// The time, and the position up to which all records were on disk at that time.
    Mark = 4,
    /// A record that does not count, because its step never took effect.
    Void = 5,
}

impl Kind {
    pub(crate) fn unpack(bits: u64) -> Option<Kind> {
        match bits {
            1 => Some(Kind::Transaction),
            2 => Some(Kind::HeapStep),
            3 => Some(Kind::Restore),
            4 => Some(Kind::Mark),
            5 => Some(Kind::Void),
            _ => None,
        }
    }
}

/// The state of a record in the ring: whether its step took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum State {
    /// The step may still take effect.
    Open = 1,
    /// The step took effect.
    Counts = 2,
    /// The step never took effect.
    Void = 3,
}

impl State {
    pub(crate) fn unpack(bits: u64) -> Option<State> {
        match bits {
            1 => Some(State::Open),
            2 => Some(State::Counts),
            3 => Some(State::Void),
            _ => None,
        }
    }
}

/// The number of bits for an entry's offset, which is stored as a number of words.
const AT_BITS: u32 = 42;
/// The maximum number of words in an entry.
pub(crate) const ENTRY_WORDS: u64 = (1 << (64 - AT_BITS)) - 1;

/// Packs the offset and the number of words of an entry.
#[inline(always)]
pub(crate) fn entry(at: u64, words: u64) -> u64 {
    debug_assert!(at.is_multiple_of(8) && at >> (AT_BITS + 3) == 0 && words <= ENTRY_WORDS);
    (at / 8) | (words << AT_BITS)
}

/// Packs an entry that names the first page of a granted run.
pub(crate) fn grant(page: u64) -> u64 {
    debug_assert!(page >> AT_BITS == 0);
    page
}

/// Returns the offset (or, in an entry without words, the page) and the number of words of an entry.
pub(crate) fn unpack_entry(entry: u64) -> (u64, u64) {
    let at = entry & ((1 << AT_BITS) - 1);
    match entry >> AT_BITS {
        0 => (at, 0),
        words => (at * 8, words),
    }
}

/// Packs the length and the kind of a record.
pub(crate) fn length(words: u64, kind: Kind) -> u64 {
    debug_assert!(words >> 32 == 0);
    words | (kind as u64) << 32
}

/// Returns the length in words and the kind of a record, or `None` if the word is not valid.
pub(crate) fn unpack_length(word: u64) -> Option<(u64, Kind)> {
    let words = word & 0xffff_ffff;
    let kind = Kind::unpack(word >> 32)?;
    (words >= HEADER).then_some((words, kind))
}

/// Computes the checksum of a record in a file: the CRC-32C of the journal's epoch and of the
/// record's bytes without the checksum's own word.
///
/// The epoch is included, so that a record that an earlier store file left after the journal's end
/// is not valid.
pub(crate) fn checksum(epoch: u64, record: &[u8]) -> u64 {
    let at = STATE as usize * 8;
    let seed = crc32c::crc32c(&epoch.to_le_bytes());
    let first = crc32c::crc32c_append(seed, &record[..at]);
    u64::from(crc32c::crc32c_append(first, &record[at + 8..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_unpacked_as_they_were_packed() {
        let last =
            (crate::mapped::layout::Layout::new(64, u64::MAX >> 16, 1 << 32)).file_length - 8;
        for (at, words) in [(8, 1), (last, 1), (4096, ENTRY_WORDS)] {
            assert_eq!(unpack_entry(entry(at, words)), (at, words));
        }
        assert_eq!(unpack_entry(grant(77)), (77, 0));
    }
}
