//! Making leaves of entries, adding entries to them and taking entries out.

use std::cell::Cell;

use undercroft_memory::{Pool, ThreadCached, Transaction};

use super::code::{listpack_number, listpack_text, push_number, push_text};
use super::image::{Model, Spot, encode, model_of};
use super::leaf::{HEADER, LEAF_MAX, LEAF_MIN, LEAF_USUAL, Leaf, RAW_MAX, fault, rounded};
use super::limits::StreamLimits;
use crate::error::Error;
use crate::structures::tree::Child;
use crate::types::stream::id::StreamId;

/// A longer model is one without values.
const MODEL_MAX: usize = 1024;
/// The most bytes of a value in a model.
const MODEL_VALUE_MAX: usize = 64;

impl Leaf {
    /// A leaf that is yet to be put somewhere, of one entry, in a buffer. `hint` is how many bytes the leaf before it
    /// took in all: it will take as many. Returns it with how many bytes it has.
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

    /// Makes a leaf of one entry; see [`make`](Self::make).
    pub(in crate::types::stream) fn create(
        transaction: &mut Transaction<'_>,
        pool: Pool,
        (id, texts): (StreamId, &[&[u8]]),
        hint: usize,
    ) -> Result<Leaf, Error> {
        let (leaf, mut bytes) = Leaf::make(id, texts, hint);
        leaf.put(transaction, pool, &mut bytes)
    }

    /// Puts an entry behind the last one, where there is room for it, over a tombstone that lies there.
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
    pub(in crate::types::stream) fn is_full(&self, texts: &[&[u8]], limits: &StreamLimits) -> bool {
        let bytes = texts.iter().map(|text| text.len() as u64).sum::<u64>();
        // A node begins with how many of its entries are there, and how many were deleted.
        let more = |entries: usize| listpack_number(entries as i64) - listpack_number(0);
        let raw = self.raw + more(self.count) + more(self.added.saturating_sub(self.count));
        self.added as u64 >= limits.entries() || raw as u64 + bytes >= limits.bytes()
    }

    /// Takes the first entries out, at least one of which stays.
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

    /// Takes all entries out; their tombstone stays.
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

    /// Takes one entry out, beside which others stay.
    pub(in crate::types::stream) fn drop_one(
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
pub(in crate::types::stream) struct Draft {
    leaf: Leaf,
    bytes: Vec<u8>,
}

impl Draft {
    /// Of one entry.
    pub(in crate::types::stream) fn new(id: StreamId, texts: &[&[u8]]) -> Draft {
        let (leaf, bytes) = Leaf::make(id, texts, 0);
        Draft { leaf, bytes }
    }

    /// Adds an entry, where it may have so many and there is room for it. Returns whether it did.
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

    /// Puts it into the store.
    pub(in crate::types::stream) fn put(
        mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
    ) -> Result<Child<2>, Error> {
        self.leaf.size = rounded(self.leaf.end);
        Ok(self.leaf.put(transaction, pool, &mut self.bytes)?.child())
    }
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
pub(in crate::types::stream) enum Appended {
    /// It is there.
    Here,
    /// A larger leaf would have room for it, which takes so many bytes.
    Larger(usize),
    /// It belongs into the next leaf.
    Full,
}

/// Buffers that can be used again.
#[derive(Debug, Default)]
pub(in crate::types::stream) struct Buffers {
    pub(in crate::types::stream) leaf: Vec<u8>,
    entry: Vec<u8>,
}

/// Buffers up to this many bytes are kept for the next call.
pub(in crate::types::stream) const KEPT: usize = 2 * LEAF_MAX;

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
