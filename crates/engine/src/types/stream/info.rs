//! Answers queries about streams, their groups and their consumers.

use undercroft_memory::View;

use super::entries::IdRange;
use super::found::StreamEntries;
use super::group::{Consumer, Group, Pending, UNKNOWN};
use super::id::StreamId;
use super::root::Stream;
use crate::error::Error;
use crate::handle::reader::Reader;
use crate::structures::key::Key;
use crate::types::value_type::ValueType;

/// A consumer group as reported by XINFO GROUPS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupInfo {
    /// The name of the group.
    pub name: Vec<u8>,
    /// The number of consumers in the group.
    pub consumers: u64,
    /// The number of pending entries in the group.
    pub pending: u64,
    /// The ID of the last entry that was delivered to the group.
    pub last: StreamId,
    /// The number of entries delivered up to the ID `last`, if known.
    pub read: Option<i64>,
    /// The number of entries that have not been delivered to the group, if known.
    pub lag: Option<i64>,
}

/// A consumer as reported by XINFO CONSUMERS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerInfo {
    /// The name of the consumer.
    pub name: Vec<u8>,
    /// The number of entries that are pending for the consumer.
    pub pending: u64,
    /// The time at which the consumer was last seen, in Unix milliseconds.
    pub seen: u64,
}

/// A pending entry as reported by XPENDING.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingEntry {
    /// The ID of the entry.
    pub id: StreamId,
    /// The name of the consumer to which the entry was delivered.
    pub consumer: Vec<u8>,
    /// The time of the entry's last delivery, in Unix milliseconds.
    pub time: u64,
    /// The number of times that the entry was delivered.
    pub deliveries: u64,
}

/// A summary of a group's pending entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingInfo {
    /// The number of pending entries in the group.
    pub count: u64,
    /// The IDs of the first and last pending entries, or `None` if no entry is pending.
    pub edges: Option<(StreamId, StreamId)>,
    /// The names of the consumers that have pending entries, each with the number of its pending
    /// entries.
    pub consumers: Vec<(Vec<u8>, u64)>,
}

impl Reader<'_, '_> {
    /// Returns the stream at a key, or `None` if the key does not exist.
    pub fn stream(&self, database: usize, key: &Key<'_>) -> Result<Option<Stream>, Error> {
        match self.find_type(database, key, ValueType::Stream)? {
            Some(entry) => Stream::load(self.view, key.shard(), &entry).map(Some),
            None => Ok(None),
        }
    }
}

impl Stream {
    /// Appends the entries in a range to `out`. O(log n + entries).
    pub fn range(
        &self,
        view: &View<'_>,
        range: IdRange,
        out: &mut StreamEntries,
    ) -> Result<(), Error> {
        // A read that starts after the last entry, such as a blocked client's read, does not need
        // to load a leaf.
        if range.from > self.last {
            return Ok(());
        }
        self.entries.append_range(view, range, out)
    }

    /// Returns the ID of the first or last entry, or `None` if there are no entries. O(log n).
    pub fn edge(&self, view: &View<'_>, last: bool) -> Result<Option<StreamId>, Error> {
        self.entries.edge(view, last)
    }

    /// Returns a lower bound on the number of leaves.
    pub fn leaves(&self, view: &View<'_>) -> Result<u64, Error> {
        self.entries.leaves_at_least(view)
    }

    /// Returns the number of groups.
    pub fn group_count(&self, view: &View<'_>) -> Result<u64, Error> {
        Ok(self.groups(view)?.count())
    }

    /// Returns whether a group with this name exists.
    pub fn has_group(&self, view: &View<'_>, name: &[u8]) -> Result<bool, Error> {
        Ok(self.find_group(view, name)?.is_some())
    }

    /// Returns the ID of the last entry that was delivered to a group, or `None` if the group does
    /// not exist.
    pub fn group_last(&self, view: &View<'_>, name: &[u8]) -> Result<Option<StreamId>, Error> {
        Ok(self.group(view, name)?.map(|group| group.last))
    }

    /// Returns whether an entry after the first remaining entry, with an ID of at least `id`, was
    /// deleted. In that case, the number of entries up to `id` is unknown.
    pub(super) fn has_gap_behind(&self, view: &View<'_>, id: StreamId) -> Result<bool, Error> {
        if self.length() == 0 || self.deleted == StreamId::MIN {
            return Ok(false);
        }
        let first = self.edge(view, false)?.unwrap_or_default();
        Ok(first <= self.deleted && id <= self.deleted)
    }

    /// Returns the number of entries that had been added when the entry with this ID was added,
    /// including that entry, or `None` if the number is unknown.
    pub(super) fn count_at(&self, view: &View<'_>, id: StreamId) -> Result<Option<i64>, Error> {
        let (added, length) = (self.added as i64, self.length() as i64);
        if added == 0 {
            return Ok(Some(0));
        }
        if length == 0 && id <= self.last {
            return Ok(Some(added));
        }
        if id == self.last {
            return Ok(Some(added));
        }
        if id > self.last {
            return Ok(None);
        }
        let first = self.edge(view, false)?.unwrap_or_default();
        if self.deleted == StreamId::MIN || self.deleted < first {
            // Let the number wrap around, as in Redis, because XSETID accepts any number of added
            // entries.
            let before = added.wrapping_sub(length);
            if id < first {
                return Ok(Some(before));
            }
            if id == first {
                return Ok(Some(before.wrapping_add(1)));
            }
        }
        Ok(None)
    }

