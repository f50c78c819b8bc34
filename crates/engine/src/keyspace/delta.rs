//! The current state of parts of a key, as replicas receive it.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::handle::reader::Reader;
use crate::structures::key::Key;
use crate::structures::ranges::Ranges;
use crate::transaction::effect::ChangedPart;
use crate::types::sorted::score_text;
use crate::types::stream::{IdRange, PendingEntry, StreamEntries, StreamId};
use crate::types::string::text::Text;
use crate::types::value_type::ValueType;

/// The changes that bring a replica, which has an earlier state of a key, to its current state.
#[derive(Debug, Default)]
pub struct Delta {
    /// The fields of a hash, or the members of a set or sorted set, that may have changed: each with
    /// its value, its score, or an empty text for the member of a set; `None` if it does not exist.
    pub members: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// The type of the value.
    pub value_type: Option<ValueType>,
    /// The expiry, if it may have changed.
    pub expiry: Option<Option<u64>>,
    /// Positions in a string, and the bytes there.
    pub bytes: Vec<(u64, Vec<u8>)>,
    /// The changes to the ends of a list.
    pub ends: Option<ListEnds>,
    /// The changes to a stream.
    pub stream: Option<StreamDelta>,
}

/// The changes to the ends of a list.
#[derive(Debug, Default)]
pub struct ListEnds {
    /// The number of items that are removed at the left and at the right end.
    pub removed: [u64; 2],
    /// The items that are then added at the left end, in the order of the list.
    pub left: Ranges,
    /// The items that are then added at the right end, in the order of the list.
    pub right: Ranges,
}

/// The changes to the entries of a stream.
#[derive(Debug, Default)]
pub struct StreamDelta {
    /// The entries that were appended, with their fields and values.
    pub added: Vec<(StreamId, Ranges)>,
    /// The entries that were deleted.
    pub deleted: Vec<StreamId>,
    /// If older entries were removed, the first entry that remains, or `None` if none does.
    pub trimmed: Option<Option<StreamId>>,
    /// The ID of the last entry that was ever added.
    pub last: StreamId,
    /// The number of entries that were ever added.
    pub entries_added: u64,
    /// The highest ID that was deleted.
    pub max_deleted: StreamId,
    /// Whether entries may have been added or removed.
    pub has_entries: bool,
    /// The groups whose positions may have changed: each with the ID of the entry that was delivered
    /// last, and the number of entries that were delivered, if it is known.
    pub groups: Vec<(Vec<u8>, StreamId, Option<i64>)>,
    /// The consumers that were used, each with the name of its group first.
    pub consumers: Vec<[Vec<u8>; 2]>,
    /// The entries that may have become pending in a group, or may no longer be pending.
    pub pending: Vec<(Vec<u8>, StreamId, Option<PendingEntry>)>,
}

impl Delta {
    /// Returns about how many bytes of names and values there are. O(parts).
    pub fn length(&self) -> usize {
        let members = self.members.iter();
        let members = members.map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len));
        let bytes = self.bytes.iter().map(|(_, bytes)| bytes.len());
        let ends = self.ends.iter().flat_map(|ends| [&ends.left, &ends.right]);
        let ends = ends.map(Ranges::byte_length);
        members.chain(bytes).chain(ends).sum::<usize>()
            + self.stream.as_ref().map_or(0, StreamDelta::length)
    }
}

impl StreamDelta {
    fn length(&self) -> usize {
        let added = self.added.iter().map(|(_, fields)| fields.byte_length());
        let groups = self.groups.iter().map(|(name, ..)| name.len());
        let consumers = self.consumers.iter().flatten().map(Vec::len);
        let pending = self.pending.iter().map(|(group, _, entry)| {
            group.len() + entry.as_ref().map_or(0, |entry| entry.consumer.len())
        });
        added.chain(groups).chain(consumers).chain(pending).sum()
    }
}

