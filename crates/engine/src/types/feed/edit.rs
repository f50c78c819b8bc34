//! Changes the leaves of a feed: inserts, removes and hides items.
//!
//! Items that are added at an end of a leaf are written to unused space, so that only the leaf's
//! header is logged. An insertion inside a leaf moves and logs the items on one side of it. An
//! overfull leaf is split, and a leaf with few items is merged with its neighbor.

use smallvec::{SmallVec, smallvec};
use undercroft_memory::{Pool, Transaction};

use super::index::Index;
use super::indexed::words_of;
use super::leaves::image::{Grows, Image, divide, runs};
use super::leaves::labels;
use super::leaves::leaf::load_leaf;
use super::leaves::leaf::{HIDDEN, Layout, Leaf};
use super::leaves::summary::{LABEL, NOTE_WORDS, Note, join};
use super::query::walk::Found;
use super::root::{Feed, FeedBuilder, Made};
use super::schema::Schema;
use crate::error::Error;
use crate::structures::tree::{Child, Place};

/// The maximum number of items that one step inserts, measured in full leaves. The new leaves must
/// be inserted into the tree in one splice.
const STEP_LEAVES: usize = 32;
/// The number of leaves after which a removal that commits in parts can end a part.
const LEAVES_IN_A_PART: usize = 1;

impl Feed {
    /// Loads the leaf at a location in the tree.
    fn leaf(
        &self,
        transaction: &Transaction<'_>,
        place: &Place<NOTE_WORDS>,
    ) -> Result<Leaf, Error> {
        let view = transaction.view();
        load_leaf(view, place.leaf, &self.full, &self.schema, place.count)
    }

    /// Inserts items before the item at `position`, or at the end if there is no such item. O(log n
    /// + items).
    pub(super) fn insert(
        &mut self,
        transaction: &mut Transaction<'_>,
        position: u64,
        (rows, mut todo): (&Image, std::ops::Range<usize>),
    ) -> Result<(), Error> {
        let step = self.full.places * STEP_LEAVES;
        let at_end = position >= self.tree.count();
        // Each step moves the end of the feed, so use the maximum position to refer to the end.
        let position = if at_end { u64::MAX } else { position };
        while !todo.is_empty() {
            // At the end of the feed, insert the first items first. Elsewhere, insert the last
            // items first, so that every step inserts at the same position.
            let some = if at_end {
                todo.start..todo.end.min(todo.start + step)
            } else {
                todo.start.max(todo.end.saturating_sub(step))..todo.end
            };
            if at_end {
                todo.start = some.end;
            } else {
                todo.end = some.start;
            }
            let more = rows.note(&self.schema, some.clone());
            self.insert_step(transaction, position, (rows, some), more)?;
            self.set_hidden(transaction, self.hidden + more[0])?;
            self.tell_index(transaction)?;
        }
        Ok(())
    }

    /// Inserts a batch of items whose leaves fit in one splice of the tree. `more` is the note of
    /// the batch, which summarizes its items.
    pub(super) fn insert_step(
        &mut self,
        transaction: &mut Transaction<'_>,
        position: u64,
        (rows, some): (&Image, std::ops::Range<usize>),
        more: Note,
    ) -> Result<(), Error> {
        if self.tree.count() == 0 {
            let leaves = divide(&self.schema, &[(rows, some)], Grows::Right);
            let place = self.tree.find(transaction.view(), 0)?;
            self.splice(transaction, &place, 1, &leaves, None)
        } else if position >= self.tree.count() {
            self.insert_at_end(transaction, (rows, some), more, Grows::Right)
        } else if position == 0 {
            self.insert_at_end(transaction, (rows, some), more, Grows::Left)
        } else {
            self.insert_inside(transaction, position, (rows, some), more)
        }
    }

