//! Tests that a store maintains itself (M8) by removing expired keys and freeing their memory,
//! without a server and without an explicit call.

use std::time::{Duration, Instant};

use undercroft_engine::lists::End;
use undercroft_engine::strings::{Condition, SetOptions};
use undercroft_engine::{Error, Expiry, Options, Store};

/// A timeout that is longer than any of these tests takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn place(shards: usize) -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
    let options = Options {
        capacity: Some(4 << 30),
        shards: Some(shards),
        ring: None,
    };
    let store = Store::create(&directory.path().join("store"), &options).expect("a new store");
    (directory, store)
}

/// Returns the numbers of keys in these tests, which are small in `make test` and go up to a
/// million on request.
fn sizes() -> Vec<u32> {
    match std::env::var_os("UNDERCROFT_UPKEEP") {
        Some(_) => vec![10, 1_000_000],
        None => vec![10, 20_000],
    }
}

/// Sets keys that, by the system clock, expired long ago.
fn set_expired(store: &Store, keys: u32) {
    store.set_time(1000);
    for key in 0..keys {
        let options = SetOptions {
            condition: Condition::Always,
            expiry: Expiry::At(2000),
        };
        let database = key as usize % 3;
        let set = store.set_with(database, &key.to_le_bytes(), &[7; 64], options);
        set.expect("room");
    }
    store.set_time(0);
}

fn keys(store: &Store) -> u64 {
    (0..3)
        .map(|database| store.count_keys(database).expect("no lock is held"))
        .sum()
}

/// Repeatedly writes to one key until `done` returns true.
fn write_until(store: &Store, mut done: impl FnMut(&Store) -> bool) {
    let start = Instant::now();
    while !done(store) {
        assert!(
            start.elapsed() < PATIENCE,
            "no process does the store's upkeep"
        );
        store.set(15, b"writer", b"value").expect("room");
    }
}

fn sound(store: &Store) {
    assert_eq!(
        store.check().expect("a check").problems,
        Vec::<String>::new()
    );
}

#[test]
fn expired_keys_are_removed_by_writes_to_other_keys() {
    for size in sizes() {
        let (_directory, store) = place(4);
        store.set(15, b"writer", b"value").expect("room");
        let before = store.used_memory();
        set_expired(&store, size);
        write_until(&store, |store| {
            keys(store) == 0 && store.used_memory() <= before
        });
        sound(&store);
    }
}

#[test]
fn expired_keys_among_many_others_are_found() {
    let (_directory, store) = place(2);
    for key in 0..20_000_u32 {
        store
            .set(0, format!("stays {key}").as_bytes(), b"v")
            .expect("room");
    }
    set_expired(&store, 30);
    write_until(&store, |store| keys(store) == 20_000);
    sound(&store);
}

#[test]
fn waiting_clients_run_upkeep_too() {
    let (_directory, store) = place(2);
    set_expired(&store, 1000);
    let start = Instant::now();
    while keys(&store) > 0 {
        assert!(
            start.elapsed() < PATIENCE,
            "no process does the store's upkeep"
        );
        store.upkeep_while_waiting();
    }
}

#[test]
fn store_full_of_expired_keys_accepts_new_ones() {
    let (_directory, store) = place(2);
    store.set_max_memory(4 << 20).expect("it may write");
    store.set_time(1000);
    let options = SetOptions {
        condition: Condition::Always,
        expiry: Expiry::At(2000),
    };
    let set = |key: u32| store.set_with(0, &key.to_le_bytes(), &[7; 100], options);
    let full = (0..).map_while(|key| set(key).ok()).count() as u32;
    assert!(full > 10_000, "{full}");
    let refused = set(full);
    assert!(matches!(refused, Err(Error::MaxMemory)), "{refused:?}");
    store.set_time(3000);
    // No write failed because of expired keys, even without an explicit sweep.
    for key in 0..full {
        store
            .set(1, &key.to_le_bytes(), &[7; 90])
            .expect("what has expired makes room");
    }
    sound(&store);
}

#[test]
fn full_file_of_expired_keys_accepts_new_ones() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
    let options = Options {
        capacity: Some(8 << 20),
        shards: Some(2),
        ring: None,
    };
    let store = Store::create(&directory.path().join("store"), &options).expect("a new store");
    store.set_time(1000);
    let options = SetOptions {
        condition: Condition::Always,
        expiry: Expiry::At(2000),
    };
    let set = |key: u32| store.set_with(0, &key.to_le_bytes(), &[7; 100], options);
    let full = (0..).map_while(|key| set(key).ok()).count() as u32;
    store.set_time(3000);
    for key in 0..full / 2 {
        store
            .set(1, &key.to_le_bytes(), &[7; 100])
            .expect("what has expired makes room");
    }
    sound(&store);
}

/// Returns the number of bytes that the store's file occupies on its file system.
fn file_bytes(store: &Store) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(store.path()).expect("a file").blocks() * 512
}

#[test]
fn flushed_memory_is_freed_by_later_writes() {
    for size in sizes() {
        let (_directory, store) = place(4);
        store.set(15, b"writer", b"value").expect("room");
        store.set_time(1000);
        for key in 0..size {
            store.set(0, &key.to_le_bytes(), &[7; 64]).expect("room");
        }
        store.set_time(0);
        assert_eq!(store.flush_all(false).expect("room"), u64::from(size) + 1);
        sound(&store);
        // About 25 MiB remain, which consist of 16 MiB that are kept for reuse and of memory that
        // contains no data.
        let small = |store: &Store| file_bytes(store) < 40 << 20;
        write_until(&store, |store| store.used_memory() < 1000 && small(store));
        assert_eq!(store.statistics().left, 0);
        sound(&store);
    }
}

#[test]
fn keys_set_after_a_flush_stay() {
    let (_directory, store) = place(2);
    store.set_time(1000);
    for round in 0..4_u32 {
        for key in 0..3000_u32 {
            let value = vec![round as u8; (key as usize * 7) % 3000];
            store.set(0, &key.to_le_bytes(), &value).expect("room");
        }
        let items: Vec<String> = (0..3000)
            .map(|number| format!("{round} {number}"))
            .collect();
        let items: Vec<&[u8]> = items.iter().map(String::as_bytes).collect();
        store
            .list_push(1, b"list", End::Right, &items)
            .expect("room");
        sound(&store);
        if round < 3 {
            store.flush_all(false).expect("room");
            // Free only part of the memory, so that the remaining memory of several flushes
            // accumulates.
            store.upkeep_step().expect("no lock is held");
            sound(&store);
        }
    }
    let used = store.used_memory();
    store.upkeep_all().expect("no lock is held");
    sound(&store);
    assert!(store.used_memory() <= used);
    assert_eq!(store.statistics().left, 0);
    for key in 0..3000_u32 {
        let mut value = Vec::new();
        assert!(store.get(0, &key.to_le_bytes(), &mut value).expect("read"));
        assert_eq!(value, vec![3; (key as usize * 7) % 3000]);
    }
    assert_eq!(store.flush_all(true).expect("room"), 3001);
    store.upkeep_all().expect("no lock is held");
    assert_eq!(store.used_memory(), 0);
    sound(&store);
}
