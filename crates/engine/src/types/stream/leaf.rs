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

use std::cell::Cell;

use undercroft_memory::{Fault, Lent, Offset, Pool, Transaction, View, block_size};

use super::StreamLimits;
use super::code::{DAMAGED, listpack_number, listpack_text, push_number, push_text};
use super::id::StreamId;
use super::image::{Image, Model, Spot, encode, model_of};
use crate::error::Error;
use crate::structures::tree::Child;

const MAGIC: u64 = 0x600;
/// The bit of a leaf's first word that says that a tombstone lies behind its entries.
const TOMBSTONE: u64 = 1;
pub(super) const HEADER: usize = 32;
/// Where the number of entries and what they take stand.
pub(super) const FILL_AT: u64 = 8;
/// Bytes of the smallest leaf, and of one that is made for entries to come.
const LEAF_MIN: usize = 256;
pub(super) const LEAF_USUAL: usize = 4096;
/// Bytes of the largest leaf that holds several entries. What goes into a node of 4,096 bytes takes about twice that here
/// at most, as a name of many digits is an integer there; only several thousand empty texts, which count as nothing there
/// before they are put behind others, may take more than this.
pub(super) const LEAF_MAX: usize = 4 * LEAF_USUAL - 8;
/// A longer model is one without values.
const MODEL_MAX: usize = 1024;
/// The most bytes of a value in a model.
const MODEL_VALUE_MAX: usize = 64;
/// The most entries of a leaf.
pub(crate) const ENTRIES_MAX: usize = 0xfff;
/// The end of a leaf whose only entry ends where it does.
const WHOLE: u64 = 0x3fff;
/// The most bytes in Redis that are counted: with as many, a leaf is full wherever they are limited.
const RAW_MAX: usize = 4096;

pub(super) fn fault(at: Offset) -> Error {
    Fault { at, ..DAMAGED }.into()
}

/// Whether this is the first word of a leaf of entries.
pub(super) fn is_entries(word: u64) -> bool {
    word & 0xffff & !TOMBSTONE == MAGIC
}

/// A leaf whose header was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf {
    pub(super) at: Offset,
    pub(super) size: usize,
    /// Where the room for entries starts.
    body: usize,
    pub(super) count: usize,
    /// Entries that were ever put into it.
    pub(super) added: usize,
    /// Bytes that they take in a node of Redis, about, which says when the leaf is full.
    pub(super) raw: usize,
    /// Where the first entry lies.
    pub(super) start: usize,
    /// Behind the last one, and behind its tombstone.
    pub(super) end: usize,
    /// Whether it has one.
    pub(super) has_tombstone: bool,
    pub(super) base: StreamId,
}

