//! Tests large deliveries and claims, which are committed in parts. The result must equal the
//! result of a single transaction, and other writers must be able to acquire the lock between the
//! parts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use undercroft_engine::streams::{Claim, Delivery, EntryId, StreamEntries, StreamId, StreamLimits};
use undercroft_engine::{Access, Error, Key, Store, Writer};
use undercroft_testkit::fresh;

const ENTRIES: u64 = 30_000;
/// The number of entries that are redelivered at the time of the test. All later entries are
/// redelivered long before.
const RECENT: u64 = 20_000;

fn id(ms: u64) -> StreamId {
    StreamId { ms, seq: 0 }
}

fn write<R>(
    store: &Store,
    name: &[u8],
    body: impl Fn(&mut Writer<'_, '_>, &Key<'_>) -> Result<R, Error> + Sync,
) -> R {
    let key = store.key(name);
    let written = store.write(store.shards_of([&key]), |writer| body(writer, &key));
    written.expect("room")
}

/// Creates a stream with a group that has not received any entries yet.
fn fill(store: &Store, name: &[u8], entries: u64) {
    write(store, name, |writer, key| {
        for ms in 1..=entries {
            let (id, limits) = (EntryId::Exactly(id(ms)), StreamLimits::DEFAULT);
            let value = [b'v'; 9];
            writer.stream_add(
                0,
                key,
                id,
                &[b"field", &value[..ms as usize % 9]],
                true,
                None,
                &limits,
            )?;
        }
        writer.stream_create_group(0, key, b"g", (Some(StreamId::MIN), -1), false)
    });
}

fn claim(idle: u64) -> Claim<'static> {
    Claim {
        group: b"g",
        consumer: b"other",
        idle,
        time: 0,
        deliveries: None,
        force: false,
        only_ids: false,
        last: StreamId::MIN,
    }
}

/// Makes the same change to two equal streams. The first stream is changed within a transaction,
/// and the second is changed in parts, outside of a transaction.
fn both<R: PartialEq + std::fmt::Debug>(
    store: &Store,
    body: impl Fn(&Access<'_>, &Key<'_>) -> Result<R, Error> + Sync,
) -> R {
    let (key, twin) = (store.key(b"k"), store.key(b"twin"));
    let whole = store.transact(store.shards_of([&key]), |running| {
        body(&running.access(), &key)
    });
    let parts = body(&store.access(), &twin).expect("room");
    assert_eq!(whole.expect("room"), parts);
    parts
}

fn deliver(
    access: &Access<'_>,
    key: &Key<'_>,
    again: Option<StreamId>,
    count: u64,
) -> Result<StreamEntries, Error> {
    let delivery = Delivery {
        group: b"g",
        consumer: b"c",
        count,
        acknowledged: false,
    };
    let (names, first) = ((&b"g"[..], &b"c"[..]), delivery.first_part(access));
    let mut out = StreamEntries::new();
    let shards = access.shards_of([key]);
    let done = access.write_into(shards, &mut out, |writer, out| match again {
        Some(after) => writer.stream_deliver_again(0, key, names, (after, first), out),
        None => writer.stream_deliver(0, key, names, (first, false), out),
    });
    assert!(done?);
    if !access.is_running() {
        access.stream_deliver_rest(0, key, &delivery, again.is_some(), &mut out);
    }
    Ok(out)
}

#[test]
fn parts_give_the_same_result_as_one_transaction() {
    let (_directory, store) = fresh::store(4);
    for name in [&b"k"[..], b"twin"] {
        fill(&store, name, ENTRIES);
    }
    // The counts are far below the size of one part, far above it, and on both sides of the
    // boundary.
    for count in [1, 1023, 1024, 1025, 2048, u64::MAX] {
        both(&store, |access, key| deliver(access, key, None, count));
    }
    let all = both(&store, |access, key| deliver(access, key, None, 10));
    assert!(all.is_empty(), "all entries were delivered");
    for count in [3, 1024, 4000, u64::MAX] {
        let again = both(&store, |access, key| {
            deliver(access, key, Some(id(100)), count)
        });
        assert_eq!(again.len() as u64, count.min(ENTRIES - 100));
    }
    for name in [&b"k"[..], b"twin"] {
        let gone: Vec<StreamId> = (1..=ENTRIES).step_by(31).map(id).collect();
        write(&store, name, |writer, key| {
            writer.stream_delete(0, key, &gone)
        });
        let old: Vec<StreamId> = (RECENT + 1..=ENTRIES).map(id).collect();
        let again = Claim {
            consumer: b"c",
            ..claim(0)
        };
        write(&store, name, |writer, key| {
            writer.stream_claim(0, key, &again, &old)
        });
    }
    for (idle, from, count) in [
        // A claim examines at most ten times `count` entries. These counts are too small to reach
        // the old entries, in one part and in two parts.
        (1_000_000, 1, 100),
        (1_000_000, 1, 1500),
        // These counts are large enough to reach the old entries.
        (1_000_000, 19_000, 300),
        (1_000_000, 1, 2900),
        (0, 500, 1024),
        (0, 1, 1025),
        (0, 1, 1 << 40),
    ] {
        let claimed = both(&store, |access, key| {
            let claimed = access.stream_claim_from(0, key, &claim(idle), (id(from), count));
            let claimed = claimed?.expect("a group");
            Ok((claimed.entries, claimed.gone, claimed.next))
        });
        assert!(claimed.0.len() as u64 + claimed.1.len() as u64 <= count);
    }
    let report = store.check().expect("a walk");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

/// Checks that a reader can see a partly completed large claim, which means that other writers can
/// also acquire the lock in between.
#[test]
fn large_claim_is_committed_in_parts() {
    let (_directory, store) = fresh::store(1);
    let many = 40_000;
    fill(&store, b"k", many);
    let delivery = Delivery {
        group: b"g",
        consumer: b"c",
        count: u64::MAX,
        acknowledged: false,
    };
    let mut out = StreamEntries::new();
    let found = store.stream_deliver(0, b"k", &delivery, &mut out);
    assert!(found.expect("room"));
    assert_eq!(out.len() as u64, many);
    let key = store.key(b"k");
    let claimed_so_far = || {
        let pending = store.read(store.shards_of([&key]), |reader| {
            let stream = reader.stream(0, &key)?.expect("the stream");
            stream.pending_info(reader.view(), b"g")
        });
        let pending = pending.expect("a look").expect("a group");
        let mut all = pending.consumers.iter();
        let other = all.find(|(name, _)| name == b"other");
        other.map_or(0, |(_, pending)| *pending)
    };
    let (halves, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let is_half = (1..many).contains(&claimed_so_far());
                halves.fetch_add(is_half.into(), Ordering::Relaxed);
            }
        });
        for round in 0..100 {
            let consumer: &[u8] = [&b"other"[..], b"c"][round % 2];
            let claim = Claim {
                consumer,
                ..claim(0)
            };
            let claimed = store
                .access()
                .stream_claim_from(0, &key, &claim, (StreamId::MIN, many));
            let claimed = claimed.expect("room").expect("a group");
            assert_eq!(claimed.entries.len() as u64, many);
            if halves.load(Ordering::Relaxed) > 0 {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(halves.load(Ordering::Relaxed) > 0);
}
