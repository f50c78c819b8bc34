//! Tests that every type of value must pass, in every size. New types are covered automatically.

use std::collections::BTreeSet;

use undercroft_engine::rdb::RdbVersion;
use undercroft_engine::{Encoding, Error, Key, Limits, Ranges, Store, ValueType, rdb};
use undercroft_testkit::examples::{Items, example, indexed_feed, sorted};
use undercroft_testkit::fresh;

/// The numbers and kinds of elements, chosen so that values are stored in the entry, in a block, in
/// slabs as an object, in an arena (a separate memory area), and in separate blocks.
const SIZES: [(u32, Items); 10] = [
    (1, Items::Texts(8)),
    (3, Items::Integers),
    (3, Items::Texts(40)),
    (60, Items::Texts(64)),
    (100, Items::Texts(60)),
    (300, Items::Integers),
    (700, Items::Integers),
    (700, Items::Texts(12)),
    (4000, Items::Texts(30)),
    (20, Items::Texts(9000)),
];

fn cases() -> impl Iterator<Item = (ValueType, Ranges)> {
    let of =
        |value_type| SIZES.map(|(count, items)| (value_type, example(value_type, count, items)));
    let indexed = SIZES.map(|(count, items)| (ValueType::Feed, indexed_feed(count, items)));
    ValueType::ALL.into_iter().flat_map(of).chain(indexed)
}

fn put(store: &Store, key: &Key<'_>, value_type: ValueType, items: &Ranges) {
    let put = store.write(store.shards_of([key]), |writer| {
        writer.put_items(0, key, value_type, items, None, &Limits::DEFAULT)
    });
    put.expect("room");
}

/// Returns the type, the encoding and the contents of a key.
fn value(store: &Store, database: usize, key: &Key<'_>) -> Option<(ValueType, Encoding, Ranges)> {
    let found = store.read(store.shards_of([key]), |reader| {
        let Some(entry) = reader.find(database, key)? else {
            return Ok(None);
        };
        let mut items = Ranges::new();
        entry.append_items(reader.view(), &mut items)?;
        Ok::<_, Error>(Some((entry.value_type()?, entry.encoding()?, items)))
    });
    found.expect("a sound value")
}

#[track_caller]
fn expect(store: &Store, database: usize, key: &Key<'_>, value_type: ValueType, items: &Ranges) {
    let (found, _, there) = value(store, database, key).expect("the key exists");
    assert_eq!(found, value_type);
    if value_type == ValueType::String {
        let all = items.iter().collect::<Vec<_>>().concat();
        assert_eq!(there.iter().collect::<Vec<_>>(), [all]);
    } else {
        assert_eq!(sorted(value_type, &there), sorted(value_type, items));
    }
}

