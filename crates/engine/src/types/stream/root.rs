//! Loads complete streams from their root words, and copies, measures and checks them.
//!
//! ```text
//! | entries: root, entries, levels of the tree | arena, or 0 | last ID, 2 words |
//! | highest deleted ID, 2 words | entries ever added | groups: root, rows, levels |
//! ```

use std::collections::HashMap;

use undercroft_memory::{Fault, Offset, Pool, Transaction, View, block_size};

use super::entries::{ById, Entries};
use super::found::StreamEntries;
use super::free::{discard_tree, trees_of};
use super::group::{Consumer, Group, Pending, create_record};
use super::id::StreamId;
use super::leaves::leaf::Leaf;
use super::rows::{self, FoundRow, Kind, Row, Rows, append_name, name_row, order_of_name};
use crate::error::Error;
use crate::structures::elements::OUTGROWN;
use crate::structures::entry::Entry;
use crate::structures::tree::{Builder, HEIGHT_MAX, Node, Subtree};

/// The number of root words of a stream.
pub(super) const WORDS: usize = 12;
const ARENA: u64 = 24;
const LAST: u64 = 32;
const DELETED: u64 = 48;
const ADDED: u64 = 64;
const GROUPS: u64 = 72;

/// A stream with its decoded root words.
#[derive(Debug)]
pub struct Stream {
    /// The offset of the root words.
    pub(super) at: Offset,
    pub(super) entries: Entries,
    pub(super) last: StreamId,
    pub(super) deleted: StreamId,
    pub(super) added: u64,
    /// The memory pool of the stream, which is either its shard's slabs or its arena.
    pub(super) pool: Pool,
}

pub(super) fn fault(at: Offset) -> Error {
    Fault {
        at,
        what: "a stream with as many entries as it counts",
    }
    .into()
}

impl Stream {
    /// Loads the stream of a keyspace entry. `shard` must be the entry's shard, unless the caller
    /// only reads.
    pub(super) fn load(view: &View<'_>, shard: usize, entry: &Entry) -> Result<Stream, Error> {
        if entry.header.value_length() != WORDS as u64 * 8 {
            return Err(entry.fault().into());
        }
        Stream::load_at(view, shard, entry.value_at())
    }

    fn load_at(view: &View<'_>, shard: usize, at: Offset) -> Result<Stream, Error> {
        let [arena, last_ms, last_seq, ms, seq, added] = view.words::<6>(at + ARENA)?;
        Ok(Stream {
            at,
            entries: Entries::load(view, at)?,
            last: StreamId::of_words([last_ms, last_seq]),
            deleted: StreamId { ms, seq },
            added,
            pool: Pool::new(shard, arena),
        })
    }

    /// Returns the root words of a stream.
    pub(super) fn root_words(
        entries: [u64; 3],
        pool: Pool,
        (last, deleted, added): (StreamId, StreamId, u64),
        groups: [u64; 3],
    ) -> [u64; WORDS] {
        let [one, two, three] = entries;
        let [four, five, six] = groups;
        [
            one,
            two,
            three,
            pool.arena(),
            last.ms,
            last.seq,
            deleted.ms,
            deleted.seq,
            added,
            four,
            five,
            six,
        ]
    }

    /// Returns the number of entries.
    pub fn length(&self) -> u64 {
        self.entries.count()
    }

    /// Returns the ID of the last entry that was added, even if that entry has been deleted.
    pub fn last_id(&self) -> StreamId {
        self.last
    }

    /// Returns the highest ID of a deleted entry.
    pub fn max_deleted_id(&self) -> StreamId {
        self.deleted
    }

    /// Returns the number of entries that were ever added.
    pub fn entries_added(&self) -> u64 {
        self.added
    }

    fn set_id(
        &self,
        transaction: &mut Transaction<'_>,
        place: u64,
        old: StreamId,
        new: StreamId,
    ) -> Result<(), Error> {
        let words = old.words().into_iter().zip(new.words());
        for (at, (old, new)) in (self.at + place..).step_by(8).zip(words) {
            if old != new {
                transaction.store(self.pool.shard(), at, new)?;
            }
        }
        Ok(())
    }

