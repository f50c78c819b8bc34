//! Defines scenarios that change sorted sets.

use std::ops::Range;

use undercroft_engine::sorted_sets::{AddRule, Bounds, Scored};
use undercroft_engine::{PackedLimits, Store};

use crate::scenario::changes::{copy, delete, move_to, rename, set, write};
use crate::scenario::definition::{Scenario, full, gradual, log_steps, quick};
use crate::scenario::names::key;
use crate::scenario::stores::some_keys;

/// Low limits, so that even small sorted sets are converted.
const LIMITS: PackedLimits = PackedLimits {
    entries: 8,
    value: 64,
};
/// The number of members in a full leaf.
const LEAF: usize = 126;

/// The scenarios for sorted sets.
pub(super) const SCENARIOS: &[Scenario] = &[
    // Changes to packed sorted sets.
    quick("ZADD insert", some_keys, |s| add(s, 0..2, 1.0)),
    quick(
        "ZADD of another member",
        |s| small(s, 3),
        |s| add(s, 3..4, 0.5),
    ),
    full(
        "ZADD of another score",
        |s| small(s, 3),
        |s| add(s, 1..2, 9.5),
    ),
    quick("ZREM", |s| small(s, 3), |s| remove(s, 1..2)),
    full(
        "ZREM of the last member",
        |s| small(s, 1),
        |s| remove(s, 0..1),
    ),
    full("ZPOPMIN", |s| small(s, 3), |s| pop(s, false, 2)),
    // Changes to dictionaries and trees.
    quick(
        "ZADD converting by its count",
        |s| small(s, 8),
        |s| add(s, 8..9, 1.5),
    ),
    full(
        "ZADD converting by a length",
        |s| small(s, 3),
        |s| add_one(s, &[b'l'; 65], 1.5),
    ),
    full("ZADD insert, large", some_keys, |s| add(s, 0..12, 1.0)),
    full("ZADD of many new members", some_keys, |s| {
        add(s, 0..150, 1.0)
    }),
    quick("ZADD of another member, large", large, |s| {
        add(s, 40..41, 3.5)
    }),
    // The undo logs of these changes are so long that each word is logged only once.
    log_steps("ZADD of many members, large", large, |s| {
        add(s, 30..90, 3.5)
    }),
    log_steps("ZREM of many members, large", large, |s| remove(s, 2..36)),
    log_steps("ZREM of most of many, large", crowd, |s| remove(s, 5..295)),
    log_steps("ZREM of all of many, large", crowd, |s| remove(s, 0..300)),
    full("ZADD of the least member, large", large, |s| {
        add(s, 40..41, -1.0)
    }),
    quick("ZADD of another score, large", large, |s| {
        add(s, 3..4, 30.5)
    }),
    full("ZADD of another score to the least, large", large, |s| {
        add(s, 0..1, 30.5)
    }),
    quick(
        "ZADD splitting the only leaf",
        |s| many(s, LEAF),
        |s| add_one(s, b"x", 60.5),
    ),
    full(
        "ZADD splitting a leaf of one score",
        |s| alike(s, LEAF),
        |s| add_one(s, &member(50), 1.0),
    ),
    full(
        "ZADD behind a full leaf",
        |s| many(s, LEAF),
        |s| add_one(s, b"x", 1e9),
    ),
    full(
        "ZADD before a full leaf",
        |s| many(s, LEAF),
        |s| add_one(s, b"x", -1e9),
    ),
    full(
        "ZADD making a node larger",
        |s| many(s, 7 * LEAF),
        |s| add_one(s, b"x", 1e9),
    ),
    log_steps(
        "ZADD splitting a node",
        |s| many(s, 127 * LEAF),
        |s| add_one(s, b"x", 1e9),
    ),
    quick("ZREM, large", large, |s| remove(s, 5..6)),
    full("ZREM of the least, large", large, |s| remove(s, 0..1)),
    full(
        "ZREM of a leaf's least",
        |s| many(s, 2 * LEAF),
        |s| remove(s, LEAF..LEAF + 1),
    ),
    full("ZREM joining leaves", halves, |s| remove(s, 62..63)),
    full("ZREM of all, large", large, |s| remove(s, 0..40)),
    full(
        "ZREMRANGEBYRANK across leaves",
        |s| many(s, 4 * LEAF),
        |s| remove_ranks(s, 100, 260),
    ),
    full(
        "ZREMRANGEBYRANK leaving few",
        |s| many(s, 4 * LEAF),
        |s| remove_ranks(s, 5, 490),
    ),
    full("ZPOPMAX, large", large, |s| pop(s, true, 3)),
    full(
        "DEL of a large sorted set",
        |s| many(s, 3 * LEAF),
        |s| delete(s, &[key(0, 90)]),
    ),
    quick("Freeing a part of a removed sorted set", buried, |s| {
        set(s, &key(0, 80), 64)
    }),
    full("ZADD while another is freed", buried, |s| add(s, 0..1, 1.0)),
    full("SET over a large sorted set", large, |s| {
        set(s, &key(0, 90), 64)
    }),
    full("ZRANGESTORE over a string in another shard", stored, |s| {
        store_range(s, 30)
    }),
    full("ZRANGESTORE of few over itself", large, |s| {
        store_onto(s, 0, 5)
    }),
    full("MOVE of a large sorted set", large, |s| {
        move_to(s, &key(0, 90), 1)
    }),
    full("RENAME of a large sorted set", large, |s| {
        rename(s, &key(0, 90), &key(0, 91))
    }),
    log_steps(
        "RENAME of a large sorted set to another shard",
        large,
        |s| rename(s, &key(0, 90), &key(1, 90)),
    ),
    log_steps("COPY of a large sorted set", large, |s| {
        copy(s, (0, &key(0, 90)), (1, &key(1, 90)))
    }),
    gradual(
        "DEL of a large sorted set, then freeing",
        |s| many(s, 3 * LEAF),
        |s| {
            delete(s, &[key(0, 90)]);
            for _ in 0..8 {
                s.sweep(64).expect("room");
            }
        },
    ),
    // Changes to sorted sets that are in an arena (the pages of one large object).
    log_steps(
        "ZADD that moves a sorted set to an arena",
        |s| fat(s, 15),
        |s| add_one(s, &wide(15), 2.5),
    ),
    log_steps(
        "ZADD of several, growing to an arena",
        |s| fat(s, 14),
        |s| add_wide(s, 14..18),
    ),
    log_steps("ZADD of a new sorted set in an arena", some_keys, |s| {
        add_wide(s, 0..20)
    }),
    log_steps(
        "ZADD in an arena",
        |s| fat(s, 18),
        |s| add_one(s, &wide(18), 2.5),
    ),
    log_steps(
        "ZADD of another score in an arena",
        |s| fat(s, 18),
        |s| add_one(s, &wide(3), 12.5),
    ),
    log_steps("ZPOPMIN in an arena", |s| fat(s, 18), |s| pop(s, false, 2)),
    log_steps(
        "ZREMRANGEBYRANK leaving few in an arena",
        |s| fat(s, 30),
        |s| remove_ranks(s, 2, 28),
    ),
    log_steps(
        "DEL of a sorted set in an arena",
        |s| fat(s, 18),
        |s| delete(s, &[key(0, 90)]),
    ),
    log_steps(
        "COPY of a sorted set in an arena",
        |s| fat(s, 18),
        |s| copy(s, (0, &key(0, 90)), (1, &key(1, 90))),
    ),
    log_steps(
        "RENAME of a sorted set in an arena to another shard",
        |s| fat(s, 18),
        |s| rename(s, &key(0, 90), &key(1, 90)),
    ),
];

