//! Defines the layouts of a list leaf, and reads leaves.
//!
//! ```text
//! a leaf of 1024, 2048 or 4096 bytes:
//! | 0, packing, width, size, boundary                    |  8 bytes
//! | start and end of the data, items, start of lengths   |  8
//! | the base, if the items are integers                  |  8
//! | lengths of 1 or 2 bytes each, up to the boundary     |  if texts differ in length
//! | data                                                 |
//! ```
//!
//! Texts of equal length (`width`) are stored contiguously. Integers are stored as differences from
//! the base, in `width` bytes each. Only integers in canonical decimal form are stored this way, so
//! that decoding restores the exact text. If texts differ in length, their lengths are stored in a
//! separate area, in `width` bytes each, so that both areas can grow at either end. The highest
//! possible length denotes a reference to a block in which the item is stored.

use undercroft_memory::{Fault, Offset, View};

use super::decimal::{self, GATHERED};
use super::items::{INLINE_ITEM_MAX, ListItem, ListItems, REFERENCE};
use crate::error::Error;
use crate::structures::ranges::Ranges;

/// The size of the largest leaf in bytes.
pub(crate) const LEAF_MAX: u64 = 4096;
/// The possible sizes of a leaf in bytes. A list that has just outgrown the packed form uses a
/// small leaf.
pub(crate) const SIZES: [u64; 3] = [1024, 2048, LEAF_MAX];
/// The size of a leaf header in bytes.
pub(crate) const HEADER: u64 = 16;
/// The size in bytes of the header of an integer leaf, including the base.
pub(crate) const INTEGERS_HEADER: u64 = 24;
/// The maximum number of items in a leaf. Only a leaf of empty items reaches this limit.
pub(crate) const ITEMS_MAX: u64 = 4096;

/// The encoding of a leaf's items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// Texts of `width` bytes each.
    Fixed { width: u64 },
    /// Integers stored as differences from `base`, in `width` bytes each.
    Integers { width: u64, base: i64 },
    /// Texts of any length. The lengths are stored in `width` bytes each, and their area ends at
    /// `boundary`.
    Texts { width: u64, boundary: u64 },
}

/// A leaf with its decoded header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf {
    pub(crate) at: Offset,
    pub(crate) size: u64,
    pub(crate) packing: Packing,
    /// The offset of the data within the leaf.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) count: u64,
    /// The offset of the lengths within the leaf.
    pub(crate) lengths: u64,
}

fn fault(at: Offset) -> Error {
    Fault {
        at,
        what: "a leaf whose items fit in it",
    }
    .into()
}

/// A copy of part of a leaf, padded so that a complete word can be read at any position.
pub(crate) struct Copy {
    bytes: [u8; LEAF_MAX as usize + 16],
    skip: usize,
    length: usize,
}

impl Copy {
    /// Returns the copied bytes.
    fn bytes(&self) -> &[u8] {
        &self.bytes[self.skip..self.skip + self.length]
    }

    /// Returns the word at the given position in the copy. Bytes past the end are arbitrary.
    #[inline(always)]
    fn word(&self, position: usize) -> u64 {
        let start = self.skip + position;
        let bytes = self.bytes[start..start + 8].as_chunks::<8>().0;
        u64::from_le_bytes(bytes[0])
    }
}

/// Returns a mask of the low `width` bytes of a word. `width` must be 1 to 8.
#[inline(always)]
pub(crate) const fn mask(width: u64) -> u64 {
    u64::MAX >> (64 - width * 8)
}

impl Packing {
    /// Returns the length value that denotes a reference to a block.
    #[inline(always)]
    pub(crate) fn reference_code(width: u64) -> u64 {
        if width == 1 { 0xff } else { 0xffff }
    }

    /// Returns the size of the leaf header in bytes for this packing. Lengths or data can start
    /// after the header.
    pub(crate) fn header(self) -> u64 {
        match self {
            Packing::Integers { .. } => INTEGERS_HEADER,
            Packing::Fixed { .. } | Packing::Texts { .. } => HEADER,
        }
    }
}