    pub(super) fn set_last(
        &mut self,
        transaction: &mut Transaction<'_>,
        id: StreamId,
    ) -> Result<(), Error> {
        self.set_id(transaction, LAST, self.last, id)?;
        self.last = id;
        Ok(())
    }

    /// Records that an entry was added. Updates the last ID and the number of added entries in a
    /// single write.
    pub(super) fn note_added(
        &mut self,
        transaction: &mut Transaction<'_>,
        id: StreamId,
    ) -> Result<(), Error> {
        const _: () = assert!(DELETED == LAST + 16 && ADDED == DELETED + 16);
        (self.last, self.added) = (id, self.added.wrapping_add(1));
        let words = [id.ms, id.seq, self.deleted.ms, self.deleted.seq, self.added];
        let mut bytes = [0; 40];
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        Ok(transaction.write(self.pool.shard(), self.at + LAST, &bytes)?)
    }

    pub(super) fn set_deleted(
        &mut self,
        transaction: &mut Transaction<'_>,
        id: StreamId,
    ) -> Result<(), Error> {
        self.set_id(transaction, DELETED, self.deleted, id)?;
        self.deleted = id;
        Ok(())
    }

    pub(super) fn set_added(
        &mut self,
        transaction: &mut Transaction<'_>,
        added: u64,
    ) -> Result<(), Error> {
        if added != self.added {
            self.added = added;
            transaction.store(self.pool.shard(), self.at + ADDED, added)?;
        }
        Ok(())
    }

    pub(super) fn groups(&self, view: &View<'_>) -> Result<Rows, Error> {
        Rows::load(view, self.at.wrapping_add(GROUPS), Kind::Groups, self.pool)
    }

    pub(super) fn find_group(
        &self,
        view: &View<'_>,
        name: &[u8],
    ) -> Result<Option<FoundRow>, Error> {
        self.groups(view)?
            .find(view, |key| order_of_name(view, Kind::Groups, key, name))
    }

    /// Returns the group with this name, or `None` if it does not exist.
    pub(super) fn group(&self, view: &View<'_>, name: &[u8]) -> Result<Option<Group>, Error> {
        match self.find_group(view, name)? {
            Some(found) => Group::load(view, found.row[1], self.pool).map(Some),
            None => Ok(None),
        }
    }

    /// Creates a group. The stream must not have a group with this name.
    pub(super) fn create_group(
        &self,
        transaction: &mut Transaction<'_>,
        name: &[u8],
        last: StreamId,
        read: i64,
    ) -> Result<Group, Error> {
        let words = Group::words(last, read, [0; 3], [0; 3]);
        let at = create_record(transaction, self.pool, &words, name)?;
        let mut groups = self.groups(transaction.view())?;
        groups.insert(transaction, &name_row(name, at), |view, key| {
            Ok(order_of_name(view, Kind::Groups, key, name)?.is_lt())
        })?;
        Group::load(transaction.view(), at, self.pool)
    }

    /// Removes a group and its pending entries. Returns whether the group existed. O(log n),
    /// because the group's trees are freed later.
    pub(super) fn destroy_group(
        &self,
        transaction: &mut Transaction<'_>,
        name: &[u8],
    ) -> Result<bool, Error> {
        let Some(found) = self.find_group(transaction.view(), name)? else {
            return Ok(false);
        };
        let record = found.row[1];
        for tree in trees_of(transaction.view(), Kind::Groups, record, self.pool)? {
            discard_tree(transaction, self.pool, tree)?;
        }
        transaction.free(self.pool, record);
        self.groups(transaction.view())?
            .remove(transaction, found)?;
        Ok(true)
    }

