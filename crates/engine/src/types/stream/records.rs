//! Converts a stream to and from a flat list of records. The list contains a record for the stream,
//! a record for each entry, and a record for each group, followed by the records of the group's
//! consumers and pending entries.
//!
//! ```text
//! | S | last ID, 2 numbers | highest deleted ID, 2 | entries ever added |
//! | E | ID, 2 numbers | fields and values: texts |
//! | G | name: a text | last delivered ID, 2 numbers | entries read and 1, or 0 |
//! | C | group: a text | name: a text | when it was last seen | when it last received an entry |
//! | P | group: a text | consumer: a text | ID, 2 numbers | time of delivery | deliveries |
//! ```
//!
//! Numbers and texts are encoded as in a leaf. Each record includes the names of its group and
//! consumer, so that the list can be transferred in pieces.

use std::collections::{HashMap, HashSet};

use undercroft_memory::{Fault, View};

use super::entries::IdRange;
use super::found::StreamEntries;
use super::group::{Consumer, Group, Pending};
use super::id::StreamId;
use super::leaves::code::{Decoder, push_number, push_text};
use super::root::{Stream, all_rows};
use crate::error::Error;
use crate::structures::ranges::Ranges;

/// A record in the flat list of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamRecord<'r> {
    /// The properties of the stream, such as its last ID.
    Stream {
        /// The ID of the last entry that was added.
        last: StreamId,
        /// The highest ID of a deleted entry.
        deleted: StreamId,
        /// The number of entries that were ever added.
        added: u64,
    },
    /// An entry of the stream.
    Entry {
        /// The ID of the entry.
        id: StreamId,
        /// The alternating fields and values of the entry.
        texts: Vec<&'r [u8]>,
    },
    /// A consumer group.
    Group {
        /// The name of the group.
        name: &'r [u8],
        /// The ID of the last entry that was delivered to the group.
        last: StreamId,
        /// The number of entries that were delivered, or -1 if unknown.
        read: i64,
    },
    /// A consumer of a group.
    Consumer {
        /// The name of the consumer's group.
        group: &'r [u8],
        /// The name of the consumer.
        name: &'r [u8],
        /// The time at which the consumer was last seen, in Unix milliseconds.
        seen: u64,
        /// The time at which the consumer last received an entry, in Unix milliseconds.
        active: u64,
    },
    /// A pending entry of a group and a consumer.
    Pending {
        /// The name of the group in which the entry is pending.
        group: &'r [u8],
        /// The name of the consumer to which the entry was delivered.
        consumer: &'r [u8],
        /// The ID of the pending entry.
        id: StreamId,
        /// The time of the entry's last delivery, in Unix milliseconds.
        time: u64,
        /// The number of times that the entry was delivered.
        deliveries: u64,
    },
}

fn push_id(out: &mut Vec<u8>, id: StreamId) {
    push_number(out, id.ms);
    push_number(out, id.seq);
}

fn id(decoder: &mut Decoder<'_>) -> Result<StreamId, Fault> {
    let (ms, seq) = (decoder.number()?, decoder.number()?);
    Ok(StreamId { ms, seq })
}