impl Leaf {
    /// Decodes the header and verifies that every offset in it lies within the leaf.
    #[inline]
    pub(crate) fn load(view: &View<'_>, at: Offset) -> Result<Leaf, Error> {
        let block = view.block(at)?;
        let (shape, fill) = (block.word(0)?, block.word(8)?);
        let field = |word: u64, place: u64| word >> (place * 16) & 0xffff;
        let (size, width, boundary) = (field(shape, 2), field(shape, 1), field(shape, 3));
        let (start, end, count, lengths) = (
            field(fill, 0),
            field(fill, 1),
            field(fill, 2),
            field(fill, 3),
        );
        let data = end.wrapping_sub(start);
        let (packing, sound) = match shape & 0xffff {
            0x100 => {
                let sound = start >= HEADER && count * width == data;
                (Packing::Fixed { width }, sound)
            }
            0x200 => {
                let base = block.word(16)? as i64;
                let sound =
                    (1..=8).contains(&width) && start >= INTEGERS_HEADER && count * width == data;
                (Packing::Integers { width, base }, sound)
            }
            0x300 => {
                let sound = (1..=2).contains(&width)
                    && lengths >= HEADER
                    && lengths + count * width <= boundary
                    && boundary <= start;
                (Packing::Texts { width, boundary }, sound)
            }
            _ => return Err(fault(at)),
        };
        if !sound || !SIZES.contains(&size) || start > end || end > size || count > ITEMS_MAX {
            return Err(fault(at));
        }
        view.check(at, size)?;
        Ok(Leaf {
            at,
            size,
            packing,
            start,
            end,
            count,
            lengths,
        })
    }

    /// Encodes the two words of the header.
    pub(crate) fn header(&self) -> [u64; 2] {
        let (packing, width, boundary) = match self.packing {
            Packing::Fixed { width } => (1, width, 0),
            Packing::Integers { width, .. } => (2, width, 0),
            Packing::Texts { width, boundary } => (3, width, boundary),
        };
        [
            packing << 8 | width << 16 | self.size << 32 | boundary << 48,
            self.start | self.end << 16 | self.count << 32 | self.lengths << 48,
        ]
    }

    /// Returns the number of used bytes, which excludes free space.
    pub(crate) fn used(&self) -> u64 {
        let lengths = match self.packing {
            Packing::Texts { width, .. } => width * self.count,
            _ => 0,
        };
        self.packing.header() + lengths + self.end - self.start
    }

    /// Copies bytes `from..to` of the leaf out of the store.
    #[inline(always)]
    fn copy(&self, view: &View<'_>, from: u64, to: u64) -> Result<Copy, Error> {
        let first = from & !7;
        let mut copy = Copy {
            bytes: [0; LEAF_MAX as usize + 16],
            skip: (from - first) as usize,
            length: (to - from) as usize,
        };
        let whole = (to - first).next_multiple_of(8) as usize;
        view.copy_to(self.at + first, &mut copy.bytes[..whole])?;
        Ok(copy)
    }

    /// Copies the lengths of all items in a leaf of texts.
    fn lengths(&self, view: &View<'_>, width: u64) -> Result<Copy, Error> {
        self.copy(view, self.lengths, self.lengths + self.count * width)
    }

    /// Prefetches the cache lines that probably contain `items` items, starting at index `from`.
    /// `count` is the number of items in the leaf. The caller passes `count` because the leaf's
    /// header has not been read yet.
    #[inline]
    pub(crate) fn prefetch(view: &View<'_>, at: Offset, from: u64, items: u64, count: u64) {
        view.prefetch_range(at, 64);
        let item = (LEAF_MAX - HEADER) / count.max(1);
        let start = from.saturating_mul(item).saturating_add(HEADER);
        if start < LEAF_MAX {
            let length = items.saturating_mul(item).min(LEAF_MAX - start);
            view.prefetch_range(at.wrapping_add(start), length + 64);
        }
    }

