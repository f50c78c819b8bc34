//! Copies the entries of a leaf out of the store, and encodes and decodes them.

use smallvec::SmallVec;
use undercroft_memory::{Fault, View};

use super::code::{
    DAMAGED, Decoder, Shape, behind_text, behind_value, is_same, number_at, push_number, push_text,
    push_value,
};
use super::layout::{Layout, MORE, SAME};
use super::leaf::{HEADER, LEAF_MAX, Leaf};
use crate::error::Error;
use crate::types::stream::found::StreamEntries;
use crate::types::stream::id::StreamId;

/// The number of bits in an entry's first byte that contain the low part of the sequence number,
/// and the mask of these bits.
const SEQ_BITS: u32 = 6;
const SEQ_MASK: u8 = 0x7e;

/// The model relative to which a leaf's entries are encoded. Contains the name of each field and a
/// prefix of its value.
pub(in crate::types::stream) type Model<'b> = SmallVec<[(&'b [u8], &'b [u8]); 8]>;

/// A copy of a leaf's bytes, with the decoded model relative to which the entries are encoded.
pub(in crate::types::stream) struct Image<'b> {
    pub(in crate::types::stream) leaf: Leaf,
    pub(in crate::types::stream) bytes: &'b [u8],
    pub(in crate::types::stream) model: Model<'b>,
}

/// The position and ID of an entry in a leaf's image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::types::stream) struct Spot {
    pub(in crate::types::stream) id: StreamId,
    pub(in crate::types::stream) start: usize,
    /// The offset after the encoded ID, where the fields start.
    pub(in crate::types::stream) fields: usize,
    pub(in crate::types::stream) end: usize,
}

/// Decodes the model at the start of a leaf, relative to which the entries are encoded. Inlined, so
/// that the large result is constructed in place.
#[inline(always)]
pub(in crate::types::stream) fn model_of(bytes: &[u8]) -> Result<Model<'_>, Fault> {
    let mut decoder = Decoder::new(bytes, HEADER);
    let mut model = Model::new();
    for _ in 0..decoder.number()? {
        model.push((decoder.text()?, decoder.text()?));
    }
    if decoder.at != bytes.len() {
        return Err(DAMAGED);
    }
    Ok(model)
}

/// Properties of an entry that was just encoded.
pub(in crate::types::stream) struct Encoded {
    /// Whether the entry has the same fields as the leaf's model.
    pub(in crate::types::stream) same: bool,
    /// The number of bytes that the values occupy in a Redis node.
    pub(in crate::types::stream) values: usize,
}

/// Appends the encoded form of an entry to `out`.
pub(in crate::types::stream) fn encode(
    base: StreamId,
    model: &Model<'_>,
    id: StreamId,
    texts: &[&[u8]],
    out: &mut Vec<u8>,
) -> Encoded {
    let fields = texts.as_chunks::<2>().0;
    let mut both = model.iter().zip(fields);
    let same = !model.is_empty()
        && model.len() == fields.len()
        && both.all(|((name, _), [other, _])| is_same(name, other));
    let distance = id.ms.wrapping_sub(base.ms);
    let seq = if distance == 0 {
        id.seq.wrapping_sub(base.seq)
    } else {
        id.seq
    };
    let high = seq >> SEQ_BITS;
    let more = if high > 0 { MORE } else { 0 };
    out.push(u8::from(same) | ((seq << 1) as u8 & SEQ_MASK) | more);
    if high > 0 {
        push_number(out, high);
    }
    push_number(out, distance);
    let mut values = 0;
    if same {
        for ([_, value], (_, start)) in fields.iter().zip(model) {
            values += push_value(out, value, start);
        }
    } else {
        push_number(out, fields.len() as u64);
        for [name, value] in fields {
            push_text(out, name);
            values += push_value(out, value, b"");
        }
    }
    Encoded { same, values }
}

