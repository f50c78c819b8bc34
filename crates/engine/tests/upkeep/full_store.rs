//! Tests that keys can be removed one by one from a store without free memory, and that the freed
//! memory can be used for any purpose.

use undercroft_engine::{Limits, Options, Store};
use undercroft_testkit::fresh;

/// The size of the store's address space in bytes.
const CAPACITY: u64 = 32 << 20;

fn store() -> (tempfile::TempDir, Store) {
    let directory = fresh::directory();
    let options = Options {
        capacity: Some(CAPACITY),
        shards: Some(4),
        ring: None,
    };
    let path = directory.path().join("store");
    let store = Store::create(&path, &options).expect("a new store");
    (directory, store)
}

/// Sets keys to values of one length until 50 values did not fit. Returns the keys whose values
/// fit.
fn fill(store: &Store, name: &str, length: usize) -> Vec<String> {
    const REFUSED: u32 = 50;
    let (value, mut keys, mut refused) = (vec![b'v'; length], Vec::new(), 0);
    for number in 0.. {
        let key = format!("{name}:{number}");
        match store.set(0, key.as_bytes(), &value) {
            Ok(()) => keys.push(key),
            Err(error) => {
                assert!(error.is_out_of_memory(), "{error}");
                refused += 1;
                if refused == REFUSED {
                    break;
                }
            }
        }
    }
    keys
}

/// Fills the store until not even a page is free.
fn fill_up(store: &Store, name: &str) {
    for length in [60_000, 30_000, 16_000, 8000, 4000] {
        fill(store, &format!("{name}, {length}"), length);
    }
}

fn delete<'k>(store: &Store, keys: impl IntoIterator<Item = &'k String>) {
    for key in keys {
        assert_eq!(store.delete(0, &[key.as_bytes()]).expect("removed"), 1);
    }
}

fn check(store: &Store) {
    let report = store.check().expect("a walk");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[test]
fn every_key_and_field_of_a_full_store_can_be_removed() {
    const MANY: usize = 20_000;
    let (_directory, store) = store();
    let names: Vec<String> = (0..MANY).map(|number| format!("name {number}")).collect();
    for name in &names {
        store.set(0, name.as_bytes(), b"small").expect("room");
        let set = store.hash_set(0, b"hash", name.as_bytes(), b"small", &Limits::DEFAULT.hash);
        assert!(set.expect("room"));
    }
    // Use up the freed memory again before the tables need memory to shrink.
    let refill = |what: &str, number: usize| {
        if number.is_multiple_of(200) {
            fill_up(&store, &format!("{what} {number}"));
        }
    };
    for (number, name) in names.iter().enumerate() {
        refill("key", number);
        let gone = store.delete(0, &[name.as_bytes()]);
        assert_eq!(gone.expect("a key that is removed"), 1);
    }
    let key = store.key(b"hash");
    for (number, name) in names.iter().enumerate() {
        refill("field", number);
        let gone = store.write(store.shards_of([&key]), |writer| {
            writer.hash_delete(0, &key, &[name.as_bytes()])
        });
        assert_eq!(gone.expect("a field that is removed"), 1);
    }
    check(&store);
}

#[test]
fn scattered_free_pages_are_used() {
    let (_directory, store) = store();
    let small: Vec<String> = (0..300).map(|number| format!("small {number}")).collect();
    for key in &small {
        store.set(0, key.as_bytes(), b"small").expect("room");
    }
    let keys = fill(&store, "page", 4000);
    let every_second: Vec<&[u8]> = keys.iter().step_by(2).map(String::as_bytes).collect();
    let gone = store.delete(0, &every_second).expect("removed");
    assert_eq!(gone as usize, every_second.len());
    // Use the free pages in a single transaction.
    let value = [b'w'; 4000];
    let pairs: Vec<(&[u8], &[u8])> = small
        .iter()
        .map(|key| (key.as_bytes(), &value[..]))
        .collect();
    store.set_many(0, &pairs).expect("half of the store");
    // Add more keys than the existing tables have room for.
    let free = CAPACITY / 4;
    assert!(fill(&store, "tiny", 1).len() as u64 > free / 128);
    check(&store);
}

#[test]
fn emptied_store_has_room_for_long_values() {
    const LONG: usize = 2 << 20;
    let (_directory, store) = store();
    let fit = fill(&store, "long", LONG);
    delete(&store, &fit);
    // The shards of the keys are random, and small values leave the free memory more scattered. In
    // 150 stores, at least 11, 13 and 14 of 15 long values fit again for the three lengths.
    for (length, lost_most) in [(300, 5), (5000, 3), (20_000, 2)] {
        let keys = fill(&store, "short", length);
        // Delete every second key first, so that each page is partly free.
        delete(&store, keys.iter().step_by(2));
        delete(&store, keys.iter().skip(1).step_by(2));
        let again = fill(&store, "long", LONG);
        assert!(
            again.len() + lost_most >= fit.len(),
            "after values of {length} bytes: {} of {}",
            again.len(),
            fit.len()
        );
        delete(&store, &again);
    }
    check(&store);
}
