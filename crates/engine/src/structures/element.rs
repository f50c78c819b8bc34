//! One element of a large collection: a member of a set, or a field with its value.
//!
//! ```text
//! | form, key length, value length |  4 bytes
//! | key length                     |  4, if beyond 16,382
//! | key                            |
//! | value: a text; or an integer, 8 bytes; or the offset of its block and its length, 16 |
//! ```
//!
//! The fields have no padding between them, because most elements are short and a collection can
//! have millions of elements.

use smallvec::SmallVec;
use undercroft_memory::{BlockStock, Fault, Offset, Pool, Transaction, View, block_size};
use undercroft_numbers::parse_integer;

use crate::error::Error;
use crate::structures::entry::INLINE_MAX;

/// The maximum length of a key whose length fits in the head.
const SHORT_KEY_MAX: u64 = 0x3ffe;
const LONG_KEY: u64 = 0x3fff;
const FORM_BITS: u64 = 2;
const VALUE_SHIFT: u64 = 16;
/// The maximum length in bytes of a value that is always stored in the element, regardless of the
/// length of the key.
const SHORT_VALUE: usize = 16;

const TEXT: u64 = 0;
const INTEGER: u64 = 1;
const BLOCK: u64 = 2;

/// The value of an element in its stored form.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'v> {
    /// A byte string that is stored as is.
    Text(&'v [u8]),
    /// An integer, which is stored in eight bytes and represents its decimal text.
    Integer(i64),
}

impl Value<'_> {
    /// Returns the stored form of `text`: an integer if that is shorter, otherwise a text.
    pub(crate) fn of(text: &[u8]) -> Value<'_> {
        if (9..=20).contains(&text.len())
            && let Some(integer) = parse_integer(text)
        {
            return Value::Integer(integer);
        }
        Value::Text(text)
    }
}

/// A source from which the blocks of elements are allocated.
pub(crate) trait Blocks {
    /// Allocates a block of at least `bytes` bytes.
    fn block(&mut self, transaction: &mut Transaction<'_>, bytes: u64) -> Result<Offset, Error>;
}

impl Blocks for Pool {
    #[inline(always)]
    fn block(&mut self, transaction: &mut Transaction<'_>, bytes: u64) -> Result<Offset, Error> {
        Ok(transaction.allocate(*self, bytes)?)
    }
}

impl Blocks for BlockStock {
    #[inline(always)]
    fn block(&mut self, transaction: &mut Transaction<'_>, bytes: u64) -> Result<Offset, Error> {
        Ok(self.take(transaction, bytes)?)
    }
}

/// An element of a large collection, given by its offset and its decoded head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element {
    pub(crate) at: Offset,
    head: u64,
    key_length: u64,
}

impl Element {
    /// Reads the head of the element at an offset. Both lengths come from a single read, so they
    /// are consistent (R3).
    #[inline(always)]
    pub(crate) fn load(view: &View<'_>, at: Offset) -> Result<Element, Fault> {
        Ok(Element::of_word(at, view.word(at)?))
    }

    #[inline(always)]
    fn of_word(at: Offset, word: u64) -> Element {
        let short = word >> FORM_BITS & LONG_KEY;
        Element {
            at,
            head: word & 0xffff_ffff,
            key_length: if short == LONG_KEY { word >> 32 } else { short },
        }
    }

    /// Reads the head of the element at an offset, and returns the element if its key equals `key`.
    #[inline(always)]
    pub(crate) fn load_if_key(
        view: &View<'_>,
        at: Offset,
        key: &[u8],
    ) -> Result<Option<Element>, Fault> {
        let block = view.block(at)?;
        let word = block.word(0)?;
        let element = Element::of_word(at, word);
        if element.key_length != key.len() as u64 {
            return Ok(None);
        }
        // The bytes of a short key start in the upper half of the first word.
        let behind = if element.key_offset() == 8 {
            key
        } else {
            let (start, behind) = key.split_at(key.len().min(4));
            if (word >> 32).to_le_bytes()[..start.len()] != *start {
                return Ok(None);
            }
            behind
        };
        let equal = behind.is_empty() || block.equals(8, behind)?;
        Ok(equal.then_some(element))
    }

    #[inline(always)]
    fn key_offset(&self) -> u64 {
        if self.head >> FORM_BITS & LONG_KEY == LONG_KEY {
            8
        } else {
            4
        }
    }