fn member(index: usize) -> Vec<u8> {
    format!("m{index:05}").into_bytes()
}

fn put(store: &Store, members: &[(&[u8], f64)]) {
    let name = key(0, 90);
    write(store, &[&name], |writer| {
        writer.sorted_add(0, &store.key(&name), members, AddRule::default(), &LIMITS)
    });
}

fn add_one(store: &Store, member: &[u8], score: f64) {
    put(store, &[(member, score)]);
}

/// Adds members with increasing scores.
fn add(store: &Store, members: Range<usize>, first: f64) {
    let texts: Vec<Vec<u8>> = members.map(member).collect();
    let scores = (0..).map(|index| first + f64::from(index));
    let members: Vec<(&[u8], f64)> = texts.iter().map(Vec::as_slice).zip(scores).collect();
    put(store, &members);
}

fn remove(store: &Store, members: Range<usize>) {
    let name = key(0, 90);
    let texts: Vec<Vec<u8>> = members.map(member).collect();
    let members: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let removed = write(store, &[&name], |writer| {
        writer.sorted_remove(0, &store.key(&name), &members)
    });
    assert_eq!(removed, members.len() as u64, "members that are there");
}

fn remove_ranks(store: &Store, start: i64, stop: i64) {
    let name = key(0, 90);
    let removed = write(store, &[&name], |writer| {
        writer.sorted_remove_range(0, &store.key(&name), &Bounds::Ranks(start, stop))
    });
    assert_eq!(removed as i64, stop - start + 1, "members that are there");
}

