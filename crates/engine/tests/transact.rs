//! Many commands as one transaction.

use undercroft_engine::{Error, Expiry, Options, ShardSet, Store};

fn new_store() -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
    let options = Options {
        shards: Some(4),
        ..Options::default()
    };
    let store = Store::create(&directory.path().join("store"), &options).expect("a new store");
    (directory, store)
}

fn get(store: &Store, key: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    store
        .get(0, key, &mut out)
        .expect("readable")
        .then_some(out)
}

#[test]
fn what_one_command_does_the_next_one_sees() {
    let (_directory, store) = new_store();
    store.set(0, b"counter", b"5").expect("room");
    let keys = [store.key(b"counter"), store.key(b"other")];
    let seen = store.transact(store.shards_of(&keys), |running| {
        let access = running.access();
        assert_eq!(access.increment(0, b"counter", 2)?, 7);
        access.set(0, b"other", b"new")?;
        assert_eq!(access.exists(0, &[b"counter", b"other", b"none"])?, 2);
        let mut out = Vec::new();
        assert!(access.get(0, b"counter", &mut out)?);
        Ok::<_, Error>(out)
    });
    assert_eq!(seen.expect("no lock is held"), b"7");
    assert_eq!(get(&store, b"other").as_deref(), Some(&b"new"[..]));
}

#[test]
fn an_error_undoes_what_all_commands_did() {
    let (_directory, store) = new_store();
    store.set(0, b"text", b"not a number").expect("room");
    let failed = store.transact(store.all_shards(), |running| {
        let access = running.access();
        access.set(0, b"new", b"value")?;
        access.delete(0, &[b"text"])?;
        access.set(0, b"text", b"still none")?;
        access.increment(0, b"text", 1)
    });
    assert!(matches!(failed, Err(Error::NotAnInteger)), "{failed:?}");
    assert_eq!(get(&store, b"new"), None);
    assert_eq!(get(&store, b"text").as_deref(), Some(&b"not a number"[..]));
}

#[test]
fn a_shard_that_was_not_foreseen_makes_it_run_again() {
    let (_directory, store) = new_store();
    let mut runs = 0;
    let first = store.key(b"first");
    let strange = (0..100_u8)
        .map(|number| [number])
        .find(|name| store.key(name).shard() != first.shard())
        .expect("a key of another shard");
    let done = store.transact(store.shards_of([&first]), |running| {
        runs += 1;
        let access = running.access();
        access.set(0, b"first", b"1")?;
        // The error may well be overlooked by a command.
        let _ = access.set(0, &strange, b"2");
        Ok::<_, Error>(access.count_keys(0).unwrap_or(0))
    });
    assert_eq!(done.expect("no lock is held"), 2);
    assert!(runs > 1, "no shard was missing");
    assert_eq!(get(&store, &strange).as_deref(), Some(&b"2"[..]));
}

#[test]
fn it_runs_again_with_more_memory() {
    let (_directory, store) = new_store();
    let value = vec![b'x'; 100_000];
    let mut runs = 0;
    store
        .transact(store.all_shards(), |running| {
            runs += 1;
            for number in 0..50_u8 {
                let set = running.access().set(0, &[number], &value);
                assert_eq!(set.is_err(), running.starts_again());
                set?;
            }
            Ok::<_, Error>(())
        })
        .expect("room");
    assert!(runs > 1, "all memory was there from the start");
    assert_eq!(store.count_keys(0).expect("no lock is held"), 50);
    let report = store.check().expect("no lock is held");
    assert_eq!(report.problems, Vec::<String>::new());
}

#[test]
fn walks_and_flushes_work_within() {
    let (_directory, store) = new_store();
    for number in 0..100_u8 {
        store.set(0, &[number], b"value").expect("room");
    }
    store.set(3, b"elsewhere", b"value").expect("room");
    let counts = store.transact(ShardSet::EMPTY, |running| {
        let access = running.access();
        let before = access.keys_where(0, |_| Ok(true))?.len();
        assert!(access.random_key(0, 7)?.is_some());
        let removed = access.flush(&[0], true)?;
        assert_eq!(access.random_key(0, 7)?, None);
        access.write(access.all_shards(), |writer| writer.swap_databases(0, 3))?;
        access.write(access.shards_of([&access.key(b"x")]), |writer| {
            writer.set(0, &access.key(b"x"), b"y", Expiry::Never)
        })?;
        Ok::<_, Error>((before, removed, access.count_keys(0)?))
    });
    assert_eq!(counts.expect("no lock is held"), (100, 100, 2));
    assert_eq!(get(&store, b"elsewhere").as_deref(), Some(&b"value"[..]));
    assert_eq!(store.count_keys(3).expect("no lock is held"), 0);
}