    #[inline(always)]
    fn value_offset(&self) -> u64 {
        self.key_offset() + self.key_length
    }

    fn form(&self) -> u64 {
        self.head & ((1 << FORM_BITS) - 1)
    }

    /// Returns the number of bytes that the element uses in its block.
    pub(crate) fn size(&self) -> u64 {
        self.value_offset() + (self.head >> VALUE_SHIFT)
    }

    /// Appends the key to `out`.
    #[inline]
    pub(crate) fn append_key(&self, view: &View<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        Ok(view.append_part(self.at, self.key_offset(), self.value_offset(), out)?)
    }

    /// Appends the value to `out`.
    pub(crate) fn append_value(&self, view: &View<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        match self.form() {
            TEXT => {
                let end = self.value_offset() + (self.head >> VALUE_SHIFT);
                Ok(view.append_part(self.at, self.value_offset(), end, out)?)
            }
            INTEGER => {
                let value = self.words::<1>(view)?[0] as i64;
                out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
                Ok(())
            }
            BLOCK => {
                let [at, length] = self.words(view)?;
                Ok(view.append_to(at, length, out)?)
            }
            _ => Err(self.fault().into()),
        }
    }

    /// Returns the eight bytes of a value that is stored as an integer.
    #[inline]
    pub(crate) fn word(&self, view: &View<'_>) -> Result<u64, Error> {
        if self.form() != INTEGER {
            return Err(self.fault().into());
        }
        let [word] = self.words::<1>(view)?;
        Ok(word)
    }

    /// Returns the length of the value's text in bytes.
    pub(crate) fn value_length(&self, view: &View<'_>) -> Result<u64, Error> {
        match self.form() {
            TEXT => Ok(self.head >> VALUE_SHIFT),
            INTEGER => {
                let value = self.words::<1>(view)?[0] as i64;
                Ok(itoa::Buffer::new().format(value).len() as u64)
            }
            BLOCK => Ok(self.words::<2>(view)?[1]),
            _ => Err(self.fault().into()),
        }
    }

    /// Returns the separate block of the value and the value's length, or `None` if the value has
    /// no separate block.
    pub(crate) fn block(&self, view: &View<'_>) -> Result<Option<(Offset, u64)>, Error> {
        match self.form() {
            TEXT | INTEGER => Ok(None),
            BLOCK => {
                let [at, length] = self.words(view)?;
                Ok(Some((at, length)))
            }
            _ => Err(self.fault().into()),
        }
    }

    /// Reads the words of the value, which need not be aligned.
    #[inline(always)]
    fn words<const N: usize>(&self, view: &View<'_>) -> Result<[u64; N], Fault> {
        let start = self.value_offset();
        let (block, shift) = (view.block(self.at)?, start % 8 * 8);
        let mut words = [0; N];
        for (word, behind) in words.iter_mut().zip((start & !7..).step_by(8)) {
            *word = block.word(behind)? >> shift;
            if shift != 0 {
                *word |= block.word(behind + 8)? << (64 - shift);
            }
        }
        Ok(words)
    }

    fn fault(&self) -> Fault {
        Fault {
            at: self.at,
            what: "an element of a known form",
        }
    }

    /// Creates an element and returns its offset.
    pub(crate) fn create(
        transaction: &mut Transaction<'_>,
        blocks: &mut impl Blocks,
        key: &[u8],
        value: Value<'_>,
    ) -> Result<Offset, Error> {
        let bytes = encode(transaction, blocks, key, value)?;
        let at = blocks.block(transaction, bytes.len() as u64)?;
        transaction.fill(at, &bytes)?;
        Ok(at)
    }