    /// Appends the items at indexes `from..to` to `out`.
    #[inline]
    pub(crate) fn append_range(
        &self,
        view: &View<'_>,
        from: u64,
        to: u64,
        out: &mut Ranges,
    ) -> Result<(), Error> {
        if from >= to || to > self.count {
            return if from == to {
                Ok(())
            } else {
                Err(fault(self.at))
            };
        }
        out.reserve((to - from) as usize, 0)?;
        match self.packing {
            Packing::Fixed { width } => {
                let (start, end) = (self.start + from * width, self.start + to * width);
                let base = out.bytes.len();
                view.append_part(self.at, start, end, &mut out.bytes)?;
                let (mut end, width) = (base, width as usize);
                out.ends.extend((from..to).map(|_| {
                    end += width;
                    end
                }));
                Ok(())
            }
            Packing::Integers { width, base } => {
                for some in (from..to).step_by(GATHERED) {
                    let range = some..to.min(some + GATHERED as u64);
                    self.append_integers(view, (width, base), range, out)?;
                }
                Ok(())
            }
            Packing::Texts { width, .. } => self.append_texts(view, width, (from, to), out),
        }
    }

    #[inline]
    fn append_integers(
        &self,
        view: &View<'_>,
        (width, base): (u64, i64),
        range: std::ops::Range<u64>,
        out: &mut Ranges,
    ) -> Result<(), Error> {
        let start = self.start + range.start * width;
        let (first, end) = (start & !7, self.start + range.end * width);
        let mut words = [0; GATHERED * 8 + 16];
        let whole = (end - first).next_multiple_of(8) as usize;
        view.copy_to(self.at + first, &mut words[..whole])?;
        let (skip, bits) = ((start - first) as usize, mask(width));
        let integer = |index: u64| {
            let at = skip + (index * width) as usize;
            let word = u64::from_le_bytes(words[at..at + 8].as_chunks::<8>().0[0]);
            base.wrapping_add((word & bits) as i64)
        };
        Ok(decimal::append_all(
            (0..range.end - range.start).map(integer),
            out,
        )?)
    }

    fn append_texts(
        &self,
        view: &View<'_>,
        width: u64,
        (from, to): (u64, u64),
        out: &mut Ranges,
    ) -> Result<(), Error> {
        let lengths = self.lengths(view, width)?;
        let spans = Spans::new(&lengths, width);
        let mut start = self.start + spans.sum(0, from as usize);
        let total = spans.sum(from as usize, to as usize);
        if start + total > self.end {
            return Err(fault(self.at));
        }
        if !spans.any_reference(from as usize, to as usize) {
            let mut end = out.bytes.len();
            view.append_part(self.at, start, start + total, &mut out.bytes)?;
            for index in from..to {
                end += spans.code(index as usize) as usize;
                out.ends.push(end);
            }
            return Ok(());
        }
        for index in from..to {
            let code = spans.code(index as usize);
            if code == Packing::reference_code(width) {
                let copy = self.copy(view, start, start + REFERENCE as u64)?;
                let (at, length) = (copy.word(0), copy.word(8));
                // Revalidate the view, because a torn length could cause a huge allocation (R3).
                view.recheck()?;
                view.append_to(at, length, &mut out.bytes)?;
                start += REFERENCE as u64;
            } else {
                view.append_part(self.at, start, start + code, &mut out.bytes)?;
                start += code;
            }
            out.end_item();
        }
        Ok(())
    }

    /// Decodes all items of the leaf.
    pub(crate) fn items(&self, view: &View<'_>) -> Result<ListItems, Error> {
        let mut items = ListItems::new();
        let copy = self.copy(view, self.start, self.end)?;
        let bytes = copy.bytes();
        match self.packing {
            Packing::Fixed { width: 0 } => {
                (0..self.count).for_each(|_| items.push(ListItem::text(b"")));
            }
            Packing::Fixed { width } => {
                let texts = bytes.chunks_exact(width as usize);
                texts.for_each(|text| items.push(ListItem::text(text)));
            }
            Packing::Integers { width, base } => {
                for index in 0..self.count as usize {
                    let distance = copy.word(index * width as usize) & mask(width);
                    items.push_with(base.wrapping_add(distance as i64));
                }
            }
            Packing::Texts { width, .. } => {
                let lengths = self.lengths(view, width)?;
                let spans = Spans::new(&lengths, width);
                let mut start = 0;
                for index in 0..self.count as usize {
                    let length = spans.bytes(index) as usize;
                    let text = bytes
                        .get(start..start + length)
                        .ok_or_else(|| fault(self.at))?;
                    start += length;
                    match <&[u8; REFERENCE]>::try_from(text).ok() {
                        Some(reference) if spans.is_reference(index) => {
                            items.push(ListItem::reference(reference));
                        }
                        _ => items.push(ListItem::text(text)),
                    }
                }
            }
        }
        Ok(items)
    }

