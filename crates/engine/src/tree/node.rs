//! An inner node: its layout, reading it, changing one child of it.

use undercroft_memory::{Offset, Pool, Transaction, View};

use super::fault;
use crate::error::Error;

/// Sizes of inner nodes in bytes: small trees have small ones.
const SIZES: [u64; 3] = [256, 1024, 4096];
const HEADER: u64 = 8;

/// A subtree as the node above it refers to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Child<const K: usize> {
    pub(crate) at: Offset,
    /// Items in it.
    pub(crate) count: u64,
    /// Its least key.
    pub(crate) key: [u64; K],
}

/// An inner node whose header was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<const K: usize> {
    pub(crate) at: Offset,
    level: u8,
    children: u16,
    /// Children that it has room for.
    room: u16,
}

/// Children in the largest node.
pub(crate) const fn children_max(key_words: usize) -> usize {
    ((SIZES[SIZES.len() - 1] - HEADER) / (16 + 8 * key_words as u64)) as usize
}

fn room(size: u64, key_words: usize) -> u64 {
    (size - HEADER) / (16 + 8 * key_words as u64)
}

impl<const K: usize> Node<K> {
    pub(crate) const NONE: Node<K> = Node {
        at: 0,
        level: 0,
        children: 0,
        room: 0,
    };