    /// Moves a stream to an arena if it has outgrown its shard's slabs (H4). The caller passes the
    /// minimum number of leaves in the tree that has grown, and the size of each leaf in bytes.
    /// Returns whether the stream was moved.
    pub(super) fn settle(
        &mut self,
        transaction: &mut Transaction<'_>,
        leaves: u64,
        leaf: u64,
    ) -> Result<bool, Error> {
        let pool = self.pool;
        if pool.arena() != 0 || leaves.saturating_mul(leaf) < OUTGROWN {
            return Ok(false);
        }
        let arena = transaction.create_arena(pool.shard())?;
        let words = self.copy(transaction, arena)?;
        self.discard(transaction)?;
        for (at, word) in (self.at..).step_by(8).zip(words) {
            transaction.store(pool.shard(), at, word)?;
        }
        *self = Stream::load_at(transaction.view(), pool.shard(), self.at)?;
        Ok(true)
    }

    /// Queues the trees of a stream without an arena, so that they are freed in small steps.
    pub(super) fn discard(&self, transaction: &mut Transaction<'_>) -> Result<(), Error> {
        let groups = self.groups(transaction.view())?;
        let entries = (self.entries.root(), self.entries.height());
        discard_tree(transaction, self.pool, entries)?;
        discard_tree(
            transaction,
            self.pool,
            (groups.tree.root(), groups.tree.height()),
        )
    }

    /// Calls `visit` for each leaf of entries in order, with the leaf's entry count according to
    /// the tree.
    pub(super) fn for_each_leaf(
        &self,
        view: &View<'_>,
        mut visit: impl FnMut(&Leaf, u64) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let mut nodes = 0_u64;
        if self.entries.root() == 0 {
            return Ok(nodes);
        }
        let mut place = self.entries.find(view, 0)?;
        loop {
            visit(&Leaf::load(view, place.leaf)?, place.count)?;
            nodes = nodes.saturating_add(place.nodes_begun());
            // Revalidate the view, so that a loop over a torn tree stops early (R3).
            view.recheck()?;
            if !place.step(view, true)? {
                return Ok(nodes);
            }
        }
    }

    /// Copies the stream to another memory pool and returns the copy's root words. O(n).
    pub(super) fn copy(
        &self,
        transaction: &mut Transaction<'_>,
        to: Pool,
    ) -> Result<Vec<u64>, Error> {
        let mut leaves = Vec::new();
        self.for_each_leaf(transaction.view(), |leaf, _| {
            leaves.push(*leaf);
            Ok(())
        })?;
        let mut entries = [0; 3];
        if let Some((last, others)) = leaves.split_last() {
            let mut builder: Builder<2, ById> = Builder::new();
            for leaf in others {
                let copy = leaf.copy(transaction, to, 0)?;
                builder.push(transaction, to, copy.child())?;
            }
            // Keep the free space of the last leaf, because new entries are appended to it.
            let room = last.room();
            let copy = last.copy(transaction, to, room)?;
            builder.push(transaction, to, copy.child())?;
            entries = builder.finish(transaction, to)?;
        }
        let mut groups = Vec::new();
        for (name, record) in self.names(transaction.view(), &self.groups(transaction.view())?)? {
            let group = Group::load(transaction.view(), record, self.pool)?;
            let at = self.copy_group(transaction, &group, &name, to)?;
            groups.push(name_row(&name, at));
        }
        let groups = rows::build(transaction, to, Kind::Groups, &groups)?;
        let counts = (self.last, self.deleted, self.added);
        Ok(Stream::root_words(entries, to, counts, groups).to_vec())
    }

    /// Returns the names of groups or consumers in order, each with the offset of the record.
    pub(super) fn names(
        &self,
        view: &View<'_>,
        rows: &Rows,
    ) -> Result<Vec<(Vec<u8>, Offset)>, Error> {
        let mut names = Vec::new();
        rows.for_each(view, |row| {
            let mut name = Vec::new();
            append_name(view, rows.kind(), row[1], &mut name)?;
            names.push((name, row[1]));
            Ok(())
        })?;
        Ok(names)
    }