    /// Changes the value. If the block size stays the same, changes it in place. Otherwise frees
    /// this element and returns the offset of its replacement.
    pub(crate) fn change(
        &self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        key: &[u8],
        value: Value<'_>,
    ) -> Result<Option<Offset>, Error> {
        let block = self.block(transaction.view())?;
        let bytes = encode(transaction, &mut { pool }, key, value)?;
        if let Some((block, _)) = block {
            transaction.free(pool, block);
        }
        if block_size(bytes.len() as u64) == block_size(self.size()) {
            let first = (self.value_offset() / 8 * 8) as usize;
            let shard = pool.shard();
            if first > 0
                && let Some(head) = bytes.first_chunk()
                && u64::from(u32::from_le_bytes(*head)) != self.head
            {
                let old = transaction.view().word(self.at)?;
                let head = old & !0xffff_ffff | u64::from(u32::from_le_bytes(*head));
                transaction.store(shard, self.at, head)?;
            }
            if first < bytes.len() {
                transaction.write(shard, self.at + first as u64, &bytes[first..])?;
            }
            return Ok(None);
        }
        transaction.free(pool, self.at);
        let at = transaction.allocate(pool, bytes.len() as u64)?;
        transaction.fill(at, &bytes)?;
        Ok(Some(at))
    }

    /// Copies the element to new blocks and returns the offset of the copy.
    pub(crate) fn copy(
        &self,
        transaction: &mut Transaction<'_>,
        blocks: &mut impl Blocks,
    ) -> Result<Offset, Error> {
        let at = blocks.block(transaction, self.size())?;
        transaction.fill_from(at, self.at, self.size())?;
        if let Some((block, length)) = self.block(transaction.view())? {
            let copy = blocks.block(transaction, length)?;
            transaction.fill_from(copy, block, length)?;
            let mut start = Vec::new();
            let value = self.value_offset();
            transaction
                .view()
                .append_part(self.at, 0, value, &mut start)?;
            let first = start.len() / 8 * 8;
            let mut bytes = start.split_off(first);
            bytes.extend_from_slice(&copy.to_le_bytes());
            bytes.extend_from_slice(&length.to_le_bytes());
            transaction.fill(at + first as u64, &bytes)?;
        }
        Ok(at)
    }

    /// Frees the element and the separate block of its value.
    pub(crate) fn free(&self, transaction: &mut Transaction<'_>, pool: Pool) -> Result<(), Error> {
        if let Some((block, _)) = self.block(transaction.view())? {
            transaction.free(pool, block);
        }
        transaction.free(pool, self.at);
        Ok(())
    }
}

/// Returns whether a value is stored in a separate block.
fn in_block(key_length: usize, text: &[u8]) -> bool {
    text.len() > SHORT_VALUE && (key_length + text.len()) as u64 + 8 > INLINE_MAX
}

/// Returns the size in bytes of a new element, and the size of its value's separate block if the
/// value needs one.
pub(crate) fn sizes(key_length: usize, value: Value<'_>) -> (u64, Option<u64>) {
    let head = if key_length as u64 > SHORT_KEY_MAX {
        8
    } else {
        4
    };
    let (inside, block) = match value {
        Value::Integer(_) => (8, None),
        Value::Text(text) if in_block(key_length, text) => (16, Some(text.len() as u64)),
        Value::Text(text) => (text.len(), None),
    };
    ((head + key_length + inside) as u64, block)
}

/// Encodes an element. A long value is stored in a separate block.
fn encode(
    transaction: &mut Transaction<'_>,
    blocks: &mut impl Blocks,
    key: &[u8],
    value: Value<'_>,
) -> Result<SmallVec<[u8; 128]>, Error> {
    let mut words = [0; 16];
    let (form, value) = match value {
        Value::Integer(integer) => {
            words[..8].copy_from_slice(&integer.to_le_bytes());
            (INTEGER, &words[..8])
        }
        Value::Text(text) if in_block(key.len(), text) => {
            let block = blocks.block(transaction, text.len() as u64)?;
            transaction.fill(block, text)?;
            words[..8].copy_from_slice(&block.to_le_bytes());
            words[8..].copy_from_slice(&(text.len() as u64).to_le_bytes());
            (BLOCK, &words[..])
        }
        Value::Text(text) => (TEXT, text),
    };
    let length = key.len() as u64;
    let short = if length > SHORT_KEY_MAX {
        LONG_KEY
    } else {
        length
    };
    let head = form | short << FORM_BITS | (value.len() as u64) << VALUE_SHIFT;
    let mut bytes = SmallVec::with_capacity(8 + key.len() + value.len());
    bytes.extend_from_slice(&(head as u32).to_le_bytes());
    if short == LONG_KEY {
        bytes.extend_from_slice(&(length as u32).to_le_bytes());
    }
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(value);
    Ok(bytes)
}
