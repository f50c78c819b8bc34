//! Tests reading strings in place, and removing strings without copying them.

use std::path::Path;

use undercroft_engine::lists::End;
use undercroft_engine::strings::StringInPlace;
use undercroft_engine::{Error, Key, Options, Store, Writer};

const LONG: usize = 40_000;

fn create(path: &Path) -> Store {
    let options = Options {
        capacity: Some(8 << 20),
        shards: Some(2),
        ring: None,
    };
    Store::create(path, &options).expect("a new store")
}

fn bytes(store: &Store, whole: &StringInPlace) -> Vec<u8> {
    let mut bytes = Vec::new();
    store.append_whole(whole, &mut bytes);
    bytes
}

fn change(store: &Store, act: impl Fn(&mut Writer<'_, '_>, &Key<'_>) -> Result<u64, Error> + Sync) {
    let key = store.key(b"key");
    let shards = store.shards_of([&key]);
    let length = store.write(shards, |writer| act(writer, &key));
    assert!(length.expect("room") >= LONG as u64);
}

#[test]
fn string_read_in_place_survives_every_change_of_its_key() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let store = create(&directory.path().join("store"));
    type Act = fn(&Store);
    let acts: [Act; 6] = [
        |s| change(s, |writer, key| writer.append(0, key, b"more")),
        |s| change(s, |writer, key| writer.set_range(0, key, 5, b"changed")),
        |s| s.set(0, b"key", b"short").expect("room"),
        |s| assert_eq!(s.delete(0, &[&b"key"[..]]).expect("room"), 1),
        |s| assert_eq!(s.flush_all(true).expect("room"), 1),
        |s| {
            let taken = s.take_in_place(0, b"key", |_, _| true).expect("room");
            s.let_go(taken.expect("it exists"));
        },
    ];
    for act in acts {
        let before = store.used_memory();
        store.set(0, b"key", &[7; LONG]).expect("room");
        let found = store.get_in_place(0, b"key").expect("a read");
        let found = found.expect("it exists");
        assert!(matches!(found, StringInPlace::Pinned(_)));
        act(&store);
        let others: Vec<String> = (0..40).map(|number| format!("other {number}")).collect();
        for other in &others {
            store.set(0, other.as_bytes(), &[9; LONG]).expect("room");
        }
        assert!(bytes(&store, &found) == [7; LONG]);
        store.let_go(found);
        assert!(store.pins().is_empty());
        store.flush_all(true).expect("room");
        assert_eq!(store.used_memory(), before);
    }
}

#[test]
fn string_is_taken_in_place_only_if_the_caller_accepts_it() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let store = create(&directory.path().join("store"));
    for value in [&b"12"[..], b"a few bytes", &[5; LONG]] {
        store.set(0, b"key", value).expect("room");
        let refused = store
            .take_in_place(0, b"key", |_, _| false)
            .expect("an answer");
        let first = value.first_chunk().copied().map_or(0, u64::from_le_bytes);
        assert!(matches!(refused, Some(StringInPlace::Refused(word)) if word == first));
        let taken = store.take_in_place(0, b"key", |word, length| {
            (word, length) == (first, value.len() as u64)
        });
        let taken = taken.expect("room").expect("it exists");
        assert_eq!(
            matches!(taken, StringInPlace::Taken(_)),
            value.len() == LONG
        );
        assert_eq!(bytes(&store, &taken), value);
        assert!(
            store
                .take_in_place(0, b"key", |_, _| true)
                .expect("an answer")
                .is_none()
        );
        assert!(store.get_in_place(0, b"key").expect("an answer").is_none());
        store.let_go(taken);
    }
    let pushed = store.list_push(0, b"list", End::Left, &[b"item"]);
    assert_eq!(pushed.expect("room"), 1);
    let wrong = store
        .take_in_place(0, b"list", |_, _| true)
        .expect_err("another type");
    assert!(matches!(wrong, Error::WrongType));
    let wrong = store.get_in_place(0, b"list").expect_err("another type");
    assert!(matches!(wrong, Error::WrongType));
}

#[test]
fn read_only_handle_gets_a_copy() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("store");
    let store = create(&path);
    store.set(0, b"key", &[7; LONG]).expect("room");
    let reader = Store::open(&path, false).expect("the same store");
    let found = reader.get_in_place(0, b"key").expect("a read");
    assert!(matches!(found, Some(StringInPlace::Copied(copy)) if copy == [7; LONG]));
    assert!(
        reader
            .take_in_place(0, b"key", |_, _| true)
            .expect_err("read only")
            .is_read_only()
    );
}