    /// Reads the header of a node of this level.
    #[inline]
    pub(crate) fn load(view: &View<'_>, at: Offset, level: usize) -> Result<Node<K>, Error> {
        let header = view.word(at)?;
        let (children, size) = (header >> 16 & 0xffff, header >> 32);
        if header & 0xffff != level as u64 || !SIZES.contains(&size) {
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
        })
    }

    #[inline(always)]
    pub(crate) fn children(&self) -> usize {
        self.children.into()
    }

    pub(crate) fn level(&self) -> usize {
        self.level.into()
    }

    #[inline(always)]
    fn count_at(&self, index: usize) -> Offset {
        self.at + HEADER + index as u64 * 8
    }

    #[inline(always)]
    fn child_at(&self, index: usize) -> Offset {
        self.count_at(index + usize::from(self.room))
    }

    fn key_at(&self, index: usize) -> Offset {
        self.count_at(usize::from(self.room) * 2 + index * K)
    }

    fn header(level: usize, children: usize, size: u64) -> u64 {
        level as u64 | (children as u64) << 16 | size << 32
    }

    /// A child, with the number of items below it.
    #[inline(always)]
    pub(crate) fn child(&self, view: &View<'_>, index: usize) -> Result<(Offset, u64), Error> {
        if index >= self.children() {
            return Err(fault(self.at));
        }
        Ok((
            view.word(self.child_at(index))?,
            view.word(self.count_at(index))?,
        ))
    }

    pub(crate) fn key(&self, view: &View<'_>, index: usize) -> Result<[u64; K], Error> {
        Ok(view.words::<K>(self.key_at(index))?)
    }

    /// The child that holds the item at a position, with the number of items
    /// before it; the last child where the position is the end. `total` is the
    /// number of items below the node. The search begins at the nearer end.
    #[inline]
    pub(crate) fn seek(
        &self,
        view: &View<'_>,
        total: u64,
        position: u64,
    ) -> Result<(usize, u64), Error> {
        let (counts, children) = (self.count_at(0), self.children());
        if position < total / 2 {
            let (index, before) = view.add_up(counts, children, false, position)?;
            return if index < children {
                Ok((index, before))
            } else {
                Err(fault(self.at))
            };
        }
        let behind = total.checked_sub(position).ok_or_else(|| fault(self.at))?;
        // The end belongs to the last child.
        let limit = behind.saturating_sub(1);
        let (skipped, seen) = view.add_up(counts, children, true, limit)?;
        let index = children.checked_sub(skipped + 1);
        let index = index.ok_or_else(|| fault(self.at))?;
        let seen = seen.wrapping_add(view.word(self.count_at(index))?);
        let before = total.checked_sub(seen).ok_or_else(|| fault(self.at))?;
        Ok((index, before))
    }

    /// Asks for the cache lines that [`seek`](Self::seek) will look at in a full
    /// node whose children have about as many items each, before its header was
    /// read.
    #[inline]
    pub(crate) fn prefetch(view: &View<'_>, at: Offset, total: u64, position: u64) {
        let places = children_max(K) as u64;
        let share = position.saturating_mul(places) / total.max(1);
        let guess = share.min(places - 1);
        let counts = at.wrapping_add(HEADER);
        let line = 8;
        let (from, to) = if position < total / 2 {
            (0, guess + line)
        } else {
            (guess.saturating_sub(line), places)
        };
        view.prefetch(at);
        view.prefetch_range(counts.wrapping_add(from * 8), (to - from) * 8);
        view.prefetch(counts.wrapping_add((places + guess) * 8));
    }

    /// Items below the children before one; `total` is the number below the
    /// node. They are added up from the nearer end.
    pub(crate) fn count_before(
        &self,
        view: &View<'_>,
        total: u64,
        index: usize,
    ) -> Result<u64, Error> {
        let sum = |from: usize, to: usize| -> Result<u64, Error> {
            let added = view.add_up(self.count_at(from), to - from, false, u64::MAX)?;
            Ok(added.1)
        };
        if index <= self.children() / 2 {
            sum(0, index)
        } else {
            Ok(total.wrapping_sub(sum(index, self.children())?))
        }
    }

    /// All children.
    pub(crate) fn load_children(&self, view: &View<'_>) -> Result<Vec<Child<K>>, Error> {
        let mut children = Vec::with_capacity(self.children());
        for index in 0..self.children() {
            let (at, count) = self.child(view, index)?;
            let key = self.key(view, index)?;
            children.push(Child { at, count, key });
        }
        Ok(children)
    }

    #[inline]
    pub(crate) fn add(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        index: usize,
        change: i64,
    ) -> Result<(), Error> {
        let at = self.count_at(index);
        let count = transaction.view().word(at)?.wrapping_add_signed(change);
        Ok(transaction.store(shard, at, count)?)
    }

    pub(crate) fn set_key(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        index: usize,
        key: &[u64; K],
    ) -> Result<(), Error> {
        for (word, &value) in key.iter().enumerate() {
            let at = self.key_at(index) + word as u64 * 8;
            if transaction.view().word(at)? != value {
                transaction.store(shard, at, value)?;
            }
        }
        Ok(())
    }

    /// Whether so many children fit.
    pub(crate) fn fits(&self, children: usize) -> bool {
        children <= usize::from(self.room)
    }

    /// Gives the node other children, of which those before `first` stay as
    /// they are. They must fit.
    pub(crate) fn set_children(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        first: usize,
        children: &[Child<K>],
    ) -> Result<(), Error> {
        let changed = &children[first.min(children.len())..];
        if !changed.is_empty() {
            let counts: Vec<u8> = words(changed.iter().map(|child| child.count));
            transaction.write(shard, self.count_at(first), &counts)?;
            let offsets: Vec<u8> = words(changed.iter().map(|child| child.at));
            transaction.write(shard, self.child_at(first), &offsets)?;
            if K > 0 {
                let keys: Vec<u8> = words(changed.iter().flat_map(|child| child.key));
                transaction.write(shard, self.key_at(first), &keys)?;
            }
        }
        if children.len() != self.children() {
            let size = transaction.view().word(self.at)? >> 32;
            let header = Self::header(self.level(), children.len(), size);
            transaction.store(shard, self.at, header)?;
        }
        Ok(())
    }

    /// Makes a node of some children, at least one.
    pub(crate) fn create(
        transaction: &mut Transaction<'_>,
        pool: Pool,
        level: usize,
        children: &[Child<K>],
    ) -> Result<Child<K>, Error> {
        let needed = children.len() as u64;
        let fits = SIZES.into_iter().find(|&size| needed <= room(size, K));
        let (Some(size), Some(first)) = (fits, children.first()) else {
            return Err(fault(0));
        };
        let at = transaction.allocate(pool, size)?;
        let node = Node::<K> {
            at,
            level: level as u8,
            children: needed as u16,
            room: room(size, K) as u16,
        };
        transaction.fill_word(at, Self::header(level, children.len(), size))?;
        let counts: Vec<u8> = words(children.iter().map(|child| child.count));
        transaction.fill(node.count_at(0), &counts)?;
        let offsets: Vec<u8> = words(children.iter().map(|child| child.at));
        transaction.fill(node.child_at(0), &offsets)?;
        if K > 0 {
            let keys: Vec<u8> = words(children.iter().flat_map(|child| child.key));
            transaction.fill(node.key_at(0), &keys)?;
        }
        Ok(Child {
            at,
            count: children.iter().map(|child| child.count).sum(),
            key: first.key,
        })
    }
}

fn words(values: impl Iterator<Item = u64>) -> Vec<u8> {
    values.flat_map(u64::to_le_bytes).collect()
}