    /// Inserts items before the first item or after the last item of the feed. `more` is the note
    /// of the new items, which summarizes them.
    fn insert_at_end(
        &mut self,
        transaction: &mut Transaction<'_>,
        (rows, mut some): (&Image, std::ops::Range<usize>),
        more: Note,
        grows: Grows,
    ) -> Result<(), Error> {
        let right = grows == Grows::Right;
        let place = self.tree.find_end(transaction.view(), right)?;
        let leaf = self.leaf(transaction, &place)?;
        let room = if right {
            leaf.layout.places - leaf.end()
        } else {
            leaf.start
        };
        let count = room.min(some.len());
        if count > 0 {
            let places = if right {
                some.start..some.start + count
            } else {
                some.end - count..some.end
            };
            let part = (rows, places.clone());
            fill_end(transaction, self.pool.shard(), &leaf, part, right)?;
            if right {
                some.start = places.end;
            } else {
                some.end = places.start;
            }
            self.came(transaction, rows, places.clone(), leaf.at)?;
            let more = if some.is_empty() {
                more
            } else {
                rows.note(&self.schema, places)
            };
            self.grow(transaction, &place, count, more)?;
        }
        if some.is_empty() {
            return Ok(());
        }
        let place = self.tree.find_end(transaction.view(), right)?;
        let leaf = self.leaf(transaction, &place)?;
        let image = Image::load(transaction.view(), &leaf)?;
        if leaf.layout.size < self.full.size {
            // A leaf that is smaller than full size is the feed's only leaf, so replace it with
            // larger leaves.
            let mut parts = [(&image, image.places()), (rows, some)];
            if !right {
                parts.reverse();
            }
            let leaves = divide(&self.schema, &parts, grows);
            self.went(transaction, &image, image.places(), leaf.at)?;
            transaction.free(self.pool, leaf.at);
            return self.splice(transaction, &place, 1, &leaves, None);
        }
        let leaves = divide(&self.schema, &[(rows, some)], grows);
        let leaves: Vec<Image> = leaves
            .into_iter()
            .map(|leaf| leaf.enlarged(&self.full, grows))
            .collect();
        let note = match place.note(transaction.view())? {
            Some(note) => note,
            None => image.note(&self.schema, image.places()),
        };
        let old = Child {
            at: leaf.at,
            count: leaf.count as u64,
            note,
        };
        self.splice(transaction, &place, 1, &leaves, Some((old, right)))
    }

    /// Updates the counts and notes in the tree after items were added to a leaf.
    fn grow(
        &mut self,
        transaction: &mut Transaction<'_>,
        place: &Place<NOTE_WORDS>,
        count: usize,
        more: Note,
    ) -> Result<(), Error> {
        let shard = self.pool.shard();
        self.tree
            .add(transaction, shard, &place.path, count as i64)?;
        if let Some(note) = place.note(transaction.view())? {
            let joined = join(note, more);
            if joined != note {
                self.tree
                    .set_note(transaction, shard, &place.path, &joined)?;
            }
        }
        Ok(())
    }

    fn insert_inside(
        &mut self,
        transaction: &mut Transaction<'_>,
        position: u64,
        (rows, some): (&Image, std::ops::Range<usize>),
        more: Note,
    ) -> Result<(), Error> {
        let place = self.tree.find(transaction.view(), position)?;
        let leaf = self.leaf(transaction, &place)?;
        let (shard, index) = (self.pool.shard(), (position - place.before) as usize);
        if leaf.put_inside(transaction, shard, index, (rows, some.clone()))? {
            self.came(transaction, rows, some.clone(), leaf.at)?;
            return self.grow(transaction, &place, some.len(), more);
        }
        let old = Image::load(transaction.view(), &leaf)?;
        let at = old.start + index;
        let is_full = leaf.layout.size == self.full.size;
        if self.index.is_some() && is_full && some.len() < old.count / 2 {
            let mut new = Image::new(Layout::outside(&self.schema, some.len()));
            new.append(rows, some);
            return self.split(transaction, &place, (&leaf, &old), (at, &new));
        }
        let parts = [(&old, old.start..at), (rows, some), (&old, at..old.end())];
        let leaves = divide(&self.schema, &parts, Grows::Inside);
        self.went(transaction, &old, old.places(), leaf.at)?;
        transaction.free(self.pool, leaf.at);
        self.splice(transaction, &place, 1, &leaves, None)
    }

