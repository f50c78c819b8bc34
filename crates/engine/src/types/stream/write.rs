//! Adds, deletes, trims and delivers stream entries, and manages groups.

use undercroft_memory::{Transaction, View, removing};

use super::entries::IdRange;
use super::found::StreamEntries;
use super::free::discard_tree;
use super::group::{Consumer, Group, Pending, UNKNOWN};
use super::id::StreamId;
use super::root::Stream;
use super::{STREAM, StreamLimits};
use crate::error::Error;
use crate::handle::events::KeyEvent;
use crate::structures::key::Key;
use crate::transaction::effect::{ChangedPart, Effect};
use crate::transaction::writer::Writer;
use crate::types::value_type::ValueType;

/// The requested ID of a new entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryId {
    /// The current time, or the ID after the last ID if the current time is not later.
    Now,
    /// The given time in milliseconds, with the next free sequence number.
    Within(u64),
    /// Exactly this ID.
    Exactly(StreamId),
}

/// The result of adding an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddedEntry {
    /// The entry was added with this ID.
    Added(StreamId),
    /// The stream does not exist, and the caller did not request its creation.
    Missing,
    /// The last ID is the highest possible ID.
    Exhausted,
    /// The requested ID is not greater than the last ID.
    NotBehind,
}

/// The entries that are kept when a stream is trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimTo {
    /// Keeps the given number of entries at the end of the stream (MAXLEN).
    Length(u64),
    /// Keeps the entries whose IDs are at least the given ID (MINID).
    From(StreamId),
}

/// The options for trimming a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    /// The entries to keep.
    pub to: TrimTo,
    /// The maximum number of entries that an approximate trim removes, in complete leaves, or
    /// `None` for an exact trim.
    pub about: Option<u64>,
}

/// The result of setting the last ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetId {
    /// The last ID was set.
    Done,
    /// The stream does not exist.
    Missing,
    /// The new ID is less than the ID of the last entry.
    BeforeLast,
    /// The given number of added entries is less than the number of entries in the stream.
    TooFew,
}

impl Writer<'_, '_> {
    /// Returns the stream at a key, or `None` if the key does not exist.
    pub fn stream(&mut self, database: usize, key: &Key<'_>) -> Result<Option<Stream>, Error> {
        match self.find_type(database, key, ValueType::Stream)? {
            Some(found) => Stream::load(self.view(), key.shard, &found.entry).map(Some),
            None => Ok(None),
        }
    }

    /// Creates an empty stream. The key must not exist.
    pub(super) fn create_stream(
        &mut self,
        database: usize,
        key: &Key<'_>,
    ) -> Result<Stream, Error> {
        let ids = (StreamId::MIN, StreamId::MIN, 0);
        let words = Stream::root_words([0; 3], key.shard.into(), ids, [0; 3]);
        self.put_object(database, key, None, STREAM, &words)?;
        self.stream(database, key)?.ok_or(Error::WrongType)
    }

    /// Records that a stream changed and emits a keyspace event.
    pub(super) fn stream_changed(&mut self, database: usize, key: &Key<'_>, event: KeyEvent) {
        self.changed(database, key, Effect::Changed);
        self.tell(event, database, key);
    }