impl Reader<'_, '_> {
    /// Returns the current state of the parts of a key, given in the order of their changes. Returns
    /// `None` if a replica needs the complete state, because the key does not exist, has another
    /// type, or has no item that the replica already has. O(parts * log n).
    ///
    /// # Errors
    /// Fails if the entry is damaged.
    pub fn delta(
        &self,
        database: usize,
        key: &[u8],
        parts: &[ChangedPart<'_>],
    ) -> Result<Option<Delta>, Error> {
        let key = self.key(key);
        let Some(entry) = self.find(database, &key)? else {
            return Ok(None);
        };
        let value_type = entry.value_type()?;
        let mut delta = Delta {
            value_type: Some(value_type),
            ..Delta::default()
        };
        let mut members = BTreeSet::new();
        let (mut items, mut entries) = (Vec::new(), BTreeSet::new());
        let mut is_trimmed = false;
        let (mut groups, mut ranges) = (Vec::new(), Vec::new());
        for &part in parts {
            match part {
                ChangedPart::Expiry => delta.expiry = Some(entry.expiry(self.view())?),
                ChangedPart::Member(name) => {
                    members.insert(name);
                }
                ChangedPart::Bytes { position, length } => ranges.push((position, length)),
                ChangedPart::Items { .. } => items.push(part),
                ChangedPart::Entry { ms, seq } => {
                    entries.insert(StreamId { ms, seq });
                }
                ChangedPart::Trimmed => is_trimmed = true,
                ChangedPart::Group(_)
                | ChangedPart::Consumer { .. }
                | ChangedPart::Pending { .. } => groups.push(part),
            }
        }
        let is_sound = self.add_bytes(database, &key, &ranges, &mut delta)?
            && self.add_members(database, &key, (value_type, &members), &mut delta)?
            && self.add_items(database, &key, (value_type, &items), &mut delta)?
            && self.add_entries(database, &key, (&entries, is_trimmed), &mut delta)?
            && self.add_groups(database, &key, &groups, &mut delta)?;
        Ok(is_sound.then_some(delta))
    }

    /// Reads the bytes of a string. Returns whether all exist.
    fn add_bytes(
        &self,
        database: usize,
        key: &Key<'_>,
        ranges: &[(u64, u64)],
        delta: &mut Delta,
    ) -> Result<bool, Error> {
        if ranges.is_empty() {
            return Ok(true);
        }
        if delta.value_type != Some(ValueType::String) {
            return Ok(false);
        }
        let Some(entry) = self.find(database, key)? else {
            return Ok(false);
        };
        let Text::Bytes(at, length) = entry.text(self.view())? else {
            return Ok(false);
        };
        for &(position, count) in ranges {
            // A torn record can contain any numbers (R3).
            let end = position.checked_add(count);
            if end.is_none_or(|end| end > length) {
                return Ok(false);
            }
            // Reads begin at a word.
            let misfit = position % 8;
            let mut words = Vec::new();
            self.view()
                .append_to(at + position - misfit, misfit + count, &mut words)?;
            words.drain(..misfit as usize);
            delta.bytes.push((position, words));
        }
        Ok(true)
    }

    /// Looks up members or fields. Returns whether the value has any.
    fn add_members(
        &self,
        database: usize,
        key: &Key<'_>,
        (value_type, members): (ValueType, &BTreeSet<&[u8]>),
        delta: &mut Delta,
    ) -> Result<bool, Error> {
        for member in members {
            let name = self.key(member);
            let found = match value_type {
                ValueType::Hash => {
                    let mut value = Vec::new();
                    let hash = self.hash(database, key)?;
                    match hash {
                        Some(hash) if hash.get(self.view(), &name, &mut value)? => Some(value),
                        _ => None,
                    }
                }
                ValueType::Set => match self.set(database, key)? {
                    Some(set) if set.contains(self.view(), &name)? => Some(Vec::new()),
                    _ => None,
                },
                ValueType::SortedSet => match self.sorted_set(database, key)? {
                    Some(set) => {
                        let score = set.score(self.view(), &name)?;
                        score.map(|score| score_text(score).into_bytes())
                    }
                    None => None,
                },
                _ => return Ok(false),
            };
            delta.members.push((member.to_vec(), found));
        }
        Ok(true)
    }

    /// Reads the new items at the ends of a list. Returns whether an old one remains between them.
    fn add_items(
        &self,
        database: usize,
        key: &Key<'_>,
        (value_type, items): (ValueType, &[ChangedPart<'_>]),
        delta: &mut Delta,
    ) -> Result<bool, Error> {
        if items.is_empty() {
            return Ok(true);
        }
        if value_type != ValueType::List {
            return Ok(false);
        }
        // The number of new items at each end, and of old ones that were removed there.
        // A torn record can contain any numbers (R3).
        let (mut new, mut removed, mut old) = ([0_u64; 2], [0_u64; 2], None);
        for part in items {
            let &ChangedPart::Items {
                left,
                added,
                count,
                length,
            } = part
            else {
                continue;
            };
            let end = usize::from(!left);
            if added {
                old.get_or_insert(length.saturating_sub(count));
                new[end] = new[end].saturating_add(count);
            } else {
                old.get_or_insert(length.saturating_add(count));
                let taken = new[end].min(count);
                new[end] -= taken;
                removed[end] = removed[end].saturating_add(count - taken);
            }
        }
        let old: u64 = old.unwrap_or(0);
        let length = self.list_length(database, key)?;
        let [left, right] = new;
        let kept = old.saturating_sub(removed[0].saturating_add(removed[1]));
        let sum = kept
            .checked_add(left)
            .and_then(|sum| sum.checked_add(right));
        let is_sound = kept > 0 && sum == Some(length);
        if !is_sound {
            return Ok(false);
        }
        let mut ends = ListEnds {
            removed,
            ..ListEnds::default()
        };
        if left > 0 {
            self.list_range(database, key, (0, left as i64 - 1), &mut ends.left)?;
        }
        if right > 0 {
            self.list_range(database, key, (-(right as i64), -1), &mut ends.right)?;
        }
        delta.ends = Some(ends);
        Ok(true)
    }

    /// Looks up entries of a stream. Returns whether there is a stream.
    fn add_entries(
        &self,
        database: usize,
        key: &Key<'_>,
        (entries, is_trimmed): (&BTreeSet<StreamId>, bool),
        delta: &mut Delta,
    ) -> Result<bool, Error> {
        if entries.is_empty() && !is_trimmed {
            return Ok(true);
        }
        if delta.value_type != Some(ValueType::Stream) {
            return Ok(false);
        }
        let Some(stream) = self.stream(database, key)? else {
            return Ok(false);
        };
        if stream.last_id() < stream.max_deleted_id() {
            // XSETID can set the last id back below a deleted one, but not both at once.
            return Ok(false);
        }
        let mut changes = StreamDelta {
            last: stream.last_id(),
            entries_added: stream.entries_added(),
            max_deleted: stream.max_deleted_id(),
            has_entries: true,
            ..StreamDelta::default()
        };
        for &id in entries {
            let mut found = StreamEntries::new();
            let range = IdRange {
                from: id,
                to: id,
                count: 1,
                ..IdRange::ALL
            };
            stream.range(self.view(), range, &mut found)?;
            if found.is_empty() {
                changes.deleted.push(id);
                continue;
            }
            let mut fields = Ranges::new();
            found.texts(0).for_each(|text| fields.push(text));
            changes.added.push((id, fields));
        }
        if is_trimmed {
            changes.trimmed = Some(stream.edge(self.view(), false)?);
        }
        delta.stream = Some(changes);
        Ok(true)
    }

    /// Looks up the changed parts of a stream's groups. Returns whether commands can make the same
    /// changes.
    fn add_groups(
        &self,
        database: usize,
        key: &Key<'_>,
        parts: &[ChangedPart<'_>],
        delta: &mut Delta,
    ) -> Result<bool, Error> {
        if parts.is_empty() {
            return Ok(true);
        }
        if delta.value_type != Some(ValueType::Stream) {
            return Ok(false);
        }
        let Some(stream) = self.stream(database, key)? else {
            return Ok(false);
        };
        let changes = delta.stream.get_or_insert_default();
        let (mut groups, mut consumers) = (BTreeSet::new(), BTreeSet::new());
        let mut pending = BTreeSet::new();
        for &part in parts {
            match part {
                ChangedPart::Group(name) => drop(groups.insert(name)),
                ChangedPart::Consumer { group, name } => drop(consumers.insert((group, name))),
                ChangedPart::Pending { group, ms, seq } => {
                    pending.insert((group, StreamId { ms, seq }));
                }
                _ => {}
            }
        }
        let states = stream.groups_info(self.view())?;
        for name in groups {
            let Some(state) = states.iter().find(|state| state.name == name) else {
                return Ok(false);
            };
            changes.groups.push((name.to_vec(), state.last, state.read));
        }
        for (group, name) in consumers {
            let known = stream
                .consumers_info(self.view(), group)?
                .unwrap_or_default();
            if known.iter().any(|consumer| consumer.name == name) {
                changes.consumers.push([group.to_vec(), name.to_vec()]);
            }
        }
        for (group, id) in pending {
            let range = IdRange {
                from: id,
                to: id,
                count: 1,
                ..IdRange::ALL
            };
            let found = stream.pending_range(self.view(), (group, None), range, u64::MAX)?;
            let entry = found.and_then(|found| found.into_iter().next());
            let mut entries = StreamEntries::new();
            stream.range(self.view(), range, &mut entries)?;
            if entry.is_some() && entries.is_empty() {
                // XCLAIM does not make an entry pending that was deleted.
                return Ok(false);
            }
            changes.pending.push((group.to_vec(), id, entry));
        }
        Ok(true)
    }
}
