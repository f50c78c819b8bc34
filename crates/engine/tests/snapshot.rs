//! Tests that a snapshot contains every unexpired key exactly once, regardless of the state of the
//! dictionary.

use std::collections::BTreeMap;

use undercroft_engine::strings::{Condition, SetOptions};
use undercroft_engine::{Error, Expiry, Options, Store, ValueType};

const START: u64 = 1_000_000;

type Data = BTreeMap<(usize, Vec<u8>), (Option<u64>, Vec<u8>)>;

fn snapshot(store: &Store) -> Data {
    let mut data = Data::new();
    let walked = store.snapshot(|item| {
        assert_eq!(item.value_type, ValueType::String);
        assert_eq!(item.items.len(), 1);
        let value = item.items.get(0).to_vec();
        let value = (item.expiry, value);
        let twice = data.insert((item.database, item.key.to_vec()), value);
        assert_eq!(twice, None, "{:?} was shown twice", item.key);
        Ok::<_, Error>(())
    });
    walked.expect("a sound store");
    data
}

#[test]
fn every_key_appears_once_while_tables_grow_and_shrink() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let options = Options {
        capacity: Some(256 << 20),
        shards: Some(2),
        ring: None,
    };
    let store = Store::create(&directory.path().join("store"), &options).expect("a store");
    store.set_time(START);
    let mut expected = Data::new();
    for number in 0..6_000_u32 {
        let (database, key) = ((number % 3) as usize, format!("key {number}").into_bytes());
        let value = vec![number as u8; (number % 700) as usize * usize::from(number % 40 == 0)];
        let expiry = (number % 5 == 0).then_some(START + u64::from(number));
        let options = SetOptions {
            condition: Condition::Always,
            expiry: expiry.map_or(Expiry::Never, Expiry::At),
        };
        store
            .set_with(database, &key, &value, options)
            .expect("room");
        expected.insert((database, key), (expiry, value));
        // Take a snapshot after some insertions, when a resize may be in progress.
        if number % 499 == 0 {
            store.set_time(START + u64::from(number) / 2);
            let now = store.now();
            expected.retain(|_, (expiry, _)| expiry.is_none_or(|expiry| expiry > now));
            assert_eq!(snapshot(&store), expected, "after key {number}");
        }
    }
    let doomed: Vec<_> = expected.keys().step_by(2).cloned().collect();
    for (count, (database, key)) in doomed.into_iter().enumerate() {
        store.delete(database, &[&key]).expect("no lock is held");
        expected.remove(&(database, key));
        if count % 331 == 0 {
            assert_eq!(snapshot(&store), expected, "after {count} removals");
        }
    }
}

#[test]
fn error_of_the_visitor_ends_the_snapshot_and_unlocks() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let options = Options::default();
    let store = Store::create(&directory.path().join("store"), &options).expect("a store");
    store.set(0, b"k", b"v").expect("room");
    let refused = store.snapshot(|_| Err::<(), _>(Error::TooLong));
    assert!(matches!(refused, Err(Error::TooLong)));
    store.set(0, b"k", b"w").expect("the locks are free again");
}
