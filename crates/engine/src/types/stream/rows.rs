//! Implements trees of ordered rows of a few words each. The rows are pending entries ordered by
//! ID, or groups or consumers ordered by name.
//!
//! ```text
//! a leaf of up to 2048 bytes:
//! | kind, its words, first row, rows | 8 bytes
//! | rows                             |
//!
//! a pending entry of a group:
//! | ID, 2 words | consumer's offset / 8, 44 bits; deliveries, the high 20 bits | time of delivery, 44 bits; deliveries, the low 20 |
//! a pending entry of a consumer:
//! | ID, 2 words |
//! a group or a consumer:
//! | first 8 bytes of its name | its record's offset |
//! ```
//!
//! The first two words of a row are its key. A new row is appended in unused space after the last
//! row, and the first rows are removed by storing a new start (W4).

use std::cmp::Ordering;

use smallvec::SmallVec;
use undercroft_memory::{Fault, Offset, Pool, Transaction, View, block_size};

use crate::error::Error;
use crate::structures::tree::{Builder, Child, Place, Tree};

pub(super) const GROUP_NAME: u64 = 72;
pub(super) const CONSUMER_NAME: u64 = 40;

const HEADER: u64 = 8;
const LEAF_MIN: u64 = 64;
const LEAF_MAX: u64 = 2048;
/// The number in a leaf's header that identifies the first kind of rows.
pub(super) const MAGIC: u64 = 0x700;

/// The kind of the rows in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Pending entries of a group.
    Pending = 0,
    /// Pending entries of a consumer.
    Own = 1,
    /// Consumers of a group.
    Consumers = 2,
    /// Groups of a stream.
    Groups = 3,
}

impl Kind {
    fn of(header: u64) -> Option<Kind> {
        [Kind::Pending, Kind::Own, Kind::Consumers, Kind::Groups]
            .into_iter()
            .find(|kind| header & 0xffff == MAGIC | *kind as u64)
    }

    /// Returns the number of words in a row of this kind.
    fn width(self) -> usize {
        if self == Kind::Pending { 4 } else { 2 }
    }

    /// Returns the offset of the name's length within the record to which a row refers, or `None`
    /// if rows of this kind do not refer to named records. The length is followed by the name.
    pub(super) fn name_at(self) -> Option<u64> {
        match self {
            Kind::Pending | Kind::Own => None,
            Kind::Consumers => Some(CONSUMER_NAME),
            Kind::Groups => Some(GROUP_NAME),
        }
    }
}

pub(super) type Key = [u64; 2];
/// A row of a tree. If the tree's rows have only two words, the last two words are 0.
pub(super) type Row = [u64; 4];

pub(super) fn fault(at: Offset) -> Error {
    Fault {
        at,
        what: "a leaf in which the stream's rows fit",
    }
    .into()
}

/// A leaf with its decoded header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf {
    pub(super) at: Offset,
    pub(super) kind: Kind,
    size: u64,
    start: usize,
    pub(super) count: usize,
}

impl Leaf {
    pub(super) fn load(view: &View<'_>, at: Offset) -> Result<Leaf, Error> {
        let leaf = Leaf::load_any(view, at)?;
        match leaf.count {
            0 => Err(fault(at)),
            _ => Ok(leaf),
        }
    }

    /// Decodes the header of a leaf that can be empty.
    pub(super) fn load_any(view: &View<'_>, at: Offset) -> Result<Leaf, Error> {
        let header = view.word(at)?;
        let kind = Kind::of(header).ok_or_else(|| fault(at))?;
        let leaf = Leaf {
            at,
            kind,
            size: (header >> 16 & 0xffff) * 8,
            start: (header >> 32 & 0xffff) as usize,
            count: (header >> 48) as usize,
        };
        if leaf.start + leaf.count > leaf.room() || leaf.size > LEAF_MAX {
            return Err(fault(at));
        }
        view.check(at, leaf.size)?;
        Ok(leaf)
    }

