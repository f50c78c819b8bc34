//! Tests replicas: only a handle that applies the source's changes may change keys, expired keys are
//! the source's to remove, and a data set replaces all keys at once.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use undercroft_engine::lists::End;
use undercroft_engine::{
    AppliedPosition, ClusterSource, DATABASES, Durability, Error, Expiry, Lag, Lane, LinkStatus,
    Options, REPLICATION_ID, Source, SourceLink, Store, Stream, Terms, loading_database,
};

fn store(directory: &Path) -> Store {
    let options = Options {
        capacity: Some(256 << 20),
        ..Options::default()
    };
    Store::create(&directory.join("store"), &options).expect("a new store")
}

fn source(id: u8, offset: u64) -> Source {
    Source {
        id: [id; REPLICATION_ID],
        position: AppliedPosition {
            offset,
            database: 3,
        },
    }
}

/// Opens another handle that applies a source's changes.
fn applier(store: &Store) -> Store {
    let applier = Store::open(store.path(), true).expect("the store");
    applier.apply_source();
    applier
}

fn value(store: &Store, database: usize, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    let found = store.get(database, key, &mut value).expect("a lookup");
    found.then_some(value)
}

#[test]
fn replica_refuses_every_kind_of_change() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let store = store(directory.path());
    store.set(0, b"k", b"old").expect("room");
    store.set(0, b"n", b"1").expect("room");
    let applier = applier(&store);
    store.set_replica(true).expect("a setting");
    assert!(store.refuses_changes() && applier.is_replica() && !applier.refuses_changes());
    for (number, result) in changes(&store).into_iter().enumerate() {
        assert!(
            matches!(result, Err(Error::Replica)),
            "{number}: {result:?}"
        );
    }
    assert_eq!(value(&store, 0, b"k").as_deref(), Some(&b"old"[..]));
    assert_eq!(value(&store, 0, b"n").as_deref(), Some(&b"1"[..]));
    assert_eq!(store.keys(0), 2);
    applier.set(0, b"k", b"from the source").expect("room");
    assert_eq!(applier.increment(0, b"n", 1).expect("a number"), 2);
    store.set_replica(false).expect("a setting");
    store.set(0, b"k", b"mine").expect("room");
}

/// Makes a change of every kind to a store with the keys `k` and `n`.
fn changes(store: &Store) -> Vec<Result<(), Error>> {
    vec![
        store.set(0, b"k", b"new"),
        store.set(0, b"missing", b"new"),
        store.increment(0, b"n", 1).map(drop),
        store.delete(0, &[b"k"]).map(drop),
        store.expire_at(0, b"k", u64::MAX >> 1).map(drop),
        store.list_push(0, b"list", End::Left, &[b"item"]).map(drop),
        store.flush(&[0], true).map(drop),
        store.flush_all(false).map(drop),
        store.write(store.all_shards(), |writer| writer.swap_databases(0, 1)),
        store.transact(store.all_shards(), |running| {
            let access = running.access();
            access.write(access.all_shards(), |writer| {
                writer.set(0, &writer.key(b"k"), b"new", Expiry::Never)?;
                Ok::<_, Error>(())
            })
        }),
    ]
}

#[test]
fn store_without_enough_replicas_refuses_every_kind_of_change() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let store = store(directory.path());
    let other = Store::open(store.path(), true).expect("the store");
    let counting = Store::open(store.path(), true).expect("the store");
    counting.count_replicas_itself(true);
    for one in [&store, &other, &counting] {
        one.set_time(1000);
    }
    for (key, value) in [(b"k", b"o"), (b"n", b"1"), (b"e", b"x")] {
        store.set(0, key, value).expect("room");
    }
    assert!(store.expire_at(0, b"e", 1500).expect("room"));
    assert_eq!(store.replicas_suffice_until(), None);
    store.require_replicas_after(Some(2000)).expect("a setting");
    assert_eq!(other.replicas_suffice_until(), Some(2000));
    other.set(0, b"k", b"old").expect("enough replicas");
    // The time passes without any process that could change a setting.
    for one in [&store, &other, &counting] {
        one.set_time(2001);
    }
    for (number, result) in changes(&other).into_iter().enumerate() {
        assert!(
            matches!(result, Err(Error::FewReplicas)),
            "{number}: {result:?}"
        );
    }
    // An expired key looks missing, and stays.
    assert_eq!(value(&other, 0, b"e"), None);
    other.remove_met().expect("nothing to do");
    assert_eq!(other.upkeep_all().expect("upkeep"), 0);
    assert_eq!(
        (store.keys(0), value(&store, 0, b"k").as_deref()),
        (3, Some(&b"old"[..]))
    );
    counting
        .set(0, b"k", b"counted")
        .expect("the caller counts");
    // The role of a replica is another part of the setting.
    store.set_replica(true).expect("a setting");
    assert!(matches!(counting.set(0, b"k", b"no"), Err(Error::Replica)));
    store.require_replicas_after(Some(5000)).expect("a setting");
    assert!(store.is_replica() && store.replicas_suffice_until() == Some(5000));
    store.set_replica(false).expect("a setting");
    other.set(0, b"k", b"again").expect("enough replicas");
    store.require_replicas_after(Some(1)).expect("a setting");
    assert!(matches!(other.set(0, b"k", b"no"), Err(Error::FewReplicas)));
    store.require_replicas_after(None).expect("a setting");
    other.set(0, b"k", b"mine").expect("room");
    assert_eq!(other.upkeep_all().expect("upkeep"), 1);
}

