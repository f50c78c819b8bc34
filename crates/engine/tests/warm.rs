//! Warming changes nothing, whatever the keys and the state of the tables.

use undercroft_engine::{Error, Expiry, Options, Store};

#[test]
fn warming_leaves_everything_as_it_is() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let options = Options {
        capacity: Some(256 << 20),
        shards: Some(4),
        ring: None,
    };
    let store = Store::create(&directory.path().join("store"), &options).expect("a store");
    let keys: Vec<Vec<u8>> = (0..3_000)
        .map(|n| format!("key {n}").into_bytes())
        .collect();
    let all: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    // In an empty store, too, and in the middle of the growth of its tables.
    for (number, key) in all.iter().enumerate() {
        if number % 97 == 0 {
            store.warm(0, &all[..(number + 50).min(all.len())]);
            store.warm(7, &all[..3]);
        }
        store.set(0, key, key).expect("room");
    }
    store.warm(0, &all);
    store.warm(0, &[]);
    for key in &all {
        let mut value = Vec::new();
        assert!(store.get(0, key, &mut value).expect("no lock is held"));
        assert_eq!(value, *key);
    }
    assert_eq!(store.count_keys(0).expect("no lock is held"), 3_000);
    let report = store.check().expect("no lock is held");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[test]
fn it_waits_for_nobody() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let path = directory.path().join("store");
    let options = Options {
        capacity: Some(256 << 20),
        shards: Some(1),
        ring: None,
    };
    let store = Store::create(&path, &options).expect("a store");
    store.set(0, b"k", b"v").expect("room");
    let other = Store::open(&path, true).expect("the same store");
    let keys = vec![&b"k"[..]; 100];
    let key = store.key(b"k");
    let written = store.write(store.all_shards(), |writer| {
        writer.set(0, &key, b"w", Expiry::Never)?;
        other.warm(0, &keys);
        Ok::<_, Error>(())
    });
    written.expect("the lock is this thread's");
    let mut value = Vec::new();
    assert!(other.get(0, b"k", &mut value).expect("free again"));
    assert_eq!(value, b"w");
}