    /// Appends an entry of alternating fields and values. Creates the stream if it does not exist
    /// and `create` is set. Then trims the stream if `trim` is given. O(log n + entries trimmed).
    #[expect(
        clippy::too_many_arguments,
        reason = "one parameter for each option of the command"
    )]
    pub fn stream_add(
        &mut self,
        database: usize,
        key: &Key<'_>,
        id: EntryId,
        texts: &[&[u8]],
        create: bool,
        trim: Option<&Trim>,
        limits: &StreamLimits,
    ) -> Result<AddedEntry, Error> {
        let there = self.stream(database, key)?;
        if there.is_none() && !create {
            return Ok(AddedEntry::Missing);
        }
        let last = there.as_ref().map_or(StreamId::MIN, |stream| stream.last);
        if last == StreamId::MAX {
            return Ok(AddedEntry::Exhausted);
        }
        let id = match id {
            EntryId::Exactly(id) => Some(id),
            EntryId::Within(ms) if ms == last.ms => {
                last.seq.checked_add(1).map(|seq| StreamId { ms, seq })
            }
            EntryId::Within(ms) => Some(StreamId { ms, seq: 0 }),
            EntryId::Now => {
                let now = self.now();
                if now > last.ms {
                    Some(StreamId { ms: now, seq: 0 })
                } else {
                    last.next()
                }
            }
        };
        let Some(id) = id.filter(|id| *id > last) else {
            return Ok(AddedEntry::NotBehind);
        };
        let is_new = there.is_none();
        let mut stream = match there {
            Some(stream) => stream,
            None => self.create_stream(database, key)?,
        };
        self.free_along(key.shard, 1)?;
        stream.push(self.transaction, (id, texts), limits)?;
        stream.note_added(self.transaction, id)?;
        match is_new {
            true => self.changed(database, key, Effect::Changed),
            false => self.changed_parts(database, key, [entry_part(id)]),
        }
        self.tell(KeyEvent::XAdd, database, key);
        if let Some(trim) = trim
            && stream.trim(self.transaction, trim)? > 0
        {
            self.changed_parts(database, key, [ChangedPart::Trimmed]);
            self.tell(KeyEvent::XTrim, database, key);
        }
        Ok(AddedEntry::Added(id))
    }

    /// Removes entries from the start of a stream. Returns the number of entries removed. O(log n),
    /// because the leaves are freed later.
    pub fn stream_trim(
        &mut self,
        database: usize,
        key: &Key<'_>,
        trim: &Trim,
    ) -> Result<u64, Error> {
        let _removing = removing();
        let Some(mut stream) = self.stream(database, key)? else {
            return Ok(0);
        };
        let gone = stream.trim(self.transaction, trim)?;
        if gone > 0 {
            self.free_along(key.shard, 0)?;
            self.changed_parts(database, key, [ChangedPart::Trimmed]);
            self.tell(KeyEvent::XTrim, database, key);
        }
        Ok(gone)
    }

    /// Deletes entries from a stream. Returns the number of entries deleted. O(IDs * log n).
    pub fn stream_delete(
        &mut self,
        database: usize,
        key: &Key<'_>,
        ids: &[StreamId],
    ) -> Result<u64, Error> {
        let _removing = removing();
        let Some(mut stream) = self.stream(database, key)? else {
            return Ok(0);
        };
        let (mut gone, mut greatest) = (0, stream.deleted);
        self.expect_parts(database, key)?;
        for &id in ids {
            let pool = stream.pool;
            if stream.entries.remove(self.transaction, pool, id)? {
                gone += 1;
                greatest = greatest.max(id);
                if self.transaction.is_in_parts() {
                    stream.set_deleted(self.transaction, greatest)?;
                    self.transaction.end_of_part()?;
                }
            }
        }
        if gone > 0 {
            stream.set_deleted(self.transaction, greatest)?;
            let parts = ids.iter().map(|id| entry_part(*id));
            self.changed_parts(database, key, parts);
            self.tell(KeyEvent::XDel, database, key);
        }
        Ok(gone)
    }

    /// Sets the last ID of a stream. Also sets the number of added entries and the highest deleted
    /// ID if they are given.
    pub fn stream_set_id(
        &mut self,
        database: usize,
        key: &Key<'_>,
        id: StreamId,
        added: Option<u64>,
        deleted: Option<StreamId>,
    ) -> Result<SetId, Error> {
        let Some(mut stream) = self.stream(database, key)? else {
            return Ok(SetId::Missing);
        };
        if let Some(last) = stream.entries.edge(self.view(), true)? {
            if id < last {
                return Ok(SetId::BeforeLast);
            }
            if added.is_some_and(|added| added < stream.length()) {
                return Ok(SetId::TooFew);
            }
        } else {
            let pool = stream.pool;
            stream.entries.drop_behind(self.transaction, pool, id)?;
        }
        stream.set_last(self.transaction, id)?;
        if let Some(added) = added {
            stream.set_added(self.transaction, added)?;
        }
        if let Some(deleted) = deleted {
            stream.set_deleted(self.transaction, deleted)?;
        }
        self.stream_changed(database, key, KeyEvent::XSetId);
        Ok(SetId::Done)
    }

    /// Creates a group. Entries up to the ID `last` count as delivered, or all current entries if
    /// `last` is `None`. `read` is the number of entries delivered, or -1 if unknown. Returns
    /// whether the group is new, or `None` if the stream does not exist and `create` is not set.
    pub fn stream_create_group(
        &mut self,
        database: usize,
        key: &Key<'_>,
        name: &[u8],
        (last, read): (Option<StreamId>, i64),
        create: bool,
    ) -> Result<Option<bool>, Error> {
        let stream = match self.stream(database, key)? {
            Some(stream) => stream,
            None if create => {
                let stream = self.create_stream(database, key)?;
                self.changed(database, key, Effect::Changed);
                stream
            }
            None => return Ok(None),
        };
        if stream.has_group(self.view(), name)? {
            return Ok(Some(false));
        }
        let last = last.unwrap_or(stream.last);
        stream.create_group(self.transaction, name, last, read)?;
        self.told_only(database, key);
        self.tell(KeyEvent::XGroupCreate, database, key);
        Ok(Some(true))
    }

    /// Sets the last delivered ID of a group. Returns whether the group exists, or `None` if the
    /// stream does not exist.
    pub fn stream_set_group(
        &mut self,
        database: usize,
        key: &Key<'_>,
        name: &[u8],
        (last, read): (Option<StreamId>, i64),
    ) -> Result<Option<bool>, Error> {
        let Some(stream) = self.stream(database, key)? else {
            return Ok(None);
        };
        let Some(mut group) = stream.group(self.view(), name)? else {
            return Ok(Some(false));
        };
        group.set_last(self.transaction, last.unwrap_or(stream.last), read)?;
        self.told_only(database, key);
        self.tell(KeyEvent::XGroupSetId, database, key);
        Ok(Some(true))
    }

    /// Removes a group and its pending entries. Returns whether the group existed, or `None` if the
    /// stream does not exist.
    pub fn stream_destroy_group(
        &mut self,
        database: usize,
        key: &Key<'_>,
        name: &[u8],
    ) -> Result<Option<bool>, Error> {
        let Some(stream) = self.stream(database, key)? else {
            return Ok(None);
        };
        if !stream.destroy_group(self.transaction, name)? {
            return Ok(Some(false));
        }
        // This event wakes the clients that are blocked on the group.
        self.stream_changed(database, key, KeyEvent::XGroupDestroy);
        Ok(Some(true))
    }

    /// Creates a consumer. Returns whether the consumer is new, or `None` if the group does not
    /// exist.
    pub fn stream_create_consumer(
        &mut self,
        database: usize,
        key: &Key<'_>,
        (group_name, name): (&[u8], &[u8]),
    ) -> Result<Option<bool>, Error> {
        let Some(group) = self.stream_group(database, key, group_name)? else {
            return Ok(None);
        };
        if group.consumer(self.view(), name)?.is_some() {
            return Ok(Some(false));
        }
        self.consumer(database, key, &group, name)?;
        let group = group_name;
        self.told_parts(database, key, [ChangedPart::Consumer { group, name }]);
        Ok(Some(true))
    }

    /// Removes a consumer and its pending entries. Returns the number of its pending entries, or
    /// `None` if the group does not exist. O(pending * log n).
    pub fn stream_delete_consumer(
        &mut self,
        database: usize,
        key: &Key<'_>,
        (group, name): (&[u8], &[u8]),
    ) -> Result<Option<u64>, Error> {
        let _removing = removing();
        let Some(group) = self.stream_group(database, key, group)? else {
            return Ok(None);
        };
        let Some(pending) = group.delete_consumer(self.transaction, name)? else {
            return Ok(Some(0));
        };
        self.told_only(database, key);
        self.tell(KeyEvent::XGroupDelConsumer, database, key);
        Ok(Some(pending))
    }

    /// Acknowledges pending entries. Returns the number of entries that were pending, or `None` if
    /// the group does not exist.
    pub fn stream_acknowledge(
        &mut self,
        database: usize,
        key: &Key<'_>,
        group: &[u8],
        ids: &[StreamId],
    ) -> Result<Option<u64>, Error> {
        let _removing = removing();
        let name = group;
        let Some(group) = self.stream_group(database, key, group)? else {
            return Ok(None);
        };
        let mut acknowledged = 0;
        self.expect_parts(database, key)?;
        for &id in ids {
            acknowledged += u64::from(group.acknowledge(self.transaction, id)?);
            self.transaction.end_of_part()?;
        }
        if acknowledged > 0 {
            let parts = ids.iter().map(|id| pending_part(name, *id));
            self.told_parts(database, key, parts);
        }
        Ok(Some(acknowledged))
    }

    /// Delivers the next entries of a group to a consumer. The entries become pending unless
    /// `acknowledged` is set. Returns whether the group exists. O(log n + entries * log pending).
    pub fn stream_deliver(
        &mut self,
        database: usize,
        key: &Key<'_>,
        (group, name): (&[u8], &[u8]),
        (count, acknowledged): (u64, bool),
        out: &mut StreamEntries,
    ) -> Result<bool, Error> {
        let Some(mut stream) = self.stream(database, key)? else {
            return Ok(false);
        };
        let Some(mut found) = stream.group(self.view(), group)? else {
            return Ok(false);
        };
        let (first, mut from) = (out.len(), found.last);
        if let Some(next) = from.next() {
            from = next;
            let range = IdRange {
                from,
                count,
                ..IdRange::ALL
            };
            stream.range(self.view(), range, out)?;
        }
        if out.len() == first {
            return Ok(true);
        }
        if !acknowledged && stream.settle_pending(self.transaction, &found)? {
            found = stream.group(self.view(), group)?.ok_or(Error::WrongType)?;
        }
        let consumer = self.consumer(database, key, &found, name)?;
        let read = stream.count_read(self.view(), &found, &out.ids()[first..])?;
        if !acknowledged {
            self.pend(&found, &consumer, &out.ids()[first..])?;
        }
        if let Some(&last) = out.ids().last() {
            found.set_last(self.transaction, last, read)?;
        }
        let used = [
            ChangedPart::Consumer { group, name },
            ChangedPart::Group(group),
        ];
        let pending = out.ids()[first..].iter().filter(|_| !acknowledged);
        let pending = pending.map(|id| pending_part(group, *id));
        self.told_parts(database, key, used.into_iter().chain(pending));
        Ok(true)
    }

    /// Redelivers entries that are already pending for a consumer and whose IDs are greater than
    /// `behind`. An entry that was deleted from the stream is returned without fields and values.
    /// Returns whether the group exists. O(log n + entries * log n).
    pub fn stream_deliver_again(
        &mut self,
        database: usize,
        key: &Key<'_>,
        (group, name): (&[u8], &[u8]),
        (behind, count): (StreamId, u64),
        out: &mut StreamEntries,
    ) -> Result<bool, Error> {
        let Some(stream) = self.stream(database, key)? else {
            return Ok(false);
        };
        let group_name = group;
        let Some(group) = stream.group(self.view(), group)? else {
            return Ok(false);
        };
        let consumer = self.consumer(database, key, &group, name)?;
        let mut ids = Vec::new();
        if let Some(from) = behind.next().filter(|_| count > 0) {
            let from = from.words();
            consumer.own(self.view())?.for_each_from(
                self.view(),
                |key| Ok(key < from),
                |row| {
                    ids.push(StreamId::of_words([row[0], row[1]]));
                    Ok((ids.len() as u64) < count)
                },
            )?;
        }
        let pending = group.pending(self.view())?;
        for &id in &ids {
            if !stream.append_entry(self.view(), id, out)? {
                out.end_entry(id);
                continue;
            }
            if let Some(found) = pending.find_key(self.view(), id.words())? {
                let mut entry = Pending::of(found.row);
                entry.time = self.now();
                entry.deliveries = entry.deliveries.saturating_add(1);
                pending.set(self.transaction, &found, &entry.row())?;
            }
        }
        let group = group_name;
        let used = [ChangedPart::Consumer { group, name }];
        let pending = ids.iter().map(|id| pending_part(group, *id));
        self.told_parts(database, key, used.into_iter().chain(pending));
        Ok(true)
    }

    /// Records that entries are delivered to a consumer at the current time. The IDs must be in
    /// order.
    fn pend(&mut self, group: &Group, consumer: &Consumer, ids: &[StreamId]) -> Result<(), Error> {
        let time = self.now();
        let entry = |id| Pending {
            id,
            consumer: consumer.at,
            time,
            deliveries: 1,
        };
        let greatest = group.pending(self.view())?.edge(self.view(), true)?;
        let greatest = greatest.map_or(StreamId::MIN, StreamId::of_words);
        let (old, new) = ids.split_at(ids.partition_point(|id| *id <= greatest));
        for &id in old {
            group.assign(self.transaction, &entry(id))?;
        }
        let mut pending = group.pending(self.view())?;
        let mut own = consumer.own(self.view())?;
        for &id in new {
            let [ms, seq] = id.words();
            pending.push(self.transaction, &entry(id).row())?;
            own.push(self.transaction, &[ms, seq, 0, 0])?;
        }
        Ok(())
    }

    pub(super) fn stream_group(
        &mut self,
        database: usize,
        key: &Key<'_>,
        name: &[u8],
    ) -> Result<Option<Group>, Error> {
        match self.stream(database, key)? {
            Some(stream) => stream.group(self.view(), name),
            None => Ok(None),
        }
    }

    /// Returns a consumer and updates the time at which it was last seen. Creates the consumer if
    /// it does not exist.
    pub(super) fn consumer(
        &mut self,
        database: usize,
        key: &Key<'_>,
        group: &Group,
        name: &[u8],
    ) -> Result<Consumer, Error> {
        let now = self.now();
        if let Some(mut consumer) = group.consumer(self.view(), name)? {
            consumer.see(self.transaction, now)?;
            return Ok(consumer);
        }
        let consumer = group.create_consumer(self.transaction, name, (now, now))?;
        self.tell(KeyEvent::XGroupCreateConsumer, database, key);
        Ok(consumer)
    }
}

