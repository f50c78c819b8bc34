//! The layout of a tree's inner nodes, reading them, and changing one child.

use undercroft_memory::{Fault, Offset, Pool, Transaction, View};

use crate::error::Error;

/// The possible sizes of inner nodes in bytes, for trees of different sizes.
const SIZES: [u64; 3] = [256, 1024, LARGEST];
/// The size in bytes of the largest nodes, which are also the most common nodes.
pub(super) const LARGEST: u64 = 4096;
const HEADER: u64 = 8;
/// The number of neighbors of a wrong guess that are tried before binary search is used.
const BESIDE: usize = 2;

/// The maximum number of levels of inner nodes. A tree of this height contains more items than fit
/// in memory, even if each node has only a quarter of the children that the smallest node can have.
pub(crate) const HEIGHT_MAX: usize = 8;
/// The number of entries in a tally, the totals that a large node caches about its subtree.
pub(crate) const TALLY: usize = 128;
/// The size of a tally in bytes. Each of its entries has 32 bits.
pub(super) const TALLY_BYTES: u64 = TALLY as u64 * 4;
/// The header bit of a node that has a tally (cached totals of its subtree).
pub(super) const TALLIED: u64 = 1 << 15;

/// Returns whether nodes with `note_words` words for each child can have a tally (cached totals).
/// Trees whose notes are sums can, and trees whose notes are keys cannot.
pub(super) const fn may_tally(note_words: usize) -> bool {
    note_words > 2
}

/// Returns the number of bytes at the end of a node that are reserved for its tally (cached
/// totals).
pub(super) const fn tally_room(size: u64, note_words: usize) -> u64 {
    if size == LARGEST && may_tally(note_words) {
        TALLY_BYTES
    } else {
        0
    }
}

/// A way to compute the note of a node from the notes of its children.
pub(crate) trait Merge<const K: usize> {
    /// Returns the note that describes a node with the given children, of which there is at least
    /// one.
    fn of(children: &[Child<K>]) -> [u64; K];

    /// Returns the new note of a node after the note of one child has changed to `note`, or `None`
    /// if the node's note stays the same.
    fn above(
        view: &View<'_>,
        node: &Node<K>,
        index: usize,
        note: [u64; K],
    ) -> Result<Option<[u64; K]>, Error>;
}

/// The note of a subtree is its least key, which is the note of its first child. In trees that are
/// accessed only by position, notes are empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Least;

impl<const K: usize> Merge<K> for Least {
    #[inline(always)]
    fn of(children: &[Child<K>]) -> [u64; K] {
        children.first().map_or([0; K], |first| first.note)
    }

    #[inline(always)]
    fn above(
        _view: &View<'_>,
        _node: &Node<K>,
        index: usize,
        note: [u64; K],
    ) -> Result<Option<[u64; K]>, Error> {
        Ok((index == 0).then_some(note))
    }
}

/// A subtree, as described by its parent node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Child<const K: usize> {
    pub(crate) at: Offset,
    /// The number of items in the subtree.
    pub(crate) count: u64,
    /// The note that the parent node stores about the subtree.
    pub(crate) note: [u64; K],
}

/// An inner node whose header has been decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<const K: usize> {
    pub(crate) at: Offset,
    level: u8,
    children: u16,
    /// The maximum number of children that this node can have.
    room: u16,
    tallied: bool,
}

/// Returns the maximum number of children that the largest node can have.
pub(crate) const fn children_max(note_words: usize) -> usize {
    room(SIZES[SIZES.len() - 1], note_words) as usize
}

/// Returns the maximum number of children that a node of the given size can have.
const fn room(size: u64, note_words: usize) -> u64 {
    // A node stores one more position than it has children.
    (size - HEADER - 8 - tally_room(size, note_words)) / (16 + 8 * note_words as u64)
}

