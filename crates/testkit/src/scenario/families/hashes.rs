//! Defines scenarios that change hashes.

use undercroft_engine::{PackedLimits, Store};

use crate::fixture::NOW;
use crate::scenario::changes::{copy, delete, expire, move_to, rename, set, write};
use crate::scenario::definition::{Scenario, full, log_steps, quick};
use crate::scenario::names::key;
use crate::scenario::stores::some_keys;

/// Low limits, so that even small hashes are converted.
const LIMITS: PackedLimits = PackedLimits {
    entries: 8,
    value: 64,
};

/// The scenarios for hashes.
pub(super) const SCENARIOS: &[Scenario] = &[
    // Changes to packed hashes.
    quick("HSET insert", some_keys, |s| put(s, 0, 0..2, 10)),
    quick(
        "HSET another field",
        |s| small(s, 3),
        |s| put(s, 0, 3..4, 10),
    ),
    full(
        "HSET of an old field",
        |s| small(s, 3),
        |s| put(s, 0, 1..2, 11),
    ),
    full(
        "HSET growing to a block",
        |s| wide(s, 6),
        |s| put_wide(s, 6, 700),
    ),
    full(
        "HSET growing a block",
        |s| wide(s, 8),
        |s| put_wide(s, 7, 800),
    ),
    quick("HDEL", |s| small(s, 3), |s| remove(s, 0, 1..2)),
    full(
        "HDEL of the last field",
        |s| small(s, 1),
        |s| remove(s, 0, 0..1),
    ),
    full(
        "HSET of an old field, expiring",
        |s| {
            small(s, 3);
            expire(s, &key(0, 90), Some(NOW + 1000));
        },
        |s| put(s, 0, 0..3, 60),
    ),
    full(
        "DEL of a small hash",
        |s| wide(s, 8),
        |s| delete(s, &[key(0, 90)]),
    ),
    full(
        "RENAME of a small hash to another shard",
        |s| wide(s, 8),
        |s| rename(s, &key(0, 90), &key(1, 90)),
    ),
    // Changes to dictionaries.
    quick(
        "HSET converting by its count",
        |s| small(s, 8),
        |s| put(s, 0, 8..9, 10),
    ),
    full(
        "HSET converting by a length",
        |s| small(s, 3),
        |s| put(s, 0, 3..4, 65),
    ),
    full("HSET insert, large", some_keys, |s| put(s, 0, 0..12, 10)),
    full("HSET of many new fields", some_keys, |s| {
        put(s, 0, 0..100, 10)
    }),
    quick(
        "HSET another field, large",
        |s| small(s, 12),
        |s| put(s, 0, 12..13, 10),
    ),
    quick(
        "HSET of an old field in place",
        |s| small(s, 12),
        |s| put(s, 0, 3..4, 9),
    ),
    // The undo logs of these changes are so long that each word is logged only once.
    log_steps(
        "HSET of many fields, large",
        |s| small(s, 12),
        |s| put(s, 0, 3..70, 10),
    ),
    log_steps(
        "HDEL of many fields, large",
        |s| small(s, 70),
        |s| remove(s, 0, 3..64),
    ),
    full(
        "HSET of an old field growing",
        |s| small(s, 12),
        |s| put(s, 0, 3..4, 100),
    ),
    full(
        "HSET of an old field to a block",
        |s| small(s, 12),
        |s| put(s, 0, 3..4, 5000),
    ),
    full(
        "HSET of an old field from block to block",
        |s| {
            small(s, 12);
            put(s, 0, 3..4, 5000);
        },
        |s| put(s, 0, 3..4, 6000),
    ),
    full(
        "HSET of an old field from block to text",
        |s| {
            small(s, 12);
            put(s, 0, 3..4, 5000);
        },
        |s| put(s, 0, 3..4, 10),
    ),
    full(
        "HSET starting to grow",
        |s| small(s, 16),
        |s| put(s, 0, 16..17, 10),
    ),
    full(
        "HSET moving buckets",
        |s| small(s, 18),
        |s| put(s, 0, 18..19, 10),
    ),
    full(
        "HSET of many fields",
        |s| small(s, 12),
        |s| put(s, 0, 12..60, 10),
    ),
    quick("HDEL, large", |s| small(s, 12), |s| remove(s, 0, 5..6)),
    log_steps("HDEL of most of many fields, large", crowd, |s| {
        remove(s, 0, 0..290)
    }),
    log_steps("HDEL of all of many fields, large", crowd, |s| {
        remove(s, 0, 0..300)
    }),
    full(
        "HDEL of many fields, shrinking",
        |s| small(s, 60),
        |s| remove(s, 0, 3..60),
    ),
    full(
        "HDEL of all fields",
        |s| small(s, 12),
        |s| remove(s, 0, 0..12),
    ),
    full(
        "EXPIRE of a large hash",
        |s| small(s, 12),
        |s| expire(s, &key(0, 90), Some(NOW + 1000)),
    ),
    full(
        "SET over a large hash",
        |s| small(s, 12),
        |s| set(s, &key(0, 90), 64),
    ),
    full(
        "DEL of a large hash",
        |s| small(s, 40),
        |s| delete(s, &[key(0, 90)]),
    ),
    quick("Freeing a part of a removed hash", buried, |s| {
        set(s, &key(0, 80), 64)
    }),
    full("HSET while another is freed", buried, |s| {
        put(s, 0, 0..1, 10)
    }),
    full(
        "MOVE of a large hash",
        |s| small(s, 12),
        |s| move_to(s, &key(0, 90), 1),
    ),
    full(
        "RENAME of a large hash",
        |s| small(s, 12),
        |s| rename(s, &key(0, 90), &key(0, 91)),
    ),
    full("RENAME of a large hash over another", two, |s| {
        rename(s, &key(0, 90), &key(0, 91))
    }),
    log_steps(
        "RENAME of a large hash to another shard",
        |s| small(s, 20),
        |s| rename(s, &key(0, 90), &key(1, 90)),
    ),
    log_steps(
        "COPY of a large hash",
        |s| small(s, 20),
        |s| copy(s, (0, &key(0, 90)), (1, &key(1, 90))),
    ),
    // Changes to hashes that are in an arena (the pages of one large object).
    log_steps(
        "HSET of a field that moves a hash to an arena",
        |s| fat(s, 15),
        |s| put(s, 0, 15..16, 4000),
    ),
    log_steps(
        "HSET of a hash in an arena",
        |s| fat(s, 18),
        |s| put(s, 0, 18..19, 4000),
    ),
    log_steps("HSET of a new hash in an arena", some_keys, |s| {
        put(s, 0, 0..40, 2000)
    }),
    log_steps("HDEL in an arena", |s| fat(s, 18), |s| remove(s, 0, 0..2)),
    log_steps(
        "HDEL of all fields in an arena",
        |s| fat(s, 18),
        |s| remove(s, 0, 0..18),
    ),
    log_steps(
        "DEL of a hash in an arena",
        |s| fat(s, 18),
        |s| delete(s, &[key(0, 90)]),
    ),
    log_steps(
        "COPY of a hash in an arena",
        |s| fat(s, 18),
        |s| copy(s, (0, &key(0, 90)), (1, &key(1, 90))),
    ),
    log_steps(
        "RENAME of a hash in an arena to another shard",
        |s| fat(s, 18),
        |s| rename(s, &key(0, 90), &key(1, 90)),
    ),
];

