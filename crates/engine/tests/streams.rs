//! Compares the entries, ranges, trimming, groups and pending entries of streams with a naive
//! model, from a few entries to thousands. Also tests the memory that streams use and free.

use std::collections::BTreeMap;

use undercroft_engine::streams::{
    AddedEntry, Claim, EntryId, IdRange, StreamEntries, StreamId, StreamLimits, Trim, TrimTo,
};
use undercroft_engine::waiting::{Answer, Take, Ticket, WaitOutcome, Waiters, Wanted};
use undercroft_engine::{Error, Key, Limits, Ranges, Store, ValueType, Writer, rdb};
use undercroft_testkit::fresh;

type Texts = Vec<Vec<u8>>;

/// A group in the model, with the last id delivered, and the consumer and number of deliveries of
/// each pending entry.
#[derive(Default)]
struct Group {
    last: StreamId,
    pending: BTreeMap<StreamId, (Vec<u8>, u64)>,
}

#[derive(Default)]
struct Twin {
    entries: BTreeMap<StreamId, Texts>,
    last: StreamId,
    groups: BTreeMap<Vec<u8>, Group>,
}

fn write<R>(
    store: &Store,
    body: impl Fn(&mut Writer<'_, '_>, &Key<'_>) -> Result<R, Error> + Sync,
) -> R {
    let key = store.key(b"k");
    let written = store.write(store.shards_of([&key]), |writer| body(writer, &key));
    written.expect("room")
}

fn range(store: &Store, range: IdRange) -> Vec<(StreamId, Texts)> {
    let key = store.key(b"k");
    let found = store.read(store.shards_of([&key]), |reader| {
        let mut found = StreamEntries::new();
        if let Some(stream) = reader.stream(0, &key)? {
            stream.range(reader.view(), range, &mut found)?;
        }
        Ok::<_, Error>(found)
    });
    as_texts(&found.expect("a sound stream"))
}

fn as_texts(found: &StreamEntries) -> Vec<(StreamId, Texts)> {
    (0..found.len())
        .map(|index| {
            let texts = found.texts(index).map(<[u8]>::to_vec).collect();
            (found.id(index), texts)
        })
        .collect()
}

fn check(store: &Store) {
    let report = store.check().expect("a walk");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

/// Returns field names, which often repeat, with values of every kind.
fn texts(random: &mut fastrand::Rng) -> Texts {
    let value = |random: &mut fastrand::Rng| match random.u32(0..12) {
        0 => Vec::new(),
        1 => vec![b'x'; random.usize(0..600)],
        2 => vec![b'y'; random.usize(3000..20_000)],
        3 => (random.i64(..) >> random.u32(0..63))
            .to_string()
            .into_bytes(),
        4 => format!("{:03}", random.u32(0..20)).into_bytes(),
        _ => format!("user:{}", 1000 + random.u32(0..3000)).into_bytes(),
    };
    let short = |random: &mut fastrand::Rng| match random.u32(0..3) {
        0 => Vec::new(),
        1 => random.i64(..).to_string().into_bytes(),
        _ => b"-".to_vec(),
    };
    if random.u32(0..40) == 0 {
        let most = 1 << random.u32(1..12);
        return (0..random.usize(1..most) * 2)
            .map(|_| short(random))
            .collect();
    }
    let fields = match random.u32(0..8) {
        0 => vec![vec![b'f'; random.usize(0..400)]],
        1 => (0..random.usize(1..30)).map(|_| value(random)).collect(),
        _ => vec![b"user".to_vec(), b"amount".to_vec()],
    };
    let pairs = fields.into_iter().flat_map(|field| [field, value(random)]);
    pairs.collect()
}

/// Returns short numbers of mostly equal length, so that entries have the same layout.
fn readings(random: &mut fastrand::Rng) -> Texts {
    let number = |random: &mut fastrand::Rng| match random.u32(0..40) {
        0 => random.u32(0..100_000),
        _ => 200 + random.u32(0..50),
    };
    let fields = [b"a", b"b"].map(|field| [field.to_vec(), number(random).to_string().into()]);
    fields.into_iter().flatten().collect()
}

fn add(store: &Store, twin: &mut Twin, random: &mut fastrand::Rng) {
    let later = match random.u32(0..40) {
        0 => random.u64(0..20_000),
        _ => random.u64(0..3),
    };
    let id = StreamId {
        ms: twin.last.ms + later,
        seq: random.u64(0..5) << (random.u32(0..40) / 39 * 6),
    };
    let texts = match twin.entries.len() / 64 % 2 {
        0 => texts(random),
        _ => readings(random),
    };
    let all: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let added = write(store, |writer, key| {
        let limits = StreamLimits::DEFAULT;
        writer.stream_add(0, key, EntryId::Exactly(id), &all, true, None, &limits)
    });
    if id > twin.last {
        assert_eq!(added, AddedEntry::Added(id));
        twin.entries.insert(id, texts);
        twin.last = id;
    } else {
        assert_eq!(added, AddedEntry::NotBehind);
    }
}

/// Returns a random id, usually the id of an existing entry.
fn some_id(twin: &Twin, random: &mut fastrand::Rng) -> StreamId {
    let place = random.usize(0..twin.entries.len() + 1);
    let there = twin.entries.keys().nth(place).copied();
    there.unwrap_or(StreamId {
        ms: random.u64(0..=twin.last.ms + 1),
        seq: random.u64(0..5),
    })
}

fn look(store: &Store, twin: &Twin, random: &mut fastrand::Rng) {
    let (one, other) = (some_id(twin, random), some_id(twin, random));
    let wanted = IdRange {
        from: if random.bool() {
            StreamId::MIN
        } else {
            one.min(other)
        },
        to: if random.bool() {
            StreamId::MAX
        } else {
            one.max(other)
        },
        count: [1, 7, 150, u64::MAX][random.usize(0..4)],
        reverse: random.bool(),
    };
    let there = twin.entries.range(wanted.from..=wanted.to);
    let mut there: Vec<(StreamId, Texts)> = there.map(|(id, texts)| (*id, texts.clone())).collect();
    if wanted.reverse {
        there.reverse();
    }
    there.truncate(usize::try_from(wanted.count).unwrap_or(usize::MAX));
    assert_eq!(range(store, wanted), there, "{wanted:?}");
}

fn trim(store: &Store, twin: &mut Twin, random: &mut fastrand::Rng) {
    let (to, stays): (_, usize) = if random.bool() {
        let length = random.usize(0..twin.entries.len() + 5);
        (TrimTo::Length(length as u64), length)
    } else {
        let id = some_id(twin, random);
        (TrimTo::From(id), twin.entries.range(id..).count())
    };
    let goes = twin.entries.len().saturating_sub(stays) as u64;
    let about = random.bool().then(|| random.u64(0..400));
    let gone = write(store, |writer, key| {
        writer.stream_trim(0, key, &Trim { to, about })
    });
    match about {
        None => assert_eq!(gone, goes),
        Some(most) => assert!(gone <= goes.min(most), "{gone} of {goes}, {most} at most"),
    }
    for _ in 0..gone {
        twin.entries.pop_first();
    }
}

fn delete(store: &Store, twin: &mut Twin, random: &mut fastrand::Rng) {
    let ids: Vec<StreamId> = (0..random.usize(1..30))
        .map(|_| some_id(twin, random))
        .collect();
    let gone = write(store, |writer, key| writer.stream_delete(0, key, &ids));
    let expected = ids.iter().filter(|id| twin.entries.remove(id).is_some());
    assert_eq!(gone, expected.count() as u64);
}

fn deliver(store: &Store, twin: &mut Twin, random: &mut fastrand::Rng) {
    let (name, consumer) = (group_name(random), consumer_name(random));
    let count = random.u64(1..120);
    let acknowledged = random.u32(0..8) == 0;
    let found = write(store, |writer, key| {
        let mut out = StreamEntries::new();
        let (names, how) = ((&name[..], &consumer[..]), (count, acknowledged));
        let there = writer.stream_deliver(0, key, names, how, &mut out)?;
        Ok(there.then_some(out))
    });
    let Some(group) = twin.groups.get_mut(&name) else {
        return assert!(found.is_none());
    };
    let next = twin
        .entries
        .range(group.last.next().expect("one after it")..);
    let next: Vec<(StreamId, Texts)> = next
        .take(count as usize)
        .map(|(id, texts)| (*id, texts.clone()))
        .collect();
    assert_eq!(as_texts(&found.expect("a group")), next);
    for (id, _) in next {
        group.last = id;
        if !acknowledged {
            group.pending.insert(id, (consumer.clone(), 1));
        }
    }
}

fn group_name(random: &mut fastrand::Rng) -> Vec<u8> {
    [&b"g"[..], b"group of a long name", b"group of another"][random.usize(0..3)].to_vec()
}

fn consumer_name(random: &mut fastrand::Rng) -> Vec<u8> {
    format!("consumer {}", random.u32(0..60)).into_bytes()
}

fn of_group(store: &Store, twin: &mut Twin, random: &mut fastrand::Rng) {
    let name = group_name(random);
    match random.u32(0..12) {
        0 => {
            let last = some_id(twin, random);
            let made = write(store, |writer, key| {
                writer.stream_create_group(0, key, &name, (Some(last), -1), true)
            });
            let is_new = !twin.groups.contains_key(&name);
            assert_eq!(made, Some(is_new));
            if is_new {
                let pending = BTreeMap::new();
                twin.groups.insert(name, Group { last, pending });
            }
        }
        1 if random.u32(0..6) == 0 => {
            let gone = write(store, |writer, key| {
                writer.stream_destroy_group(0, key, &name)
            });
            if gone.is_some() {
                assert_eq!(gone, Some(twin.groups.remove(&name).is_some()));
            }
        }
        2 => {
            let consumer = consumer_name(random);
            let gone = write(store, |writer, key| {
                writer.stream_delete_consumer(0, key, (&name, &consumer))
            });
            if let Some(group) = twin.groups.get_mut(&name) {
                let before = group.pending.len();
                group.pending.retain(|_, (other, _)| *other != consumer);
                assert_eq!(gone, Some((before - group.pending.len()) as u64));
            }
        }
        3..8 => {
            let ids: Vec<StreamId> = match twin.groups.get(&name) {
                Some(group) => group
                    .pending
                    .keys()
                    .copied()
                    .filter(|_| random.bool())
                    .collect(),
                None => vec![twin.last],
            };
            let gone = write(store, |writer, key| {
                writer.stream_acknowledge(0, key, &name, &ids)
            });
            if let Some(group) = twin.groups.get_mut(&name) {
                let known = ids.iter().filter(|id| group.pending.remove(id).is_some());
                assert_eq!(gone, Some(known.count() as u64));
            } else {
                assert_eq!(gone, None);
            }
        }
        _ => claim(store, twin, random, &name),
    }
}

fn claim(store: &Store, twin: &mut Twin, random: &mut fastrand::Rng, name: &[u8]) {
    let consumer = consumer_name(random);
    let ids: Vec<StreamId> = (0..random.usize(1..40))
        .map(|_| some_id(twin, random))
        .collect();
    let claim = Claim {
        group: name,
        consumer: &consumer,
        idle: 0,
        time: 1,
        deliveries: random.bool().then_some(1 << random.u32(0..39)),
        force: random.bool(),
        only_ids: true,
        last: StreamId::MIN,
    };
    let claimed = write(store, |writer, key| {
        writer.stream_claim(0, key, &claim, &ids)
    });
    let Some(group) = twin.groups.get_mut(name) else {
        return assert!(claimed.is_none());
    };
    let mut expected = Vec::new();
    for id in ids {
        if !twin.entries.contains_key(&id) {
            group.pending.remove(&id);
            continue;
        }
        let old = group.pending.get(&id).map(|(_, deliveries)| *deliveries);
        let Some(old) = old.or(claim.force.then_some(1)) else {
            continue;
        };
        let deliveries = claim.deliveries.unwrap_or(old);
        group.pending.insert(id, (consumer.clone(), deliveries));
        expected.push(id);
    }
    assert_eq!(claimed.expect("a group").entries.ids(), expected);
}

fn compare_groups(store: &Store, twin: &Twin) {
    let key = store.key(b"k");
    for (name, group) in &twin.groups {
        let found = store.read(store.shards_of([&key]), |reader| {
            let stream = reader.stream(0, &key)?.expect("the key exists");
            let names = (&name[..], None);
            stream.pending_range(reader.view(), names, IdRange::ALL, u64::MAX)
        });
        let found = found.expect("a sound stream").expect("a group");
        let found: Vec<(StreamId, (Vec<u8>, u64))> = found
            .into_iter()
            .map(|entry| (entry.id, (entry.consumer, entry.deliveries)))
            .collect();
        let there = group.pending.iter().map(|(id, what)| (*id, what.clone()));
        assert_eq!(found, there.collect::<Vec<_>>());
    }
}

fn random() -> fastrand::Rng {
    let seed = std::env::var("UNDERCROFT_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("UNDERCROFT_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

#[test]
fn random_changes_match_a_naive_twin() {
    let mut random = random();
    let (_directory, store) = fresh::store(1);
    store.set_time(1_700_000_000_000);
    let mut twin = Twin::default();
    for round in 0..4000 {
        match random.u32(0..100) {
            0..60 => add(&store, &mut twin, &mut random),
            60..70 => look(&store, &twin, &mut random),
            70..72 => trim(&store, &mut twin, &mut random),
            72..76 => delete(&store, &mut twin, &mut random),
            76..86 => deliver(&store, &mut twin, &mut random),
            _ => of_group(&store, &mut twin, &mut random),
        }
        if round % 200 == 0 {
            check(&store);
            compare_groups(&store, &twin);
        }
    }
    let all: Vec<(StreamId, Texts)> = twin.entries.clone().into_iter().collect();
    assert_eq!(range(&store, IdRange::ALL), all);
    // Convert the stream to the flat list and to Redis' format, and back.
    let key = store.key(b"k");
    let items = || {
        let items = store.read(store.shards_of([&key]), |reader| {
            let mut items = Ranges::new();
            let entry = reader.find(0, &key)?.expect("the key exists");
            entry.append_items(reader.view(), &mut items)?;
            Ok::<_, Error>((entry.encoding()?, items))
        });
        items.expect("a sound stream")
    };
    let (encoding, before) = items();
    let payload = rdb::dump(ValueType::Stream, encoding, &before);
    let (_, restored) = rdb::restore(&payload, 1 << 20).expect("our own payload");
    assert_eq!(restored, before);
    write(&store, |writer, key| {
        writer.put_items(0, key, ValueType::Stream, &restored, None, &Limits::DEFAULT)
    });
    assert_eq!(items().1, before);
    check(&store);
    assert_eq!(store.delete(0, &[b"k".as_slice()]).expect("removed"), 1);
    while store.reclaim(|| false).expect("no process holds a lock") {}
    check(&store);
}

#[test]
fn continued_reads_return_the_current_entries() {
    let mut random = random();
    // Uses two streams with the same ids and mostly the same entries. A position reached in one
    // stream must not be used in the other stream.
    let mut both: Vec<_> = (0..2)
        .map(|_| (fresh::store(1), Twin::default(), StreamId::MIN))
        .collect();
    for step in 0..40_000 {
        let ((_, store), twin, last) = &mut both[random.usize(0..2)];
        match random.u32(0..40) {
            0..12 => {
                // Add equal entries to both streams, until one stream is changed in another way.
                let mut same = fastrand::Rng::with_seed(step / 64);
                for _ in 0..random.usize(1..4) {
                    add(store, twin, &mut same);
                }
            }
            12 => delete(store, twin, &mut random),
            13 if twin.entries.len() > 300 => trim(store, twin, &mut random),
            14 => *last = some_id(twin, &mut random),
            _ => {
                let from = last.next().expect("one after it");
                let count = random.u64(1..4);
                let next = twin.entries.range(from..).take(count as usize);
                let next: Vec<_> = next.map(|(id, texts)| (*id, texts.clone())).collect();
                let wanted = IdRange {
                    from,
                    count,
                    ..IdRange::ALL
                };
                assert_eq!(range(store, wanted), next, "after {last:?}");
                if let Some((id, _)) = next.last() {
                    *last = *id;
                }
            }
        }
    }
    for ((_, store), ..) in &both {
        check(store);
    }
}

#[test]
fn repeated_field_names_take_almost_no_memory() {
    let (_directory, store) = fresh::store(1);
    let bytes = |fields: [&[u8]; 3]| {
        write(&store, |writer, key| {
            writer.remove(0, key)?;
            for number in 1..=2000_u64 {
                let id = EntryId::Exactly(StreamId {
                    ms: 1 << 40,
                    seq: number,
                });
                let text = (number * 7).to_string();
                let texts: Vec<&[u8]> = fields
                    .iter()
                    .flat_map(|field| [*field, text.as_bytes()])
                    .collect();
                writer.stream_add(0, key, id, &texts, true, None, &StreamLimits::DEFAULT)?;
            }
            let entry = writer.find(0, key)?.expect("the key exists");
            entry.memory_usage(writer.view(), 0)
        })
    };
    let (short, long) = (
        bytes([b"a", b"b", b"c"]),
        bytes([&[b'a'; 40], &[b'b'; 40], &[b'c'; 40]]),
    );
    // Allow 16 bytes for each entry, which contains an id and three numbers.
    assert!(short < 2000 * 16, "{short}");
    assert!(long < short + 2000 * 3, "{long} and {short}");
}

#[test]
fn trim_touches_little_and_eventually_frees_everything() {
    let (_directory, store) = fresh::store(1);
    let value = vec![b'v'; 400];
    let used = |store: &Store| {
        while store.reclaim(|| false).expect("no process holds a lock") {}
        store.upkeep_all().expect("upkeep");
        store.used_memory()
    };
    let fill = |entries: u64| {
        write(&store, |writer, key| {
            let there = writer
                .stream(0, key)?
                .map_or(0, |stream| stream.entries_added());
            for number in there + 1..=there + entries {
                let id = EntryId::Exactly(StreamId { ms: number, seq: 0 });
                let limits = StreamLimits::DEFAULT;
                writer.stream_add(0, key, id, &[b"f", &value], true, None, &limits)?;
            }
            Ok(())
        });
    };
    fill(5000);
    let before = used(&store);
    let to = TrimTo::Length(100);
    for _ in 0..3 {
        let gone = write(&store, |writer, key| {
            writer.stream_trim(0, key, &Trim { to, about: None })
        });
        assert_eq!(gone, 4900);
        check(&store);
        fill(4900);
        let after = used(&store);
        assert!(after < before + before / 4, "{after} bytes after {before}");
    }
}

fn wait(waiters: &mut Waiters<&Store>, texts: &[&[u8]], take: Take) -> Ticket {
    let wanted = Wanted {
        database: 0,
        keys: texts,
        take,
    };
    match waiters.begin(&wanted).expect("room") {
        WaitOutcome::Waiting(ticket) => ticket,
        WaitOutcome::Answered(answer) => panic!("expected to wait, got {answer:?}"),
    }
}

/// If the client's wait is over, returns the ids of the entries that the client received.
fn given(waiters: &mut Waiters<&Store>, ticket: Ticket) -> Option<Vec<StreamId>> {
    match waiters.finish(ticket).expect("no lock is held")? {
        Answer::Taken(taken) => Some(StreamEntries::of_texts(&taken.items).ids().to_vec()),
        other => panic!("{other:?}"),
    }
}

fn add_one(store: &Store, ms: u64) {
    write(store, |writer, key| {
        let (id, limits) = (EntryId::Exactly(id(ms)), StreamLimits::DEFAULT);
        writer.stream_add(0, key, id, &[b"f", b"v"], true, None, &limits)
    });
}

fn id(ms: u64) -> StreamId {
    StreamId { ms, seq: 0 }
}

const READ: Take = Take::Entries { count: 10 };
const DELIVER: Take = Take::Deliver {
    count: 10,
    acknowledged: false,
};

#[test]
fn entries_go_to_all_readers_but_only_to_the_first_of_a_group() {
    let place = fresh::place(8);
    let (store, other) = (place.open(), place.open());
    let (mut here, mut there) = (Waiters::new(&store), Waiters::new(&other));
    add_one(&store, 1);
    write(&store, |writer, key| {
        writer.stream_create_group(0, key, b"g", (None, -1), false)
    });
    let behind = |ms| id(ms).to_bytes();
    let readers = [
        wait(&mut here, &[b"k", &behind(1)], READ),
        wait(&mut here, &[b"none", b"k", &behind(0), &behind(1)], READ),
        wait(&mut here, &[b"k", &behind(2)], READ),
    ];
    let first = wait(&mut there, &[b"k", b"g", b"one"], DELIVER);
    let second = wait(&mut there, &[b"k", b"g", b"two"], DELIVER);
    add_one(&store, 2);
    assert_eq!(given(&mut here, readers[0]), Some(vec![id(2)]));
    assert_eq!(given(&mut here, readers[1]), Some(vec![id(2)]));
    assert_eq!(given(&mut here, readers[2]), None);
    assert_eq!(given(&mut there, first), Some(vec![id(2)]));
    assert_eq!(given(&mut there, second), None);
    add_one(&store, 3);
    assert_eq!(given(&mut here, readers[2]), Some(vec![id(3)]));
    assert_eq!(given(&mut there, second), Some(vec![id(3)]));
    // The group has received all entries, so these two clients wait until the group is destroyed.
    let third = wait(&mut there, &[b"k", b"g", b"three"], DELIVER);
    let fourth = wait(&mut there, &[b"k", b"g", b"three"], DELIVER);
    write(&store, |writer, key| {
        writer.stream_destroy_group(0, key, b"g")
    });
    let answer = there.finish(third).expect("no lock is held");
    assert_eq!(answer, Some(Answer::NoGroup));
    assert_eq!(
        there.finish(fourth).expect("no lock is held"),
        Some(Answer::NoGroup)
    );
    write(&store, |writer, key| {
        writer.stream_create_group(0, key, b"g", (None, -1), false)
    });
    let fifth = wait(&mut there, &[b"k", b"g", b"three"], DELIVER);
    assert_eq!(store.delete(0, &[b"k".as_slice()]).expect("removed"), 1);
    assert_eq!(
        there.finish(fifth).expect("no lock is held"),
        Some(Answer::NoStream)
    );
    drop((here, there));
    check(&store);
}

#[test]
fn all_readers_get_long_entries_regardless_of_other_waiters() {
    let place = fresh::place(8);
    let (store, other) = (place.open(), place.open());
    // Use two handles, so that the readers sleep on two seats (futex slots of processes).
    let mut waiters = [Waiters::new(&store), Waiters::new(&other)];
    let long = vec![b'v'; 3000];
    let (old, new) = (id(0).to_bytes(), id(9).to_bytes());
    let readers: Vec<(Ticket, bool)> = (0..100)
        .map(|number| {
            let waiters = &mut waiters[number % 2];
            match number % 5 {
                0 => (wait(waiters, &[b"k", &new], READ), false),
                1 => (wait(waiters, &[b"none", b"k", &old, &old], READ), true),
                _ => (wait(waiters, &[b"k", &old], READ), true),
            }
        })
        .collect();
    write(&store, |writer, key| {
        for ms in 1..=5 {
            let (id, limits) = (EntryId::Exactly(id(ms)), StreamLimits::DEFAULT);
            writer.stream_add(0, key, id, &[b"f", &long], true, None, &limits)?;
        }
        Ok(())
    });
    let all: Vec<StreamId> = (1..=5).map(id).collect();
    for (seat, waiters) in waiters.iter_mut().enumerate() {
        let readers = readers.iter().skip(seat).step_by(2);
        let answered = waiters.answered(false).expect("no lock is held");
        let served = readers.clone().filter(|(_, served)| *served);
        assert!(answered.iter().eq(served.map(|(ticket, _)| ticket)));
        for &(ticket, served) in readers {
            let expected = served.then(|| all.clone());
            assert_eq!(given(waiters, ticket), expected);
        }
        assert_eq!(waiters.answered(false).expect("no lock is held"), []);
    }
    drop(waiters);
    check(&store);
}

#[test]
fn answer_to_a_dead_reader_is_freed() {
    let place = fresh::place(8);
    let (dying, store) = (place.open(), place.open());
    let mut dead = std::mem::ManuallyDrop::new(Waiters::new(&dying));
    wait(&mut dead, &[b"k", &id(0).to_bytes()], READ);
    // Make this handle claim its entry in the process table before the other handle dies, so that
    // it does not reuse the dead process's entry.
    store.set(0, b"other", b"").expect("room");
    dying.abandon();
    add_one(&store, 1);
    assert!(store.access().used_by_waiting().expect("a sound store") > 0);
    store.free_all_of_the_dead().expect("no lock is held");
    assert_eq!(store.access().used_by_waiting().expect("a sound store"), 0);
    assert_eq!(range(&store, IdRange::ALL).len(), 1);
    check(&store);
}

#[test]
fn entry_given_to_a_departed_client_is_pending() {
    let (_directory, store) = fresh::store(1);
    add_one(&store, 1);
    write(&store, |writer, key| {
        writer.stream_create_group(0, key, b"g", (None, -1), false)
    });
    let mut waiters = Waiters::new(&store);
    wait(&mut waiters, &[b"k", b"g", b"one"], DELIVER);
    add_one(&store, 2);
    // The client was given the entry but never reads it from its mailbox (its record in the store).
    drop(waiters);
    let pending = write(&store, |writer, key| {
        let stream = writer.stream(0, key)?.expect("the key exists");
        stream.pending_range(writer.view(), (b"g", Some(b"one")), IdRange::ALL, u64::MAX)
    });
    let ids: Vec<StreamId> = pending
        .expect("a group")
        .iter()
        .map(|entry| entry.id)
        .collect();
    assert_eq!(ids, [id(2)]);
    assert_eq!(range(&store, IdRange::ALL).len(), 2);
    check(&store);
}
