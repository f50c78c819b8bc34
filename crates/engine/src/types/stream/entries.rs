//! Implements the tree of a stream's entries.

use undercroft_memory::{Offset, Pool, Transaction, View};

use super::StreamLimits;
use super::found::StreamEntries;
use super::id::StreamId;
use super::leaves::last_read::{LastRead, with_last_read};
use super::leaves::leaf::{LEAF_USUAL, Leaf, fault};
use super::leaves::leaf_edit::{Appended, Draft, with_buffers};
use crate::error::Error;
use crate::structures::tree::{Builder, Child, Least, Merge, Node, Place, Subtree, Tree};

/// The tree of a stream's entries. For each child, a node stores the base ID of the child's first
/// leaf, which is not greater than the ID of the leaf's first entry.
pub(super) type Entries = Tree<2, ById>;

/// Specifies that inner nodes in a tree of entries store an ID for each child.
#[derive(Clone, Copy, Debug)]
pub(super) struct ById;

impl Merge<2> for ById {
    #[inline(always)]
    fn of(children: &[Child<2>]) -> [u64; 2] {
        Least::of(children)
    }

    #[inline(always)]
    fn above(
        view: &View<'_>,
        node: &Node<2>,
        index: usize,
        note: [u64; 2],
    ) -> Result<Option<[u64; 2]>, Error> {
        Least::above(view, node, index, note)
    }
}

/// The range of entries to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRange {
    /// The lowest ID in the range.
    pub from: StreamId,
    /// The highest ID in the range.
    pub to: StreamId,
    /// The maximum number of entries to read.
    pub count: u64,
    /// Whether entries are read in reverse order, starting at the end of the range.
    pub reverse: bool,
}

impl IdRange {
    /// The range that contains all entries.
    pub const ALL: IdRange = IdRange {
        from: StreamId::MIN,
        to: StreamId::MAX,
        count: u64::MAX,
        reverse: false,
    };
}

impl Entries {
    /// Returns the leaf that contains an ID, or the leaf into which the ID would be inserted.
    fn seek(&self, view: &View<'_>, id: StreamId) -> Result<Place<2>, Error> {
        self.find_by(view, |note| Ok(StreamId::of_words(note) <= id))
    }

    /// Appends the entries in a range to `out`. O(log n + entries).
    pub(super) fn append_range(
        &self,
        view: &View<'_>,
        range: IdRange,
        out: &mut StreamEntries,
    ) -> Result<(), Error> {
        if self.count() == 0 || range.from > range.to || range.count == 0 {
            return Ok(());
        }
        let first = if range.reverse { range.to } else { range.from };
        let place = self.seek(view, first)?;
        with_buffers(|buffers| match range.reverse {
            false => with_last_read(|finger| {
                append_forwards(view, place, range, (&mut buffers.leaf, finger), out)
            }),
            true => append_backwards(view, place, range, &mut buffers.leaf, out),
        })
    }

    /// Returns the number of entries whose IDs are less than `id`. O(log n).
    pub(super) fn count_before(&self, view: &View<'_>, id: StreamId) -> Result<u64, Error> {
        if self.count() == 0 {
            return Ok(0);
        }
        let place = self.seek(view, id)?;
        let leaf = Leaf::load(view, place.leaf)?;
        with_buffers(|buffers| {
            let mut before = 0;
            for spot in leaf.image(view, &mut buffers.leaf)?.spots() {
                if spot?.id >= id {
                    break;
                }
                before += 1;
            }
            Ok(place.before.wrapping_add(before))
        })
    }

    /// Returns the ID of the first or last entry, or `None` if there are no entries. O(log n).
    pub(super) fn edge(&self, view: &View<'_>, last: bool) -> Result<Option<StreamId>, Error> {
        if self.count() == 0 {
            return Ok(None);
        }
        let place = self.find_end(view, last)?;
        let leaf = Leaf::load(view, place.leaf)?;
        with_buffers(|buffers| {
            let image = leaf.image(view, &mut buffers.leaf)?;
            let mut spots = image.spots();
            let spot = if last { spots.last() } else { spots.next() };
            Ok(Some(spot.ok_or_else(|| fault(leaf.at))??.id))
        })
    }