impl<'r> StreamRecord<'r> {
    /// Encodes the record as a row of the flat list.
    pub fn row(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            StreamRecord::Stream {
                last,
                deleted,
                added,
            } => {
                out.push(b'S');
                push_id(&mut out, *last);
                push_id(&mut out, *deleted);
                push_number(&mut out, *added);
            }
            StreamRecord::Entry { id, texts } => {
                out.push(b'E');
                push_id(&mut out, *id);
                texts.iter().for_each(|text| push_text(&mut out, text));
            }
            StreamRecord::Group { name, last, read } => {
                out.push(b'G');
                push_text(&mut out, name);
                push_id(&mut out, *last);
                push_number(&mut out, read.wrapping_add(1) as u64);
            }
            StreamRecord::Consumer {
                group,
                name,
                seen,
                active,
            } => {
                out.push(b'C');
                push_text(&mut out, group);
                push_text(&mut out, name);
                push_number(&mut out, *seen);
                push_number(&mut out, *active);
            }
            StreamRecord::Pending {
                group,
                consumer,
                id,
                time,
                deliveries,
            } => {
                out.push(b'P');
                push_text(&mut out, group);
                push_text(&mut out, consumer);
                push_id(&mut out, *id);
                push_number(&mut out, *time);
                push_number(&mut out, *deliveries);
            }
        }
        out
    }

    /// Decodes a record from a row. Returns `None` if the row is malformed.
    pub fn of_row(row: &'r [u8]) -> Option<StreamRecord<'r>> {
        let mut decoder = Decoder::new(row, 1);
        let record = Self::decode(*row.first()?, &mut decoder).ok()??;
        (decoder.at == row.len()).then_some(record)
    }

    fn decode(kind: u8, row: &mut Decoder<'r>) -> Result<Option<StreamRecord<'r>>, Fault> {
        Ok(Some(match kind {
            b'S' => StreamRecord::Stream {
                last: id(row)?,
                deleted: id(row)?,
                added: row.number()?,
            },
            b'E' => {
                let (id, mut texts) = (id(row)?, Vec::new());
                while row.at < row.bytes.len() {
                    texts.push(row.text()?);
                }
                if texts.is_empty() || texts.len() % 2 != 0 {
                    return Ok(None);
                }
                StreamRecord::Entry { id, texts }
            }
            b'G' => StreamRecord::Group {
                name: row.text()?,
                last: id(row)?,
                read: (row.number()? as i64).wrapping_sub(1),
            },
            b'C' => StreamRecord::Consumer {
                group: row.text()?,
                name: row.text()?,
                seen: row.number()?,
                active: row.number()?,
            },
            b'P' => StreamRecord::Pending {
                group: row.text()?,
                consumer: row.text()?,
                id: id(row)?,
                time: row.number()?,
                deliveries: row.number()?,
            },
            _ => return Ok(None),
        }))
    }
}

impl Stream {
    /// Appends the flat list of the stream to `out`. O(n).
    pub(super) fn append_records(&self, view: &View<'_>, out: &mut Ranges) -> Result<(), Error> {
        let head = StreamRecord::Stream {
            last: self.last,
            deleted: self.deleted,
            added: self.added,
        };
        out.push(&head.row());
        let mut entries = StreamEntries::new();
        self.range(view, IdRange::ALL, &mut entries)?;
        for index in 0..entries.len() {
            let (id, texts) = (entries.id(index), entries.texts(index).collect());
            out.push(&StreamRecord::Entry { id, texts }.row());
        }
        for (group, record) in self.names(view, &self.groups(view)?)? {
            let found = Group::load(view, record, self.pool)?;
            let (last, read) = (found.last, found.read);
            let name = &group[..];
            out.push(&StreamRecord::Group { name, last, read }.row());
            let mut names = HashMap::new();
            for (name, record) in self.names(view, &found.consumers(view)?)? {
                let consumer = Consumer::load(view, record, self.pool)?;
                let row = StreamRecord::Consumer {
                    group: &group,
                    name: &name,
                    seen: consumer.seen,
                    active: consumer.active(view)?,
                };
                out.push(&row.row());
                names.insert(record, name);
            }
            for row in all_rows(view, &found.pending(view)?)? {
                let entry = Pending::of(row);
                let consumer = names.get(&entry.consumer);
                let row = StreamRecord::Pending {
                    group: &group,
                    consumer: consumer.ok_or_else(|| super::rows::fault(record))?,
                    id: entry.id,
                    time: entry.time,
                    deliveries: entry.deliveries,
                };
                out.push(&row.row());
            }
        }
        Ok(())
    }
}

/// The names of a group's consumers, and the IDs of its pending entries.
type Members<'a> = (HashSet<&'a [u8]>, HashSet<StreamId>);

/// Returns whether `items` is the complete flat list of a valid stream.
pub(super) fn is_sound(items: &Ranges) -> bool {
    let mut rows = items.iter().map(StreamRecord::of_row);
    let Some(Some(StreamRecord::Stream { last, .. })) = rows.next() else {
        return false;
    };
    let mut before: Option<StreamId> = None;
    let mut groups: HashMap<&[u8], Members<'_>> = HashMap::new();
    rows.all(|row| match row {
        Some(StreamRecord::Entry { id, .. }) => {
            let follows = before.is_none_or(|before| before < id) && id > StreamId::MIN;
            before = Some(id);
            follows && id <= last && groups.is_empty()
        }
        Some(StreamRecord::Group { name, .. }) => groups.insert(name, Default::default()).is_none(),
        Some(StreamRecord::Consumer { group, name, .. }) => groups
            .get_mut(group)
            .is_some_and(|(consumers, _)| consumers.insert(name)),
        Some(StreamRecord::Pending {
            group,
            consumer,
            id,
            ..
        }) => groups
            .get_mut(group)
            .is_some_and(|(consumers, pending)| consumers.contains(consumer) && pending.insert(id)),
        Some(StreamRecord::Stream { .. }) | None => false,
    })
}
