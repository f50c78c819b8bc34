//! Implements the notes in which inner nodes summarize their children: the number of hidden items
//! and the attribute values that can occur.
//!
//! ```text
//! | hidden items | 128 bits: a bit for each value, or for each range of values, of each attribute | label |
//! ```
//!
//! The bits are shared equally among the attributes, with at most 64 bits for each attribute. An
//! attribute with few possible values has one bit for each value. Otherwise, one bit represents all
//! values with the same upper bits. If a bit is clear, no item has such a value. If a bit is set,
//! an item may have such a value, but need not: when items are removed at the ends of a leaf, bits
//! stay set until the leaf is rewritten. The label is the label of the first leaf.

use undercroft_memory::View;

use crate::error::Error;
use crate::structures::tree::{Child, Merge, Node, Tree};
use crate::types::feed::schema::Schema;

/// The number of words in a note.
pub(in crate::types::feed) const NOTE_WORDS: usize = 4;
/// The index of the label in a note.
pub(in crate::types::feed) const LABEL: usize = 3;
/// The note of a subtree, which summarizes its items.
pub(in crate::types::feed) type Note = [u64; NOTE_WORDS];
/// The number of bits that all attributes share.
const BITS: usize = 128;
/// The tree of a feed.
pub(in crate::types::feed) type FeedTree = Tree<NOTE_WORDS, Sums>;

/// Combines the notes of subtrees: adds the numbers of hidden items, merges the possible attribute
/// values, and keeps the first label.
#[derive(Debug)]
pub(crate) struct Sums;

/// Combines the notes of two adjacent ranges of items.
pub(in crate::types::feed) fn join(one: Note, other: Note) -> Note {
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

/// The bits of a note that represent the values of one attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::types::feed) struct Span {
    /// The index of the first bit.
    pub(in crate::types::feed) first: usize,
    /// The binary logarithm of the number of bits.
    log: usize,
    /// How many low bits of the attribute are ignored.
    pub(in crate::types::feed) shift: usize,
}

impl Span {
    /// Returns the span of each attribute.
    pub(in crate::types::feed) fn all(schema: &Schema) -> impl Iterator<Item = Span> {
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

    /// Returns the number of bits that represent the attribute.
    pub(in crate::types::feed) fn buckets(self) -> usize {
        1 << self.log
    }

    /// Returns the range of bits that represent the attribute, among all bits of a note.
    pub(in crate::types::feed) fn bits(self) -> std::ops::Range<usize> {
        self.first..self.first + self.buckets()
    }

    /// Returns the bits of a note that represent this attribute.
    pub(in crate::types::feed) fn of(self, note: &Note) -> u64 {
        let bits = u128::from(note[1]) | u128::from(note[2]) << 64;
        (bits >> self.first) as u64 & (u64::MAX >> (64 - self.buckets()))
    }

    /// Returns a note in which only the given bits of this attribute are set.
    pub(in crate::types::feed) fn note(self, bits: u64) -> Note {
        let bits = u128::from(bits) << self.first;
        [0, bits as u64, (bits >> 64) as u64, 0]
    }
}

/// Groups the items of a block by the value that the bit planes `planes` encode. Calls `visit` with
/// each value and a mask of the items that have it. Splits the items plane by plane, starting at
/// the highest plane, and skips empty groups.
pub(in crate::types::feed) fn spread(
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
