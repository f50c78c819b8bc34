//! Builds leaves of entries, and adds and removes entries.

use std::cell::Cell;

use undercroft_memory::{Pool, ThreadCached, Transaction};

use super::code::{listpack_number, listpack_text, push_number, push_text};
use super::image::{Model, Spot, encode, model_of};
use super::leaf::{HEADER, LEAF_MAX, LEAF_MIN, LEAF_USUAL, Leaf, RAW_MAX, fault, rounded};
use super::limits::StreamLimits;
use crate::error::Error;
use crate::structures::tree::Child;
use crate::types::stream::id::StreamId;

/// The maximum size in bytes of a leaf's model if it includes values. In a larger model, the values
/// are empty.
const MODEL_MAX: usize = 1024;
/// The maximum length in bytes of each value in a leaf's model.
const MODEL_VALUE_MAX: usize = 64;

impl Leaf {
    /// Builds a leaf with a single entry in a buffer outside the store. `hint` is the number of
    /// bytes used in the previous leaf, from which the new leaf's size is estimated. Returns the
    /// leaf and its bytes.
    pub(in crate::types::stream) fn make(
        id: StreamId,
        texts: &[&[u8]],
        hint: usize,
    ) -> (Leaf, Vec<u8>) {
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
        // A long entry will probably be the only entry in its leaf, because a second entry of the
        // same length does not fit.
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

    /// Allocates a block for the leaf and writes the leaf to the block.
    pub(in crate::types::stream) fn put(
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

    /// Creates a leaf with a single entry in the store; see [`make`](Self::make).
    pub(in crate::types::stream) fn create(
        transaction: &mut Transaction<'_>,
        pool: Pool,
        (id, texts): (StreamId, &[&[u8]]),
        hint: usize,
    ) -> Result<Leaf, Error> {
        let (leaf, mut bytes) = Leaf::make(id, texts, hint);
        leaf.put(transaction, pool, &mut bytes)
    }

    /// Appends an entry after the last entry if there is room. Overwrites the tombstone, the
    /// remains of a deleted last entry, if there is one.
    pub(in crate::types::stream) fn append(
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
        // Borrow the model from the result, because moving a value of this size is slow.
        let model = made.as_ref().map_err(Clone::clone)?;
        let encoded = &mut buffers.entry;
        encoded.clear();
        // Preserve the bytes before the entry in the word that both share. If the leaf is filled to
        // its last byte, this word might not exist.
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

    /// Returns whether an entry belongs in the next leaf according to the limits of a Redis node. A
    /// leaf contains the same entries as a Redis node, so that an approximate trim removes the same
    /// entries as in Redis.
    pub(in crate::types::stream) fn is_full(&self, texts: &[&[u8]], limits: &StreamLimits) -> bool {
        let bytes = texts.iter().map(|text| text.len() as u64).sum::<u64>();
        // A Redis node starts with the number of its live entries and the number of its deleted
        // entries. The encoded size of these numbers grows with their values.
        let more = |entries: usize| listpack_number(entries as i64) - listpack_number(0);
        let raw = self.raw + more(self.count) + more(self.added.saturating_sub(self.count));
        self.added as u64 >= limits.entries() || raw as u64 + bytes >= limits.bytes()
    }

    /// Removes the first entries. At least one entry must remain.
    pub(in crate::types::stream) fn drop_first(
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

    /// Removes all entries but keeps the tombstone, the remains of the deleted last entry.
    pub(in crate::types::stream) fn drop_all(
        &mut self,
        transaction: &mut Transaction<'_>,
        shard: usize,
    ) -> Result<(), Error> {
        let mut buffer = Vec::new();
        (self.start, _) = self.image(transaction.view(), &mut buffer)?.behind()?;
        self.count = 0;
        self.store_fill(transaction, shard)
    }

    /// Removes an entry. At least one other entry must remain.
    pub(in crate::types::stream) fn drop_one(
        &mut self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        spot: Spot,
        buffer: &mut Vec<u8>,
    ) -> Result<(), Error> {
        self.count -= 1;
        if spot.end == self.end {
            // The removed bytes need not be logged here, because an append that overwrites the
            // tombstone preserves them.
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

/// A leaf that is built in a buffer outside the store.
pub(in crate::types::stream) struct Draft {
    leaf: Leaf,
    bytes: Vec<u8>,
}

impl Draft {
    /// Creates a draft with a single entry.
    pub(in crate::types::stream) fn new(id: StreamId, texts: &[&[u8]]) -> Draft {
        let (leaf, bytes) = Leaf::make(id, texts, 0);
        Draft { leaf, bytes }
    }

    /// Adds an entry. Returns `false` if the leaf has reached its limits or has no room for the
    /// entry.
    pub(in crate::types::stream) fn push(
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

    /// Writes the leaf to the store.
    pub(in crate::types::stream) fn put(
        mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
    ) -> Result<Child<2>, Error> {
        self.leaf.size = rounded(self.leaf.end);
        Ok(self.leaf.put(transaction, pool, &mut self.bytes)?.child())
    }
}

/// Returns the number of bytes that an entry occupies in a Redis node. `values` is the number of
/// bytes that the entry's values occupy.
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

/// The result of appending an entry to a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::types::stream) enum Appended {
    /// The entry was appended.
    Here,
    /// The entry does not fit, but it would fit in a larger leaf. The number is the size of the
    /// encoded entry in bytes.
    Larger(usize),
    /// The leaf is full, so the entry belongs in the next leaf.
    Full,
}

/// Reusable buffers for reading and encoding leaves.
#[derive(Debug, Default)]
pub(in crate::types::stream) struct Buffers {
    pub(in crate::types::stream) leaf: Vec<u8>,
    entry: Vec<u8>,
}

/// The maximum capacity in bytes of a buffer that is kept for the next call.
pub(in crate::types::stream) const KEPT: usize = 2 * LEAF_MAX;

thread_local! {
    /// This thread's buffers for copies of leaves and encoded entries.
    static BUFFERS: Cell<Buffers> = const {
        Cell::new(Buffers {
            leaf: Vec::new(),
            entry: Vec::new(),
        })
    };
}

/// Calls `body` with this thread's buffers, which are cleared first.
#[inline]
pub(in crate::types::stream) fn with_buffers<R>(body: impl FnOnce(&mut Buffers) -> R) -> R {
    let mut buffers = BUFFERS.take_cached();
    buffers.leaf.clear();
    buffers.entry.clear();
    let result = body(&mut buffers);
    if buffers.leaf.capacity() <= KEPT && buffers.entry.capacity() <= KEPT {
        BUFFERS.put_back(buffers);
    }
    result
}
