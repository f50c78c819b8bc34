//! Encodes and decodes streams in the RDB format that DUMP writes and RESTORE reads.
//!
//! ```text
//! nodes: number, and for each its first ID (16, big-endian) as a string, and a listpack
//! | entries | last ID, 2 | first ID, 2 | highest deleted ID, 2 | entries ever added |  the last five from type 19 on
//! groups: number, and for each
//! | name | last delivered ID, 2 | entries read, from type 19 on |
//! | pending: number, and for each an ID (16), a time (8), deliveries |
//! | consumers: number, and for each a name, a time (8), another time from type 21 on, its pending: number, IDs (16) |
//!
//! a listpack:
//! | entries | deleted entries | number of fields | fields | 0 |
//! | flags | milliseconds and seq relative to the node's ID | if the fields differ from the node's: their number, and each before its value |
//! | values | number of listpack elements of the entry | ...
//! ```

use std::collections::HashMap;

use undercroft_numbers::parse_integer;

use super::group::UNKNOWN;
use super::id::StreamId;
use super::records::{StreamRecord, is_sound};
use crate::rdb_form::{Input, Output, RdbVersion};
use crate::structures::ranges::Ranges;

/// The RDB types of streams: 15 in Redis 5 and 6, 19 in Redis 7.0, and 21 in Redis 7.2.
pub(super) const KINDS: [u8; 3] = [15, 19, 21];

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;
/// The maximum number of entries and of bytes in a node, as in Redis' default configuration.
const NODE_ENTRIES: usize = 100;
const NODE_BYTES: usize = 4096;

type Entry<'r> = (StreamId, Vec<&'r [u8]>);

fn number(out: &mut Ranges, number: i64) {
    out.push(itoa::Buffer::new().format(number).as_bytes());
}

fn be(id: StreamId) -> [u8; 16] {
    (u128::from(id.ms) << 64 | u128::from(id.seq)).to_be_bytes()
}

fn of_be(bytes: [u8; 16]) -> StreamId {
    let both = u128::from_be_bytes(bytes);
    StreamId {
        ms: (both >> 64) as u64,
        seq: both as u64,
    }
}

