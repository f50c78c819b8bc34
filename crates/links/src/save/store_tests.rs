//! Tests of writing a store as an RDB file, and of loading the file again.

use undercroft_engine::Options;
use undercroft_engine::eviction::{EvictionChange, EvictionPolicy};
use undercroft_engine::feeds::{Order, Schema};
use undercroft_engine::lists::End;

use super::*;
use crate::load::{LoadOptions, load};
use crate::rdb::Reader;

fn store() -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("shared memory");
    let options = Options {
        capacity: Some(256 << 20),
        ..Options::default()
    };
    let store = Store::open_or_create(&directory.path().join("store"), &options).expect("a store");
    (directory, store)
}

fn saved(store: &Store, options: &SaveOptions) -> Result<(Vec<u8>, Saved), SaveError> {
    let snapshot = store.take_snapshot()?;
    save(store, &snapshot, Vec::new(), options, &mut |_| true)
}

/// A database, a key, its expiry, and the items of its value.
type Content = (usize, Vec<u8>, Option<u64>, Vec<Vec<u8>>);

/// Returns all keys of a store with their values, sorted.
fn content(store: &Store) -> Vec<Content> {
    let mut found = Vec::new();
    let shown = store.snapshot(|item| {
        let mut items: Vec<Vec<u8>> = item.items.iter().map(<[u8]>::to_vec).collect();
        if !item.value_type.description().ordered {
            items.sort();
        }
        found.push((item.database, item.key.to_vec(), item.expiry, items));
        Ok::<_, Error>(())
    });
    shown.expect("no lock is held");
    found.sort();
    found
}

fn filled() -> (tempfile::TempDir, Store) {
    let (directory, store) = store();
    for number in 0..20_000_u32 {
        let (key, value) = (format!("key {number}"), "v".repeat(number as usize % 70));
        let database = number as usize % 3 * 7;
        store
            .set(database, key.as_bytes(), value.as_bytes())
            .expect("room");
    }
    let key = store.key(b"list");
    let put = store.write(store.shards_of([&key]), |writer| {
        writer.list_push(0, &key, End::Right, &[b"a", b"b"], false)?;
        writer.set_expiry(0, &key, Some(1 << 50))
    });
    put.expect("room");
    (directory, store)
}

#[test]
fn saved_store_is_loaded_back_with_every_number_of_threads() {
    let (_directory, original) = filled();
    for version in [RdbVersion::V9, RdbVersion::V10, RdbVersion::V11] {
        for threads in [1, 2, 4] {
            let options = SaveOptions {
                threads,
                ..SaveOptions::new(version)
            };
            let (bytes, saved) = saved(&original, &options).expect("sound");
            assert_eq!((saved.keys, saved.left_out), (20_001, Own::default()));
            assert_eq!(saved.length, bytes.len() as u64);
            let (_directory, copy) = store();
            let mut reader = Reader::new(&bytes[..]).expect("sound");
            let options = LoadOptions::new();
            let loaded = load(&mut reader, Some(&copy), &options, &mut |_| true);
            assert_eq!(loaded.expect("sound").counts.keys, 20_001);
            assert!(reader.is_at_end().expect("readable"));
            assert_eq!(content(&copy), content(&original));
        }
    }
}

#[test]
fn keys_that_a_file_cannot_contain_are_counted_and_refused() {
    let (_directory, store) = store();
    let schema = Schema::new(8, &[], Order::List).expect("sound");
    let feed = store.key(b"feed");
    let created = store.write(store.shards_of([&feed]), |writer| {
        writer.feed_create(0, &feed, &schema)
    });
    created.expect("room");
    for (key, value) in [
        ("undercroft:channel:{jobs}:closed", &b""[..]),
        ("undercroft:channel:{jobs}:other", b""),
        ("object:1", b"\xc1UOb\0\0\0\0"),
        ("object:2", b"not an object"),
        ("plain", b"\xc1UO"),
    ] {
        store.set(0, key.as_bytes(), value).expect("room");
    }
    let mut options = SaveOptions::new(RdbVersion::V10);
    let error = saved(&store, &options).expect_err("own keys");
    assert_eq!(
        error.to_string(),
        "an RDB file cannot contain 1 feed, 2 keys of channels, 1 object"
    );
    options.skip_own = true;
    let (bytes, saved) = saved(&store, &options).expect("allowed");
    let own = Own {
        feeds: 1,
        channels: 2,
        objects: 1,
    };
    assert_eq!((saved.keys, saved.left_out), (2, own));
    let mut reader = Reader::new(&bytes[..]).expect("sound");
    let loaded = load(&mut reader, None, &LoadOptions::new(), &mut |_| true);
    assert_eq!(loaded.expect("sound").counts.keys, 2);
}

#[test]
fn hints_are_written_if_the_eviction_policy_uses_them() {
    let (_directory, original) = store();
    original.set(0, b"k", b"v").expect("room");
    for (policy, is_lfu) in [
        (EvictionPolicy::AllKeysLru, false),
        (EvictionPolicy::AllKeysLfu, true),
    ] {
        let change = EvictionChange::Policy(policy);
        original.change_eviction(change).expect("writable");
        let key = original.key(b"k");
        match is_lfu {
            false => original.set_idle_seconds(&key, 3000),
            true => original.set_frequency(&key, 123),
        }
        let (bytes, _) = saved(&original, &SaveOptions::new(RdbVersion::V11)).expect("sound");
        let (_directory, copy) = store();
        copy.change_eviction(change).expect("writable");
        let mut reader = Reader::new(&bytes[..]).expect("sound");
        load(&mut reader, Some(&copy), &LoadOptions::new(), &mut |_| true).expect("sound");
        let key = copy.key(b"k");
        match is_lfu {
            false => assert!((3000..3010).contains(&copy.idle_seconds(&key))),
            true => assert_eq!(copy.frequency(&key), 123),
        }
    }
}

#[test]
fn failing_output_and_interrupts_end_the_save() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self
                .0
                .checked_sub(bytes.len())
                .ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (_directory, store) = filled();
    let snapshot = store.take_snapshot().expect("memory");
    for threads in [1, 3] {
        let options = SaveOptions {
            threads,
            ..SaveOptions::new(RdbVersion::V10)
        };
        let result = save(&store, &snapshot, Full(1000), &options, &mut |_| true);
        assert!(matches!(result, Err(SaveError::Io(_))), "{threads}");
        let result = save(&store, &snapshot, Vec::new(), &options, &mut |_| false);
        assert!(matches!(result, Err(SaveError::Stopped)), "{threads}");
    }
    // The snapshot shows the state of its moment.
    store.set(0, b"later", b"v").expect("room");
    let options = SaveOptions::new(RdbVersion::V10);
    let (_, saved) = save(&store, &snapshot, Vec::new(), &options, &mut |_| true).expect("sound");
    assert_eq!(saved.keys, 20_001);
}
