//! Maintains streams whose entries can be verified, and consumer groups whose consumers can die.

use std::collections::{HashMap, HashSet};

use undercroft_engine::streams::{
    Claim, EntryId, IdRange, StreamEntries, StreamId, StreamLimits, StreamRecord, Trim, TrimTo,
};
use undercroft_engine::{Error, Ranges, Store, Writer};

/// The number of streams.
pub const STREAMS: u32 = 3;
const GROUPS: [&[u8]; 2] = [b"group", b"another group"];
const CONSUMERS: [&[u8]; 3] = [b"one", b"two", b"a third consumer"];
/// The number of entries above which a stream is trimmed at its start.
const MANY: u64 = 3000;
/// The lengths, in bytes, of an entry's payload without its checksum.
const LENGTHS: [usize; 4] = [0, 5, 90, 3000];

fn key(stream: u32) -> Vec<u8> {
    format!("stream:{stream}").into_bytes()
}

/// Returns the checksum of a text in the form that entries contain.
fn seal(text: &[u8]) -> String {
    crc32fast::hash(text).to_string()
}

/// Makes a random change to one of the streams.
pub fn change(store: &Store, random: &mut fastrand::Rng) -> Result<(), Error> {
    let name = key(random.u32(..STREAMS));
    let key = store.key(&name);
    let group = GROUPS[random.usize(..GROUPS.len())];
    let consumer = CONSUMERS[random.usize(..CONSUMERS.len())];
    let kind = random.u32(..20);
    let texts: Vec<String> = (0..[1, 2, 40][random.usize(..3)])
        .map(|_| random.u32(..1000).to_string() + &"x".repeat(LENGTHS[random.usize(..4)]))
        .collect();
    let (count, part) = (random.u64(1..60), random.u64(..MANY));
    store.write(store.shards_of([&key]), |writer| {
        let mut entries = StreamEntries::new();
        match kind {
            0..7 => add(writer, &key, &texts)?,
            7 | 8 => {
                let ids = some_ids(writer, &key, part, count)?;
                writer.stream_delete(0, &key, &ids).map(drop)?;
            }
            9 => {
                let (to, about) = (TrimTo::Length(part), (part % 2 == 0).then_some(u64::MAX));
                writer.stream_trim(0, &key, &Trim { to, about }).map(drop)?;
            }
            10 => {
                let from = (Some(StreamId::MIN), 0);
                let made = writer.stream_create_group(0, &key, group, from, true);
                made.map(drop)?;
            }
            11..14 => {
                let (names, how) = ((group, consumer), (count, part % 4 == 0));
                let given = writer.stream_deliver(0, &key, names, how, &mut entries);
                given.map(drop)?;
            }
            14 => {
                let (names, how) = ((group, consumer), (StreamId::MIN, count));
                let given = writer.stream_deliver_again(0, &key, names, how, &mut entries);
                given.map(drop)?;
            }
            15 | 16 => {
                let ids = some_ids(writer, &key, part, count)?;
                writer.stream_acknowledge(0, &key, group, &ids).map(drop)?;
            }
            17 => {
                let claim = claim(group, consumer);
                let from = (StreamId::MIN, (count, count * 10));
                writer.stream_claim_from(0, &key, &claim, from).map(drop)?;
            }
            18 => {
                let names = (group, consumer);
                writer.stream_delete_consumer(0, &key, names).map(drop)?;
            }
            _ => writer.stream_destroy_group(0, &key, group).map(drop)?,
        }
        let long = Trim {
            to: TrimTo::Length(MANY),
            about: None,
        };
        writer.stream_trim(0, &key, &long).map(drop)
    })
}

fn add(
    writer: &mut Writer<'_, '_>,
    key: &undercroft_engine::Key<'_>,
    texts: &[String],
) -> Result<(), Error> {
    for text in texts {
        let seal = seal(text.as_bytes());
        let fields: [&[u8]; 4] = [b"text", text.as_bytes(), b"seal", seal.as_bytes()];
        let limits = StreamLimits::DEFAULT;
        writer.stream_add(0, key, EntryId::Now, &fields, true, None, &limits)?;
    }
    Ok(())
}

fn claim<'c>(group: &'c [u8], consumer: &'c [u8]) -> Claim<'c> {
    Claim {
        group,
        consumer,
        idle: 0,
        time: 1,
        deliveries: None,
        force: false,
        only_ids: false,
        last: StreamId::MIN,
    }
}

/// Returns the ids of `count` consecutive entries that follow the first `before` entries.
fn some_ids(
    writer: &mut Writer<'_, '_>,
    key: &undercroft_engine::Key<'_>,
    before: u64,
    count: u64,
) -> Result<Vec<StreamId>, Error> {
    let mut entries = StreamEntries::new();
    if let Some(stream) = writer.stream(0, key)? {
        let range = IdRange {
            count: before + count,
            ..IdRange::ALL
        };
        stream.range(writer.view(), range, &mut entries)?;
    }
    let skipped = entries.len().saturating_sub(count as usize);
    Ok(entries.ids()[skipped..].to_vec())
}

/// Checks one snapshot of a stream: a writer must have added each entry, and the groups must be
/// consistent.
pub fn check(store: &Store, stream: u32) -> Result<(), String> {
    let name = key(stream);
    let key = store.key(&name);
    let mut rows = Ranges::new();
    let read = store.read_into(
        store.shards_of([&key]),
        &mut rows,
        |reader, rows| match reader.find(0, &key)? {
            Some(entry) => entry.append_items(reader.view(), rows),
            None => Ok::<_, Error>(()),
        },
    );
    read.map_err(|error| error.to_string())?;
    let (mut end, mut before) = (StreamId::MIN, StreamId::MIN);
    let mut consumers: HashMap<&[u8], HashSet<&[u8]>> = HashMap::new();
    for row in rows.iter() {
        let sound = match StreamRecord::of_row(row) {
            Some(StreamRecord::Stream { last, .. }) => {
                end = last;
                true
            }
            Some(StreamRecord::Entry { id, texts }) => {
                let follows = before < id && id <= end;
                before = id;
                follows
                    && matches!(&texts[..], [b"text", text, b"seal", sum]
                        if *sum == seal(text).as_bytes())
            }
            Some(StreamRecord::Group { name, last, .. }) => {
                consumers.insert(name, HashSet::new()).is_none() && last <= end
            }
            Some(StreamRecord::Consumer { group, name, .. }) => consumers
                .get_mut(group)
                .is_some_and(|known| known.insert(name)),
            Some(StreamRecord::Pending {
                group, consumer, ..
            }) => consumers
                .get(group)
                .is_some_and(|known| known.contains(consumer)),
            None => false,
        };
        if !sound {
            return Err(format!("stream {stream} has a record {row:?}"));
        }
    }
    Ok(())
}
