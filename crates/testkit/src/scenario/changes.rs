//! Makes changes that scenarios of several families share.

use undercroft_engine::strings::{Condition, SetOptions};
use undercroft_engine::{Error, Expiry, Store, Writer};

use crate::fixture::NOW;

/// Returns a value of `length` bytes. Values of different lengths have different contents.
pub(super) fn value(length: usize) -> Vec<u8> {
    let text = format!("{length}-");
    let mut value = text.into_bytes().repeat(length / 2 + 1);
    value.truncate(length);
    value
}

pub(super) fn set_text(store: &Store, key: &[u8], value: &[u8]) {
    store.set(0, key, value).expect("room");
}

pub(super) fn set(store: &Store, key: &[u8], length: usize) {
    set_text(store, key, &value(length));
}

pub(super) fn set_with(store: &Store, key: &[u8], length: usize, expiry: Expiry) {
    let options = SetOptions {
        condition: Condition::Always,
        expiry,
    };
    store
        .set_with(0, key, &value(length), options)
        .expect("room");
}

pub(super) fn set_expiring(store: &Store, key: &[u8], length: usize) {
    set_with(store, key, length, Expiry::At(NOW + 60_000));
}

pub(super) fn delete(store: &Store, keys: &[Vec<u8>]) {
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let removed = store.delete(0, &keys).expect("room");
    assert_eq!(removed, keys.len() as u64, "keys that exist");
}

/// Runs one transaction on the shards of some keys.
pub(super) fn write<R>(
    store: &Store,
    keys: &[&[u8]],
    body: impl Fn(&mut Writer<'_, '_>) -> Result<R, Error> + Sync,
) -> R {
    let keys: Vec<_> = keys.iter().map(|key| store.key(key)).collect();
    store.write(store.shards_of(&keys), body).expect("room")
}

pub(super) fn append(store: &Store, key: &[u8], length: usize) {
    write(store, &[key], |writer| {
        writer.append(0, &store.key(key), &value(length))
    });
}

pub(super) fn expire(store: &Store, key: &[u8], at: Option<u64>) {
    let there = write(store, &[key], |writer| {
        writer.set_expiry(0, &store.key(key), at)
    });
    assert!(there, "a key that exists");
}

pub(super) fn rename(store: &Store, from: &[u8], to: &[u8]) {
    let there = write(store, &[from, to], |writer| {
        writer.rename(0, &store.key(from), &store.key(to))
    });
    assert!(there, "a key that exists");
}

pub(super) fn copy(store: &Store, from: (usize, &[u8]), to: (usize, &[u8])) {
    let there = write(store, &[from.1, to.1], |writer| {
        writer.copy((from.0, &store.key(from.1)), (to.0, &store.key(to.1)))
    });
    assert!(there, "a key that exists");
}

pub(super) fn move_to(store: &Store, key: &[u8], database: usize) {
    let there = write(store, &[key], |writer| {
        writer.move_to(&store.key(key), 0, database)
    });
    assert!(there, "a key that exists");
}