    /// Appends an entry after the last entry. If this adds a leaf to existing leaves, returns the
    /// number of bytes used in the previous leaf. O(log n + length of the entry).
    pub(super) fn push(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        (id, texts): (StreamId, &[&[u8]]),
        limits: &StreamLimits,
    ) -> Result<Option<u64>, Error> {
        let shard = pool.shard();
        let found = self.find_end(transaction.view(), true);
        // Borrow the `Place` from the result, because moving a value of this size is slow.
        let Ok(place) = &found else {
            return found.map(|_| None);
        };
        if self.root() != 0 {
            let mut leaf = Leaf::load(transaction.view(), place.leaf)?;
            let appended = if leaf.is_full(texts, limits) {
                Appended::Full
            } else {
                with_buffers(|buffers| leaf.append(transaction, shard, (id, texts), buffers))?
            };
            match appended {
                Appended::Here => {
                    self.add(transaction, shard, &place.path, 1)?;
                    return Ok(None);
                }
                Appended::Larger(bytes) => {
                    // At most double the used size, up to the usual leaf size, because the stream
                    // might not receive any more entries.
                    let more = leaf.used().min(LEAF_USUAL.saturating_sub(leaf.used()));
                    let room = bytes.max(more);
                    let old = leaf.at;
                    leaf = leaf.copy(transaction, pool, room)?;
                    let appended = with_buffers(|buffers| {
                        leaf.append(transaction, shard, (id, texts), buffers)
                    })?;
                    if appended != Appended::Here {
                        return Err(fault(old));
                    }
                    transaction.free(pool, old);
                    let child = leaf.child();
                    self.splice(transaction, pool, &place.path, 1, &[child])?;
                    return Ok(None);
                }
                Appended::Full => {}
            }
            let hint = leaf.used();
            let child = leaf.child();
            let new = Leaf::create(transaction, pool, (id, texts), hint)?;
            if leaf.count > 0 {
                self.splice(transaction, pool, &place.path, 1, &[child, new.child()])?;
            } else {
                transaction.free(pool, leaf.at);
                self.splice(transaction, pool, &place.path, 1, &[new.child()])?;
            }
            return Ok(Some(hint as u64));
        }
        let new = Leaf::create(transaction, pool, (id, texts), 0)?;
        self.splice(transaction, pool, &place.path, 1, &[new.child()])?;
        Ok(None)
    }

    /// Removes an entry. Returns whether the entry existed. O(log n).
    pub(super) fn remove(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        id: StreamId,
    ) -> Result<bool, Error> {
        if self.count() == 0 {
            return Ok(false);
        }
        let place = self.seek(transaction.view(), id)?;
        let mut leaf = Leaf::load(transaction.view(), place.leaf)?;
        let (mut buffer, mut found) = (Vec::new(), None);
        for spot in leaf.image(transaction.view(), &mut buffer)?.spots() {
            let spot = spot?;
            if spot.id >= id {
                found = (spot.id == id).then_some(spot);
                break;
            }
        }
        let Some(spot) = found else {
            return Ok(false);
        };
        if leaf.count == 1 {
            transaction.free(pool, leaf.at);
            self.splice(transaction, pool, &place.path, 1, &[])?;
            return Ok(true);
        }
        leaf.drop_one(transaction, pool.shard(), spot, &mut buffer)?;
        if leaf.is_sparse() {
            // Move the remaining entries to a small leaf, because they might never be removed.
            let small = leaf.copy(transaction, pool, 0)?;
            transaction.free(pool, leaf.at);
            self.splice(transaction, pool, &place.path, 1, &[small.child()])?;
        } else {
            self.add(transaction, pool.shard(), &place.path, -1)?;
        }
        Ok(true)
    }

