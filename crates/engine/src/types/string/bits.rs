//! Treats strings as arrays of bits. Bit 0 is the most significant bit of the first byte.
//!
//! A field of up to 64 bits spans at most two words. Changing a field logs and stores only those
//! words. Counting and searching read long strings in parts and revalidate the view after each part
//! (R3).

use undercroft_memory::{Fault, Offset, View};

use crate::error::Error;
use crate::handle::events::KeyEvent;
use crate::structures::dictionary;
use crate::structures::entry::{Entry, Form, Header, INLINE_MAX, entry_size};
use crate::structures::key::Key;
use crate::structures::roots::Root;
use crate::transaction::effect::Effect;
use crate::transaction::writer::{Found, Writer, root};
use crate::types::string::text::Text;
use crate::types::string::write::{GROWTH_MAX, STRING_MAX};
use crate::types::value_type::ValueType;

/// The number of words that are read in one part.
const PART: usize = 512;
/// The maximum spare room in bytes for a string that is new or has become shorter. The spare room
/// allows the string to grow in place.
const SHRUNK_SLACK: u64 = 64;
/// The number of bits in a word.
const BITS: u64 = 64;

/// The bitwise operation that [`Writer::combine_bits`] performs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitOperation {
    /// Sets the bits that are set in all strings.
    And,
    /// Sets the bits that are set in at least one string.
    Or,
    /// Sets the bits that are set in an odd number of strings.
    Xor,
    /// Sets the bits that are not set in the single source string.
    Not,
}

/// A string whose bits can be changed in place; see [`Writer::bit_string`]. Any other operation on
/// the string's key invalidates it.
#[derive(Clone, Copy, Debug)]
pub struct BitString {
    root: Root,
    hash: u64,
    entry: Entry,
    at: Offset,
    length: u64,
}

impl BitString {
    /// Returns the text of the string for reading.
    pub fn text(&self) -> Text {
        Text::Bytes(self.at, self.length)
    }
}

impl Text {
    /// Returns a word of the text as a big-endian integer. Bits past the end of the text are zero.
    fn bit_word(&self, view: &View<'_>, index: u64) -> Result<u64, Error> {
        let (word, length) = match *self {
            Text::Bytes(_, length) if index >= length.div_ceil(8) => return Ok(0),
            Text::Bytes(at, length) => (view.word(at.wrapping_add(index * 8))?, length),
            Text::Integer(value) => {
                let mut buffer = itoa::Buffer::new();
                let digits = buffer.format(value).as_bytes();
                let mut word = [0; 8];
                let part = digits.iter().skip(
                    usize::try_from(index)
                        .unwrap_or(usize::MAX)
                        .saturating_mul(8),
                );
                word.iter_mut().zip(part).for_each(|(to, from)| *to = *from);
                return Ok(u64::from_be_bytes(word));
            }
        };
        let kept = (length - index * 8).min(8);
        Ok(word.swap_bytes() & high_bits(kept * 8))
    }

    /// Returns a field of 1 to 64 bits that starts at bit `offset`. Bits past the end of the text
    /// are zero.
    pub fn bits(&self, view: &View<'_>, offset: u64, bits: u32) -> Result<u64, Error> {
        debug_assert!((1..=64).contains(&bits));
        let index = offset / BITS;
        let pair = u128::from(self.bit_word(view, index)?) << 64
            | u128::from(self.bit_word(view, index + 1)?);
        Ok((pair << (offset % BITS) >> (128 - bits)) as u64)
    }

    /// Counts the set bits in the range `start..end`, which must lie inside the text. O(range).
    pub fn count_bits(&self, view: &View<'_>, start: u64, end: u64) -> Result<u64, Error> {
        let mut count = 0;
        self.for_each_part(view, (start, end), 0, |_, words| {
            let ones = words.iter().map(|word| u64::from(word.count_ones()));
            count += ones.sum::<u64>();
            true
        })?;
        Ok(count)
    }

    /// Returns the position of the first bit in the range `start..end` that equals `bit`. The range
    /// must lie inside the text. O(range).
    pub fn find_bit(
        &self,
        view: &View<'_>,
        bit: bool,
        start: u64,
        end: u64,
    ) -> Result<Option<u64>, Error> {
        let mut found = None;
        // The search is always for set bits, because `flip` inverts the words if `bit` is clear.
        // Bits outside the range are zero, so they never match.
        let flip = if bit { 0 } else { u64::MAX };
        self.for_each_part(view, (start, end), flip, |first, words| {
            // Test the complete part for a set bit first, because the compiler can vectorize that
            // loop.
            let any = words.iter().fold(0, |any, word| any | word) != 0;
            let hit = words.iter().position(|&word| any && word != 0);
            found = hit.map(|place| {
                let bits = words[place].swap_bytes().leading_zeros();
                (first + place as u64) * BITS + u64::from(bits)
            });
            found.is_none()
        })?;
        Ok(found)
    }