impl Stream {
    pub(super) fn push(
        &mut self,
        transaction: &mut Transaction<'_>,
        entry: (StreamId, &[&[u8]]),
        limits: &StreamLimits,
    ) -> Result<(), Error> {
        let used = self.entries.push(transaction, self.pool, entry, limits)?;
        if let Some(used) = used {
            let leaves = self.entries.leaves_at_least(transaction.view())?;
            self.settle(transaction, leaves, used)?;
        }
        Ok(())
    }

    /// Moves the stream to an arena if a group has many pending entries. Returns whether the stream
    /// was moved.
    fn settle_pending(
        &mut self,
        transaction: &mut Transaction<'_>,
        group: &Group,
    ) -> Result<bool, Error> {
        const ROWS_LEAF: u64 = 2048;
        let pending = group.pending(transaction.view())?;
        let leaves = pending.tree.leaves_at_least(transaction.view())?;
        self.settle(transaction, leaves, ROWS_LEAF)
    }

    /// Returns the number of entries that the group will have read once the entries with the given
    /// IDs are delivered.
    fn count_read(&self, view: &View<'_>, group: &Group, ids: &[StreamId]) -> Result<i64, Error> {
        let mut read = group.read;
        for &id in ids {
            if read != UNKNOWN && !self.has_gap_behind(view, id)? {
                // Let the number wrap around, as in Redis, because XGROUP accepts any number of
                // entries read.
                read = read.wrapping_add(1);
            } else if self.added != 0 {
                read = self.count_at(view, id)?.unwrap_or(UNKNOWN);
            }
        }
        Ok(read)
    }