    /// Inserts items into a full leaf and splits the leaf. Half of the items stay in the old leaf,
    /// because the index must be updated for every item that moves to another leaf.
    fn split(
        &mut self,
        transaction: &mut Transaction<'_>,
        place: &Place<NOTE_WORDS>,
        (leaf, old): (&Leaf, &Image),
        (at, new): (usize, &Image),
    ) -> Result<(), Error> {
        let shard = self.pool.shard();
        let middle = old.start + old.count / 2;
        let mut left = old.clone();
        left.count = middle - old.start;
        let before = at.min(middle);
        let into_left = (at <= middle).then(|| left.with(before - old.start, new));
        let mut parts = vec![(old, middle..old.end())];
        match into_left.flatten() {
            Some(with) => {
                left = with;
                left.overwrite(transaction, shard, leaf.at, old)?;
                self.came(transaction, new, new.places(), leaf.at)?;
            }
            None => {
                left.store_fill(transaction, shard, leaf.at)?;
                transaction.note_cut();
                let at = at.max(middle);
                parts = vec![(old, middle..at), (new, new.places()), (old, at..old.end())];
            }
        }
        self.went(transaction, old, middle..old.end(), leaf.at)?;
        let right: Vec<Image> = divide(&self.schema, &parts, Grows::Inside)
            .into_iter()
            .map(|leaf| leaf.enlarged(&self.full, Grows::Inside))
            .collect();
        let stays = Child {
            at: leaf.at,
            count: left.count as u64,
            note: left.note(&self.schema, left.places()),
        };
        self.splice(transaction, place, 1, &right, Some((stays, true)))
    }

    /// Replaces `remove` leaves with new leaves. If `stays` is given, keeps that old leaf, as the
    /// first leaf if the flag is true, otherwise as the last leaf.
    fn splice(
        &mut self,
        transaction: &mut Transaction<'_>,
        place: &Place<NOTE_WORDS>,
        remove: usize,
        leaves: &[Image],
        stays: Option<(Child<NOTE_WORDS>, bool)>,
    ) -> Result<(), Error> {
        let side = stays.map(|(_, first)| first);
        let labels = self.labels(transaction, place, (remove, leaves.len()), side)?;
        let mut children = Vec::with_capacity(leaves.len() + 1);
        for (leaf, label) in leaves.iter().zip(labels) {
            let child = leaf.create(transaction, self.pool, &self.schema, label)?;
            self.came(transaction, leaf, leaf.places(), child.at)?;
            children.push(child);
        }
        if let Some((mut child, first)) = stays {
            child.note[LABEL] = Leaf::label(transaction.view(), child.at)?;
            children.insert(if first { 0 } else { children.len() }, child);
        }
        self.tree
            .splice(transaction, self.pool, &place.path, remove, &children)
    }

    /// Removes items, which must be given in feed order. O(leaves * log n).
    pub(super) fn remove(
        &mut self,
        transaction: &mut Transaction<'_>,
        found: &[Found],
    ) -> Result<(), Error> {
        // Start with the last leaf, so that the positions of earlier items stay valid.
        for (before, found) in found.iter().enumerate().rev() {
            let place = self.tree.find(transaction.view(), found.before)?;
            let leaf = self.leaf(transaction, &place)?;
            let old = Image::load(transaction.view(), &leaf)?;
            self.take(transaction, place, (&leaf, old), &found.masks, before == 0)?;
        }
        // Update the index only once, after all leaves, because the words of a single leaf are
        // scattered over many index blocks.
        self.tell_index(transaction)
    }