    /// Copies the words of the text to `words`, starting with the word at index `first`, in memory
    /// byte order. Bytes past the end of the text are zero.
    fn copy_words(&self, view: &View<'_>, first: u64, words: &mut [u64]) -> Result<(), Error> {
        let mut done = 0;
        if let Text::Bytes(at, length) = *self {
            let whole = (length / 8).saturating_sub(first);
            done = whole.min(words.len() as u64) as usize;
            if done > 0 {
                view.copy_words_to(at.wrapping_add(first * 8), &mut words[..done])?;
            }
        }
        for (number, word) in (first..).zip(words.iter_mut()).skip(done) {
            *word = self.bit_word(view, number)?.swap_bytes();
        }
        Ok(())
    }

    /// Calls `visit` with the words of a bit range, part by part and in memory byte order, until
    /// `visit` returns `false`. The first argument of `visit` is the index of the part's first
    /// word. Every word is XORed with `flip`, and then bits outside the range are cleared.
    fn for_each_part(
        &self,
        view: &View<'_>,
        (start, end): (u64, u64),
        flip: u64,
        mut visit: impl FnMut(u64, &[u64]) -> bool,
    ) -> Result<(), Error> {
        if start >= end {
            return Ok(());
        }
        let (first, last) = (start / BITS, (end - 1) / BITS);
        let mut part = [0; PART];
        let mut index = first;
        while index <= last {
            let count = (last - index + 1).min(PART as u64) as usize;
            let words = &mut part[..count];
            self.copy_words(view, index, words)?;
            if flip != 0 {
                words.iter_mut().for_each(|word| *word ^= flip);
            }
            if index == first {
                words[0] &= !high_bits(start % BITS).swap_bytes();
            }
            if index + count as u64 > last {
                words[count - 1] &= high_bits((end - 1) % BITS + 1).swap_bytes();
            }
            view.recheck()?;
            if !visit(index, words) {
                break;
            }
            index += count as u64;
        }
        Ok(())
    }
}

/// Returns a word in which only the `count` most significant bits are set.
fn high_bits(count: u64) -> u64 {
    match count {
        0 => 0,
        1..BITS => u64::MAX << (BITS - count),
        _ => u64::MAX,
    }
}

impl Writer<'_, '_> {
    /// Converts the string at a key to a form whose bits can be changed in place. Pads the string
    /// with zeros if it is shorter than `length` bytes. Also returns whether the string was padded.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the key holds a value of another type, and [`Error::TooLong`] if
    /// `length` exceeds [`STRING_MAX`].
    pub fn bit_string(
        &mut self,
        database: usize,
        key: &Key<'_>,
        length: u64,
    ) -> Result<(BitString, bool), Error> {
        let found = self.find_slot(database, key)?;
        let old = match &found {
            Some(found) => found.entry.text(self.view())?.length(),
            None => 0,
        };
        if length > STRING_MAX {
            return Err(Error::TooLong);
        }
        let grown = length > old;
        if !self.extends_in_place(key.shard, found.as_ref(), length)? {
            self.rebuild_longer(database, key, found, old, length.max(old))?;
        }
        // Use the raw lookup, because it returns the key even if it has just expired.
        let found = dictionary::find(self.view(), root(database, key), key)?;
        let at = found.map_or(0, |entry| entry.at);
        let entry = Entry::load(self.view(), at)?;
        match entry.text(self.view())? {
            Text::Bytes(at, length) => {
                if grown {
                    self.changed(database, key, Effect::Changed);
                }
                let string = BitString {
                    root: root(database, key),
                    hash: key.hash,
                    entry,
                    at,
                    length,
                };
                Ok((string, grown))
            }
            Text::Integer(_) => Err(Fault {
                at,
                what: "a string of bytes",
            }
            .into()),
        }
    }