    /// Appends the entry with this ID to `out`. Returns whether the entry exists.
    pub(super) fn append_entry(
        &self,
        view: &View<'_>,
        id: StreamId,
        out: &mut StreamEntries,
    ) -> Result<bool, Error> {
        let before = out.len();
        let range = IdRange {
            from: id,
            to: id,
            count: 1,
            reverse: false,
        };
        self.range(view, range, out)?;
        Ok(out.len() > before)
    }

    /// Removes entries from the start of the stream, as specified by `trim`. Returns the number of
    /// entries removed.
    fn trim(&mut self, transaction: &mut Transaction<'_>, trim: &Trim) -> Result<u64, Error> {
        let (view, pool) = (transaction.view(), self.pool);
        let (mut entries, tombstone) = match trim.to {
            TrimTo::Length(length) => (self.length().saturating_sub(length), None),
            TrimTo::From(id) => {
                let entries = self.entries.count_before(view, id)?;
                let before = self.entries.before_tombstone(view, entries, id)?;
                (entries, before)
            }
        };
        let mut off = Vec::new();
        match (trim.about, tombstone) {
            (None, Some(_)) if entries == self.length() => {
                self.entries
                    .drop_to_tombstone(transaction, pool, &mut off)?;
            }
            (about, before) => {
                entries = match (about, before) {
                    (None, _) => entries,
                    (Some(most), Some(before)) if entries <= most => before,
                    (Some(most), _) => self.entries.whole_leaves(view, entries, most)?,
                };
                self.entries
                    .drop_first(transaction, pool, entries, &mut off)?;
            }
        }
        for subtree in off {
            discard_tree(transaction, pool, subtree)?;
        }
        if let TrimTo::From(id) = trim.to {
            self.entries.drop_tombstone(transaction, pool, id)?;
        }
        Ok(entries)
    }
}

fn entry_part(id: StreamId) -> ChangedPart<'static> {
    let StreamId { ms, seq } = id;
    ChangedPart::Entry { ms, seq }
}

pub(super) fn pending_part(group: &[u8], id: StreamId) -> ChangedPart<'_> {
    let StreamId { ms, seq } = id;
    ChangedPart::Pending { group, ms, seq }
}