    /// Merges neighboring leaves that fit in one leaf, starting at the head. After each merge, the
    /// transaction can commit a part of its changes. This compacts a feed if the store has no room
    /// for a second copy. O(leaves * log n).
    pub(super) fn join_in_parts(&mut self, transaction: &mut Transaction<'_>) -> Result<(), Error> {
        let mut position = 0;
        while position < self.items() {
            let place = self.tree.find(transaction.view(), position)?;
            let leaf = self.leaf(transaction, &place)?;
            let view = transaction.view();
            let Some((at, count)) = place.sibling(view, true)? else {
                break;
            };
            let beside = load_leaf(view, at, &self.full, &self.schema, count)?;
            if leaf.count + beside.count > self.full.places {
                position = place.before + leaf.count as u64;
                continue;
            }
            let (mine, theirs) = (Image::load(view, &leaf)?, Image::load(view, &beside)?);
            let parts = [(&mine, mine.places()), (&theirs, theirs.places())];
            let joined = divide(&self.schema, &parts, Grows::Inside);
            self.went(transaction, &mine, mine.places(), leaf.at)?;
            self.went(transaction, &theirs, theirs.places(), at)?;
            transaction.free(self.pool, leaf.at);
            transaction.free(self.pool, at);
            let joined = joined
                .into_iter()
                .map(|leaf| leaf.enlarged(&self.full, Grows::Inside));
            let joined: Vec<Image> = joined.collect();
            self.splice(transaction, &place, 2, &joined, None)?;
            self.tell_index(transaction)?;
            transaction.end_of_part()?;
        }
        Ok(())
    }

    /// Removes items like [`remove`](Self::remove). If the transaction commits in parts, it can
    /// commit a part after every [`LEAVES_IN_A_PART`] leaves.
    pub(super) fn remove_in_parts(
        &mut self,
        transaction: &mut Transaction<'_>,
        found: &[Found],
    ) -> Result<(), Error> {
        if !transaction.is_in_parts() {
            return self.remove(transaction, found);
        }
        for some in found.rchunks(LEAVES_IN_A_PART) {
            self.remove(transaction, some)?;
            transaction.end_of_part()?;
        }
        Ok(())
    }

    /// Removes items from one leaf. If few items remain, merges the leaf with the next one. If
    /// `last` is set, no other leaf changes afterwards, so the leaf can also be merged with the
    /// previous one.
    pub(super) fn take(
        &mut self,
        transaction: &mut Transaction<'_>,
        mut place: Place<NOTE_WORDS>,
        (leaf, old): (&Leaf, Image),
        masks: &[u64],
        last: bool,
    ) -> Result<(), Error> {
        let shard = self.pool.shard();
        let hidden = self.hidden.wrapping_sub(hidden_of(&old, masks));
        self.set_hidden(transaction, hidden)?;
        self.went_of(transaction, &old, masks, leaf.at)?;
        if let Some(at) = only_one(masks)
            && self.keeps_its_leaf(old.count)
        {
            return self.take_one(transaction, &place, (leaf, old), at);
        }
        let kept = runs(old.places(), masks, false);
        let Some(first) = kept.first() else {
            transaction.free(self.pool, leaf.at);
            return self
                .tree
                .splice(transaction, self.pool, &place.path, 1, &[]);
        };
        // If the remaining items are contiguous, they are not moved, and only the leaf's start and
        // count change.
        let new = if kept.len() == 1 {
            let mut new = old.clone();
            (new.start, new.count) = (first.start, first.len());
            new
        } else {
            old.without(masks)
        };
        if new.count < self.full.places / 4 {
            for forward in [true, false] {
                if !forward && !last {
                    continue;
                }
                let Some((at, count)) = place.sibling(transaction.view(), forward)? else {
                    continue;
                };
                let view = transaction.view();
                let beside = load_leaf(view, at, &self.full, &self.schema, count)?;
                if beside.count + new.count > self.full.places / 4 * 3 {
                    continue;
                }
                let beside = Image::load(view, &beside)?;
                let mut parts = [(&new, new.places()), (&beside, beside.places())];
                if !forward {
                    parts.reverse();
                    place.step(view, false)?;
                }
                let joined = divide(&self.schema, &parts, Grows::Inside);
                self.went(transaction, &new, new.places(), leaf.at)?;
                self.went(transaction, &beside, beside.places(), at)?;
                transaction.free(self.pool, leaf.at);
                transaction.free(self.pool, at);
                let joined = joined
                    .into_iter()
                    .map(|leaf| leaf.enlarged(&self.full, Grows::Inside));
                let joined: Vec<Image> = joined.collect();
                return self.splice(transaction, &place, 2, &joined, None);
            }
        }
        let note = if kept.len() == 1 {
            new.store_fill(transaction, shard, leaf.at)?;
            transaction.note_cut();
            // Keep the attribute bits of the old note, because a note can list attribute values
            // that no longer occur.
            let hidden = new.note(&self.schema, new.places())[0];
            place
                .note(transaction.view())?
                .map(|note| [hidden, note[1], note[2], note[LABEL]])
        } else {
            new.overwrite(transaction, shard, leaf.at, &old)?;
            let mut note = new.note(&self.schema, new.places());
            note[LABEL] = leaf.label;
            Some(note)
        };
        let change = new.count as i64 - old.count as i64;
        self.tree.add(transaction, shard, &place.path, change)?;
        match note {
            Some(note) => self.tree.set_note(transaction, shard, &place.path, &note),
            None => Ok(()),
        }
    }