    /// Returns the number of entries that can be removed by freeing complete leaves. Considers the
    /// first `entries` entries, but at most `most` of them. O(log n).
    pub(super) fn whole_leaves(
        &self,
        view: &View<'_>,
        entries: u64,
        most: u64,
    ) -> Result<u64, Error> {
        let position = entries.min(most);
        if position >= self.count() {
            return Ok(self.count());
        }
        Ok(self.find(view, position)?.before)
    }

    /// Finds a leaf that must not be freed because of its tombstone, the remains of its deleted
    /// last entry. Returns the number of entries before that leaf if the first `entries` entries
    /// include all entries of the leaf and the tombstone's ID is at least `id`. O(log n).
    pub(super) fn before_tombstone(
        &self,
        view: &View<'_>,
        entries: u64,
        id: StreamId,
    ) -> Result<Option<u64>, Error> {
        let Some(last) = entries.checked_sub(1) else {
            return Ok(None);
        };
        let place = self.find(view, last)?;
        let is_whole = place.before.wrapping_add(place.count) == entries;
        let stays =
            is_whole && tombstone(view, place.leaf)?.is_some_and(|tombstone| tombstone >= id);
        Ok(stays.then_some(place.before))
    }

    /// Removes all entries but keeps the last leaf with its tombstone (the remains of its deleted
    /// last entry), so that later entries are added to that leaf. Appends the detached subtrees to
    /// `off`, which the caller must free. O(log n).
    pub(super) fn drop_to_tombstone(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        off: &mut Vec<Subtree>,
    ) -> Result<(), Error> {
        let before = self.find_end(transaction.view(), true)?.before;
        self.cut(transaction, pool, 0, before, off)?;
        let place = self.find_end(transaction.view(), true)?;
        let mut leaf = Leaf::load(transaction.view(), place.leaf)?;
        leaf.drop_all(transaction, pool.shard())?;
        self.add(
            transaction,
            pool.shard(),
            &place.path,
            -(place.count as i64),
        )
    }

    /// If a stream without entries still has a leaf, frees this leaf if the ID of its tombstone
    /// (the remains of its deleted last entry) is less than `id`.
    pub(super) fn drop_tombstone(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        id: StreamId,
    ) -> Result<(), Error> {
        if self.root() == 0 || self.count() > 0 {
            return Ok(());
        }
        match tombstone(transaction.view(), self.root())? {
            Some(tombstone) if tombstone < id => self.drop_empty(transaction, pool),
            _ => Ok(()),
        }
    }

    /// If a stream without entries still has a leaf, frees this leaf if its base ID is greater than
    /// `id`, because the IDs of later entries could be less than the base.
    pub(super) fn drop_behind(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        id: StreamId,
    ) -> Result<(), Error> {
        let there = self.root() != 0 && self.count() == 0;
        match there && Leaf::load(transaction.view(), self.root())?.base > id {
            true => self.drop_empty(transaction, pool),
            false => Ok(()),
        }
    }

    fn drop_empty(&mut self, transaction: &mut Transaction<'_>, pool: Pool) -> Result<(), Error> {
        let place = self.find_end(transaction.view(), true)?;
        transaction.free(pool, place.leaf);
        self.splice(transaction, pool, &place.path, 1, &[])
    }

    /// Removes the first `entries` entries. Appends the detached subtrees to `off`, which the
    /// caller must free. O(log n).
    pub(super) fn drop_first(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        entries: u64,
        off: &mut Vec<Subtree>,
    ) -> Result<(), Error> {
        let entries = entries.min(self.count());
        if entries == 0 {
            return Ok(());
        }
        if entries == self.count() {
            return self.cut(transaction, pool, 0, entries, off);
        }
        let place = self.find(transaction.view(), entries)?;
        let inside = entries.wrapping_sub(place.before);
        if inside > 0 {
            let mut leaf = Leaf::load(transaction.view(), place.leaf)?;
            if inside >= leaf.count as u64 {
                return Err(fault(leaf.at));
            }
            let shard = pool.shard();
            leaf.drop_first(transaction, shard, inside as usize, &mut Vec::new())?;
            self.add(transaction, shard, &place.path, -(inside as i64))?;
        }
        self.cut(transaction, pool, 0, place.before, off)
    }
}