    /// Returns the number of data bytes before the item at `index`, which can be one past the last
    /// item.
    pub(crate) fn offset_of(&self, view: &View<'_>, index: u64) -> Result<u64, Error> {
        let index = index.min(self.count);
        match self.packing {
            Packing::Fixed { width } | Packing::Integers { width, .. } => Ok(index * width),
            Packing::Texts { .. } if index == self.count => Ok(self.end - self.start),
            Packing::Texts { width, .. } => {
                let lengths = self.lengths(view, width)?;
                let sum = Spans::new(&lengths, width).sum(0, index as usize);
                if self.start + sum > self.end {
                    return Err(fault(self.at));
                }
                Ok(sum)
            }
        }
    }

    /// Returns the number of data bytes that the last `items` items occupy.
    pub(crate) fn bytes_behind(&self, view: &View<'_>, items: u64) -> Result<u64, Error> {
        let items = items.min(self.count);
        match self.packing {
            Packing::Fixed { width } | Packing::Integers { width, .. } => Ok(items * width),
            Packing::Texts { width, .. } => {
                let end = self.lengths + self.count * width;
                let copy = self.copy(view, end - items * width, end)?;
                let sum = Spans::new(&copy, width).sum(0, items as usize);
                if sum > self.end - self.start {
                    return Err(fault(self.at));
                }
                Ok(sum)
            }
        }
    }

    /// Calls `visit` with the block, length and position of each reference among the items at
    /// indexes `from..to`.
    pub(crate) fn for_each_block(
        &self,
        view: &View<'_>,
        from: u64,
        to: u64,
        mut visit: impl FnMut(Offset, u64, Offset),
    ) -> Result<(), Error> {
        let Packing::Texts { width, .. } = self.packing else {
            return Ok(());
        };
        let lengths = self.lengths(view, width)?;
        let spans = Spans::new(&lengths, width);
        let (from, to) = (from as usize, to.min(self.count) as usize);
        if !spans.any_reference(from, to) {
            return Ok(());
        }
        let mut start = self.start + spans.sum(0, from);
        for index in from..to {
            let length = spans.bytes(index);
            if start + length > self.end {
                return Err(fault(self.at));
            }
            if spans.is_reference(index) {
                let copy = self.copy(view, start, start + REFERENCE as u64)?;
                visit(copy.word(0), copy.word(8), start);
            }
            start += length;
        }
        Ok(())
    }

    /// Fills `found` with the indexes of the items that equal `needle`.
    pub(crate) fn find(
        &self,
        view: &View<'_>,
        needle: &Needle<'_>,
        found: &mut Vec<u16>,
    ) -> Result<(), Error> {
        found.clear();
        match self.packing {
            Packing::Fixed { width } => {
                if width != needle.text.len() as u64 {
                    return Ok(());
                }
                if width == 0 {
                    found.extend(0..self.count as u16);
                    return Ok(());
                }
                let copy = self.copy(view, self.start, self.end)?;
                if let Some((first, rest)) = needle.text.split_first_chunk::<8>() {
                    // Compare the first eight bytes first, because they differ in nearly all items
                    // that do not match.
                    let texts = copy.bytes().chunks_exact(width as usize);
                    found.extend((0..).zip(texts).filter_map(|(index, text)| {
                        let (head, tail) = text.split_first_chunk::<8>()?;
                        (head == first && tail == rest).then_some(index)
                    }));
                    return Ok(());
                }
                let (first, bits) = (needle.first, mask(width));
                for index in 0..self.count as usize {
                    if copy.word(index * width as usize) & bits == first {
                        found.push(index as u16);
                    }
                }
            }
            Packing::Integers { width, base } => {
                let Some(distance) = needle.integer.and_then(|value| within(value, base, width))
                else {
                    return Ok(());
                };
                let copy = self.copy(view, self.start, self.end)?;
                let bits = mask(width);
                for index in 0..self.count as usize {
                    if copy.word(index * width as usize) & bits == distance {
                        found.push(index as u16);
                    }
                }
            }
            Packing::Texts { width, .. } => self.find_text(view, needle, width, found)?,
        }
        Ok(())
    }