    fn copy_group(
        &self,
        transaction: &mut Transaction<'_>,
        group: &Group,
        name: &[u8],
        to: Pool,
    ) -> Result<Offset, Error> {
        let consumers = group.consumers(transaction.view())?;
        let (mut moved, mut rows) = (HashMap::new(), Vec::new());
        for (name, record) in self.names(transaction.view(), &consumers)? {
            let consumer = Consumer::load(transaction.view(), record, self.pool)?;
            let own = all_rows(transaction.view(), &consumer.own(transaction.view())?)?;
            let own = rows::build(transaction, to, Kind::Own, &own)?;
            let active = consumer.active(transaction.view())?;
            let words = Consumer::words(consumer.seen, active, own);
            let at = create_record(transaction, to, &words, &name)?;
            moved.insert(record, at);
            rows.push(name_row(&name, at));
        }
        let consumers = rows::build(transaction, to, Kind::Consumers, &rows)?;
        let mut pending = all_rows(transaction.view(), &group.pending(transaction.view())?)?;
        for row in &mut pending {
            let mut entry = Pending::of(*row);
            let consumer = moved.get(&entry.consumer);
            entry.consumer = *consumer.ok_or_else(|| rows::fault(group.at))?;
            *row = entry.row();
        }
        let pending = rows::build(transaction, to, Kind::Pending, &pending)?;
        let words = Group::words(group.last, group.read, pending, consumers);
        create_record(transaction, to, &words, name)
    }

    /// Returns the number of bytes that a stream uses in addition to its keyspace entry. This is
    /// the size of its arena, or the total size of its blocks.
    pub(super) fn memory_usage(&self, view: &View<'_>) -> Result<u64, Error> {
        if self.pool.arena() != 0 {
            return Ok(view.arena_bytes(self.pool.arena())?);
        }
        let mut bytes = 0_u64;
        bytes += self.for_each_leaf(view, |leaf, _| {
            bytes = bytes.saturating_add(leaf.block_size());
            Ok(())
        })?;
        let groups = self.groups(view)?;
        let mut rows = groups.bytes(view)?;
        for (name, record) in self.names(view, &groups)? {
            let group = Group::load(view, record, self.pool)?;
            let consumers = group.consumers(view)?;
            rows += block_size(super::rows::GROUP_NAME + 8 + name.len() as u64);
            rows += group.pending(view)?.bytes(view)? + consumers.bytes(view)?;
            for (name, record) in self.names(view, &consumers)? {
                rows += block_size(super::rows::CONSUMER_NAME + 8 + name.len() as u64);
                let consumer = Consumer::load(view, record, self.pool)?;
                rows += consumer.own(view)?.bytes(view)?;
            }
        }
        Ok(bytes.saturating_add(rows))
    }

    /// Calls `reach` for every block of the stream and verifies the counts and keys in its trees.
    pub(super) fn check(
        &self,
        view: &View<'_>,
        reach: &mut dyn FnMut(Offset),
    ) -> Result<(), Error> {
        let mut last = None;
        let root = (self.entries.root(), self.entries.height());
        let mut buffers = (Vec::new(), StreamEntries::new());
        let counted = reach_tree(view, root, reach, &mut |at, note, noted| {
            let leaf = Leaf::load(view, at)?;
            let image = leaf.image(view, &mut buffers.0)?;
            let mut count = 0;
            for spot in image.spots() {
                let spot = spot?;
                let in_order = last.is_none_or(|last| last < spot.id)
                    && leaf.base <= spot.id
                    && note.is_none_or(|note| StreamId::of_words(note) == leaf.base);
                if !in_order {
                    return Err(super::leaves::leaf::fault(at));
                }
                undercroft_memory::Scratch::clear(&mut buffers.1);
                image.append(spot.start, &mut buffers.1)?;
                last = Some(spot.id);
                count += 1;
            }
            let (_, tombstone) = image.behind()?;
            let is_sound = noted.is_none_or(|noted| noted == count && count > 0)
                && tombstone.is_none_or(|id| last.is_none_or(|last| last < id));
            if !is_sound {
                return Err(super::leaves::leaf::fault(at));
            }
            Ok(count)
        })?;
        if counted != self.length() || last.is_some_and(|last| last > self.last) {
            return Err(fault(self.at));
        }
        let groups = self.groups(view)?;
        check_rows(view, &groups, reach)?;
        for (_, record) in self.names(view, &groups)? {
            reach(record);
            let group = Group::load(view, record, self.pool)?;
            let (pending, consumers) = (group.pending(view)?, group.consumers(view)?);
            check_rows(view, &pending, reach)?;
            check_rows(view, &consumers, reach)?;
            let mut own = 0;
            for (_, record) in self.names(view, &consumers)? {
                reach(record);
                let rows = Consumer::load(view, record, self.pool)?.own(view)?;
                check_rows(view, &rows, reach)?;
                own += rows.count();
                for row in all_rows(view, &rows)? {
                    let found = pending.find_key(view, [row[0], row[1]])?;
                    if found.is_none_or(|found| Pending::of(found.row).consumer != record) {
                        return Err(fault(record));
                    }
                }
            }
            if own != pending.count() {
                return Err(fault(record));
            }
        }
        Ok(())
    }
}