impl Leaf {
    /// Reads the header; what it says is within the leaf.
    #[inline]
    pub(super) fn load(view: &View<'_>, at: Offset) -> Result<Leaf, Error> {
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

    fn words(&self) -> [u64; 4] {
        let [ms, seq] = self.base.words();
        [self.shape(), self.fill(), ms, seq]
    }

    fn shape(&self) -> u64 {
        let tombstone = if self.has_tombstone { TOMBSTONE } else { 0 };
        MAGIC | tombstone | (self.body as u64) << 16 | (self.size as u64) << 32
    }

    fn fill(&self) -> u64 {
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

    fn store_fill(&self, transaction: &mut Transaction<'_>, shard: usize) -> Result<(), Error> {
        Ok(transaction.store(shard, self.at + FILL_AT, self.fill())?)
    }

    fn set_tombstone(
        &mut self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        has_one: bool,
    ) -> Result<(), Error> {
        self.has_tombstone = has_one;
        Ok(transaction.store(shard, self.at, self.shape())?)
    }

    /// Bytes of the leaf's block.
    pub(super) fn block_size(&self) -> u64 {
        block_size(self.size as u64)
    }

    /// The whole leaf, by way of a buffer that can be used again.
    #[inline]
    pub(super) fn image<'b>(
        &self,
        view: &View<'_>,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Image<'b>, Error> {
        buffer.clear();
        view.append_part(self.at, 0, self.end as u64, buffer)?;
        let model = model_of(&buffer[..self.body])?;
        Ok(Image {
            leaf: *self,
            bytes: buffer,
            model,
        })
    }

    /// A leaf that is yet to be put somewhere, of one entry, in a buffer. `hint` is how many bytes the leaf before it
    /// took in all: it will take as many. Returns it with how many bytes it has.
    fn make(id: StreamId, texts: &[&[u8]], hint: usize) -> (Leaf, Vec<u8>) {
        let fields = texts.as_chunks::<2>().0;
        let mut model: Model<'_> = fields
            .iter()
            .map(|[name, value]| (*name, &value[..value.len().min(MODEL_VALUE_MAX)]))
            .collect();
        let head = fields.iter().map(|[name, _]| listpack_text(name));
        let head = head.sum::<usize>() + 13 + listpack_number(fields.len() as i64);
        let length = model
            .iter()
            .map(|(name, value)| name.len() + value.len() + 4);
        if head >= RAW_MAX {
            model.clear();
        } else if length.sum::<usize>() > MODEL_MAX {
            model.iter_mut().for_each(|(_, value)| *value = b"");
        }
        let mut bytes = vec![0; HEADER];
        push_number(&mut bytes, model.len() as u64);
        for (name, value) in &model {
            push_text(&mut bytes, name);
            push_text(&mut bytes, value);
        }
        let body = bytes.len();
        let encoded = encode(id, &model, id, texts, &mut bytes);
        let end = bytes.len();
        let usual = (hint + hint / 16).clamp(LEAF_MIN, LEAF_USUAL);
        // No other one of the same length goes with a long entry, and most likely it lies alone.
        let size = if end * 2 > LEAF_USUAL {
            end
        } else {
            usual.max(end * 2)
        };
        let leaf = Leaf {
            at: 0,
            size: rounded(size),
            body,
            count: 1,
            added: 1,
            raw: head + cost(id, true, id, (texts, encoded.values)),
            start: body,
            end,
            has_tombstone: false,
            base: id,
        };
        (leaf, bytes)
    }

    /// Puts a leaf into a block.
    fn put(
        mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        bytes: &mut [u8],
    ) -> Result<Leaf, Error> {
        self.at = transaction.allocate(pool, self.size as u64)?;
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.words()) {
            *place = word.to_le_bytes();
        }
        transaction.fill(self.at, bytes)?;
        Ok(self)
    }

    /// The leaf as the node above it refers to it.
    pub(super) fn child(&self) -> Child<2> {
        Child {
            at: self.at,
            count: self.count as u64,
            note: self.base.words(),
        }
    }

    /// Makes a leaf of one entry; see [`make`](Self::make).
    pub(super) fn create(
        transaction: &mut Transaction<'_>,
        pool: Pool,
        (id, texts): (StreamId, &[&[u8]]),
        hint: usize,
    ) -> Result<Leaf, Error> {
        let (leaf, mut bytes) = Leaf::make(id, texts, hint);
        leaf.put(transaction, pool, &mut bytes)
    }

    /// Makes the same leaf elsewhere, with at least so many bytes of room behind its entries.
    pub(super) fn copy(
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

    /// Puts an entry behind the last one, where there is room for it, over a tombstone that lies there.
    pub(super) fn append(
        &mut self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        (id, texts): (StreamId, &[&[u8]]),
        buffers: &mut Buffers,
    ) -> Result<Appended, Error> {
        let had_tombstone = self.has_tombstone;
        if had_tombstone {
            let image = self.image(transaction.view(), &mut buffers.leaf)?;
            (self.end, _) = image.behind()?;
            self.has_tombstone = false;
        }
        let body = &mut buffers.leaf;
        body.clear();
        transaction
            .view()
            .append_part(self.at, 0, self.body as u64, body)?;
        let made = model_of(body);
        // It is long, and so it stays where it was made.
        let model = made.as_ref().map_err(Clone::clone)?;
        let encoded = &mut buffers.entry;
        encoded.clear();
        // What shares the first word with it stays as it is. Behind a leaf that is full to its last byte there may be none.
        let first = self.end & !7;
        let skip = self.end - first;
        if skip > 0 {
            let shared = transaction.view().word(self.at + first as u64)?;
            encoded.extend_from_slice(&shared.to_le_bytes()[..skip]);
        }
        let new = encode(self.base, model, id, texts, encoded);
        let end = first + encoded.len();
        if end > self.size {
            return Ok(if end <= LEAF_MAX {
                Appended::Larger(encoded.len() - skip)
            } else {
                Appended::Full
            });
        }
        encoded.resize(encoded.len().next_multiple_of(8), 0);
        if had_tombstone {
            transaction.note_cut();
            self.set_tombstone(transaction, shard, false)?;
        }
        transaction.fill_slack(shard, self.at + first as u64, encoded)?;
        (self.count, self.added, self.end) = (self.count + 1, self.added + 1, end);
        self.raw += cost(self.base, new.same, id, (texts, new.values));
        self.store_fill(transaction, shard)?;
        Ok(Appended::Here)
    }

    /// Whether an entry belongs into the next leaf by the limits of a node in Redis, so that as many go together there
    /// and here where whole ones are trimmed.
    pub(super) fn is_full(&self, texts: &[&[u8]], limits: &StreamLimits) -> bool {
        let bytes = texts.iter().map(|text| text.len() as u64).sum::<u64>();
        // A node begins with how many of its entries are there, and how many were deleted.
        let more = |entries: usize| listpack_number(entries as i64) - listpack_number(0);
        let raw = self.raw + more(self.count) + more(self.added.saturating_sub(self.count));
        self.added as u64 >= limits.entries() || raw as u64 + bytes >= limits.bytes()
    }

    /// How many bytes it takes, for the next one to be made as large.
    pub(super) fn used(&self) -> usize {
        self.body + self.end - self.start
    }

    /// Room behind its entries.
    pub(super) fn room(&self) -> usize {
        self.size.min(LEAF_MAX).saturating_sub(self.end)
    }

    /// Whether most of it is unused.
    pub(super) fn is_sparse(&self) -> bool {
        self.size > LEAF_MIN && self.used() * 4 < self.size
    }

    /// Takes the first entries out, at least one of which stays.
    pub(super) fn drop_first(
        &mut self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        entries: usize,
        buffer: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let image = self.image(transaction.view(), buffer)?;
        let spot = image.spots().nth(entries).ok_or_else(|| fault(self.at))??;
        (self.start, self.count) = (spot.start, self.count - entries);
        self.store_fill(transaction, shard)
    }

    /// Takes all entries out; their tombstone stays.
    pub(super) fn drop_all(
        &mut self,
        transaction: &mut Transaction<'_>,
        shard: usize,
    ) -> Result<(), Error> {
        let mut buffer = Vec::new();
        (self.start, _) = self.image(transaction.view(), &mut buffer)?.behind()?;
        self.count = 0;
        self.store_fill(transaction, shard)
    }

    /// Takes one entry out, beside which others stay.
    pub(super) fn drop_one(
        &mut self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        spot: Spot,
        buffer: &mut Vec<u8>,
    ) -> Result<(), Error> {
        self.count -= 1;
        if spot.end == self.end {
            // What is cut off is preserved when another entry is put over the tombstone.
            self.end = spot.fields;
            self.set_tombstone(transaction, shard, true)?;
        } else if spot.start == self.start {
            self.start = spot.end;
        } else {
            let first = spot.start & !7;
            buffer.clear();
            let view = transaction.view();
            view.append_part(self.at, first as u64, spot.start as u64, buffer)?;
            view.append_part(self.at, spot.end as u64, self.end as u64, buffer)?;
            buffer.resize(buffer.len().next_multiple_of(8), 0);
            transaction.write(shard, self.at + first as u64, buffer)?;
            self.end -= spot.end - spot.start;
            transaction.note_cut();
        }
        self.store_fill(transaction, shard)
    }
}

/// A leaf that is filled outside the store.
pub(super) struct Draft {
    leaf: Leaf,
    bytes: Vec<u8>,
}

impl Draft {
    /// Of one entry.
    pub(super) fn new(id: StreamId, texts: &[&[u8]]) -> Draft {
        let (leaf, bytes) = Leaf::make(id, texts, 0);
        Draft { leaf, bytes }
    }

    /// Adds an entry, where it may have so many and there is room for it. Returns whether it did.
    pub(super) fn push(
        &mut self,
        (id, texts): (StreamId, &[&[u8]]),
        limits: &StreamLimits,
    ) -> Result<bool, Error> {
        if self.leaf.is_full(texts, limits) || self.leaf.size > LEAF_MAX {
            return Ok(false);
        }
        let mut entry = Vec::new();
        let new = {
            let model = model_of(&self.bytes[..self.leaf.body])?;
            encode(self.leaf.base, &model, id, texts, &mut entry)
        };
        if self.bytes.len() + entry.len() > LEAF_MAX {
            return Ok(false);
        }
        self.bytes.extend_from_slice(&entry);
        self.leaf.count += 1;
        self.leaf.added += 1;
        self.leaf.raw += cost(self.leaf.base, new.same, id, (texts, new.values));
        self.leaf.end = self.bytes.len();
        Ok(true)
    }

    /// Puts it into the store.
    pub(super) fn put(
        mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
    ) -> Result<Child<2>, Error> {
        self.leaf.size = rounded(self.leaf.end);
        Ok(self.leaf.put(transaction, pool, &mut self.bytes)?.child())
    }
}

/// Bytes of a leaf that are to be so many at least: those of its block, where it may get more entries.
fn rounded(size: usize) -> usize {
    if size > LEAF_MAX {
        return size;
    }
    (block_size(size as u64) as usize).min(LEAF_MAX)
}

/// Bytes that an entry takes in a node of Redis, in which its values take `values`.
fn cost(base: StreamId, same: bool, id: StreamId, (texts, values): (&[&[u8]], usize)) -> usize {
    let fields = texts.as_chunks::<2>().0;
    let count = fields.len() as i64;
    let own = if same {
        listpack_number(count + 3)
    } else {
        let names = fields.iter().map(|[name, _]| listpack_text(name));
        names.sum::<usize>() + listpack_number(count) + listpack_number(count * 2 + 4)
    };
    let (ms, seq) = (id.ms.wrapping_sub(base.ms), id.seq.wrapping_sub(base.seq));
    2 + listpack_number(ms as i64) + listpack_number(seq as i64) + values + own
}

/// What became of an entry that was to be put behind the last one of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Appended {
    /// It is there.
    Here,
    /// A larger leaf would have room for it, which takes so many bytes.
    Larger(usize),
    /// It belongs into the next leaf.
    Full,
}

/// Buffers that can be used again.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    pub(super) leaf: Vec<u8>,
    entry: Vec<u8>,
}

/// Buffers up to this many bytes are kept for the next call.
pub(super) const KEPT: usize = 2 * LEAF_MAX;

thread_local! {
    /// What leaves are copied to, and entries written to, by this thread.
    static BUFFERS: Cell<Buffers> = const {
        Cell::new(Buffers {
            leaf: Vec::new(),
            entry: Vec::new(),
        })
    };
}

/// Calls `body` with this thread's buffers, which are empty.
#[inline]
pub(super) fn with_buffers<R>(body: impl FnOnce(&mut Buffers) -> R) -> R {
    let mut buffers = BUFFERS.lent();
    buffers.leaf.clear();
    buffers.entry.clear();
    let result = body(&mut buffers);
    if buffers.leaf.capacity() <= KEPT && buffers.entry.capacity() <= KEPT {
        BUFFERS.returned(buffers);
    }
    result
}