#[test]
fn only_the_source_removes_expired_keys() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let store = store(directory.path());
    let applier = applier(&store);
    store.set_time(1000);
    applier.set_time(1000);
    for key in [b"a", b"b"] {
        store.set(0, key, b"10").expect("room");
        assert!(store.expire_at(0, key, 2000).expect("room"));
    }
    store.set_replica(true).expect("a setting");
    store.set_time(3000);
    applier.set_time(3000);
    assert_eq!(value(&store, 0, b"a"), None);
    store.remove_met().expect("nothing to do");
    assert_eq!(store.upkeep_all().expect("upkeep"), 0);
    assert_eq!(store.keys(0), 2, "both keys are still there");
    // The source incremented the key before its deadline.
    assert_eq!(applier.increment(0, b"a", 1).expect("a number"), 11);
    assert_eq!(value(&applier, 0, b"a").as_deref(), Some(&b"11"[..]));
    // A deadline in the past removes nothing either.
    assert!(applier.expire_at(0, b"b", 2500).expect("room"));
    assert_eq!(store.keys(0), 2);
    store.set_replica(false).expect("a setting");
    assert_eq!(store.upkeep_all().expect("upkeep"), 2);
    assert_eq!(store.keys(0), 0);
}

#[test]
fn source_does_not_heed_the_memory_limit() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let store = store(directory.path());
    let applier = applier(&store);
    store.set(0, b"k", &[1; 10_000]).expect("room");
    store.set_max_memory(1000).expect("a limit");
    store.set_replica(true).expect("a setting");
    applier
        .check_memory_for(100)
        .expect("no limit for the source");
    applier.set(0, b"l", &[1; 10_000]).expect("room");
}

#[test]
fn position_is_that_of_the_last_change_in_any_shard() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let store = store(directory.path());
    assert_eq!(store.source().expect("a whole store"), None);
    store.set_source(&source(b'a', 100)).expect("room");
    for number in 0..200_u64 {
        let name = number.to_le_bytes();
        let key = store.key(&name);
        let position = AppliedPosition {
            offset: 101 + number,
            database: number as usize % DATABASES,
        };
        store
            .transact(store.shards_of([&key]), |running| {
                let access = running.access();
                access.write(access.shards_of([&key]), |writer| {
                    writer.set(0, &key, b"value", Expiry::Never)?;
                    Ok::<_, Error>(())
                })?;
                access.note_applied(position)
            })
            .expect("room");
        let found = store.source().expect("a whole store").expect("a source");
        assert_eq!(found.position, position);
    }
    // A failed transaction moves nothing.
    let failed = store.transact(store.all_shards(), |running| {
        let position = AppliedPosition {
            offset: 1 << 40,
            database: 0,
        };
        running.access().note_applied(position)?;
        Err::<(), _>(Error::NotANumber)
    });
    assert!(matches!(failed, Err(Error::NotANumber)));
    let found = store.source().expect("a whole store").expect("a source");
    assert_eq!(found.position.offset, 300);
    // Another stream begins at a lower position.
    store.set_source(&source(b'b', 5)).expect("room");
    assert_eq!(
        store.source().expect("a whole store"),
        Some(source(b'b', 5))
    );
}

