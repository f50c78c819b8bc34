//! The leaves of a stream's tree: entries in order.
//!
//! ```text
//! a leaf:
//! | 0x600 or 0x601, start of the entries' room, size |  8 bytes
//! | entries, those ever added, start and end of what they take, bytes in Redis | 8
//! | the id that the others are counted from      |  16
//! | model: number of fields, and for each its name and the start of a value |
//! | entries, and a tombstone in a leaf of 0x601  |
//!
//! an entry:
//! | bit 0: its fields are the model's; the low six bits of its seq; bit 7: the number of the others follows |
//! | number: milliseconds behind the base's       |
//! | where its fields are others: their number, and before each value its name |
//! | values                                       |
//! ```
//!
//! The seq is counted from the base's in the same millisecond. The model is that of the entry which the leaf was made
//! for: fields that repeat take nothing, values only what differs from the model's. No entry depends on another one, so
//! that the first ones go by a store of where they start, and the next one is put behind the last (W4). A leaf has the
//! entries that a node of Redis would have, and so it is as large as they need: after a long entry no other one may follow.
//! Where the last one was deleted, its first bytes stay as a tombstone, up to its id, until another one is put there: by
//! MINID a node of Redis is trimmed by the last id that it ever had, and may stay without entries.

use undercroft_memory::{Fault, Offset, Pool, Transaction, View, block_size};

use super::code::DAMAGED;
use crate::error::Error;
use crate::structures::tree::Child;
use crate::types::stream::id::StreamId;

pub(in crate::types::stream) const MAGIC: u64 = 0x600;
/// The bit of a leaf's first word that says that a tombstone lies behind its entries.
pub(in crate::types::stream) const TOMBSTONE: u64 = 1;
pub(in crate::types::stream) const HEADER: usize = 32;
/// Where the number of entries and what they take stand.
pub(in crate::types::stream) const FILL_AT: u64 = 8;
/// Bytes of the smallest leaf, and of one that is made for entries to come.
pub(in crate::types::stream) const LEAF_MIN: usize = 256;
pub(in crate::types::stream) const LEAF_USUAL: usize = 4096;
/// Bytes of the largest leaf that holds several entries. What goes into a node of 4,096 bytes takes about twice that here
/// at most, as a name of many digits is an integer there; only several thousand empty texts, which count as nothing there
/// before they are put behind others, may take more than this.
pub(in crate::types::stream) const LEAF_MAX: usize = 4 * LEAF_USUAL - 8;
/// The end of a leaf whose only entry ends where it does.
pub(in crate::types::stream) const WHOLE: u64 = 0x3fff;
/// The most bytes in Redis that are counted: with as many, a leaf is full wherever they are limited.
pub(in crate::types::stream) const RAW_MAX: usize = 4096;

pub(in crate::types::stream) fn fault(at: Offset) -> Error {
    Fault { at, ..DAMAGED }.into()
}

/// Whether this is the first word of a leaf of entries.
pub(in crate::types::stream) fn is_entries(word: u64) -> bool {
    word & 0xffff & !TOMBSTONE == MAGIC
}

/// A leaf whose header was read.
#[derive(Clone, Copy, Debug)]
pub(in crate::types::stream) struct Leaf {
    pub(in crate::types::stream) at: Offset,
    pub(in crate::types::stream) size: usize,
    /// Where the room for entries starts.
    pub(in crate::types::stream) body: usize,
    pub(in crate::types::stream) count: usize,
    /// Entries that were ever put into it.
    pub(in crate::types::stream) added: usize,
    /// Bytes that they take in a node of Redis, about, which says when the leaf is full.
    pub(in crate::types::stream) raw: usize,
    /// Where the first entry lies.
    pub(in crate::types::stream) start: usize,
    /// Behind the last one, and behind its tombstone.
    pub(in crate::types::stream) end: usize,
    /// Whether it has one.
    pub(in crate::types::stream) has_tombstone: bool,
    pub(in crate::types::stream) base: StreamId,
}

impl Leaf {
    /// Reads the header; what it says is within the leaf.
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

    /// Bytes of the leaf's block.
    pub(in crate::types::stream) fn block_size(&self) -> u64 {
        block_size(self.size as u64)
    }

    /// The leaf as the node above it refers to it.
    pub(in crate::types::stream) fn child(&self) -> Child<2> {
        Child {
            at: self.at,
            count: self.count as u64,
            note: self.base.words(),
        }
    }

    /// Makes the same leaf elsewhere, with at least so many bytes of room behind its entries.
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

    /// How many bytes it takes, for the next one to be made as large.
    pub(in crate::types::stream) fn used(&self) -> usize {
        self.body + self.end - self.start
    }

    /// Room behind its entries.
    pub(in crate::types::stream) fn room(&self) -> usize {
        self.size.min(LEAF_MAX).saturating_sub(self.end)
    }

    /// Whether most of it is unused.
    pub(in crate::types::stream) fn is_sparse(&self) -> bool {
        self.size > LEAF_MIN && self.used() * 4 < self.size
    }
}

/// Bytes of a leaf that are to be so many at least: those of its block, where it may get more entries.
pub(in crate::types::stream) fn rounded(size: usize) -> usize {
    if size > LEAF_MAX {
        return size;
    }
    (block_size(size as u64) as usize).min(LEAF_MAX)
}
