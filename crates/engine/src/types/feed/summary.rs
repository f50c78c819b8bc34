//! What inner nodes note of their children: how many items are hidden, and which values of attributes may be there.
//!
//! ```text
//! | hidden items | 128 bits: a bit for each value, or for each range of values, of each attribute | label |
//! ```
//!
//! Attributes have as many bits each, up to 64: one for each value where there are so few, else one for each range of
//! values with the same upper bits. A bit that is not set says that there is no such item. One that is set says that
//! there may be: of items that leave a leaf at its ends, the bits stay until the leaf is made anew. The label is that of
//! the first leaf.

use undercroft_memory::View;

use super::image::Image;
use super::leaf::{HIDDEN, range_mask};
use super::schema::Schema;
use crate::error::Error;
use crate::structures::tree::{Child, Merge, Node, Tree};

/// Words of a note.
pub(super) const NOTE_WORDS: usize = 4;
/// The word of a note that is a label.
pub(super) const LABEL: usize = 3;
/// What is noted of a subtree.
pub(super) type Note = [u64; NOTE_WORDS];
/// Bits for all attributes.
const BITS: usize = 128;
/// The tree of a feed.
pub(super) type FeedTree = Tree<NOTE_WORDS, Sums>;

/// Sums of hidden items, unions of what may be there, the first one's label.
#[derive(Debug)]
pub(crate) struct Sums;

/// The note of both of two parts.
pub(super) fn join(one: Note, other: Note) -> Note {
    [
        one[0].wrapping_add(other[0]),
        one[1] | other[1],
        one[2] | other[2],
        one[LABEL],
    ]
}

impl Merge<NOTE_WORDS> for Sums {
    fn of(children: &[Child<NOTE_WORDS>]) -> Note {
        let notes = children.iter().map(|child| child.note);
        notes.reduce(join).unwrap_or_default()
    }

    fn above(
        view: &View<'_>,
        node: &Node<NOTE_WORDS>,
        _index: usize,
        _note: Note,
    ) -> Result<Option<Note>, Error> {
        let mut all = node.note(view, 0)?;
        for index in 1..node.children() {
            all = join(all, node.note(view, index)?);
        }
        Ok(Some(all))
    }
}

/// The bits of a note that stand for an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The first of them.
    first: usize,
    /// The logarithm of their number.
    log: usize,
    /// The attribute's lower bits, which do not count.
    pub(super) shift: usize,
}

impl Span {
    /// Those of each attribute.
    pub(super) fn all(schema: &Schema) -> impl Iterator<Item = Span> {
        let share = (BITS / schema.widths().len().max(1)).min(64);
        let most = share.ilog2() as usize;
        schema.widths().iter().scan(0, move |next, &width| {
            let log = most.min(width.into());
            let span = Span {
                first: *next,
                log,
                shift: usize::from(width) - log,
            };
            *next += 1 << log;
            Some(span)
        })
    }

    /// How many there are.
    pub(super) fn buckets(self) -> usize {
        1 << self.log
    }

    /// Which of all bits they are.
    pub(super) fn bits(self) -> std::ops::Range<usize> {
        self.first..self.first + self.buckets()
    }

    /// Those that are set in a note.
    pub(super) fn of(self, note: &Note) -> u64 {
        let bits = u128::from(note[1]) | u128::from(note[2]) << 64;
        (bits >> self.first) as u64 & (u64::MAX >> (64 - self.buckets()))
    }

    /// A note in which some are set.
    pub(super) fn note(self, bits: u64) -> Note {
        let bits = u128::from(bits) << self.first;
        [0, bits as u64, (bits >> 64) as u64, 0]
    }
}

impl Image {
    /// What is noted of items at some places.
    pub(super) fn note(&self, schema: &Schema, places: std::ops::Range<usize>) -> Note {
        if places.len() == 1 {
            return self.note_of_one(schema, places.start);
        }
        let mut note = Note::default();
        for block in places.start / 64..places.end.div_ceil(64) {
            let mask = range_mask(block, places.start, places.end);
            let hidden = self.word(self.layout.word(HIDDEN, block)) & mask;
            note[0] += u64::from(hidden.count_ones());
            let attributes = schema.first_planes().zip(schema.widths());
            for ((first, &width), span) in attributes.zip(Span::all(schema)) {
                let lowest = first + span.shift;
                let planes = lowest..first + usize::from(width);
                let word = |plane| self.word(self.layout.word(plane, block));
                let mut bits = 0;
                spread(&word, planes, mask, 0, &mut |value, _| bits |= 1 << value);
                note = join(note, span.note(bits));
            }
        }
        note
    }

    /// The same of one item, as most that are added come alone.
    fn note_of_one(&self, schema: &Schema, place: usize) -> Note {
        let mut bits = 0_u128;
        let attributes = schema.first_planes().zip(schema.widths());
        for ((first, &width), span) in attributes.zip(Span::all(schema)) {
            let planes = (first + span.shift..first + usize::from(width)).rev();
            let value = planes.fold(0, |value, plane| {
                value << 1 | usize::from(self.bit(plane, place))
            });
            bits |= 1 << (span.first + value);
        }
        [
            u64::from(self.bit(HIDDEN, place)),
            bits as u64,
            (bits >> 64) as u64,
            0,
        ]
    }
}

/// Divides the items of a block by their values in some planes, and gives the visitor each value with the items that have
/// it: they are divided by one plane after the other, from the highest on, as long as there are any.
pub(super) fn spread(
    word: &impl Fn(usize) -> u64,
    planes: std::ops::Range<usize>,
    items: u64,
    value: u32,
    visit: &mut impl FnMut(u32, u64),
) {
    if items == 0 {
        return;
    }
    let Some(plane) = planes.clone().next_back() else {
        visit(value, items);
        return;
    };
    let ones = word(plane);
    let rest = planes.start..plane;
    spread(word, rest.clone(), items & !ones, value << 1, visit);
    spread(word, rest, items & ones, value << 1 | 1, visit);
}