/// Returns the ID of a leaf's tombstone (the remains of its deleted last entry), or `None` if the
/// leaf has no tombstone.
fn tombstone(view: &View<'_>, at: Offset) -> Result<Option<StreamId>, Error> {
    let leaf = Leaf::load(view, at)?;
    if !leaf.has_tombstone {
        return Ok(None);
    }
    with_buffers(|buffers| Ok(leaf.image(view, &mut buffers.leaf)?.behind()?.1))
}

/// Appends the entries in a range to `out`, starting in the leaf at `place` and continuing in later
/// leaves.
fn append_forwards(
    view: &View<'_>,
    mut place: Place<2>,
    range: IdRange,
    (buffer, finger): (&mut Vec<u8>, &mut LastRead),
    out: &mut StreamEntries,
) -> Result<(), Error> {
    let mut left = range.count;
    loop {
        let leaf = Leaf::load(view, place.leaf)?;
        if left > 1
            && let Some(next) = place.next_leaf(view)
        {
            view.prefetch_range(next, 256);
        }
        let (rest, reached) = {
            let image = leaf.image(view, buffer)?;
            let mut reached = finger.find(&image, range.from);
            let rest = image.append_range((range.from, range.to), left, &mut reached, out)?;
            (rest, reached)
        };
        finger.keep(&leaf, reached, buffer);
        match rest {
            Some(rest) => left = rest,
            None => return Ok(()),
        }
        // Revalidate the view, so that a loop over a torn tree stops early (R3).
        view.recheck()?;
        if !place.step(view, true)? {
            return Ok(());
        }
    }
}

/// Appends the entries in a range to `out` in reverse order, starting in the leaf at `place` and
/// continuing in earlier leaves.
fn append_backwards(
    view: &View<'_>,
    mut place: Place<2>,
    range: IdRange,
    buffer: &mut Vec<u8>,
    out: &mut StreamEntries,
) -> Result<(), Error> {
    let (mut left, mut spots) = (range.count, Vec::new());
    loop {
        let leaf = Leaf::load(view, place.leaf)?;
        let image = leaf.image(view, buffer)?;
        spots.clear();
        for spot in image.spots() {
            let spot = spot?;
            if (range.from..=range.to).contains(&spot.id) {
                spots.push(spot);
            }
        }
        for spot in spots.iter().rev() {
            image.append(spot.start, out)?;
            left -= 1;
            if left == 0 {
                return Ok(());
            }
        }
        // Revalidate the view, so that a loop over a torn tree stops early (R3).
        view.recheck()?;
        if leaf.base < range.from || !place.step(view, false)? {
            return Ok(());
        }
    }
}

/// Builds a tree from entries, which must be in order. Returns the tree's root words.
pub(super) fn build(
    transaction: &mut Transaction<'_>,
    pool: Pool,
    entries: &[(StreamId, Vec<&[u8]>)],
) -> Result<[u64; 3], Error> {
    let limits = StreamLimits::DEFAULT;
    let mut builder: Builder<2, ById> = Builder::new();
    let mut draft: Option<Draft> = None;
    for (id, texts) in entries {
        if let Some(draft) = &mut draft
            && draft.push((*id, texts), &limits)?
        {
            continue;
        }
        if let Some(full) = draft.replace(Draft::new(*id, texts)) {
            let leaf = full.put(transaction, pool)?;
            builder.push(transaction, pool, leaf)?;
        }
    }
    let Some(last) = draft else {
        return Ok([0; 3]);
    };
    let leaf = last.put(transaction, pool)?;
    builder.push(transaction, pool, leaf)?;
    builder.finish(transaction, pool)
}
