//! Defines the leaves of a stream's tree, which contain entries in order.
//!
//! ```text
//! a leaf:
//! | 0x600 or 0x601, start of the entries' room, size |  8 bytes
//! | entries, entries ever added, start and end of the entries, their size in Redis | 8
//! | the base ID, relative to which other IDs are encoded |  16
//! | model: number of fields, and for each its name and the start of a value |
//! | entries, and a tombstone in a leaf of 0x601  |
//!
//! an entry:
//! | bit 0: its fields are the model's; the low six bits of its seq; bit 7: a number with the other bits follows |
//! | number: milliseconds after the base's        |
//! | if its fields are not the model's: their number, and before each value its name |
//! | values                                       |
//! ```
//!
//! If an entry has the same milliseconds as the base ID, its sequence number is relative to that of
//! the base ID. The model is derived from the entry for which the leaf was created. Field names
//! that match the model are not stored again, and only the difference between a value and the
//! model's value is stored. No entry depends on another entry, so the first entries are removed by
//! storing a new start, and an entry is added after the last entry (W4). A leaf contains the same
//! entries as a Redis node. It is only as large as necessary, because a long entry might be the
//! leaf's only entry.
//!
//! If the last entry is deleted, its first bytes, including its ID, stay as a tombstone until
//! another entry is added there. The tombstone is necessary because MINID trims a Redis node by the
//! last ID that the node ever contained, and because a Redis node can remain after all of its
//! entries are deleted.

use undercroft_memory::{Fault, Offset, Pool, Transaction, View, block_size};

use super::code::DAMAGED;
use crate::error::Error;
use crate::structures::tree::Child;
use crate::types::stream::id::StreamId;

pub(in crate::types::stream) const MAGIC: u64 = 0x600;
/// The bit of a leaf's first word that is set if a tombstone (the remains of the deleted last
/// entry) follows the entries.
pub(in crate::types::stream) const TOMBSTONE: u64 = 1;
pub(in crate::types::stream) const HEADER: usize = 32;
/// The offset of the word that contains the number of entries, their position and their size.
pub(in crate::types::stream) const FILL_AT: u64 = 8;
/// The sizes in bytes of the smallest leaf and of a leaf that has room for later entries.
pub(in crate::types::stream) const LEAF_MIN: usize = 256;
pub(in crate::types::stream) const LEAF_USUAL: usize = 4096;
/// The maximum size in bytes of a leaf with several entries. Entries that fill a Redis node of
/// 4,096 bytes usually occupy at most about twice as much here, because Redis stores a name that
/// consists of many digits as an integer. Only several thousand empty texts can occupy more,
/// because Redis does not count empty texts toward its limit before they are added.
pub(in crate::types::stream) const LEAF_MAX: usize = 4 * LEAF_USUAL - 8;
/// The value of the end field in a leaf whose only entry extends to the end of the leaf.
pub(in crate::types::stream) const WHOLE: u64 = 0x3fff;
/// The maximum value of a leaf's `raw` size in bytes. It equals the highest size limit that can be
/// configured, so a leaf that reaches it is full under every size limit.
pub(in crate::types::stream) const RAW_MAX: usize = 4096;

pub(in crate::types::stream) fn fault(at: Offset) -> Error {
    Fault { at, ..DAMAGED }.into()
}

/// Returns whether `word` is the first word of a leaf of entries.
pub(in crate::types::stream) fn is_entries(word: u64) -> bool {
    word & 0xffff & !TOMBSTONE == MAGIC
}

/// A leaf with its decoded header.
#[derive(Clone, Copy, Debug)]
pub(in crate::types::stream) struct Leaf {
    pub(in crate::types::stream) at: Offset,
    pub(in crate::types::stream) size: usize,
    /// The offset of the area for entries.
    pub(in crate::types::stream) body: usize,
    pub(in crate::types::stream) count: usize,
    /// The number of entries that were ever added to the leaf.
    pub(in crate::types::stream) added: usize,
    /// The approximate size in bytes that all entries ever added to the leaf would occupy in a
    /// Redis node. This size determines when the leaf is full.
    pub(in crate::types::stream) raw: usize,
    /// The offset of the first entry.
    pub(in crate::types::stream) start: usize,
    /// The offset after the last entry, or after the tombstone that follows it.
    pub(in crate::types::stream) end: usize,
    /// Whether a tombstone, the remains of the deleted last entry, follows the entries.
    pub(in crate::types::stream) has_tombstone: bool,
    pub(in crate::types::stream) base: StreamId,
}

