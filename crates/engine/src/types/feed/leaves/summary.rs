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

use crate::error::Error;
use crate::structures::tree::{Child, Merge, Node, Tree};
use crate::types::feed::schema::Schema;

/// Words of a note.
pub(in crate::types::feed) const NOTE_WORDS: usize = 4;
/// The word of a note that is a label.
pub(in crate::types::feed) const LABEL: usize = 3;
/// What is noted of a subtree.
pub(in crate::types::feed) type Note = [u64; NOTE_WORDS];
/// Bits for all attributes.
const BITS: usize = 128;
/// The tree of a feed.
pub(in crate::types::feed) type FeedTree = Tree<NOTE_WORDS, Sums>;

/// Sums of hidden items, unions of what may be there, the first one's label.
#[derive(Debug)]
pub(crate) struct Sums;

/// The note of both of two parts.
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

/// The bits of a note that stand for an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::types::feed) struct Span {
    /// The first of them.
    pub(in crate::types::feed) first: usize,
    /// The logarithm of their number.
    log: usize,
    /// The attribute's lower bits, which do not count.
    pub(in crate::types::feed) shift: usize,
}

impl Span {
    /// Those of each attribute.
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

    /// How many there are.
    pub(in crate::types::feed) fn buckets(self) -> usize {
        1 << self.log
    }

    /// Which of all bits they are.
    pub(in crate::types::feed) fn bits(self) -> std::ops::Range<usize> {
        self.first..self.first + self.buckets()
    }

    /// Those that are set in a note.
    pub(in crate::types::feed) fn of(self, note: &Note) -> u64 {
        let bits = u128::from(note[1]) | u128::from(note[2]) << 64;
        (bits >> self.first) as u64 & (u64::MAX >> (64 - self.buckets()))
    }

    /// A note in which some are set.
    pub(in crate::types::feed) fn note(self, bits: u64) -> Note {
        let bits = u128::from(bits) << self.first;
        [0, bits as u64, (bits >> 64) as u64, 0]
    }
}

/// Divides the items of a block by their values in some planes, and gives the visitor each value with the items that have
/// it: they are divided by one plane after the other, from the highest on, as long as there are any.
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