#[track_caller]
fn check(store: &Store) {
    let report = store.check().expect("a walk");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[test]
fn stored_value_is_read_back_and_measured() {
    let (_directory, store) = fresh::store(2);
    let key = store.key(b"k");
    for (value_type, items) in cases() {
        put(&store, &key, value_type, &items);
        expect(&store, 0, &key, value_type, &items);
        let bytes = store.read(store.shards_of([&key]), |reader| {
            let entry = reader.find(0, &key)?.expect("the key exists");
            entry.memory_usage(reader.view(), 0)
        });
        let least = items.iter().map(<[u8]>::len).sum::<usize>() as u64 / 4;
        let bytes = bytes.expect("measured");
        // The measured size is rounded up and includes the key's share of the table.
        let used = store.used_memory();
        let count = items.len();
        assert!(
            (least..2 * used).contains(&bytes),
            "{value_type:?} of {count} items: {bytes} bytes of {used}"
        );
        check(&store);
    }
}

#[test]
fn value_can_be_copied_renamed_and_moved() {
    let (_directory, store) = fresh::store(2);
    let names: Vec<String> = (0..20).map(|number| format!("k{number}")).collect();
    let of = |shard| {
        let mut keys = names.iter().map(|name| store.key(name.as_bytes()));
        keys.find(|key| key.shard() == shard).expect("one of them")
    };
    let (here, there) = (of(0), of(1));
    let both = || store.shards_of([&here, &there]);
    for (value_type, items) in cases() {
        put(&store, &here, value_type, &items);
        // The destination initially holds a value of another type.
        let other = ValueType::ALL[items.len() % ValueType::ALL.len()];
        put(&store, &there, other, &example(other, 700, Items::Texts(9)));
        let copied = store.write(both(), |writer| {
            writer.remove(0, &there)?;
            writer.copy((0, &here), (0, &there))
        });
        assert!(copied.expect("room"));
        expect(&store, 0, &here, value_type, &items);
        expect(&store, 0, &there, value_type, &items);
        check(&store);
        // Replacing the original must not affect the copy.
        put(
            &store,
            &here,
            ValueType::String,
            &example(ValueType::String, 1, Items::Texts(9)),
        );
        expect(&store, 0, &there, value_type, &items);
        let renamed = store.write(both(), |writer| writer.rename(0, &there, &here));
        assert!(renamed.expect("room"));
        expect(&store, 0, &here, value_type, &items);
        assert!(value(&store, 0, &there).is_none());
        let moved = store.write(both(), |writer| writer.move_to(&here, 0, 3));
        assert!(moved.expect("room"));
        expect(&store, 3, &here, value_type, &items);
        check(&store);
        store.flush(&[3], true).expect("emptied");
    }
}

#[test]
fn deleted_value_leaves_no_memory_in_use() {
    let (_directory, store) = fresh::store(1);
    let (key, stays) = (store.key(b"k"), store.key(b"stays"));
    put(
        &store,
        &stays,
        ValueType::String,
        &example(ValueType::String, 1, Items::Texts(9)),
    );
    let settle = || {
        while store.reclaim(|| false).expect("no process holds a lock") {}
        store.upkeep_all().expect("upkeep");
        store.used_memory()
    };
    for (value_type, items) in cases() {
        let cycle = || {
            put(&store, &key, value_type, &items);
            assert!(store.delete(0, &[b"k".as_slice()]).expect("removed") == 1);
            check(&store);
            settle()
        };
        // The first cycle may leave free memory that the following cycles reuse.
        let first = cycle();
        for _ in 0..3 {
            assert_eq!(cycle(), first, "{value_type:?} of {} items", items.len());
        }
    }
}

#[test]
fn value_is_restored_from_its_dump() {
    let (_directory, store) = fresh::store(1);
    let key = store.key(b"k");
    for (value_type, items) in cases() {
        put(&store, &key, value_type, &items);
        let (_, encoding, there) = value(&store, 0, &key).expect("the key exists");
        let payload = rdb::dump(value_type, encoding, &there);
        let (found, restored) = rdb::restore(&payload, 1 << 20).expect("our own payload");
        assert_eq!(found, value_type);
        assert_eq!(sorted(value_type, &restored), sorted(value_type, &there));
        put(&store, &key, found, &restored);
        assert_eq!(value(&store, 0, &key).map(|value| value.1), Some(encoding));
        for length in 0..payload.len().min(2000) {
            assert!(
                rdb::restore(&payload[..length], 1 << 20).is_err(),
                "cut short"
            );
        }
    }
}

#[test]
fn value_is_decoded_from_every_version_of_the_rdb_format() {
    let (_directory, store) = fresh::store(1);
    let key = store.key(b"k");
    let (mut decoded, mut kinds) = (Ranges::new(), BTreeSet::new());
    for (value_type, items) in cases() {
        put(&store, &key, value_type, &items);
        let (_, encoding, there) = value(&store, 0, &key).expect("the key exists");
        for version in [RdbVersion::V9, RdbVersion::V10, RdbVersion::V11] {
            let mut bytes = Vec::new();
            rdb::encode((value_type, encoding), &there, version, &mut bytes);
            let (&kind, body) = bytes.split_first().expect("a type byte");
            kinds.insert((version as u8, kind));
            let found = rdb::decode(kind, body, 1 << 20, &mut decoded);
            assert_eq!(found, Some(value_type), "{version:?}");
            // Version 9 does not contain which entries of a stream were deleted.
            if (value_type, version) != (ValueType::Stream, RdbVersion::V9) {
                assert_eq!(sorted(value_type, &decoded), sorted(value_type, &there));
            }
            assert_eq!(decoded.len(), there.len());
            let longer = [body, b"x"].concat();
            assert_eq!(rdb::decode(kind, &longer, 1 << 20, &mut decoded), None);
            let shorter = &body[..body.len() - 1];
            assert_eq!(rdb::decode(kind, shorter, 1 << 20, &mut decoded), None);
        }
    }
    // Redis 5 and 6 know no type above 15, and Redis 7.0 none above 19.
    for (version, kind) in kinds {
        let newest = match version {
            9 => 15,
            10 => 19,
            _ => 21,
        };
        let is_feed = kind == 128;
        assert!(kind <= newest || is_feed, "{kind} in version {version}");
    }
}

#[test]
fn value_stored_in_pieces_equals_the_whole() {
    let (_directory, store) = fresh::store(1);
    let key = store.key(b"k");
    for (value_type, items) in cases() {
        if value_type == ValueType::String {
            continue;
        }
        let width = value_type.description().width;
        let all: Vec<&[u8]> = items.iter().collect();
        store.flush_all(true).expect("emptied");
        for piece in all.chunks(width * 7) {
            let mut part = Ranges::new();
            piece.iter().for_each(|item| part.push(item));
            let added = store.write(store.shards_of([&key]), |writer| {
                writer.add_items(0, &key, value_type, &part, &Limits::DEFAULT)
            });
            added.expect("room");
        }
        expect(&store, 0, &key, value_type, &items);
        check(&store);
    }
}