fn text(letter: char, index: usize, length: usize) -> Vec<u8> {
    format!("{letter}{index:0>width$}", width = length - 1).into_bytes()
}

fn field(index: usize) -> Vec<u8> {
    text('f', index, 6)
}

fn put(store: &Store, other: usize, fields: std::ops::Range<usize>, length: usize) {
    let name = key(0, 90 + other);
    let texts: Vec<Vec<u8>> = fields
        .flat_map(|index| [field(index), text('v', index, length)])
        .collect();
    let pairs: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    write(store, &[&name], |writer| {
        writer.hash_set(0, &store.key(&name), &pairs, &LIMITS)
    });
}

fn remove(store: &Store, other: usize, fields: std::ops::Range<usize>) {
    let name = key(0, 90 + other);
    let texts: Vec<Vec<u8>> = fields.map(field).collect();
    let fields: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let removed = write(store, &[&name], |writer| {
        writer.hash_delete(0, &store.key(&name), &fields)
    });
    assert_eq!(removed, fields.len() as u64, "fields that are there");
}

/// Creates a hash with so many fields that removing most of them rebuilds the hash.
fn crowd(store: &Store) {
    some_keys(store);
    put(store, 0, 0..300, 10);
}

/// Creates a hash with `fields` fields.
fn small(store: &Store, fields: usize) {
    some_keys(store);
    for index in 0..fields {
        put(store, 0, index..index + 1, 10);
    }
}

/// Creates a hash with `fields` fields of 4,000 bytes. With 16 or more fields, it is in an arena
/// (the pages of one large object).
fn fat(store: &Store, fields: usize) {
    some_keys(store);
    for index in 0..fields {
        put(store, 0, index..index + 1, 4000);
    }
}

/// Creates a hash that has `fields` fields with longer values but is still packed.
fn wide(store: &Store, fields: usize) {
    some_keys(store);
    for index in 0..fields {
        put_wide(store, index, 600);
    }
}

fn put_wide(store: &Store, index: usize, length: usize) {
    let name = key(0, 90);
    let limits = PackedLimits {
        entries: 8,
        value: 1000,
    };
    let (field, value) = (field(index), text('v', index, length));
    write(store, &[&name], |writer| {
        writer.hash_set(0, &store.key(&name), &[&field, &value], &limits)
    });
}

fn two(store: &Store) {
    small(store, 12);
    put(store, 1, 0..12, 10);
}

/// Creates and deletes a hash, so that its memory is still to be freed.
fn buried(store: &Store) {
    small(store, 40);
    put(store, 0, 20..21, 5000);
    delete(store, &[key(0, 90)]);
}