fn pop(store: &Store, highest: bool, count: u64) {
    let name = key(0, 90);
    write(store, &[&name], |writer| {
        writer.sorted_pop(0, &store.key(&name), highest, count, &mut Scored::new())
    });
}

fn store_at(store: &Store, name: &[u8], first: usize, count: usize) {
    let mut members = Scored::new();
    for index in (first..first + count).rev() {
        members.push(&member(index), index as f64);
    }
    write(store, &[name], |writer| {
        writer.sorted_store(0, &store.key(name), &members, &LIMITS)
    });
}

fn store_range(store: &Store, count: usize) {
    store_at(store, &key(1, 90), 0, count);
}

fn store_onto(store: &Store, first: usize, count: usize) {
    store_at(store, &key(0, 90), first, count);
}

fn small(store: &Store, members: usize) {
    some_keys(store);
    add(store, 0..members, 1.0);
}

/// Creates a sorted set whose tree is a single leaf.
fn large(store: &Store) {
    small(store, 40);
}

/// Creates a sorted set with so many members that removing most of them rebuilds the set.
fn crowd(store: &Store) {
    some_keys(store);
    add(store, 0..300, 1.0);
}

/// Creates a sorted set with `members` members. They are added in order, so that all leaves except
/// the last are full.
fn many(store: &Store, members: usize) {
    some_keys(store);
    for index in 0..members {
        add_one(store, &member(index), index as f64);
    }
}

/// Creates a sorted set whose members have the same score. The member with the number 50 is
/// missing.
fn alike(store: &Store, members: usize) {
    some_keys(store);
    for index in (0..members).filter(|&index| index != 50) {
        add_one(store, &member(index), 1.0);
    }
    add_one(store, &member(members), 1.0);
}

fn wide(index: usize) -> Vec<u8> {
    format!("m{index:03999}").into_bytes()
}

fn add_wide(store: &Store, members: Range<usize>) {
    let texts: Vec<Vec<u8>> = members.map(wide).collect();
    let members: Vec<(&[u8], f64)> = texts.iter().map(|text| (&text[..], 1.0)).collect();
    put(store, &members);
}

/// Creates a sorted set of `members` members of 4,000 bytes. With 16 or more members, it is in an
/// arena (the pages of one large object).
fn fat(store: &Store, members: usize) {
    some_keys(store);
    for index in 0..members {
        add_wide(store, index..index + 1);
    }
}

/// Creates a sorted set with two leaves, the first of which has only slightly more members than the
/// minimum.
fn halves(store: &Store) {
    many(store, 2 * LEAF);
    remove(store, LEAF + 40..2 * LEAF);
    remove(store, 0..62);
    remove(store, 63..95);
}

fn stored(store: &Store) {
    large(store);
    set(store, &key(1, 90), 64);
}

/// Creates and deletes a sorted set, so that its memory is still to be freed.
fn buried(store: &Store) {
    many(store, 3 * LEAF);
    delete(store, &[key(0, 90)]);
}