#[test]
fn lag_counts_from_the_last_time_that_the_store_was_current() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let store = store(directory.path());
    store.set_time(50_000);
    let lag = || store.lag().expect("a whole store");
    assert_eq!(lag(), None);
    store.set_replica(true).expect("a setting");
    assert_eq!(lag(), None, "no process has followed a source");
    let link = |status, current| SourceLink {
        host: "source".into(),
        status,
        recorded: store.now(),
        source_offset: 160,
        offset: 130,
        current,
        ..SourceLink::default()
    };
    let record = |link: SourceLink| {
        store.set_source_link(&link).expect("room");
        assert_eq!(store.source_link().expect("a whole store"), Some(link));
    };
    let lag_of = |bytes, milliseconds| {
        Some(Lag {
            bytes,
            milliseconds,
        })
    };
    record(link(LinkStatus::Loading, 0));
    assert_eq!(lag(), lag_of(160, None));
    store.set_source(&source(b'a', 100)).expect("room");
    record(link(LinkStatus::Up, 49_000));
    assert_eq!(lag(), lag_of(60, Some(1000)));
    let access = store.access();
    let position = source(b'a', 160).position;
    access.note_applied(position).expect("room");
    assert_eq!(lag(), lag_of(0, Some(0)));
    // Changes of the source after the loss of the connection are unknown.
    record(link(LinkStatus::Down, 49_000));
    assert_eq!(lag(), lag_of(0, Some(1000)));
    // The process that followed the source is gone.
    record(link(LinkStatus::Up, 49_000));
    store.set_time(60_000);
    assert_eq!(lag(), lag_of(0, Some(11_000)));
    store.set_replica(false).expect("a setting");
    assert_eq!(lag(), None);
}

#[test]
fn wait_ends_with_the_position_at_the_timeout_or_with_the_role() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let store = store(directory.path());
    let applier = applier(&store);
    let long = Duration::from_secs(600);
    let missing = store.wait_until_applied(0, long);
    assert!(matches!(missing, Err(Error::NoReplica)), "{missing:?}");
    store.set_replica(true).expect("a setting");
    // There is no data set yet, and then one up to position 100.
    let short = Duration::from_millis(3);
    assert!(!store.wait_until_applied(0, short).expect("a replica"));
    store.set_source(&source(b'a', 100)).expect("room");
    assert!(store.wait_until_applied(100, long).expect("a replica"));
    assert!(!store.wait_until_applied(101, short).expect("a replica"));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| store.wait_until_applied(150, long));
        for offset in 101..=150 {
            assert!(!waiter.is_finished());
            let position = source(b'a', offset).position;
            applier.access().note_applied(position).expect("room");
        }
        assert!(waiter.join().expect("no panic").expect("a replica"));
        let waiter = scope.spawn(|| store.wait_until_applied(151, long));
        applier.set_replica(false).expect("a setting");
        let ended = waiter.join().expect("no panic");
        assert!(matches!(ended, Err(Error::NoReplica)), "{ended:?}");
    });
    store.set_replica(true).expect("a setting");
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| store.wait_until_applied(151, long));
        std::fs::remove_file(store.path()).expect("it exists");
        let ended = waiter
            .join()
            .expect("no panic")
            .expect_err("a removed file");
        assert!(store.removal().is_some(), "{ended}");
    });
}