    /// Changes the attributes or the hidden bits of items. `change` is called with the image of a
    /// leaf and an item's place in the leaf.
    pub(super) fn change(
        &mut self,
        transaction: &mut Transaction<'_>,
        found: &[Found],
        mut change: impl FnMut(&mut Image, usize),
    ) -> Result<(), Error> {
        let shard = self.pool.shard();
        for found in found {
            let place = self.tree.find(transaction.view(), found.before)?;
            let leaf = self.leaf(transaction, &place)?;
            let old = Image::load(transaction.view(), &leaf)?;
            let mut new = old.clone();
            for run in runs(old.places(), &found.masks, true) {
                run.for_each(|place| change(&mut new, place));
            }
            new.overwrite(transaction, shard, leaf.at, &old)?;
            let (before, mut note) = (
                old.note(&self.schema, old.places()),
                new.note(&self.schema, new.places()),
            );
            note[LABEL] = leaf.label;
            self.tree.set_note(transaction, shard, &place.path, &note)?;
            self.set_hidden(
                transaction,
                self.hidden.wrapping_add(note[0]).wrapping_sub(before[0]),
            )?;
        }
        Ok(())
    }
}

/// Returns the place of the only item that `masks` select in a leaf, or `None` if `masks` do not
/// select exactly one item. Each mask covers one block of the leaf's items.
fn only_one(masks: &[u64]) -> Option<usize> {
    let mut blocks = masks.iter().enumerate().filter(|(_, mask)| **mask != 0);
    match (blocks.next(), blocks.next()) {
        (Some((block, mask)), None) if mask.is_power_of_two() => {
            Some(block * 64 + mask.trailing_zeros() as usize)
        }
        _ => None,
    }
}

/// Counts the hidden items among the items that `masks` select.
fn hidden_of(image: &Image, masks: &[u64]) -> u64 {
    let hidden = masks.iter().enumerate().map(|(block, mask)| {
        let word = image.word(image.layout.word(HIDDEN, block));
        u64::from((word & mask).count_ones())
    });
    hidden.sum()
}

impl Image {
    /// Converts the image to the layout of a full-size leaf, which a feed with several leaves uses.
    fn enlarged(self, full: &Layout, grows: Grows) -> Image {
        if self.layout == *full {
            return self;
        }
        let mut image = Image::new(*full);
        image.start = match grows {
            Grows::Right => 0,
            Grows::Left => full.places - self.count,
            Grows::Inside => (full.places - self.count) / 2,
        };
        let places = self.places();
        image.append(&self, places);
        image
    }
}

/// Adds items at an end of a leaf that has room for them. The space is unused, so its old contents
/// are not logged (W4).
fn fill_end(
    transaction: &mut Transaction<'_>,
    shard: usize,
    leaf: &Leaf,
    (rows, places): (&Image, std::ops::Range<usize>),
    right: bool,
) -> Result<(), Error> {
    let layout = &leaf.layout;
    let to = if right {
        leaf.end()
    } else {
        leaf.start - places.len()
    };
    let (start, values) = (layout.value_at(to), rows.values(&places));
    fill_part(transaction, shard, leaf.at, start, values)?;
    for plane in 0..layout.planes() {
        let mut done = 0;
        while done < places.len() {
            let place = to + done;
            let count = (64 - place % 64).min(places.len() - done);
            let bits = rows.bits(plane, places.start + done, count);
            let mask = (u64::MAX >> (64 - count)) << (place % 64);
            let at = leaf.at + layout.word(plane, place / 64) as u64 * 8;
            let old = transaction.view().word(at)?;
            let word = old & !mask | bits << (place % 64);
            // Unused space may have these contents already, from a transaction that failed, but a
            // journal does not know them. So the word is filled in any case.
            transaction.fill_slack_word(shard, at, word)?;
            done += count;
        }
    }
    let (start, count) = (leaf.start.min(to), leaf.count + places.len());
    let header = Leaf::header(layout.size, start, count);
    Ok(transaction.store(shard, leaf.at, header)?)
}

