//! Tests of loading files that the tests assemble.

use undercroft_engine::eviction::{EvictionChange, EvictionPolicy};
use undercroft_engine::rdb::{self, RdbVersion};
use undercroft_engine::strings::TextBuffer;
use undercroft_engine::{Encoding, Error, Options, Ranges, Store, ValueType};

use super::*;
use crate::rdb::{EncodedKey, Writer, append_key};

fn store() -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("shared memory");
    let options = Options {
        capacity: Some(256 << 20),
        ..Options::default()
    };
    let store = Store::open_or_create(&directory.path().join("store"), &options).expect("a store");
    (directory, store)
}

fn get(store: &Store, key: &str) -> Option<Vec<u8>> {
    fn fetch(store: &Store, key: &str, out: &mut impl TextBuffer) -> bool {
        store.get(0, key.as_bytes(), out).expect("no lock is held")
    }
    let mut out = Vec::new();
    fetch(store, key, &mut out).then_some(out)
}

/// Returns a file with `keys` strings, whose values are as long as their numbers modulo 100.
fn file(keys: u32) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), RdbVersion::V11).expect("memory");
    writer.select(0, keys.into(), 0).expect("memory");
    for number in 0..keys {
        let (mut items, mut value, mut part) = (Ranges::new(), Vec::new(), Vec::new());
        items.push(&vec![b'v'; number as usize % 100]);
        let string = (ValueType::String, Encoding::Raw);
        rdb::encode(string, &items, RdbVersion::V11, &mut value);
        append_key(
            &EncodedKey {
                key: format!("key {number}").as_bytes(),
                expiry: None,
                usage: None,
                value: &value,
            },
            &mut part,
        );
        writer.append(&part).expect("memory");
    }
    writer.finish().expect("memory").0
}

/// Returns a file with raw parts and no checksum.
fn parts(header: &str, parts: &[&[u8]]) -> Vec<u8> {
    [header.as_bytes(), &parts.concat(), &[0xff], &[0; 8]].concat()
}

fn load_bytes(
    bytes: &[u8],
    store: Option<&Store>,
    options: &LoadOptions,
) -> Result<Loaded, LoadError> {
    load(&mut Reader::new(bytes)?, store, options, &mut |_| true)
}

#[test]
fn every_number_of_threads_loads_all_keys() {
    let bytes = file(20_000);
    for threads in 1..=5 {
        let (_directory, store) = store();
        let options = LoadOptions {
            threads,
            ..LoadOptions::new()
        };
        let validated = load_bytes(&bytes, None, &options).expect("sound");
        let loaded = load_bytes(&bytes, Some(&store), &options).expect("sound");
        assert_eq!(validated.counts, loaded.counts, "{threads}");
        assert_eq!(loaded.counts.keys, 20_000);
        assert_eq!(store.count_keys(0).expect("no lock is held"), 20_000);
        for number in [0, 1, 19_999] {
            let value = get(&store, &format!("key {number}"));
            assert_eq!(value, Some(vec![b'v'; number % 100]), "{threads}");
        }
    }
}

#[test]
fn expired_and_empty_keys_are_left_out_and_counted() {
    let (_directory, store) = store();
    let bytes = parts(
        "REDIS0011",
        &[
            b"\xfc\x01\0\0\0\0\0\0\0\x00\x01a\x01v",
            b"\xfc\x01\0\0\0\0\0\0\0\x02\x01b\x01\x01m",
            b"\x04\x01c\x00",
            b"\xfc\xff\xff\xff\xff\xff\xff\0\0\x02\x01d\x01\x01m",
        ],
    );
    let counts = load_bytes(&bytes, Some(&store), &LoadOptions::new())
        .expect("sound")
        .counts;
    let expected = Counts {
        keys: 1,
        expired: 2,
        empty: 1,
        dropped_expiries: 0,
        bytes: 2,
    };
    assert_eq!(counts, expected);
    assert_eq!(store.count_keys(0).expect("no lock is held"), 1);
    assert_eq!(store.expiring_keys(0), 1);
}

