//! Defines scenarios that change sets.

use std::ops::Range;

use undercroft_engine::sets::{NewMembers, SetOperation};
use undercroft_engine::{Random, Ranges, Store};

use crate::scenario::changes::{delete, rename, write};
use crate::scenario::definition::{Scenario, full, log_steps, quick};
use crate::scenario::names::key;
use crate::scenario::stores::some_keys;

/// The maximum number of integers in a packed set.
const INTEGERS: u64 = 8;

/// The scenarios for sets.
pub(super) const SCENARIOS: &[Scenario] = &[
    quick("SADD insert", some_keys, |s| add(s, 90, 0..3)),
    full(
        "SADD of another integer",
        |s| of(s, 3),
        |s| add(s, 90, 3..4),
    ),
    full(
        "SADD of a wider integer",
        |s| of(s, 3),
        |s| add_one(s, 90, b"70000"),
    ),
    full(
        "SADD of a text to integers",
        |s| of(s, 3),
        |s| add_one(s, 90, b"text"),
    ),
    quick(
        "SADD converting integers by their count",
        |s| of(s, 8),
        |s| add(s, 90, 8..9),
    ),
    full("SADD of a text to texts", texts, |s| {
        add_one(s, 90, b"another")
    }),
    full("SADD of a long text to texts", texts, |s| {
        add_one(s, 90, &[b'l'; 65])
    }),
    quick("SADD, large", large, |s| add_one(s, 90, b"another")),
    full("SADD of many integers", some_keys, |s| add(s, 90, 0..200)),
    full(
        "SADD of many integers to a few",
        |s| of(s, 3),
        |s| add(s, 90, 2..40),
    ),
    full("SREM of an integer", |s| of(s, 3), |s| remove(s, 90, 1..2)),
    full("SREM of a text", texts, |s| remove(s, 90, 1..2)),
    quick("SREM, large", large, |s| remove(s, 90, 1..2)),
    full("SREM of all, large", large, |s| remove(s, 90, 0..30)),
    log_steps("SREM of most of many, large", crowd, |s| {
        remove(s, 90, 0..290)
    }),
    log_steps("SREM of all of many, large", crowd, |s| {
        remove(s, 90, 0..300)
    }),
    full("SPOP of a few, large", large, |s| pop(s, 3)),
    full("SPOP of all, large", large, |s| pop(s, 100)),
    quick("SMOVE to another shard", two, move_one),
    full("SINTERSTORE over a string in another shard", two, |s| {
        combine(s, SetOperation::Intersection)
    }),
    log_steps("SUNIONSTORE over a string in another shard", two, |s| {
        combine(s, SetOperation::Union)
    }),
    full("DEL of a large set", large, |s| delete(s, &[key(0, 90)])),
    full("RENAME of a large set over a small one", two, |s| {
        rename(s, &key(0, 90), &key(1, 90))
    }),
];

fn add(store: &Store, index: usize, members: Range<usize>) {
    let name = key(0, index);
    let texts: Vec<Vec<u8>> = members
        .map(|member| member.to_string().into_bytes())
        .collect();
    let members: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    write(store, &[&name], |writer| {
        writer.set_add(0, &store.key(&name), &members, INTEGERS)
    });
}

fn add_one(store: &Store, index: usize, member: &[u8]) {
    let name = key(0, index);
    store.set_add(0, &name, member, INTEGERS).expect("room");
}

fn remove(store: &Store, index: usize, members: Range<usize>) {
    let name = key(0, index);
    let texts: Vec<Vec<u8>> = members
        .map(|member| member.to_string().into_bytes())
        .collect();
    let members: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let removed = write(store, &[&name], |writer| {
        writer.set_remove(0, &store.key(&name), &members)
    });
    assert_eq!(removed, members.len() as u64, "members that are there");
}

fn pop(store: &Store, count: u64) {
    let name = key(0, 90);
    write(store, &[&name], |writer| {
        let (mut random, mut out) = (Random::new(7), Ranges::new());
        writer.set_pop(0, &store.key(&name), &mut random, count, &mut out)
    });
}

fn move_one(store: &Store) {
    let (from, to) = (key(0, 90), key(1, 90));
    write(store, &[&from, &to], |writer| {
        writer.set_remove(0, &store.key(&from), &[b"7"])?;
        writer.set_add(0, &store.key(&to), &[b"7"], INTEGERS)
    });
}

fn combine(store: &Store, operation: SetOperation) {
    let names = [key(0, 90), key(1, 90), key(1, 0)];
    let all: Vec<_> = names.iter().map(|name| store.key(name)).collect();
    store
        .write(store.shards_of(&all), |writer| {
            let mut texts = Ranges::new();
            let most = writer.combine_sets(0, &all[..2], operation, INTEGERS, &mut texts)?;
            let members = NewMembers::of(store, &texts);
            writer.set_store(0, &all[2], &members, most)
        })
        .expect("room");
}

/// Creates a set of `members` small integers.
fn of(store: &Store, members: usize) {
    some_keys(store);
    add(store, 90, 0..members);
}

/// Creates a small set of integers and one string.
fn texts(store: &Store) {
    of(store, 3);
    add_one(store, 90, b"text");
}

/// Creates a set that is a dictionary of integers and a string.
fn large(store: &Store) {
    texts(store);
    add_one(store, 90, &[b'l'; 65]);
    add(store, 90, 3..30);
}

/// Creates a dictionary with so many members that removing most of them rebuilds the dictionary.
fn crowd(store: &Store) {
    some_keys(store);
    add(store, 90, 0..300);
}

/// Creates a dictionary in one shard and a small set in the other shard.
fn two(store: &Store) {
    large(store);
    let name = key(1, 90);
    for member in ["5", "6", "31"] {
        let member = member.as_bytes();
        store.set_add(0, &name, member, INTEGERS).expect("room");
    }
}