/// Writes bytes to unused space in a leaf. Preserves the other bytes of the first and last words.
fn fill_part(
    transaction: &mut Transaction<'_>,
    shard: usize,
    leaf: u64,
    start: usize,
    bytes: &[u8],
) -> Result<(), Error> {
    let (first, end) = (start & !7, start + bytes.len());
    let mut words: SmallVec<[u8; 64]> = smallvec![0; end.next_multiple_of(8) - first];
    let at = leaf + first as u64;
    let view = transaction.view();
    let last = words.len() - 8;
    words[..8].copy_from_slice(&view.word(at)?.to_le_bytes());
    words[last..].copy_from_slice(&view.word(at + last as u64)?.to_le_bytes());
    words[start - first..end - first].copy_from_slice(bytes);
    Ok(transaction.fill_slack(shard, at, &words)?)
}

/// Packs items into new leaves, filling each leaf before starting the next one.
pub(super) struct Packer<'p> {
    schema: &'p Schema,
    pool: Pool,
    image: Image,
    builder: FeedBuilder,
    /// The number of leaves created so far.
    leaves: u64,
    /// The index words of all items, if the feed has an index.
    words: Vec<u64>,
}

impl<'p> Packer<'p> {
    pub(super) fn new(schema: &'p Schema, pool: Pool) -> Packer<'p> {
        Packer {
            schema,
            pool,
            image: Image::new(Layout::full(schema)),
            builder: FeedBuilder::new(),
            leaves: 0,
            words: Vec::new(),
        }
    }

    /// Appends items to the feed.
    pub(super) fn add(
        &mut self,
        transaction: &mut Transaction<'_>,
        from: &Image,
        mut places: std::ops::Range<usize>,
    ) -> Result<(), Error> {
        while !places.is_empty() {
            let room = self.image.layout.places - self.image.count;
            if room == 0 {
                self.flush(transaction)?;
                continue;
            }
            let some = places.start..places.end.min(places.start + room);
            places.start = some.end;
            self.image.append(from, some);
        }
        Ok(())
    }

    fn flush(&mut self, transaction: &mut Transaction<'_>) -> Result<(), Error> {
        let (image, mut label) = (&self.image, 0);
        if self.schema.is_indexed() {
            label = labels::FIRST + self.leaves * labels::STEP;
        }
        let leaf = image.create(transaction, self.pool, self.schema, label)?;
        if self.schema.is_indexed() {
            let secret = transaction.hash_key();
            words_of(secret, image, image.places(), leaf.at, &mut self.words)?;
        }
        self.builder.push(transaction, self.pool, leaf)?;
        self.leaves += 1;
        self.image.count = 0;
        Ok(())
    }

    /// Completes the tree and the index and returns the root words of both.
    pub(super) fn finish(mut self, transaction: &mut Transaction<'_>) -> Result<Made, Error> {
        if self.image.count == 0 && self.leaves == 0 {
            return Ok(Made::default());
        }
        if self.leaves == 0 {
            let parts = [(&self.image, self.image.places())];
            self.image = divide(self.schema, &parts, Grows::Right).remove(0);
        }
        if self.image.count > 0 {
            self.flush(transaction)?;
        }
        self.words.sort_unstable();
        Ok(Made {
            tree: self.builder.finish(transaction, self.pool)?,
            index: Index::build(transaction, self.pool, &self.words)?,
        })
    }
}