    fn find_text(
        &self,
        view: &View<'_>,
        needle: &Needle<'_>,
        width: u64,
        found: &mut Vec<u16>,
    ) -> Result<(), Error> {
        let lengths = self.lengths(view, width)?;
        let spans = Spans::new(&lengths, width);
        let long = needle.text.len() > INLINE_ITEM_MAX;
        let code = if long {
            Packing::reference_code(width)
        } else {
            needle.text.len() as u64
        };
        let copy = self.copy(view, self.start, self.end)?;
        let mut start = 0;
        for index in 0..self.count as usize {
            let length = spans.bytes(index) as usize;
            let bytes = copy.bytes().get(start..start + length);
            let bytes = bytes.ok_or_else(|| fault(self.at))?;
            if spans.code(index) == code && long == spans.is_reference(index) {
                let equal = if long {
                    let (at, length) = (copy.word(start), copy.word(start + 8));
                    length == needle.text.len() as u64 && view.equals(at, needle.text)?
                } else {
                    bytes == needle.text
                };
                if equal {
                    found.push(index as u16);
                }
            }
            start += length;
        }
        Ok(())
    }
}

/// Returns the difference between `value` and `base`, or `None` if it does not fit in `width`
/// bytes.
#[inline(always)]
pub(crate) fn within(value: i64, base: i64, width: u64) -> Option<u64> {
    let distance = value.wrapping_sub(base) as u64;
    (value >= base && distance <= mask(width)).then_some(distance)
}

/// The text to search for, also decoded as an integer and as a word.
pub(crate) struct Needle<'n> {
    text: &'n [u8],
    integer: Option<i64>,
    /// The first eight bytes of the text as a little-endian word.
    first: u64,
}

impl<'n> Needle<'n> {
    pub(crate) fn new(text: &'n [u8]) -> Needle<'n> {
        let mut first = [0; 8];
        let length = text.len().min(8);
        first[..length].copy_from_slice(&text[..length]);
        Needle {
            text,
            integer: undercroft_numbers::parse_integer(text),
            first: u64::from_le_bytes(first),
        }
    }
}

/// The encoded lengths of the texts in a leaf.
struct Spans<'c> {
    codes: &'c [u8],
    width: u64,
}

impl<'c> Spans<'c> {
    fn new(copy: &'c Copy, width: u64) -> Spans<'c> {
        Spans {
            codes: copy.bytes(),
            width,
        }
    }

    #[inline(always)]
    fn code(&self, index: usize) -> u64 {
        if self.width == 1 {
            u64::from(self.codes[index])
        } else {
            u64::from(self.codes[index * 2]) | u64::from(self.codes[index * 2 + 1]) << 8
        }
    }

    fn is_reference(&self, index: usize) -> bool {
        self.code(index) == Packing::reference_code(self.width)
    }

    /// Returns the number of data bytes that an item occupies.
    fn bytes(&self, index: usize) -> u64 {
        if self.is_reference(index) {
            REFERENCE as u64
        } else {
            self.code(index)
        }
    }

    fn any_reference(&self, from: usize, to: usize) -> bool {
        if self.width == 1 {
            return self.codes[from..to].contains(&0xff);
        }
        (from..to).any(|index| self.is_reference(index))
    }

    fn sum(&self, from: usize, to: usize) -> u64 {
        if self.width == 1 && !self.any_reference(from, to) {
            return self.codes[from..to]
                .iter()
                .map(|&code| u64::from(code))
                .sum();
        }
        (from..to).map(|index| self.bytes(index)).sum()
    }
}