    /// Lengthens a string in place if its block has room. Returns whether the string now has at
    /// least `length` bytes and can be changed in place.
    fn extends_in_place(
        &mut self,
        shard: usize,
        found: Option<&Found>,
        length: u64,
    ) -> Result<bool, Error> {
        let Some(Found { entry, .. }) = found else {
            return Ok(false);
        };
        let Text::Bytes(at, old) = entry.text(self.view())? else {
            return Ok(false);
        };
        // For a pinned string, `room` returns 0, which is less than the string's length, so a
        // pinned string is never changed in place.
        if length.max(old) > self.room(shard, entry)? {
            return Ok(false);
        }
        if length > old {
            self.change_in_place(shard, entry, at, old, length, &[])?;
        } else if !entry.header.raw() {
            let header = entry.header.changed_in_place(old);
            self.transaction.store(shard, entry.at, header.0)?;
        }
        Ok(true)
    }

    /// Replaces a string with a copy that is padded with zeros to `length` bytes. The bytes are
    /// copied directly from the old block to the new block.
    fn rebuild_longer(
        &mut self,
        database: usize,
        key: &Key<'_>,
        found: Option<Found>,
        old: u64,
        length: u64,
    ) -> Result<(), Error> {
        let expiry = match &found {
            Some(found) => found.entry.expiry(self.view())?,
            None => None,
        };
        let text = match &found {
            Some(found) => found.entry.text(self.view())?,
            None => Text::Bytes(0, 0),
        };
        let slack = if old == 0 { 0 } else { length.min(GROWTH_MAX) };
        self.put_raw(
            database,
            key,
            found,
            (length, slack, expiry),
            |writer, at| {
                let mut filled = 0;
                if let Text::Bytes(from, 8..) = text {
                    filled = old / 8;
                    writer.transaction.fill_from(at, from, filled * 8)?;
                }
                // The bytes of the last word past the end of the text are arbitrary, and `bit_word`
                // clears them.
                while filled * 8 < old {
                    let word = text.bit_word(writer.view(), filled)?.swap_bytes();
                    writer.transaction.fill_word(at + filled * 8, word)?;
                    filled += 1;
                }
                if filled * 8 < length {
                    let behind = length - filled * 8;
                    writer.transaction.fill_zero(at + filled * 8, behind)?;
                }
                Ok(())
            },
        )
    }

    /// Stores a string of `length` bytes, followed by `slack` spare bytes, and marks it as changed
    /// in place. `fill` writes the words of the string. The caller records the key as changed if
    /// necessary.
    fn put_raw(
        &mut self,
        database: usize,
        key: &Key<'_>,
        found: Option<Found>,
        (length, slack, expiry): (u64, u64, Option<u64>),
        fill: impl FnOnce(&mut Self, Offset) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (shard, key_length) = (key.shard, key.bytes.len() as u64);
        let header = |form| {
            Header::new(
                ValueType::String.kind(0),
                form,
                key_length,
                length,
                expiry.is_some(),
            )
            .as_raw()
        };
        let inline = header(Form::Inline);
        let at = if entry_size(inline, key_length) + slack > INLINE_MAX && length > 8 {
            let block = self.transaction.allocate(shard, length + slack)?;
            fill(self, block)?;
            let offset = block.to_le_bytes();
            self.new_entry(shard, header(Form::Block), key.bytes, expiry, &offset, 0)?
        } else {
            let at = self.new_entry(shard, inline, key.bytes, expiry, &[], slack)?;
            fill(
                self,
                at + entry_size(inline, key_length) - length.next_multiple_of(8),
            )?;
            at
        };
        self.replace_entry(root(database, key), key, found, at, expiry.is_some())
    }

    /// Changes a field of 1 to 64 bits, which must lie inside the string. Logs and stores only the
    /// words whose contents change.
    pub fn set_bits(
        &mut self,
        string: &BitString,
        offset: u64,
        bits: u32,
        value: u64,
    ) -> Result<(), Error> {
        debug_assert!((1..=64).contains(&bits));
        debug_assert!(offset + u64::from(bits) <= string.length * 8);
        let shift = 128 - bits - (offset % BITS) as u32;
        let mask = (u128::MAX >> (128 - bits)) << shift;
        let field = (u128::from(value) << shift) & mask;
        let halves = |pair: u128| [(pair >> 64) as u64, pair as u64];
        for (index, (mask, field)) in
            (offset / BITS..).zip(halves(mask).into_iter().zip(halves(field)))
        {
            if mask != 0 {
                let old = string.text().bit_word(self.view(), index)?;
                self.set_word(string, index, (old & !mask | field).swap_bytes())?;
            }
        }
        Ok(())
    }