fn write_node(entries: &[Entry<'_>], out: &mut Output) {
    let Some((base, first)) = entries.first() else {
        return;
    };
    let fields: Vec<&[u8]> = first.iter().step_by(2).copied().collect();
    let mut texts = Ranges::new();
    number(&mut texts, entries.len() as i64);
    number(&mut texts, 0);
    number(&mut texts, fields.len() as i64);
    fields.iter().for_each(|field| texts.push(field));
    number(&mut texts, 0);
    for (id, entry) in entries {
        let own = entry.iter().step_by(2).copied();
        let same = own.eq(fields.iter().copied());
        number(&mut texts, if same { SAME_FIELDS } else { 0 });
        number(&mut texts, id.ms.wrapping_sub(base.ms) as i64);
        number(&mut texts, id.seq.wrapping_sub(base.seq) as i64);
        let count = entry.len() as i64 / 2;
        if same {
            let values = entry.iter().skip(1).step_by(2);
            values.for_each(|value| texts.push(value));
            number(&mut texts, count + 3);
        } else {
            number(&mut texts, count);
            entry.iter().for_each(|text| texts.push(text));
            number(&mut texts, count * 2 + 4);
        }
    }
    out.string(&be(*base));
    out.listpack(texts.iter());
}

/// Encodes a stream from a list of records.
pub(super) fn dump(items: &Ranges, version: RdbVersion, out: &mut Output) {
    let [five, seven, newest] = KINDS;
    let kind = match version {
        RdbVersion::V9 => five,
        RdbVersion::V10 => seven,
        RdbVersion::V11 => newest,
    };
    let records: Vec<StreamRecord<'_>> = items.iter().filter_map(StreamRecord::of_row).collect();
    let mut nodes: Vec<Vec<Entry<'_>>> = Vec::new();
    let (mut size, mut entries) = (NODE_BYTES, 0);
    for record in &records {
        if let StreamRecord::Entry { id, texts } = record {
            let length: usize = texts.iter().map(|text| text.len()).sum();
            match nodes.last_mut() {
                Some(node) if size + length < NODE_BYTES && node.len() < NODE_ENTRIES => {
                    node.push((*id, texts.clone()));
                }
                _ => {
                    nodes.push(vec![(*id, texts.clone())]);
                    size = 0;
                }
            }
            size += length + texts.len();
            entries += 1;
        }
    }
    out.kind(kind);
    out.length(nodes.len());
    nodes.iter().for_each(|node| write_node(node, out));
    out.length(entries);
    let first = nodes.first().map_or(StreamId::MIN, |node| node[0].0);
    if let Some(StreamRecord::Stream {
        last,
        deleted,
        added,
    }) = records.first()
    {
        out.length(last.ms as usize);
        out.length(last.seq as usize);
        let since_seven = [first.ms, first.seq, deleted.ms, deleted.seq, *added];
        let written = since_seven.iter().filter(|_| kind >= seven);
        written.for_each(|number| out.length(*number as usize));
    }
    let is_group = |record: &&StreamRecord<'_>| matches!(record, StreamRecord::Group { .. });
    out.length(records.iter().filter(is_group).count());
    let starts: Vec<usize> = (0..records.len())
        .filter(|&index| is_group(&&records[index]))
        .collect();
    for (place, &start) in starts.iter().enumerate() {
        let end = starts.get(place + 1).copied().unwrap_or(records.len());
        dump_group(&records[start..end], kind, out);
    }
}

/// Encodes a group. `records` contains the record of the group, followed by the records of its
/// consumers and pending entries.
fn dump_group(records: &[StreamRecord<'_>], kind: u8, out: &mut Output) {
    let [_, seven, newest] = KINDS;
    let (mut consumers, mut pending) = (Vec::new(), Vec::new());
    let mut of_consumer: HashMap<&[u8], Vec<StreamId>> = HashMap::new();
    for record in records {
        match record {
            StreamRecord::Group { name, last, read } => {
                out.string(name);
                out.length(last.ms as usize);
                out.length(last.seq as usize);
                if kind >= seven {
                    out.length(*read as usize);
                }
            }
            StreamRecord::Consumer {
                name, seen, active, ..
            } => consumers.push((*name, *seen, *active)),
            StreamRecord::Pending {
                consumer,
                id,
                time,
                deliveries,
                ..
            } => {
                pending.push((*id, *time, *deliveries));
                of_consumer.entry(consumer).or_default().push(*id);
            }
            StreamRecord::Stream { .. } | StreamRecord::Entry { .. } => {}
        }
    }
    out.length(pending.len());
    for (id, time, deliveries) in pending {
        out.raw(&be(id));
        out.raw(&time.to_le_bytes());
        out.length(deliveries as usize);
    }
    out.length(consumers.len());
    for (name, seen, active) in consumers {
        out.string(name);
        out.raw(&seen.to_le_bytes());
        if kind >= newest {
            out.raw(&active.to_le_bytes());
        }
        let own = of_consumer.remove(name).unwrap_or_default();
        out.length(own.len());
        own.iter().for_each(|id| out.raw(&be(*id)));
    }
}

/// Decodes a stream of one of the types in [`KINDS`] into a list of records.
pub(super) fn restore(kind: u8, input: &mut Input<'_>, items: &mut Ranges) -> Option<()> {
    let [_, seven, _] = KINDS;
    let mut entries = Ranges::new();
    let (mut edges, mut found) = (None, 0);
    for _ in 0..input.length()? {
        let base = of_be(<[u8; 16]>::try_from(input.string()?.as_ref()).ok()?);
        let mut texts = Ranges::new();
        input.listpack(&mut texts)?;
        read_node(base, &texts, |id, texts| {
            let (first, _) = edges.unwrap_or((id, id));
            edges = Some((first, id));
            found += 1;
            entries.push(&StreamRecord::Entry { id, texts }.row());
        })?;
    }
    let length = input.length()? as u64;
    let id = |input: &mut Input<'_>| {
        let (ms, seq) = (input.length()? as u64, input.length()? as u64);
        Some(StreamId { ms, seq })
    };
    let last = id(input)?;
    let (mut deleted, mut added) = (StreamId::MIN, length);
    if kind >= seven {
        id(input)?;
        deleted = id(input)?;
        added = input.length()? as u64;
    }
    if length != found {
        return None;
    }
    let head = StreamRecord::Stream {
        last,
        deleted,
        added,
    };
    items.push(&head.row());
    entries.iter().for_each(|row| items.push(row));
    for _ in 0..input.length()? {
        let name = input.string()?;
        let delivered = id(input)?;
        let read = match kind >= seven {
            true => input.length()? as i64,
            false => count_at(delivered, (length, last), edges),
        };
        let group = StreamRecord::Group {
            name: &name,
            last: delivered,
            read,
        };
        items.push(&group.row());
        restore_group(kind, &name, input, items)?;
    }
    is_sound(items).then_some(())
}

/// Returns the number of entries that were delivered to a group, for RDB types that do not include
/// the number. Assumes that no entry was deleted. Returns `UNKNOWN` if the number cannot be
/// derived.
fn count_at(
    id: StreamId,
    (length, last): (u64, StreamId),
    edges: Option<(StreamId, StreamId)>,
) -> i64 {
    match edges {
        None => 0,
        _ if id == last => length as i64,
        Some((first, _)) if id < first => 0,
        Some((first, _)) if id == first => 1,
        _ => UNKNOWN,
    }
}

fn restore_group(kind: u8, group: &[u8], input: &mut Input<'_>, items: &mut Ranges) -> Option<()> {
    let mut pending = Vec::new();
    let mut places = HashMap::new();
    for _ in 0..input.length()? {
        let id = of_be(input.take()?);
        let time = u64::from_le_bytes(input.take()?);
        places.insert(id, pending.len());
        pending.push((id, time, input.length()? as u64, None));
    }
    let mut names: Vec<Vec<u8>> = Vec::new();
    for _ in 0..input.length()? {
        let name = input.string()?.into_owned();
        let seen = u64::from_le_bytes(input.take()?);
        let active = match kind > KINDS[1] {
            true => u64::from_le_bytes(input.take()?),
            false => seen,
        };
        let row = StreamRecord::Consumer {
            group,
            name: &name,
            seen,
            active,
        };
        items.push(&row.row());
        for _ in 0..input.length()? {
            let place = places.get(&of_be(input.take()?))?;
            if pending[*place].3.replace(names.len()).is_some() {
                return None;
            }
        }
        names.push(name);
    }
    for (id, time, deliveries, consumer) in pending {
        let row = StreamRecord::Pending {
            group,
            consumer: &names[consumer?],
            id,
            time,
            deliveries,
        };
        items.push(&row.row());
    }
    Some(())
}

/// Calls `visit` for each entry in a node, except deleted entries.
fn read_node<'t>(
    base: StreamId,
    texts: &'t Ranges,
    mut visit: impl FnMut(StreamId, Vec<&'t [u8]>),
) -> Option<()> {
    let mut texts = texts.iter();
    let number = |text: Option<&[u8]>| parse_integer(text?);
    let count = number(texts.next())?.checked_add(number(texts.next())?)?;
    let fields = usize::try_from(number(texts.next())?).ok()?;
    if fields > texts.len() {
        return None;
    }
    let fields: Vec<&[u8]> = texts.by_ref().take(fields).collect();
    number(texts.next()).filter(|&zero| zero == 0)?;
    let mut found = 0;
    while texts.len() > 0 {
        let flags = number(texts.next())?;
        let (ms, seq) = (number(texts.next())?, number(texts.next())?);
        let id = StreamId {
            ms: base.ms.wrapping_add(ms as u64),
            seq: base.seq.wrapping_add(seq as u64),
        };
        let mut all = Vec::new();
        if flags & SAME_FIELDS != 0 {
            for field in &fields {
                all.extend([*field, texts.next()?]);
            }
        } else {
            let own = usize::try_from(number(texts.next())?).ok()?;
            if own > texts.len() / 2 {
                return None;
            }
            all.extend(texts.by_ref().take(own * 2));
        }
        number(texts.next())?;
        found += 1;
        if flags & DELETED == 0 {
            visit(id, all);
        }
    }
    (found == count).then_some(())
}