#[test]
fn each_lane_of_a_cluster_has_its_own_place() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let store = store(directory.path());
    let applier = applier(&store);
    store.set_source(&source(b'a', 5)).expect("room");
    store.set_replica(true).expect("a setting");
    let lane = |number: u8, offset| Lane {
        number,
        id: [b'0' + number; REPLICATION_ID],
        node: format!("node {number}"),
        host: "host".into(),
        port: 7000,
        position: AppliedPosition {
            offset,
            database: 0,
        },
    };
    let mut cluster = ClusterSource {
        lanes: vec![lane(0, 100), lane(127, 900)],
        moving: vec![(3, 127)],
        ..ClusterSource::default()
    };
    cluster.owners.set(3, Some(0));
    applier
        .set_cluster_source(&cluster, |_| true)
        .expect("room");
    let found = || store.cluster_source().expect("a whole store");
    assert_eq!(found(), Some(cluster.clone()));
    assert_eq!(store.source().expect("a whole store"), None);
    let access = applier.access();
    let position = lane(127, 950).position;
    access.note_applied_in(127, position).expect("room");
    cluster.lanes[1].position = position;
    assert_eq!(found(), Some(cluster.clone()));
    // A record without new places keeps those of the lanes.
    cluster.moving.clear();
    applier
        .set_cluster_source(&cluster, |_| false)
        .expect("room");
    assert_eq!(found(), Some(cluster.clone()));
    // A new data set of a lane begins at a lower place.
    cluster.lanes[1].position.offset = 20;
    applier
        .finish_loading_cluster(&cluster, |lane| lane == 127)
        .expect("room");
    assert_eq!(found(), Some(cluster));
    let applied = |lane, offset| store.has_applied_in(lane, offset);
    assert!(applied(Some(0), 100).expect("a replica"));
    assert!(!applied(Some(127), 21).expect("a replica"));
    assert!(matches!(applied(None, 1), Err(Error::ManySources)));
    let link = SourceLink {
        source_offset: 50,
        recorded: store.now(),
        ..SourceLink::default()
    };
    store.set_source_link(&link).expect("room");
    store.set_lane_link(127, &link).expect("room");
    assert_eq!(
        store.lag().expect("a whole store").map(|lag| lag.bytes),
        Some(30)
    );
    store.forget_source().expect("room");
    assert_eq!(found(), None);
    let problems = store.check().expect("a check").problems;
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn data_set_replaces_all_keys_at_once() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let store = store(directory.path());
    let applier = applier(&store);
    let is_done = AtomicBool::new(false);
    let is_read = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            // All keys have the number of the data set.
            let names: Vec<Vec<u8>> = (0..50).map(|key: u64| key.to_le_bytes().into()).collect();
            while !is_done.load(Ordering::Relaxed) {
                let keys: Vec<_> = names.iter().map(|name| store.key(name)).collect();
                let values = store
                    .read(store.all_shards(), |reader| {
                        keys.iter()
                            .map(|key| match reader.find(2, key)? {
                                None => Ok(None),
                                Some(entry) => {
                                    let mut value = Vec::new();
                                    let text = entry.text(reader.view())?;
                                    text.append_to(reader.view(), &mut value)?;
                                    Ok(Some(value))
                                }
                            })
                            .collect::<Result<Vec<_>, Error>>()
                    })
                    .expect("a whole store");
                assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
                is_read.store(true, Ordering::Relaxed);
            }
        });
        // On a busy machine, the reader may start only after 60 rounds.
        let mut rounds = 0..;
        while rounds.start < 60 || !is_read.load(Ordering::Relaxed) && !reader.is_finished() {
            let round: u64 = rounds.next().expect("endless");
            applier.begin_loading().expect("room");
            for key in 0..50_u64 {
                let database = loading_database(2);
                let value = round.to_le_bytes();
                applier
                    .set(database, &key.to_le_bytes(), &value)
                    .expect("room");
            }
            let loaded = source(b'a', round);
            let replaced = applier.finish_loading(&loaded).expect("room");
            assert_eq!(replaced, if round == 0 { 0 } else { 50 });
            assert_eq!(store.source().expect("a whole store"), Some(loaded));
        }
        is_done.store(true, Ordering::Relaxed);
        reader.join().expect("a reader");
    });
    assert_eq!(store.keys(2), 50);
    // The remains of an interrupted load are invisible, and gone before the next one.
    applier
        .set(loading_database(0), b"half", b"loaded")
        .expect("room");
    assert_eq!(store.keys(0), 0);
    applier.begin_loading().expect("room");
    applier.finish_loading(&source(b'a', 1)).expect("room");
    assert_eq!((store.keys(0), store.keys(2)), (0, 0));
    let problems = store.check().expect("a check").problems;
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn replica_is_recovered_as_a_replica() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let folder = directory.path().join("journal");
    let store = store(directory.path());
    let terms = Terms {
        journal: Some(folder.clone()),
        ..Terms::default()
    };
    let mode = Durability::EverySecond;
    store.set_durability(mode, &terms).expect("a journal");
    store.set_source(&source(b'a', 7)).expect("room");
    store.set_replica(true).expect("a setting");
    let applier = applier(&store);
    applier.set(loading_database(1), b"k", b"v").expect("room");
    applier.finish_loading(&source(b'b', 9)).expect("room");
    applier.make_durable().expect("a durable journal");
    let path = store.path().to_owned();
    drop((store, applier));
    std::fs::remove_file(&path).expect("it exists");
    let store = Store::open_or_recover(&path, &folder).expect("a recovered store");
    assert!(store.recovery().is_some() && store.refuses_changes());
    assert_eq!(
        store.source().expect("a whole store"),
        Some(source(b'b', 9))
    );
    assert_eq!(value(&store, 1, b"k").as_deref(), Some(&b"v"[..]));
}

#[test]
fn keys_of_a_full_store_can_be_removed_while_changes_are_logged() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
    let options = Options {
        capacity: Some(16 << 20),
        ..Options::default()
    };
    let store = Store::create(&directory.path().join("store"), &options).expect("a new store");
    store.set_max_memory(0).expect("a setting");
    let stream = Stream {
        id: [b's'; REPLICATION_ID],
        earlier: None,
        file: 0,
        is_old: false,
        start: 0,
        end: 0,
    };
    store.begin_stream(&stream).expect("room");
    let name = |number: u32| format!("key:{number:06}:{}", "n".repeat(100)).into_bytes();
    let mut count = 0;
    while store.set(0, &name(count), &[b'v'; 200]).is_ok() {
        count += 1;
    }
    assert!(count > 10_000, "{count}");
    for number in 0..count {
        let removed = store.delete(0, &[&name(number)]);
        assert_eq!(
            removed.expect("a removal needs no room"),
            1,
            "{number} of {count}"
        );
    }
    assert_eq!(store.count_keys(0).expect("no lock is held"), 0);
}
