//! Reads the rings of changed keys (M3) in pieces, without a lock.

use std::sync::atomic::{Ordering, fence};

use crate::mapped::layout::shard;
use crate::segment::Segment;
use crate::transactions::changed_keys::{ALL, ChangedKey, HEADER, KEY, SKIP, at, place};

impl Segment {
    /// Appends the records between two positions of a shard's ring to `out`, for
    /// [`changed_keys`]. The later position must be one that a committed transaction has stored in
    /// the shard's roots. Returns false if writers have overwritten some of the records. O(bytes).
    pub fn read_changed_keys(
        &self,
        index: usize,
        (from, to): (u64, u64),
        out: &mut Vec<u8>,
    ) -> bool {
        let is_sound = from.is_multiple_of(8) && to.is_multiple_of(8) && from <= to;
        if !is_sound || to - from > shard::CHANGED_BYTES {
            return false;
        }
        let offset = from & (shard::CHANGED_BYTES - 1);
        let first = (to - from).min(shard::CHANGED_BYTES - offset);
        self.mapping
            .append_to(place(self, index, from), first as usize, out);
        let rest = to - from - first;
        if rest > 0 {
            self.mapping
                .append_to(at(self, index, shard::CHANGED_DATA), rest as usize, out);
        }
        fence(Ordering::Acquire);
        let announced = self.mapping.load(at(self, index, shard::CHANGED_ANNOUNCED));
        announced.saturating_sub(from) <= shard::CHANGED_BYTES
    }
}

/// Iterates over the records that were [read](Segment::read_changed_keys) from the position `from`
/// on. Damaged records end the iteration with [`ChangedKey::All`].
pub fn changed_keys(from: u64, bytes: &[u8]) -> impl Iterator<Item = ChangedKey<'_>> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        loop {
            let rest = bytes.get(offset..).filter(|rest| !rest.is_empty())?;
            let word = |index: usize| {
                let word = rest.get(8 * index..)?.first_chunk()?;
                Some(u64::from_le_bytes(*word))
            };
            let first = word(0);
            if first == Some(SKIP << 32) {
                let position = from + offset as u64;
                let left = shard::CHANGED_BYTES - (position & (shard::CHANGED_BYTES - 1));
                offset += left as usize;
                continue;
            }
            let length = first.map_or(0, |word| (word & 0xffff_ffff) as usize);
            let key = rest
                .get(HEADER as usize..)
                .and_then(|rest| rest.get(..length));
            let found = match (first.map(|word| word >> 32), word(1), key) {
                (Some(KEY), Some(origin), Some(key)) => ChangedKey::Key(key, origin),
                (Some(ALL), ..) => ChangedKey::All,
                _ => {
                    offset = bytes.len();
                    return Some(ChangedKey::All);
                }
            };
            offset += HEADER as usize + length.next_multiple_of(8);
            return Some(found);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::shard_set::ShardSet;
    use crate::store_file::opening::Options;
    use crate::transactions::changed_keys::CHANGED_KEY_MAX;

    /// The root word with the position after the last record.
    const WORD: usize = 0;

    /// Records keys in one transaction, and returns the position after them.
    fn add(segment: &Segment, keys: &[Vec<u8>]) -> u64 {
        let shards = ShardSet::one(0);
        let added = segment.write(shards, |transaction| {
            for (origin, key) in (1..).zip(keys) {
                let changed = ChangedKey::Key(key, origin);
                transaction.record_changed_key(0, WORD, changed)?;
            }
            transaction.record_changed_key(0, WORD, ChangedKey::All)?;
            Ok::<_, crate::Error>(transaction.view().root(0, WORD))
        });
        added.expect("room")
    }

    fn store() -> (tempfile::TempDir, Segment) {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let options = Options {
            capacity: Some(8 << 20),
            ..Options::default()
        };
        let segment = Segment::create(&directory.path().join("store"), &options).expect("a store");
        let seat = segment.take_seat().expect("a seat");
        assert!(segment.begin_tracking(&seat).expect("room").is_some());
        (directory, segment)
    }

    #[test]
    fn records_of_all_lengths_are_read_across_the_end_of_the_ring() {
        let (_directory, segment) = store();
        let lengths = (0..200).map(|step| step * 37 % 300);
        let keys: Vec<Vec<u8>> = lengths.map(|length| vec![length as u8; length]).collect();
        let (mut from, mut rounds) = (0, 0);
        while from < 3 * shard::CHANGED_BYTES {
            rounds += 1;
            // The offset at which the ring ends differs in each round.
            let keys = &keys[..keys.len() - rounds % 7];
            let to = add(&segment, keys);
            let mut bytes = Vec::new();
            assert!(segment.read_changed_keys(0, (from, to), &mut bytes));
            let expected = (1..)
                .zip(keys)
                .map(|(origin, key)| ChangedKey::Key(key, origin));
            let expected = expected.chain([ChangedKey::All]);
            assert!(changed_keys(from, &bytes).eq(expected), "round {rounds}");
            from = to;
        }
    }

    #[test]
    fn overwritten_records_are_noticed() {
        let (_directory, segment) = store();
        let long = vec![b'k'; CHANGED_KEY_MAX as usize];
        let first = add(&segment, &[b"first".to_vec()]);
        let (mut to, mut bytes) = (first, Vec::new());
        while to + CHANGED_KEY_MAX + 64 < shard::CHANGED_BYTES {
            to = add(&segment, std::slice::from_ref(&long));
        }
        assert!(segment.read_changed_keys(0, (0, first), &mut bytes));
        // A rolled-back transaction overwrites the first records, too.
        let undone = segment.write(ShardSet::one(0), |transaction| {
            transaction.record_changed_key(0, WORD, ChangedKey::Key(&long, 0))?;
            Err::<(), _>(crate::Error::ReadOnly)
        });
        assert!(undone.is_err());
        assert!(!segment.read_changed_keys(0, (0, first), &mut bytes));
        assert!(segment.read_changed_keys(0, (to, to), &mut bytes));
    }

    #[test]
    fn damaged_positions_do_not_leave_the_ring() {
        let (_directory, segment) = store();
        let shards = ShardSet::one(0);
        for position in [u64::MAX, u64::MAX - 15, shard::CHANGED_BYTES - 4, 1] {
            let set = segment.write(shards, |transaction| {
                transaction.set_root(0, WORD, position)
            });
            set.expect("room");
            let to = add(&segment, &[vec![b'k'; 100]]);
            assert!(to.is_multiple_of(8), "{position:#x}");
            // A reader that knows the damaged position reads no further than the ring is long.
            let mut bytes = Vec::new();
            segment.read_changed_keys(0, (position, to), &mut bytes);
            assert!(bytes.len() as u64 <= shard::CHANGED_BYTES);
        }
    }

    #[test]
    fn damaged_records_stand_for_all_keys() {
        for bytes in [
            &[0; 16][..],
            &[7; 24],
            &[1, 0, 0, 0, 1, 0, 0, 0],
            &[200, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ] {
            let found: Vec<ChangedKey<'_>> = changed_keys(0, bytes).collect();
            assert_eq!(found, [ChangedKey::All]);
        }
    }
}