/// The position in a leaf up to which entries have been read.
#[derive(Clone, Copy, Debug)]
pub(in crate::types::stream) struct Reached {
    pub(in crate::types::stream) entries: usize,
    /// The offset after the entries that were read.
    pub(in crate::types::stream) end: usize,
    /// The ID of the last entry read.
    pub(in crate::types::stream) last: StreamId,
}

impl<'b> Image<'b> {
    /// Decodes the head of an entry. Returns the ID and whether the entry has the same fields as
    /// the leaf's model.
    #[inline]
    fn head(&self, decoder: &mut Decoder<'b>) -> Result<(StreamId, bool), Fault> {
        let head = decoder.byte()?;
        let mut seq = u64::from((head & SEQ_MASK) >> 1);
        if head & MORE != 0 {
            seq |= decoder.number()? << SEQ_BITS;
        }
        let distance = decoder.number()?;
        let base = self.leaf.base;
        let id = StreamId {
            ms: base.ms.wrapping_add(distance),
            seq: if distance == 0 {
                base.seq.wrapping_add(seq)
            } else {
                seq
            },
        };
        Ok((id, head & SAME != 0))
    }

    /// Iterates over the positions of the entries in order. The first error ends the iteration.
    pub(in crate::types::stream) fn spots(&self) -> impl Iterator<Item = Result<Spot, Error>> {
        let mut at = self.leaf.start;
        let mut left = self.leaf.count;
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let spot = self.spot(at);
            match &spot {
                Ok(spot) => at = spot.end,
                Err(_) => left = 0,
            }
            Some(spot)
        })
    }

    fn spot(&self, start: usize) -> Result<Spot, Error> {
        let mut decoder = Decoder::new(self.bytes, start);
        let (id, same) = self.head(&mut decoder)?;
        let fields = decoder.end()?;
        self.skip(&mut decoder, same)?;
        let end = decoder.end()?;
        Ok(Spot {
            id,
            start,
            fields,
            end,
        })
    }

    /// Returns the offset after the last entry and the ID of the tombstone that follows (the
    /// remains of the deleted last entry), if any. Fails unless the entries and the tombstone end
    /// exactly at the leaf's end.
    pub(in crate::types::stream) fn behind(&self) -> Result<(usize, Option<StreamId>), Error> {
        let mut entries_end = self.leaf.start;
        for spot in self.spots() {
            entries_end = spot?.end;
        }
        let mut decoder = Decoder::new(self.bytes, entries_end);
        let tombstone = if self.leaf.has_tombstone {
            Some(self.head(&mut decoder)?.0)
        } else {
            None
        };
        match decoder.end()? == self.leaf.end {
            true => Ok((entries_end, tombstone)),
            false => Err(DAMAGED.into()),
        }
    }

    /// Skips the fields and values of an entry whose head has been decoded.
    #[inline(always)]
    fn skip(&self, decoder: &mut Decoder<'b>, same: bool) -> Result<(), Fault> {
        if same {
            for _ in 0..self.model.len() {
                decoder.skip_value()?;
            }
        } else {
            for _ in 0..decoder.number()? {
                decoder.text()?;
                decoder.skip_value()?;
            }
        }
        Ok(())
    }

    /// Appends up to `left` entries in a range to `out`. Returns the number of entries still wanted
    /// from later leaves, or `None` if the range ends in this leaf. `reached` can contain a known
    /// position before the range, and is set to the position after the last entry read.
    pub(in crate::types::stream) fn append_range(
        &self,
        (from, to): (StreamId, StreamId),
        mut left: u64,
        reached: &mut Option<Reached>,
        out: &mut StreamEntries,
    ) -> Result<Option<u64>, Error> {
        let (before, start) = match reached.take() {
            Some(known) => (known.entries, known.end),
            None => self.before(from).ok_or(DAMAGED)?,
        };
        let mut decoder = Decoder::new(self.bytes, start);
        let mut rest = self.leaf.count.checked_sub(before).ok_or(DAMAGED)?;
        let mut is_first = true;
        while rest > 0 {
            let (id, same) = self.head(&mut decoder)?;
            if id < from {
                self.skip(&mut decoder, same)?;
                rest -= 1;
                continue;
            }
            if id > to {
                return Ok(None);
            }
            if is_first {
                self.make_room(left.min(rest as u64) as usize, out);
                is_first = false;
            }
            self.append_behind(&mut decoder, (id, same), out)?;
            (left, rest) = (left - 1, rest - 1);
            *reached = Some(Reached {
                entries: self.leaf.count - rest,
                end: decoder.at,
                last: id,
            });
            if left == 0 {
                return Ok(None);
            }
        }
        decoder.end()?;
        Ok(Some(left))
    }

    /// Returns the number of entries at the start of the leaf whose milliseconds are less than
    /// those of `id`, and the offset after these entries.
    #[inline]
    fn before(&self, id: StreamId) -> Option<(usize, usize)> {
        let (bytes, fields, mut at) = (self.bytes, self.model.len(), self.leaf.start);
        let mut shape = Shape::default();
        let Some(far) = id.ms.checked_sub(self.leaf.base.ms) else {
            return Some((0, at));
        };
        let mut before = 0;
        while before < self.leaf.count {
            let head = *bytes.get(at)?;
            let mut next = at + 1;
            if head & MORE != 0 {
                (_, next) = number_at(bytes, next)?;
            }
            let distance;
            (distance, next) = number_at(bytes, next)?;
            if distance >= far {
                break;
            }
            if let Some(layout) = Layout::of(bytes, at, fields) {
                let passed;
                (passed, at) = layout.pass(bytes, at, self.leaf.count - before, far);
                before += passed;
                continue;
            }
            if head & SAME != 0 {
                next = shape.behind_values(bytes, fields, next)?;
            } else {
                let fields;
                (fields, next) = number_at(bytes, next)?;
                for _ in 0..fields {
                    next = behind_value(bytes, behind_text(bytes, next)?)?;
                }
            }
            (before, at) = (before + 1, next);
        }
        Some((before, at))
    }

    /// Reserves memory for entries that are about as long as the leaf's model, so that the buffers
    /// do not grow repeatedly. Even if the count is torn, reserves no more than a full leaf needs
    /// (R3).
    fn make_room(&self, entries: usize, out: &mut StreamEntries) {
        /// The assumed size of a value in bytes.
        const VALUE: usize = 16;
        let fields = self.model.len();
        let most = LEAF_MAX / (fields + 2);
        let names = self.model.iter().map(|(name, _)| name.len() + VALUE);
        out.reserve(entries.min(most).max(1), fields * 2, names.sum());
    }

    /// Appends the entry at an offset to `out`.
    #[inline]
    pub(in crate::types::stream) fn append(
        &self,
        start: usize,
        out: &mut StreamEntries,
    ) -> Result<(), Error> {
        let mut decoder = Decoder::new(self.bytes, start);
        let head = self.head(&mut decoder)?;
        self.append_behind(&mut decoder, head, out)
    }

    /// Appends an entry whose head has been decoded to `out`.
    #[inline(always)]
    fn append_behind(
        &self,
        decoder: &mut Decoder<'b>,
        (id, same): (StreamId, bool),
        out: &mut StreamEntries,
    ) -> Result<(), Error> {
        let texts = &mut out.texts;
        if same {
            for (name, value) in &self.model {
                texts.push(name);
                decoder.append_value(value, &mut texts.bytes)?;
                texts.end_item();
            }
        } else {
            for _ in 0..decoder.number()? {
                texts.push(decoder.text()?);
                decoder.append_value(b"", &mut texts.bytes)?;
                texts.end_item();
            }
        }
        out.end_entry(id);
        Ok(())
    }
}

impl Leaf {
    /// Copies the complete leaf to a reusable buffer and decodes the leaf's model.
    #[inline]
    pub(in crate::types::stream) fn image<'b>(
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
}