    /// Returns the maximum number of rows in the leaf.
    fn room(&self) -> usize {
        (self.size.saturating_sub(HEADER) / (self.kind.width() as u64 * 8)) as usize
    }

    fn header(&self) -> u64 {
        MAGIC
            | self.kind as u64
            | (self.size / 8) << 16
            | (self.start as u64) << 32
            | (self.count as u64) << 48
    }

    fn place_at(&self, place: usize) -> Offset {
        self.at + HEADER + (place * self.kind.width()) as u64 * 8
    }

    pub(super) fn row(&self, view: &View<'_>, index: usize) -> Result<Row, Error> {
        let at = self.place_at(self.start + index);
        if self.kind == Kind::Pending {
            return Ok(view.words::<4>(at)?);
        }
        let [one, other] = view.words::<2>(at)?;
        Ok([one, other, 0, 0])
    }

    pub(super) fn rows(&self, view: &View<'_>) -> Result<Vec<Row>, Error> {
        (0..self.count).map(|index| self.row(view, index)).collect()
    }

    /// Returns whether the leaf is kept when it becomes empty. A small leaf of pending entries is
    /// kept, because the next entry is often delivered soon after the last one was acknowledged.
    fn is_kept(&self) -> bool {
        self.kind.name_at().is_none() && self.size <= LEAF_MIN
    }

    pub(super) fn block_size(&self) -> u64 {
        block_size(self.size)
    }

    /// Creates a leaf that contains `rows` and has room for `room` rows in total.
    fn create(
        transaction: &mut Transaction<'_>,
        pool: Pool,
        kind: Kind,
        rows: &[Row],
        room: usize,
    ) -> Result<Child<2>, Error> {
        let wanted = HEADER + (room.max(rows.len()) * kind.width()) as u64 * 8;
        let mut leaf = Leaf {
            at: 0,
            kind,
            size: block_size(wanted.max(LEAF_MIN)).min(LEAF_MAX),
            start: 0,
            count: rows.len(),
        };
        let first = rows.first().ok_or_else(|| fault(0))?;
        if leaf.count > leaf.room() {
            return Err(fault(0));
        }
        leaf.at = transaction.allocate(pool, leaf.size)?;
        let mut bytes: SmallVec<[u8; LEAF_MIN as usize]> =
            SmallVec::with_capacity(leaf.size as usize);
        bytes.extend_from_slice(&leaf.header().to_le_bytes());
        for row in rows {
            let words = row[..kind.width()].iter();
            words.for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        }
        transaction.fill(leaf.at, &bytes)?;
        Ok(Child {
            at: leaf.at,
            count: leaf.count as u64,
            note: [first[0], first[1]],
        })
    }

    fn store_header(&self, transaction: &mut Transaction<'_>, shard: usize) -> Result<(), Error> {
        Ok(transaction.store(shard, self.at, self.header())?)
    }

    /// Moves `count` rows within the leaf.
    fn shift(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        (from, to): (usize, usize),
        count: usize,
    ) -> Result<(), Error> {
        if count == 0 {
            return Ok(());
        }
        let mut bytes = [0; LEAF_MAX as usize];
        let bytes = &mut bytes[..count * self.kind.width() * 8];
        transaction.view().copy_to(self.place_at(from), bytes)?;
        Ok(transaction.write(shard, self.place_at(to), bytes)?)
    }

    /// Inserts a row. Returns `false` if the leaf is full.
    fn insert(
        &mut self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        index: usize,
        row: &Row,
    ) -> Result<bool, Error> {
        let (end, place) = (self.start + self.count, self.start + index);
        let mut bytes = [0; size_of::<Row>()];
        for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(row) {
            *place = word.to_le_bytes();
        }
        let words = &bytes[..self.kind.width() * 8];
        if end < self.room() {
            if index == self.count {
                transaction.fill_slack(shard, self.place_at(place), words)?;
            } else {
                self.shift(transaction, shard, (place, place + 1), self.count - index)?;
                transaction.write(shard, self.place_at(place), words)?;
            }
        } else if self.start > 0 {
            self.shift(transaction, shard, (self.start, self.start - 1), index)?;
            self.start -= 1;
            transaction.write(shard, self.place_at(place - 1), words)?;
        } else {
            return Ok(false);
        }
        self.count += 1;
        self.store_header(transaction, shard)?;
        Ok(true)
    }