#[test]
fn fields_that_expire_are_refused_unless_their_expiry_is_dropped() {
    let delta = [0x81, 0, 0, 0x20, 0, 0, 0, 0, 0];
    let part = [
        b"\x18\x01h".as_slice(),
        &1_u64.to_le_bytes(),
        b"\x03\x00\x01a\x011",
        // The second field has expired, and the third one expires in a thousand years.
        b"\x01\x01b\x012",
        &delta,
        b"\x01c\x013",
    ]
    .concat();
    let bytes = parts("REDIS0012", &[&part]);
    let (_directory, store) = store();
    let mut options = LoadOptions::new();
    let why = load_bytes(&bytes, Some(&store), &options).expect_err("fields expire");
    let why = why.to_string();
    assert!(
        why.contains("the hash 'h' has 2 fields that expire") && why.contains("at byte 9"),
        "{why}"
    );
    options.drop_field_expiry = true;
    let counts = load_bytes(&bytes, Some(&store), &options)
        .expect("allowed")
        .counts;
    assert_eq!((counts.keys, counts.dropped_expiries), (1, 1));
    let key = store.key(b"h");
    let fields = store.read(store.shards_of([&key]), |reader| {
        let mut items = Ranges::new();
        let entry = reader.find(0, &key)?.expect("the key exists");
        entry.append_items(reader.view(), &mut items)?;
        Ok::<_, Error>(items)
    });
    let fields = fields.expect("no lock is held");
    let fields: Vec<&[u8]> = fields.iter().collect();
    assert_eq!(fields, [b"a", b"1", b"c", b"3"]);
}

#[test]
fn malformed_values_name_their_key_and_offset() {
    // The number of members of an intset does not match its length.
    let bytes = parts(
        "REDIS0011",
        &[b"\x00\x01a\x01v", b"\x0b\x03set\x08\x02\0\0\0\x05\0\0\0"],
    );
    for threads in [1, 3] {
        let options = LoadOptions {
            threads,
            ..LoadOptions::new()
        };
        let why = load_bytes(&bytes, None, &options).expect_err("malformed");
        assert_eq!(
            why.to_string(),
            "damaged at byte 14: expected a sound value of the key 'set'"
        );
    }
}

#[test]
fn full_store_and_interrupts_end_the_load() {
    let (_directory, store) = store();
    store.set_max_memory(1 << 20).expect("writable");
    let bytes = file(200_000);
    for threads in [1, 3] {
        let options = LoadOptions {
            threads,
            ..LoadOptions::new()
        };
        let why = load_bytes(&bytes, Some(&store), &options).expect_err("no memory");
        assert!(
            why.to_string().starts_with("storing the key 'key "),
            "{why}"
        );
        let mut calls = 0;
        let mut watch = |_| {
            calls += 1;
            calls < 3
        };
        let mut reader = Reader::new(&bytes[..]).expect("sound");
        let why = load(&mut reader, None, &options, &mut watch).expect_err("stopped");
        assert!(matches!(why, LoadError::Stopped), "{why}");
    }
}

#[test]
fn hints_are_applied_if_the_eviction_policy_uses_them() {
    let bytes = parts(
        "REDIS0011",
        &[b"\xf8\x42\x00\x00\x01a\x01v", b"\xf9\x63\x00\x01b\x01v"],
    );
    let (_directory, store) = store();
    load_bytes(&bytes, Some(&store), &LoadOptions::new()).expect("sound");
    let idle = store.idle_seconds(&store.key(b"a"));
    assert!((512..520).contains(&idle), "{idle}");
    let policy = EvictionChange::Policy(EvictionPolicy::AllKeysLfu);
    store.change_eviction(policy).expect("writable");
    load_bytes(&bytes, Some(&store), &LoadOptions::new()).expect("sound");
    assert_eq!(store.frequency(&store.key(b"b")), 99);
}