impl<const K: usize> Node<K> {
    pub(crate) const NONE: Node<K> = Node {
        at: 0,
        level: 0,
        children: 0,
        room: 0,
        tallied: false,
    };

    /// Reads and validates the header of a node at the given level.
    #[inline]
    pub(crate) fn load(view: &View<'_>, at: Offset, level: usize) -> Result<Node<K>, Error> {
        let header = view.word(at)?;
        let (children, size) = (header >> 16 & 0xffff, header >> 32);
        let tallied = may_tally(K) && header & TALLIED != 0;
        let marks = if tallied { TALLIED } else { 0 };
        if header & 0xffff != level as u64 | marks || !SIZES.contains(&size) {
            return Err(fault(at));
        }
        let room = room(size, K);
        if children == 0 || children > room {
            return Err(fault(at));
        }
        view.check(at, size)?;
        Ok(Node {
            at,
            level: level as u8,
            children: children as u16,
            room: room as u16,
            tallied,
        })
    }

    #[inline(always)]
    pub(crate) fn children(&self) -> usize {
        self.children.into()
    }

    pub(crate) fn level(&self) -> usize {
        self.level.into()
    }

    /// Returns whether the node has a tally (cached totals of its subtree).
    #[inline(always)]
    pub(crate) fn is_tallied(&self) -> bool {
        self.tallied
    }

    /// Returns the size of the node in bytes.
    pub(crate) fn size(&self) -> u64 {
        let size = SIZES.into_iter();
        size.filter(|size| room(*size, K) <= self.room.into())
            .max()
            .unwrap_or_default()
    }

    /// Returns the offset of the word with the start position of a child. The word after the last
    /// child's word is the end position of the last child.
    #[inline(always)]
    fn start_at(&self, index: usize) -> Offset {
        self.at + HEADER + index as u64 * 8
    }

    #[inline(always)]
    fn child_at(&self, index: usize) -> Offset {
        self.start_at(index + usize::from(self.room) + 1)
    }

    fn note_at(&self, index: usize) -> Offset {
        self.start_at(usize::from(self.room) * 2 + 1 + index * K)
    }

    fn header(level: usize, children: usize, size: u64) -> u64 {
        level as u64 | (children as u64) << 16 | size << 32
    }

    /// Returns a child and the number of items in its subtree.
    #[inline(always)]
    pub(crate) fn child(&self, view: &View<'_>, index: usize) -> Result<(Offset, u64), Error> {
        if index >= self.children() {
            return Err(fault(self.at));
        }
        let block = view.block(self.at)?;
        let word = |at: Offset| block.word(at - self.at);
        let (start, end) = (word(self.start_at(index))?, word(self.start_at(index + 1))?);
        Ok((word(self.child_at(index))?, end.wrapping_sub(start)))
    }

