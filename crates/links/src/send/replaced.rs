//! Remembers which keys were removed or replaced, in a fixed amount of memory.

use std::hash::{DefaultHasher, Hash, Hasher};

use undercroft_engine::changes::Change;
use undercroft_engine::{Changes, Error, LogEnds, Store};

/// The smallest and the largest number of bytes of the filter.
const BYTES: (u64, u64) = (64 << 10, 4 << 20);
/// The number of logged bytes for each byte of the filter. A record takes at least 24 bytes, so the
/// filter has at least three bits for each record, until it has its largest size.
const LOGGED_PER_BYTE: u64 = 64;

/// The keys that the changes since a position in the logs may have removed, replaced or created: a
/// Bloom filter. All other keys that occur in these changes existed the whole time, with one type.
///
/// A replica has the state of a key at some moment after that position. A change of a part, such as
/// HDEL, fails in the replica if the key had another type at that moment.
#[derive(Debug)]
pub(super) struct Replaced {
    bits: Vec<u64>,
    /// The positions up to which the filter contains the keys.
    ends: LogEnds,
}

impl Replaced {
    /// Returns an empty filter for the changes after `ends`, of which there are `logged` bytes.
    pub(super) fn new(ends: LogEnds, logged: u64) -> Replaced {
        let bytes = (logged / LOGGED_PER_BYTE).next_power_of_two();
        let words = bytes.clamp(BYTES.0, BYTES.1) / 8;
        Replaced {
            bits: vec![0; words as usize],
            ends,
        }
    }

    /// Adds the keys of all changes that were logged before this call. Has at most about `piece`
    /// bytes of them in memory at a time. O(changes).
    pub(super) fn look(&mut self, store: &Store, piece: u64) -> Result<(), Error> {
        let now = store.log_ends()?;
        let most = piece.div_ceil(store.all_shards().iter().count() as u64);
        while !self.ends.has_reached(&now) {
            let found = store.first_changes_after(&self.ends, most)?;
            if found.length() == 0 {
                // The logs were removed, because another stream has begun.
                return Ok(());
            }
            self.add(&found);
            self.ends = found.ends;
        }
        Ok(())
    }

    fn add(&mut self, changes: &Changes) {
        for change in changes.iter() {
            // Databases that were emptied or swapped begin another stream.
            if let Change::Key(database, name, _) = change {
                for (word, bit) in self.places(database, name) {
                    self.bits[word] |= bit;
                }
            }
        }
    }

    /// Returns whether the filter may contain a key. It certainly does if the key was added.
    pub(super) fn may_contain(&self, database: usize, name: &[u8]) -> bool {
        let mut places = self.places(database, name).into_iter();
        places.all(|(word, bit)| self.bits[word] & bit != 0)
    }

    /// Returns the two bits of a key, each as the index of its word and a mask.
    fn places(&self, database: usize, name: &[u8]) -> [(usize, u64); 2] {
        let mut hasher = DefaultHasher::new();
        (database, name).hash(&mut hasher);
        let hash = hasher.finish();
        [hash, hash >> 32].map(|hash| {
            let bit = hash as u32 as usize;
            ((bit / 64) % self.bits.len(), 1 << (bit % 64))
        })
    }
}