    /// Stores a string, marks it as changed in place, and keeps the key's expiry. If the old string
    /// is not longer than the new string, only the words that differ are logged and stored.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the key holds a value of another type.
    pub fn set_raw(&mut self, database: usize, key: &Key<'_>, bytes: &[u8]) -> Result<(), Error> {
        let length = bytes.len() as u64;
        let found = self.find_slot(database, key)?;
        self.changed(database, key, Effect::Changed);
        let old = match &found {
            Some(found) => found.entry.text(self.view())?.length(),
            None => 0,
        };
        if old > length || found.is_none() || bytes.is_empty() {
            let expiry = match &found {
                Some(found) => found.entry.expiry(self.view())?,
                None => None,
            };
            let slack = length.min(SHRUNK_SLACK);
            return self.put_raw(
                database,
                key,
                found,
                (length, slack, expiry),
                |writer, at| Ok(writer.transaction.fill(at, bytes)?),
            );
        }
        let (string, _) = self.bit_string(database, key, length)?;
        let words = bytes.chunks(8);
        for (index, chunk) in (0..).zip(words) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.set_word(&string, index, u64::from_le_bytes(word))?;
        }
        Ok(())
    }

    /// Stores one word of a string if its contents change.
    fn set_word(&mut self, string: &BitString, index: u64, word: u64) -> Result<(), Error> {
        let at = string.at + index * 8;
        if self.view().word(at)? != word {
            self.transaction.store(string.root.shard, at, word)?;
            self.changed_in_place(string.root, string.hash, string.entry)?;
        }
        Ok(())
    }

    /// Stores the bitwise combination of several strings at the key `target`. Shorter strings are
    /// padded with zero bits. If all sources are empty, removes `target`. Emits a miss event for
    /// each source that does not exist. Returns the length of the result and the number of sources
    /// that exist. All keys must be locked. O(bytes).
    ///
    /// # Errors
    /// [`Error::WrongType`] if a source holds a value of another type.
    pub fn combine_bits(
        &mut self,
        database: usize,
        operation: BitOperation,
        target: &Key<'_>,
        sources: &[Key<'_>],
    ) -> Result<(u64, u64), Error> {
        let (mut texts, mut there) = (Vec::with_capacity(sources.len()), 0);
        for (position, source) in sources.iter().enumerate() {
            self.warm_ahead(database, sources, position);
            if let Some(entry) = self.find(database, source)? {
                texts.push(entry.text(self.view())?);
                there += 1;
            } else {
                texts.push(Text::Bytes(0, 0));
                self.tell(KeyEvent::KeyMiss, database, source);
            }
        }
        let length = texts.iter().map(Text::length).max().unwrap_or(0);
        if length == 0 {
            self.remove(database, target)?;
            return Ok((0, there));
        }
        let found = self.find_slot(database, target)?;
        self.changed(database, target, Effect::Changed);
        self.put_raw(database, target, found, (length, 0, None), |writer, at| {
            let words = length.div_ceil(8);
            let mut result = [0; PART];
            let mut bytes = [0; PART * 8];
            for first in (0..words).step_by(PART) {
                let count = (words - first).min(PART as u64);
                let result = &mut result[..count as usize];
                combine_part(writer.view(), operation, &texts, first, result)?;
                let end = (length - first * 8).min(count * 8) as usize;
                for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(&*result) {
                    *bytes = word.to_le_bytes();
                }
                writer.transaction.fill(at + first * 8, &bytes[..end])?;
            }
            Ok(())
        })?;
        self.tell(KeyEvent::Set, database, target);
        Ok((length, there))
    }
}

/// Combines the words of several texts, starting with the word at index `first`, in memory byte
/// order.
fn combine_part(
    view: &View<'_>,
    operation: BitOperation,
    texts: &[Text],
    first: u64,
    result: &mut [u64],
) -> Result<(), Error> {
    let mut part = [0; PART];
    for (number, text) in texts.iter().enumerate() {
        let words = &mut part[..result.len()];
        text.copy_words(view, first, words)?;
        if number == 0 {
            result.copy_from_slice(words);
            continue;
        }
        let both = result.iter_mut().zip(&*words);
        match operation {
            BitOperation::And => both.for_each(|(to, word)| *to &= word),
            BitOperation::Or => both.for_each(|(to, word)| *to |= word),
            BitOperation::Xor => both.for_each(|(to, word)| *to ^= word),
            BitOperation::Not => {}
        }
    }
    if operation == BitOperation::Not {
        result.iter_mut().for_each(|word| *word = !*word);
    }
    Ok(())
}