    /// Returns the last child whose key satisfies `before`, or the first child if no key does. The
    /// keys that satisfy `before` must be a prefix of all keys. O(log children).
    #[inline]
    pub(crate) fn seek_key(
        &self,
        view: &View<'_>,
        mut before: impl FnMut([u64; K]) -> Result<bool, Error>,
    ) -> Result<usize, Error> {
        let block = view.block(self.at)?;
        let keys = self.note_at(0) - self.at;
        let (mut low, mut high) = (0, self.children());
        while high - low > 1 {
            let middle = (low + high) / 2;
            let mut key = [0; K];
            for (word, value) in key.iter_mut().enumerate() {
                *value = block.word(keys + (middle * K + word) as u64 * 8)?;
            }
            if before(key)? {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Finds the child that contains the item at `position`. Returns the index of the child and the
    /// number of items before it. If `position` is the end, the child is the last child. `total` is
    /// the number of items below the node. O(log children), or a single probe if the children have
    /// similar item counts.
    #[inline]
    pub(crate) fn seek(
        &self,
        view: &View<'_>,
        total: u64,
        position: u64,
    ) -> Result<(usize, u64), Error> {
        let words = view.block(self.at)?;
        let start = |index: usize| words.word(HEADER + index as u64 * 8);
        let base = start(0)?;
        // The child is in `low..high`, and is usually the guess or a neighbor of the guess.
        let (mut low, mut high) = (0, self.children());
        let mut guess = guess(total, position, high);
        let mut beside = BESIDE;
        while high - low > 1 {
            let before = start(guess)?.wrapping_sub(base);
            if before > position {
                high = guess;
                guess = guess.saturating_sub(1);
            } else if guess + 1 == high || start(guess + 1)?.wrapping_sub(base) > position {
                return Ok((guess, before));
            } else {
                low = guess + 1;
                guess = low;
            }
            match beside {
                0 => guess = (low + high) / 2,
                _ => beside -= 1,
            }
        }
        Ok((low, start(low)?.wrapping_sub(base)))
    }

    /// Prefetches the cache lines that [`seek`](Self::seek) will read, before the header has been
    /// read. Assumes a full node whose children have similar item counts.
    #[inline]
    pub(crate) fn prefetch(view: &View<'_>, at: Offset, total: u64, position: u64) {
        let places = children_max(K);
        let starts = at.wrapping_add(HEADER);
        let place = guess(total, position, places) as u64;
        view.prefetch(at);
        view.prefetch(starts.wrapping_add(place * 8));
        view.prefetch(starts.wrapping_add((places as u64 + 1 + place) * 8));
    }

    /// Returns the number of items below the children before `index`.
    pub(crate) fn count_before(&self, view: &View<'_>, index: usize) -> Result<u64, Error> {
        let start = view.word(self.start_at(index))?;
        Ok(start.wrapping_sub(view.word(self.start_at(0))?))
    }

    /// Returns all children of the node.
    pub(crate) fn load_children(&self, view: &View<'_>) -> Result<Vec<Child<K>>, Error> {
        let block = view.block(self.at)?;
        let word = |at: Offset| block.word(at - self.at);
        let mut children = Vec::with_capacity(self.children() + 1);
        let mut start = word(self.start_at(0))?;
        for index in 0..self.children() {
            let end = word(self.start_at(index + 1))?;
            let mut note = [0; K];
            for (value, at) in note.iter_mut().zip((self.note_at(index)..).step_by(8)) {
                *value = word(at)?;
            }
            children.push(Child {
                at: word(self.child_at(index))?,
                count: end.wrapping_sub(start),
                note,
            });
            start = end;
        }
        Ok(children)
    }

    /// Adds to the number of items below a child, by shifting the positions on the side that has
    /// fewer children. O(1) for the first and the last child, otherwise O(children).
    #[inline]
    pub(crate) fn add(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        index: usize,
        change: i64,
    ) -> Result<(), Error> {
        self.forget_tally(transaction, shard)?;
        let children = self.children();
        let (from, to, change) = if index * 2 < children {
            (0, index + 1, change.wrapping_neg())
        } else {
            (index + 1, children + 1, change)
        };
        let (at, words) = (self.start_at(from), (to - from) as u64);
        if words == 1 {
            // This is the common case, in which the tree grows at either end.
            let start = transaction.view().word(at)?;
            return Ok(transaction.store(shard, at, start.wrapping_add(change as u64))?);
        }
        Ok(transaction.add_to_words(shard, at, words, change as u64)?)
    }

    /// Returns the note (the `K` words) that the node stores about a child.
    #[inline(always)]
    pub(crate) fn note(&self, view: &View<'_>, index: usize) -> Result<[u64; K], Error> {
        Ok(view.words::<K>(self.note_at(index))?)
    }

    /// Changes the note (the `K` words) about a child. Returns whether the new note differs from
    /// the old note.
    pub(crate) fn set_note(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        index: usize,
        note: &[u64; K],
    ) -> Result<bool, Error> {
        let mut changed = false;
        for (word, &value) in note.iter().enumerate() {
            let at = self.note_at(index) + word as u64 * 8;
            if transaction.view().word(at)? != value {
                transaction.store(shard, at, value)?;
                changed = true;
            }
        }
        Ok(changed)
    }

    /// Returns whether the node has room for `children` children.
    pub(crate) fn fits(&self, children: usize) -> bool {
        children <= usize::from(self.room)
    }

    /// Replaces all children starting at index `first`. The new children must fit in the node.
    pub(crate) fn set_children(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        first: usize,
        children: &[Child<K>],
    ) -> Result<(), Error> {
        self.forget_tally(transaction, shard)?;
        let changed = &children[first.min(children.len())..];
        if !changed.is_empty() {
            let start = transaction.view().word(self.start_at(first))?;
            let starts: Vec<u8> = words(starts(start, changed).skip(1));
            transaction.write(shard, self.start_at(first + 1), &starts)?;
            let offsets: Vec<u8> = words(changed.iter().map(|child| child.at));
            transaction.write(shard, self.child_at(first), &offsets)?;
            if K > 0 {
                let notes: Vec<u8> = words(changed.iter().flat_map(|child| child.note));
                transaction.write(shard, self.note_at(first), &notes)?;
            }
        }
        if children.len() != self.children() {
            let size = transaction.view().word(self.at)? >> 32;
            let header = Self::header(self.level(), children.len(), size);
            transaction.store(shard, self.at, header)?;
        }
        Ok(())
    }

    /// Creates a node with the given children, of which there must be at least one.
    pub(crate) fn create<M: Merge<K>>(
        transaction: &mut Transaction<'_>,
        pool: Pool,
        level: usize,
        children: &[Child<K>],
    ) -> Result<Child<K>, Error> {
        let needed = children.len() as u64;
        let fits = SIZES.into_iter().find(|&size| needed <= room(size, K));
        let (Some(size), false) = (fits, children.is_empty()) else {
            return Err(fault(0));
        };
        let at = transaction.allocate(pool, size)?;
        let node = Node::<K> {
            at,
            level: level as u8,
            children: needed as u16,
            room: room(size, K) as u16,
            tallied: false,
        };
        transaction.fill_word(at, Self::header(level, children.len(), size))?;
        let starts: Vec<u8> = words(starts(0, children));
        transaction.fill(node.start_at(0), &starts)?;
        let offsets: Vec<u8> = words(children.iter().map(|child| child.at));
        transaction.fill(node.child_at(0), &offsets)?;
        if K > 0 {
            let notes: Vec<u8> = words(children.iter().flat_map(|child| child.note));
            transaction.fill(node.note_at(0), &notes)?;
        }
        Ok(Child {
            at,
            count: children.iter().map(|child| child.count).sum(),
            note: M::of(children),
        })
    }
}

/// Returns the positions at which the children begin, with `start` for the first child, followed by
/// the end of the last child.
fn starts<const K: usize>(start: u64, children: &[Child<K>]) -> impl Iterator<Item = u64> {
    let counts = children.iter().map(|child| child.count);
    let ends = counts.scan(start, |end, count| {
        *end = end.wrapping_add(count);
        Some(*end)
    });
    std::iter::once(start).chain(ends)
}

/// Estimates the index of the child that contains the item at `position`, assuming that all
/// children have the same number of items.
#[inline(always)]
fn guess(total: u64, position: u64, children: usize) -> usize {
    let share = position.saturating_mul(children as u64) / total.max(1);
    share.min(children as u64 - 1) as usize
}

fn words(values: impl Iterator<Item = u64>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SIZES[SIZES.len() - 1] as usize);
    values.for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
    bytes
}

/// Returns the error for a tree that is damaged at offset `at`.
pub(super) fn fault(at: Offset) -> Error {
    Fault {
        at,
        what: "a tree with consistent counts",
    }
    .into()
}