    fn lag(&self, view: &View<'_>, group: &Group) -> Result<Option<i64>, Error> {
        if self.added == 0 {
            return Ok(Some(0));
        }
        let read = if group.read != UNKNOWN && !self.has_gap_behind(view, group.last)? {
            Some(group.read)
        } else {
            self.count_at(view, group.last)?
        };
        Ok(read.map(|read| (self.added as i64).wrapping_sub(read)))
    }

    /// Returns all groups, ordered by name. O(groups).
    pub fn groups_info(&self, view: &View<'_>) -> Result<Vec<GroupInfo>, Error> {
        let mut all = Vec::new();
        for (name, record) in self.names(view, &self.groups(view)?)? {
            let group = Group::load(view, record, self.pool)?;
            all.push(GroupInfo {
                name,
                consumers: group.consumers(view)?.count(),
                pending: group.pending(view)?.count(),
                last: group.last,
                read: (group.read != UNKNOWN).then_some(group.read),
                lag: self.lag(view, &group)?,
            });
        }
        Ok(all)
    }

    /// Returns all consumers of a group, ordered by name, or `None` if the group does not exist.
    /// O(consumers).
    pub fn consumers_info(
        &self,
        view: &View<'_>,
        group: &[u8],
    ) -> Result<Option<Vec<ConsumerInfo>>, Error> {
        let Some(group) = self.group(view, group)? else {
            return Ok(None);
        };
        let mut all = Vec::new();
        for (name, record) in self.names(view, &group.consumers(view)?)? {
            let consumer = Consumer::load(view, record, self.pool)?;
            all.push(ConsumerInfo {
                name,
                pending: consumer.own(view)?.count(),
                seen: consumer.seen,
            });
        }
        Ok(Some(all))
    }

    /// Returns a summary of a group's pending entries, or `None` if the group does not exist.
    /// O(consumers).
    pub fn pending_info(
        &self,
        view: &View<'_>,
        group: &[u8],
    ) -> Result<Option<PendingInfo>, Error> {
        let Some(found) = self.group(view, group)? else {
            return Ok(None);
        };
        let pending = found.pending(view)?;
        let edge = |last| pending.edge(view, last);
        let edges = edge(false)?.zip(edge(true)?);
        let consumers = match edges {
            Some(_) => self.consumers_info(view, group)?.unwrap_or_default(),
            None => Vec::new(),
        };
        let consumers = consumers
            .into_iter()
            .filter(|consumer| consumer.pending > 0);
        Ok(Some(PendingInfo {
            count: pending.count(),
            edges: edges.map(|(first, last)| (StreamId::of_words(first), StreamId::of_words(last))),
            consumers: consumers
                .map(|consumer| (consumer.name, consumer.pending))
                .collect(),
        }))
    }

    /// Returns the pending entries of a group, or of one of its consumers, that were last delivered
    /// at or before the time `before`. Returns `None` if the group does not exist. O(log n +
    /// entries examined).
    pub fn pending_range(
        &self,
        view: &View<'_>,
        (group, consumer): (&[u8], Option<&[u8]>),
        range: IdRange,
        before: u64,
    ) -> Result<Option<Vec<PendingEntry>>, Error> {
        let Some(group) = self.group(view, group)? else {
            return Ok(None);
        };
        let (mut all, pending) = (Vec::new(), group.pending(view)?);
        let own = match consumer {
            None => None,
            Some(name) => match group.consumer(view, name)? {
                None => return Ok(Some(all)),
                Some(consumer) => Some(consumer.own(view)?),
            },
        };
        let from = range.from.words();
        let (mut left, mut last) = (range.count, (0, Vec::new()));
        let rows = own.as_ref().unwrap_or(&pending);
        if left == 0 {
            return Ok(Some(all));
        }
        rows.for_each_from(
            view,
            |key| Ok(key < from),
            |row| {
                let entry = if own.is_some() {
                    let found = pending.find_key(view, [row[0], row[1]])?;
                    Pending::of(found.ok_or_else(|| super::rows::fault(group.at))?.row)
                } else {
                    Pending::of(*row)
                };
                if entry.id > range.to {
                    return Ok(false);
                }
                if entry.time > before {
                    return Ok(true);
                }
                if last.0 != entry.consumer {
                    last = (entry.consumer, Vec::new());
                    let consumer = Consumer::load(view, entry.consumer, self.pool)?;
                    consumer.append_name(view, &mut last.1)?;
                }
                all.push(PendingEntry {
                    id: entry.id,
                    consumer: last.1.clone(),
                    time: entry.time,
                    deliveries: entry.deliveries,
                });
                left -= 1;
                Ok(left > 0)
            },
        )?;
        Ok(Some(all))
    }
}