/// Calls `reach` for the nodes and leaves of a tree. `visit` is called with each leaf, its note and
/// its recorded number of items, and returns the actual number of items in the leaf.
fn reach_tree(
    view: &View<'_>,
    (at, level): Subtree,
    reach: &mut dyn FnMut(Offset),
    visit: &mut dyn FnMut(Offset, Option<[u64; 2]>, Option<u64>) -> Result<u64, Error>,
) -> Result<u64, Error> {
    if at == 0 {
        return Ok(0);
    }
    reach(at);
    if level == 0 {
        return visit(at, None, None);
    }
    if level > HEIGHT_MAX {
        return Err(fault(at));
    }
    let node = Node::<2>::load(view, at, level)?;
    let mut sum = 0_u64;
    for index in 0..node.children() {
        let (child, count) = node.child(view, index)?;
        let counted = if level == 1 {
            reach(child);
            visit(child, Some(node.note(view, index)?), Some(count))?
        } else {
            reach_tree(view, (child, level - 1), reach, visit)?
        };
        if counted != count {
            return Err(fault(child));
        }
        sum = sum.wrapping_add(count);
    }
    Ok(sum)
}

/// Calls `reach` for every block in a tree of rows and verifies that the rows are in order.
fn check_rows(view: &View<'_>, rows: &Rows, reach: &mut dyn FnMut(Offset)) -> Result<(), Error> {
    let root = (rows.tree.root(), rows.tree.height());
    let mut last: Option<(Vec<u8>, [u64; 2])> = None;
    let counted = reach_tree(view, root, reach, &mut |at, note, _| {
        let leaf = rows::Leaf::load_any(view, at)?;
        let all = leaf.rows(view)?;
        let key = |row: &Row| [row[0], row[1]];
        let noted = note.is_none_or(|note| all.first().is_some_and(|row| key(row) == note));
        if leaf.kind != rows.kind() || !noted {
            return Err(rows::fault(at));
        }
        for row in &all {
            let mut name = Vec::new();
            // Rows that refer to named records are ordered by name. The order does not depend on
            // the offsets of the records.
            let words = match rows.kind().name_at() {
                Some(_) => {
                    append_name(view, rows.kind(), row[1], &mut name)?;
                    if name_row(&name, row[1]) != *row {
                        return Err(rows::fault(at));
                    }
                    [0; 2]
                }
                None => key(row),
            };
            let next = (name, words);
            if last.as_ref().is_some_and(|last| *last >= next) {
                return Err(rows::fault(at));
            }
            last = Some(next);
        }
        Ok(all.len() as u64)
    })?;
    if counted != rows.count() {
        return Err(rows::fault(rows.tree.root()));
    }
    Ok(())
}

/// Returns all rows of a tree in order.
pub(super) fn all_rows(view: &View<'_>, rows: &Rows) -> Result<Vec<Row>, Error> {
    let mut all = Vec::new();
    rows.for_each(view, |row| {
        all.push(*row);
        Ok(())
    })?;
    Ok(all)
}
