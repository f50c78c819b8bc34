//! The rings of changed keys (M3): each shard has one, in which a transaction records the names of
//! the keys that it changes, for processes that tell clients about them.
//!
//! A writer owns the shard's lock, so a ring needs no lock of its own. The engine stores the position
//! after the last record in a root word of the shard, as a logged change: records become visible in
//! the same moment as the changes that they name, and a rollback removes both. The records
//! themselves are not logged. Before a record is written, the writer announces how far it overwrites
//! the ring. The announcement is not logged either, because the data stays overwritten after a
//! rollback. A reader copies records and then checks that the announcement is less than a ring's
//! length after their start.
//!
//! ```text
//! record | length of the key, kind in the high half | origin | key ... |
//! ```
//!
//! A record is never divided by the end of the ring's data: a record of its own kind fills the rest.

use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::mapped::layout::shard;
use crate::probes::fault;
use crate::segment::Segment;
use crate::transactions::Transaction;
use crate::transactions::rare_state::RecordedKey;
use crate::undo::log::in_order;

/// The number of bytes of a record before the key.
pub(crate) const HEADER: u64 = 16;
/// The maximum length in bytes of a key that a record names.
pub const CHANGED_KEY_MAX: u64 = shard::CHANGED_BYTES / 8;

/// The kinds of records.
pub(crate) const KEY: u64 = 1;
pub(crate) const ALL: u64 = 2;
pub(crate) const SKIP: u64 = 3;

/// The subject of a record in a ring of changed keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangedKey<'k> {
    /// The key was changed. The number identifies the client that changed it, or is 0.
    Key(&'k [u8], u64),
    /// Any key may have been changed.
    All,
}

/// Returns the file offset of a field of a shard's ring.
#[inline(always)]
pub(crate) fn at(segment: &Segment, index: usize, field: u64) -> u64 {
    segment.mapping.layout().shard(index) + shard::CHANGED + field
}

/// Returns the file offset of the data at a position.
#[inline(always)]
pub(crate) fn place(segment: &Segment, index: usize, position: u64) -> u64 {
    let offset = position & (shard::CHANGED_BYTES - 1);
    at(segment, index, shard::CHANGED_DATA + offset)
}

impl Transaction<'_> {
    /// Records a changed key in the ring of a locked shard, in which `word` is the root word with the
    /// position after the last record. The key must not be longer than [`CHANGED_KEY_MAX`], and a
    /// transaction must not record more than half a ring. If the transaction is a removal in parts,
    /// each further part records the key again. O(key).
    ///
    /// # Errors
    /// Fails if the undo log has no space, or if the store's file cannot be changed.
    pub fn record_changed_key(
        &mut self,
        index: usize,
        word: usize,
        changed: ChangedKey<'_>,
    ) -> Result<(), Error> {
        // Readers must see that the shard is being changed before the data changes.
        self.open_first()?;
        // A damaged position must not lead a record beyond the ring.
        let tail = self.view.root(index, word) & !7;
        let end = self.write_changed_key(index, tail, changed);
        if self.in_parts {
            self.keep_for_parts(index, word, changed);
        }
        self.set_root(index, word, end)
    }

    /// Writes a record at the position `tail`. Returns the position after it.
    #[inline(always)]
    fn write_changed_key(&mut self, index: usize, tail: u64, changed: ChangedKey<'_>) -> u64 {
        let (segment, mapping) = (self.segment, &self.segment.mapping);
        let (kind, key, origin) = match changed {
            ChangedKey::Key(key, origin) => (KEY, key, origin),
            ChangedKey::All => (ALL, &[][..], 0),
        };
        let length = HEADER + (key.len() as u64).next_multiple_of(8);
        debug_assert!(length <= HEADER + CHANGED_KEY_MAX);
        let left = shard::CHANGED_BYTES - (tail & (shard::CHANGED_BYTES - 1));
        let start = match length <= left {
            true => tail,
            false => tail.wrapping_add(left),
        };
        let end = start.wrapping_add(length);
        let announced = mapping.word(at(segment, index, shard::CHANGED_ANNOUNCED));
        if announced.load(Ordering::Relaxed) < end {
            announced.store(end, Ordering::Relaxed);
        }
        in_order();
        fault::step();
        if start != tail {
            mapping.store(place(segment, index, tail), SKIP << 32);
        }
        let record = place(segment, index, start);
        mapping.store(record, key.len() as u64 | kind << 32);
        mapping.store(record + 8, origin);
        if !key.is_empty() {
            mapping.copy_from(record + HEADER, key);
        }
        in_order();
        fault::step();
        end
    }

    #[cold]
    fn keep_for_parts(&mut self, index: usize, word: usize, changed: ChangedKey<'_>) {
        let key = match changed {
            ChangedKey::Key(key, origin) => Some((key.to_vec(), origin)),
            ChangedKey::All => None,
        };
        self.rare().last_changed_key = Some(RecordedKey {
            shard: index,
            word,
            key,
        });
    }

    /// Records the key that a removal in parts changes, as part of a further part.
    pub(crate) fn record_changed_key_again(&mut self) -> Result<(), Error> {
        let Some(last) = self.rare().last_changed_key.clone() else {
            return Ok(());
        };
        let changed = match &last.key {
            Some((key, origin)) => ChangedKey::Key(key, *origin),
            None => ChangedKey::All,
        };
        self.record_changed_key(last.shard, last.word, changed)
    }
}