impl Leaf {
    /// Decodes the header and verifies that every offset in it lies within the leaf.
    #[inline]
    pub(in crate::types::stream) fn load(view: &View<'_>, at: Offset) -> Result<Leaf, Error> {
        let [shape, fill, ms, seq] = view.words::<4>(at)?;
        let size = (shape >> 32) as usize;
        let leaf = Leaf {
            at,
            size,
            body: (shape >> 16 & 0xffff) as usize,
            count: (fill & 0xfff) as usize,
            added: (fill >> 12 & 0xfff) as usize,
            start: (fill >> 24 & 0x3fff) as usize,
            end: match fill >> 38 & 0x3fff {
                WHOLE => size,
                end => end as usize,
            },
            raw: (fill >> 52) as usize + 1,
            has_tombstone: shape & TOMBSTONE != 0,
            base: StreamId { ms, seq },
        };
        let sound = is_entries(shape)
            && leaf.body > HEADER
            && leaf.body <= leaf.start
            && leaf.start < leaf.end
            && leaf.end <= leaf.size
            && (leaf.count > 0 || leaf.has_tombstone);
        if !sound {
            return Err(fault(at));
        }
        view.check(at, leaf.size as u64)?;
        Ok(leaf)
    }

    pub(in crate::types::stream) fn words(&self) -> [u64; 4] {
        let [ms, seq] = self.base.words();
        [self.shape(), self.fill(), ms, seq]
    }

    pub(in crate::types::stream) fn shape(&self) -> u64 {
        let tombstone = if self.has_tombstone { TOMBSTONE } else { 0 };
        MAGIC | tombstone | (self.body as u64) << 16 | (self.size as u64) << 32
    }

    pub(in crate::types::stream) fn fill(&self) -> u64 {
        let end = if self.size > LEAF_MAX {
            WHOLE
        } else {
            self.end as u64
        };
        self.count as u64
            | (self.added as u64) << 12
            | (self.start as u64) << 24
            | end << 38
            | (self.raw.min(RAW_MAX) as u64 - 1) << 52
    }

    pub(in crate::types::stream) fn store_fill(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
    ) -> Result<(), Error> {
        Ok(transaction.store(shard, self.at + FILL_AT, self.fill())?)
    }

    pub(in crate::types::stream) fn set_tombstone(
        &mut self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        has_one: bool,
    ) -> Result<(), Error> {
        self.has_tombstone = has_one;
        Ok(transaction.store(shard, self.at, self.shape())?)
    }

    /// Returns the size of the block that contains the leaf, in bytes.
    pub(in crate::types::stream) fn block_size(&self) -> u64 {
        block_size(self.size as u64)
    }

    /// Returns the leaf's offset, count and base ID, as its parent node stores them.
    pub(in crate::types::stream) fn child(&self) -> Child<2> {
        Child {
            at: self.at,
            count: self.count as u64,
            note: self.base.words(),
        }
    }

    /// Copies the leaf to a new block with at least `room` bytes of free space after its entries.
    pub(in crate::types::stream) fn copy(
        &self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        room: usize,
    ) -> Result<Leaf, Error> {
        let mut bytes = Vec::new();
        let view = transaction.view();
        view.append_part(self.at, 0, self.body as u64, &mut bytes)?;
        view.append_part(self.at, self.start as u64, self.end as u64, &mut bytes)?;
        let end = bytes.len();
        let leaf = Leaf {
            size: rounded(end + room),
            start: self.body,
            end,
            ..*self
        };
        leaf.put(transaction, pool, &mut bytes)
    }

    /// Returns the number of used bytes, from which the size of the next leaf is estimated.
    pub(in crate::types::stream) fn used(&self) -> usize {
        self.body + self.end - self.start
    }

    /// Returns the number of free bytes after the entries.
    pub(in crate::types::stream) fn room(&self) -> usize {
        self.size.min(LEAF_MAX).saturating_sub(self.end)
    }

    /// Returns whether less than a quarter of the leaf is used.
    pub(in crate::types::stream) fn is_sparse(&self) -> bool {
        self.size > LEAF_MIN && self.used() * 4 < self.size
    }
}

/// Rounds the size of a leaf up to the size of its block, unless the leaf is too large for further
/// entries.
pub(in crate::types::stream) fn rounded(size: usize) -> usize {
    if size > LEAF_MAX {
        return size;
    }
    (block_size(size as u64) as usize).min(LEAF_MAX)
}