    /// Removes a row from the leaf.
    fn remove(
        &mut self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        index: usize,
    ) -> Result<(), Error> {
        if index < self.count / 2 {
            self.shift(transaction, shard, (self.start, self.start + 1), index)?;
            self.start += 1;
        } else {
            let place = self.start + index;
            self.shift(
                transaction,
                shard,
                (place + 1, place),
                self.count - index - 1,
            )?;
            transaction.note_cut();
        }
        self.count -= 1;
        if self.count == 0 {
            self.start = 0;
        }
        self.store_header(transaction, shard)
    }
}

/// A tree of rows of the same kind.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) tree: Tree<2>,
    kind: Kind,
    pool: Pool,
}

/// A row that was found by a search, and its location.
#[derive(Clone, Debug)]
pub(super) struct FoundRow {
    place: Place<2>,
    leaf: Leaf,
    index: usize,
    pub(super) row: Row,
}

impl Rows {
    /// Loads the tree whose root words are at the given offset.
    pub(super) fn load(view: &View<'_>, at: Offset, kind: Kind, pool: Pool) -> Result<Rows, Error> {
        let tree = Tree::load(view, at)?;
        Ok(Rows { tree, kind, pool })
    }

    pub(super) fn count(&self) -> u64 {
        self.tree.count()
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the total size of the tree's nodes and leaves in bytes.
    pub(super) fn bytes(&self, view: &View<'_>) -> Result<u64, Error> {
        if self.count() == 0 {
            return match self.tree.root() {
                0 => Ok(0),
                at => Ok(Leaf::load_any(view, at)?.block_size()),
            };
        }
        let (mut place, mut bytes) = (self.tree.find(view, 0)?, 0_u64);
        loop {
            let own = place.nodes_begun() + Leaf::load(view, place.leaf)?.block_size();
            bytes = bytes.saturating_add(own);
            // Revalidate the view, so that a loop over a torn tree stops early (R3).
            view.recheck()?;
            if !place.step(view, true)? {
                return Ok(bytes);
            }
        }
    }

    /// Returns the location of the first row whose key does not satisfy `before`, as a leaf and an
    /// index in the leaf.
    fn seek(
        &self,
        view: &View<'_>,
        mut before: impl FnMut(Key) -> Result<bool, Error>,
    ) -> Result<Option<(Place<2>, Leaf, usize)>, Error> {
        if self.count() == 0 {
            return Ok(None);
        }
        let place = self.tree.find_by(view, &mut before)?;
        let leaf = Leaf::load(view, place.leaf)?;
        let (mut low, mut high) = (0, leaf.count);
        while low < high {
            let middle = (low + high) / 2;
            let [one, other, ..] = leaf.row(view, middle)?;
            if before([one, other])? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(Some((place, leaf, low)))
    }

    /// Returns the row for whose key `order` returns `Equal`. `order` compares a row's key with the
    /// key that the caller searches for.
    pub(super) fn find(
        &self,
        view: &View<'_>,
        mut order: impl FnMut(Key) -> Result<Ordering, Error>,
    ) -> Result<Option<FoundRow>, Error> {
        let behind = self.seek(view, |key| Ok(order(key)? != Ordering::Greater))?;
        let Some((place, leaf, index)) = behind else {
            return Ok(None);
        };
        let Some(index) = index.checked_sub(1) else {
            return Ok(None);
        };
        let row = leaf.row(view, index)?;
        let equal = order([row[0], row[1]])? == Ordering::Equal;
        Ok(equal.then_some(FoundRow {
            place,
            leaf,
            index,
            row,
        }))
    }

    /// Returns the row with this key, or `None` if it does not exist.
    pub(super) fn find_key(&self, view: &View<'_>, key: Key) -> Result<Option<FoundRow>, Error> {
        self.find(view, |other| Ok(other.cmp(&key)))
    }

    /// Visits the rows in order, starting at the first row that does not satisfy `before`, until
    /// `visit` returns `false`.
    pub(super) fn for_each_from(
        &self,
        view: &View<'_>,
        before: impl FnMut(Key) -> Result<bool, Error>,
        mut visit: impl FnMut(&Row) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let Some((mut place, mut leaf, mut index)) = self.seek(view, before)? else {
            return Ok(());
        };
        loop {
            for index in index..leaf.count {
                if !visit(&leaf.row(view, index)?)? {
                    return Ok(());
                }
            }
            // Revalidate the view, so that a loop over a torn tree stops early (R3).
            view.recheck()?;
            if !place.step(view, true)? {
                return Ok(());
            }
            (leaf, index) = (Leaf::load(view, place.leaf)?, 0);
        }
    }

    /// Visits all rows in order.
    pub(super) fn for_each(
        &self,
        view: &View<'_>,
        mut visit: impl FnMut(&Row) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.for_each_from(view, |_| Ok(false), |row| visit(row).map(|()| true))
    }

    /// Returns the key of the first or last row, or `None` if there are no rows.
    pub(super) fn edge(&self, view: &View<'_>, last: bool) -> Result<Option<Key>, Error> {
        if self.count() == 0 {
            return Ok(None);
        }
        let place = self.tree.find_end(view, last)?;
        let leaf = Leaf::load(view, place.leaf)?;
        let row = leaf.row(view, if last { leaf.count - 1 } else { 0 })?;
        Ok(Some([row[0], row[1]]))
    }

    /// Inserts a row after all rows that satisfy `before`. O(log n).
    pub(super) fn insert(
        &mut self,
        transaction: &mut Transaction<'_>,
        row: &Row,
        mut before: impl FnMut(&View<'_>, Key) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let (kind, pool, shard) = (self.kind, self.pool, self.pool.shard());
        let view = transaction.view();
        let Some((place, mut leaf, index)) = self.seek(view, |key| before(view, key))? else {
            let place = self.tree.find(transaction.view(), 0)?;
            if place.leaf != 0 {
                let mut kept = Leaf::load_any(transaction.view(), place.leaf)?;
                let is_sound = kept.kind == kind && kept.count == 0;
                if !is_sound || !kept.insert(transaction, shard, 0, row)? {
                    return Err(fault(place.leaf));
                }
                return self.tree.add(transaction, shard, &place.path, 1);
            }
            let leaf = Leaf::create(transaction, pool, kind, &[*row], 1)?;
            return self.tree.splice(transaction, pool, &place.path, 1, &[leaf]);
        };
        if leaf.insert(transaction, shard, index, row)? {
            self.tree.add(transaction, shard, &place.path, 1)?;
            if index == 0 {
                let note = [row[0], row[1]];
                self.tree.set_note(transaction, shard, &place.path, &note)?;
            }
            return Ok(());
        }
        let full = ((LEAF_MAX - HEADER) / (kind.width() as u64 * 8)) as usize;
        let mut rows = leaf.rows(transaction.view())?;
        let behind_all = index == rows.len() && place.before + place.count == self.count();
        if behind_all && rows.len() >= full {
            // If the row is appended at the end of the tree, the full leaf does not change.
            let stays = Child {
                at: leaf.at,
                count: leaf.count as u64,
                note: [rows[0][0], rows[0][1]],
            };
            let next = Leaf::create(transaction, pool, kind, &[*row], full)?;
            return self
                .tree
                .splice(transaction, pool, &place.path, 1, &[stays, next]);
        }
        rows.insert(index, *row);
        let leaves: SmallVec<[Child<2>; 2]> = if rows.len() <= full {
            let room = (rows.len() * 2).min(full);
            smallvec::smallvec![Leaf::create(transaction, pool, kind, &rows, room)?]
        } else {
            let (left, right) = rows.split_at(rows.len() / 2);
            smallvec::smallvec![
                Leaf::create(transaction, pool, kind, left, full)?,
                Leaf::create(transaction, pool, kind, right, full)?,
            ]
        };
        transaction.free(pool, leaf.at);
        self.tree.splice(transaction, pool, &place.path, 1, &leaves)
    }

    /// Appends a row after the last row. O(log n).
    pub(super) fn push(
        &mut self,
        transaction: &mut Transaction<'_>,
        row: &Row,
    ) -> Result<(), Error> {
        if self.count() > 0 {
            let place = self.tree.find_end(transaction.view(), true)?;
            let mut leaf = Leaf::load(transaction.view(), place.leaf)?;
            let (shard, index) = (self.pool.shard(), leaf.count);
            if leaf.insert(transaction, shard, index, row)? {
                return self.tree.add(transaction, shard, &place.path, 1);
            }
        }
        self.insert(transaction, row, |_, _| Ok(true))
    }

    /// Inserts a row. Its key must not exist in the tree.
    pub(super) fn insert_key(
        &mut self,
        transaction: &mut Transaction<'_>,
        row: &Row,
    ) -> Result<(), Error> {
        let key = [row[0], row[1]];
        self.insert(transaction, row, |_, other| Ok(other < key))
    }

    /// Replaces the words that follow the key in a row.
    pub(super) fn set(
        &self,
        transaction: &mut Transaction<'_>,
        found: &FoundRow,
        row: &Row,
    ) -> Result<(), Error> {
        let at = found.leaf.place_at(found.leaf.start + found.index);
        let words = row.iter().zip(&found.row).enumerate();
        for (word, (new, old)) in words.take(self.kind.width()).skip(2) {
            if new != old {
                transaction.store(self.pool.shard(), at + word as u64 * 8, *new)?;
            }
        }
        Ok(())
    }

    /// Removes a row. O(log n).
    pub(super) fn remove(
        &mut self,
        transaction: &mut Transaction<'_>,
        found: FoundRow,
    ) -> Result<(), Error> {
        let FoundRow {
            place,
            mut leaf,
            index,
            ..
        } = found;
        let (pool, shard) = (self.pool, self.pool.shard());
        if leaf.count == 1 && self.tree.height() == 0 && leaf.is_kept() {
            leaf.remove(transaction, shard, index)?;
            return self.tree.add(transaction, shard, &place.path, -1);
        }
        if leaf.count == 1 {
            transaction.free(pool, leaf.at);
            return self.tree.splice(transaction, pool, &place.path, 1, &[]);
        }
        leaf.remove(transaction, shard, index)?;
        self.tree.add(transaction, shard, &place.path, -1)?;
        if index == 0 {
            let [one, other, ..] = leaf.row(transaction.view(), 0)?;
            self.tree
                .set_note(transaction, shard, &place.path, &[one, other])?;
        }
        if leaf.count * leaf.kind.width() * 32 < leaf.size as usize {
            // If less than a quarter of the leaf is used, merge the leaf with a neighbor or replace
            // it with a smaller leaf.
            self.shrink(transaction, place, &leaf)?;
        }
        Ok(())
    }

    /// Merges a sparse leaf with a neighbor that has room, or replaces it with a smaller leaf if it
    /// is the only leaf.
    fn shrink(
        &mut self,
        transaction: &mut Transaction<'_>,
        mut place: Place<2>,
        leaf: &Leaf,
    ) -> Result<(), Error> {
        let (kind, pool) = (self.kind, self.pool);
        let full = ((LEAF_MAX - HEADER) / (kind.width() as u64 * 8)) as usize;
        for forward in [true, false] {
            let Some((at, _)) = place.sibling(transaction.view(), forward)? else {
                continue;
            };
            let beside = Leaf::load(transaction.view(), at)?;
            if beside.count + leaf.count > full / 4 * 3 {
                continue;
            }
            let (mut rows, mut others) = (
                leaf.rows(transaction.view())?,
                beside.rows(transaction.view())?,
            );
            if !forward {
                std::mem::swap(&mut rows, &mut others);
                place.step(transaction.view(), false)?;
            }
            rows.append(&mut others);
            let joined = Leaf::create(transaction, pool, kind, &rows, full)?;
            transaction.free(pool, leaf.at);
            transaction.free(pool, at);
            return self
                .tree
                .splice(transaction, pool, &place.path, 2, &[joined]);
        }
        if self.tree.height() > 0 {
            return Ok(());
        }
        let rows = leaf.rows(transaction.view())?;
        let small = Leaf::create(transaction, pool, kind, &rows, rows.len() * 2)?;
        transaction.free(pool, leaf.at);
        self.tree
            .splice(transaction, pool, &place.path, 1, &[small])
    }
}

/// Builds a tree from rows, which must be in order. Returns the tree's root words.
pub(super) fn build(
    transaction: &mut Transaction<'_>,
    pool: Pool,
    kind: Kind,
    rows: &[Row],
) -> Result<[u64; 3], Error> {
    if rows.is_empty() {
        return Ok([0; 3]);
    }
    let full = ((LEAF_MAX - HEADER) / (kind.width() as u64 * 8)) as usize;
    let mut builder: Builder<2> = Builder::new();
    for some in rows.chunks(full) {
        let room = if rows.len() > full { full } else { some.len() };
        let leaf = Leaf::create(transaction, pool, kind, some, room)?;
        builder.push(transaction, pool, leaf)?;
    }
    builder.finish(transaction, pool)
}

/// Returns the row for a record with the given name.
pub(super) fn name_row(name: &[u8], record: Offset) -> Row {
    [prefix(name), record, 0, 0]
}

/// Returns the first eight bytes of a name as an integer that sorts like the name.
fn prefix(name: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let length = name.len().min(8);
    bytes[..length].copy_from_slice(&name[..length]);
    u64::from_be_bytes(bytes)
}

/// Appends the name that a record contains to `out`.
pub(super) fn append_name(
    view: &View<'_>,
    kind: Kind,
    record: Offset,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let at = kind.name_at().ok_or_else(|| fault(record))?;
    let at = record.wrapping_add(at);
    let length = view.word(at)?;
    // Revalidate the view, because a torn length could cause a huge allocation (R3).
    view.check(at, length.saturating_add(8))?;
    if length > 512 {
        view.recheck()?;
    }
    Ok(view.append_to(at.wrapping_add(8), length, out)?)
}

/// Returns whether a record has this name.
fn has_name(view: &View<'_>, kind: Kind, record: Offset, name: &[u8]) -> Result<bool, Error> {
    let at = kind.name_at().ok_or_else(|| fault(record))?;
    let block = view.block(record)?;
    Ok(block.word(at)? == name.len() as u64 && block.equals(at + 8, name)?)
}

/// Compares the name in the record to which a row refers with `name`.
pub(super) fn order_of_name(
    view: &View<'_>,
    kind: Kind,
    [start, record]: Key,
    name: &[u8],
) -> Result<Ordering, Error> {
    match start.cmp(&prefix(name)) {
        Ordering::Equal if has_name(view, kind, record, name)? => Ok(Ordering::Equal),
        Ordering::Equal => {
            let mut other = Vec::new();
            append_name(view, kind, record, &mut other)?;
            Ok(other.as_slice().cmp(name))
        }
        order => Ok(order),
    }
}
