//! Defines scenarios that change strings, keys of any type, and entire databases.

use undercroft_engine::{Expiry, Store};

use crate::fixture::NOW;
use crate::scenario::changes::{
    append, copy, delete, expire, move_to, rename, set, set_expiring, set_text, set_with, value,
    write,
};
use crate::scenario::definition::{Scenario, full, gradual, log_steps, quick};
use crate::scenario::names::{crowded, key, uncrowded};
use crate::scenario::stores::{
    appended, expired_keys, expiring_keys, fill, large_in_both, some_keys, two_databases, with,
};

/// The scenarios for strings, keys and databases.
pub(super) const SCENARIOS: &[Scenario] = &[
    // Changes by the SET command.
    quick(
        "SET insert, first key, extents reserved and granted",
        |_| (),
        |s| set(s, &key(0, 0), 64),
    ),
    quick("SET insert", some_keys, |s| set(s, &key(0, 90), 64)),
    full("SET insert 900", some_keys, |s| set(s, &key(0, 90), 900)),
    full("SET insert 5,000", some_keys, |s| set(s, &key(0, 90), 5000)),
    log_steps("SET insert 100,000", some_keys, |s| {
        set(s, &key(0, 90), 100_000)
    }),
    full("SET insert 20,000, a run of pages", some_keys, |s| {
        set(s, &key(0, 90), 20_000)
    }),
    quick("SET overwrite in place", some_keys, |s| {
        set(s, &key(0, 0), 62)
    }),
    full(
        "SET overwrite in place 900",
        |s| with(s, 900),
        |s| set(s, &key(0, 90), 897),
    ),
    full(
        "SET overwrite 5,000",
        |s| with(s, 5000),
        |s| set(s, &key(0, 90), 4990),
    ),
    log_steps(
        "SET overwrite 100,000",
        |s| with(s, 100_000),
        |s| set(s, &key(0, 90), 99_000),
    ),
    quick("SET growing 64 to 200", some_keys, |s| {
        set(s, &key(0, 0), 200)
    }),
    full("SET growing 64 to 900", some_keys, |s| {
        set(s, &key(0, 0), 900)
    }),
    full(
        "SET growing 900 to 5,000",
        |s| with(s, 900),
        |s| set(s, &key(0, 90), 5000),
    ),
    full(
        "SET growing 5,000 to 20,000",
        |s| with(s, 5000),
        |s| set(s, &key(0, 90), 20_000),
    ),
    log_steps(
        "SET growing 5,000 to 100,000",
        |s| with(s, 5000),
        |s| set(s, &key(0, 90), 100_000),
    ),
    quick(
        "SET shrinking 900 to 64",
        |s| with(s, 900),
        |s| set(s, &key(0, 90), 64),
    ),
    full(
        "SET shrinking 5,000 to 64",
        |s| with(s, 5000),
        |s| set(s, &key(0, 90), 64),
    ),
    full(
        "SET shrinking 100,000 to 900",
        |s| with(s, 100_000),
        |s| set(s, &key(0, 90), 900),
    ),
    log_steps(
        "SET shrinking 100,000 to 5,000",
        |s| with(s, 100_000),
        |s| set(s, &key(0, 90), 5000),
    ),
    full("SET of an integer over a text", some_keys, |s| {
        set_text(s, &key(0, 0), b"12345")
    }),
    full("SET EX over a key without", some_keys, |s| {
        set_expiring(s, &key(0, 0), 70)
    }),
    full("SET over a key with EX", expiring_keys, |s| {
        set(s, &key(0, 1), 70)
    }),
    full("SET KEEPTTL", expiring_keys, |s| {
        keep_expiry(s, &key(0, 1), 300)
    }),
    log_steps("SET insert 300,000, staged", some_keys, |s| {
        set(s, &key(0, 90), 300_000)
    }),
    log_steps(
        "SET overwrite 300,000, staged",
        |s| with(s, 300_000),
        |s| set(s, &key(0, 90), 290_000),
    ),
    log_steps("SET insert 70,000, received", some_keys, |s| {
        set_received(s, &key(0, 90), 70_000)
    }),
    log_steps(
        "SET overwrite 70,000, received",
        |s| with(s, 70_000),
        |s| set_received(s, &key(0, 90), 80_001),
    ),
    // Changes to counters, and changes in place.
    quick(
        "INCR",
        |s| set_text(s, &key(1, 0), b"41"),
        |s| increment(s, &key(1, 0)),
    ),
    full("INCR insert", some_keys, |s| increment(s, &key(1, 90))),
    full("INCR of digits appended", digits, |s| {
        increment(s, &key(1, 90))
    }),
    quick("APPEND in place", appended, |s| append(s, &key(0, 90), 40)),
    quick("APPEND growing", some_keys, |s| append(s, &key(0, 0), 100)),
    full("APPEND insert", some_keys, |s| append(s, &key(0, 90), 100)),
    full(
        "APPEND growing to a block",
        |s| with(s, 900),
        |s| append(s, &key(0, 90), 4000),
    ),
    full(
        "APPEND growing a block",
        |s| with(s, 5000),
        |s| append(s, &key(0, 90), 500),
    ),
    full("APPEND in place in a block", appended_block, |s| {
        append(s, &key(0, 90), 500)
    }),
    log_steps(
        "APPEND 100,000 growing",
        |s| with(s, 100_000),
        |s| append(s, &key(0, 90), 5000),
    ),
    full("SETRANGE in place", appended, |s| {
        set_range(s, &key(0, 90), 30, 20)
    }),
    full("SETRANGE of a text never changed", some_keys, |s| {
        set_range(s, &key(0, 0), 3, 9)
    }),
    full("SETRANGE beyond the end", appended, |s| {
        set_range(s, &key(0, 90), 400, 20)
    }),
    full("SETRANGE insert", some_keys, |s| {
        set_range(s, &key(0, 90), 50, 20)
    }),
    full("SETRANGE in a block", appended_block, |s| {
        set_range(s, &key(0, 90), 777, 1000)
    }),
    log_steps(
        "SETRANGE of 70,000 in 100,000",
        |s| with(s, 100_000),
        |s| set_range(s, &key(0, 90), 9, 70_000),
    ),
    // Changes that delete keys.
    quick("DEL", some_keys, |s| delete(s, &[key(0, 1)])),
    full(
        "DEL, a slab emptied",
        |s| with(s, 3000),
        |s| delete(s, &[key(0, 90)]),
    ),
    full("DEL, a slab of several pages emptied", slabs, |s| {
        delete(s, &[key(0, 90)])
    }),
    full(
        "DEL, a large block",
        |s| with(s, 100_000),
        |s| delete(s, &[key(0, 90)]),
    ),
    full("DEL, the last overflow bucket leaves", overflow, |s| {
        delete(s, &[crowded(6)])
    }),
    full(
        "DEL, an overflow bucket within leaves",
        overflow_within,
        |s| delete(s, &[crowded(11)]),
    ),
    quick("DEL in two shards", some_keys, |s| {
        delete(s, &[key(0, 1), key(1, 1), key(0, 2)])
    }),
    // Changes to expiry times.
    quick("EXPIRE added", some_keys, |s| {
        expire(s, &key(0, 1), Some(NOW + 5000))
    }),
    full("EXPIRE changed", expiring_keys, |s| {
        expire(s, &key(0, 1), Some(NOW + 5000))
    }),
    quick("EXPIRE removed", expiring_keys, |s| {
        expire(s, &key(0, 1), None)
    }),
    full(
        "EXPIRE of a large block",
        |s| with(s, 100_000),
        |s| expire(s, &key(0, 90), Some(NOW + 5000)),
    ),
    full("EXPIRE in the past", some_keys, |s| {
        s.expire_at(0, &key(0, 1), NOW).expect("room");
    }),
    full("SET removes an expired key", expired_keys, |s| {
        set(s, &key(0, 1), 80)
    }),
    full("INSERT sweeps expired keys", expired_keys, |s| {
        set(s, &key(0, 90), 64)
    }),
    gradual("sweep of expired keys", expired_keys, |s| {
        s.sweep(8).expect("room");
    }),
    // Changes that move values to other keys.
    quick("RENAME in a shard", some_keys, |s| {
        rename(s, &key(0, 1), &key(0, 90))
    }),
    quick("RENAME to another shard", some_keys, |s| {
        rename(s, &key(0, 1), &key(1, 90))
    }),
    full("RENAME over a key", some_keys, |s| {
        rename(s, &key(0, 1), &key(0, 2))
    }),
    full("RENAME over a key in another shard", some_keys, |s| {
        rename(s, &key(0, 1), &key(1, 2))
    }),
    full(
        "RENAME of 5,000 to another shard",
        |s| with(s, 5000),
        |s| rename(s, &key(0, 90), &key(1, 90)),
    ),
    full(
        "RENAME of a large block in a shard",
        |s| with(s, 100_000),
        |s| rename(s, &key(0, 90), &key(0, 91)),
    ),
    full(
        "RENAME of a large block to another shard",
        |s| with(s, 100_000),
        |s| rename(s, &key(0, 90), &key(1, 90)),
    ),
    full("RENAME of a large block over another", large_in_both, |s| {
        rename(s, &key(0, 90), &key(1, 90))
    }),
    full("RENAME of an expiring key", expiring_keys, |s| {
        rename(s, &key(0, 1), &key(1, 90))
    }),
    full("COPY to another shard", some_keys, |s| {
        copy(s, (0, &key(0, 1)), (0, &key(1, 90)))
    }),
    full(
        "COPY of 5,000 to another database",
        |s| with(s, 5000),
        |s| copy(s, (0, &key(0, 90)), (3, &key(0, 90))),
    ),
    log_steps(
        "COPY of 100,000",
        |s| with(s, 100_000),
        |s| copy(s, (0, &key(0, 90)), (0, &key(1, 91))),
    ),
    full("MOVE", expiring_keys, |s| move_to(s, &key(0, 1), 2)),
    full(
        "MOVE of a large block",
        |s| with(s, 100_000),
        |s| move_to(s, &key(0, 90), 2),
    ),
    full("SWAPDB", two_databases, |s| swap(s, 0, 1)),
    // Changes to several keys and to entire databases.
    quick("MSET over two shards, insert", some_keys, |s| {
        set_many(s, 80, 64)
    }),
    full("MSET over two shards, overwrite", some_keys, |s| {
        set_many(s, 0, 60)
    }),
    full("MSET over two shards, 5,000 each", some_keys, |s| {
        set_many(s, 0, 5000)
    }),
    full(
        "MSET, the undo log grows",
        |s| (0..12).for_each(|i| set(s, &key(0, i), 900)),
        |s| {
            let keys: Vec<_> = (0..12).map(|index| key(0, index)).collect();
            set_all(s, &keys, 890);
        },
    ),
    quick("FLUSHDB, later freed", two_databases, |s| {
        s.flush(&[0], false).expect("room");
    }),
    gradual("FLUSHDB, freed at once", two_databases, |s| {
        s.flush(&[0], true).expect("room");
    }),
    gradual(
        "FLUSHDB while a table grows",
        |s| fill(s, 43),
        |s| {
            s.flush(&[0], true).expect("room");
        },
    ),
    full(
        "FLUSHDB while a table is zeroed",
        |s| fill(s, 41),
        |s| {
            s.flush(&[0], false).expect("room");
        },
    ),
    gradual("FLUSHALL of large blocks", large_in_both, |s| {
        s.flush_all(true).expect("room");
    }),
    full("SET frees a bucket of a flushed table", flushed, |s| {
        set(s, &key(0, 0), 64)
    }),
    // Hash tables that double their size, which happens when 40 keys fill 8 buckets.
    quick(
        "table growth: start",
        |s| fill(s, 40),
        |s| set(s, &key(0, 40), 64),
    ),
    quick(
        "table growth: zero",
        |s| fill(s, 41),
        |s| set(s, &key(0, 41), 64),
    ),
    quick(
        "table growth: move",
        |s| fill(s, 42),
        |s| set(s, &key(0, 42), 64),
    ),
    quick(
        "table growth: finish",
        |s| fill(s, 45),
        |s| set(s, &key(0, 45), 64),
    ),
    full(
        "table growth: 64 buckets zeroed at once",
        |s| fill(s, 321),
        |s| set(s, &key(0, 321), 64),
    ),
    full(
        "table growth: an overflow bucket moved",
        grown_overflow,
        |s| set(s, &uncrowded(33), 64),
    ),
    // Hash tables that halve their size, which happens when fewer than 4 keys remain in 8 buckets.
    full(
        "table shrinking: start",
        |s| thin(s, 4),
        |s| delete(s, &[key(0, 3)]),
    ),
    full(
        "table shrinking: zero",
        |s| thin(s, 3),
        |s| delete(s, &[key(0, 2)]),
    ),
    full(
        "table shrinking: move",
        |s| thin(s, 2),
        |s| delete(s, &[key(0, 1)]),
    ),
    full("table shrinking: finish", finishing, |s| {
        set(s, &key(0, 90), 64)
    }),
];

/// Sets a key in the same way as a server that receives the value in parts.
fn set_received(store: &Store, key: &[u8], length: usize) {
    let (key, value) = (store.key(key), value(length));
    let (first, second) = value.split_at(length / 16 * 8);
    let mut staged = store.stage_room(&key, length as u64).expect("room");
    staged.fill(0, first);
    let mut staged = store.take_up(staged.put_down());
    staged.fill(first.len() as u64, second);
    let set = store.set_staged(0, &key, staged);
    set.map_err(|(error, _)| error).expect("room");
}

fn set_all(store: &Store, keys: &[Vec<u8>], length: usize) {
    let value = value(length);
    let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &value[..])).collect();
    store.set_many(0, &pairs).expect("room");
}

fn set_many(store: &Store, first: usize, length: usize) {
    let keys: Vec<_> = (0..6)
        .map(|index| key(index % 2, first + index / 2))
        .collect();
    set_all(store, &keys, length);
}

fn keep_expiry(store: &Store, key: &[u8], length: usize) {
    set_with(store, key, length, Expiry::Keep);
}

fn increment(store: &Store, key: &[u8]) {
    store.increment(0, key, 1).expect("an integer");
}

fn set_range(store: &Store, key: &[u8], position: u64, length: usize) {
    write(store, &[key], |writer| {
        writer.set_range(0, &store.key(key), position, &value(length))
    });
}

fn swap(store: &Store, one: usize, other: usize) {
    store
        .write(store.all_shards(), |writer| {
            writer.swap_databases(one, other)
        })
        .expect("room");
}

fn slabs(store: &Store) {
    // Allocate blocks of 5,120 bytes in two slabs of several pages.
    for index in 80..90 {
        set(store, &key(0, index), 5000);
    }
    for index in [90, 91] {
        set(store, &key(0, index), 5000);
    }
    for index in (80..90).chain([91]) {
        if index != 80 {
            delete(store, &[key(0, index)]);
        }
    }
}

fn digits(store: &Store) {
    some_keys(store);
    set_text(store, &key(1, 90), b"4");
    write(store, &[&key(1, 90)], |writer| {
        writer.append(0, &store.key(&key(1, 90)), b"2")
    });
}

fn appended_block(store: &Store) {
    with(store, 5000);
    append(store, &key(0, 90), 500);
}

/// Creates a hash table of 8 buckets in which only `left` keys remain.
fn thin(store: &Store, left: usize) {
    fill(store, 26);
    for index in (left..26).rev() {
        delete(store, &[key(0, index)]);
    }
}

/// Performs all steps of halving a hash table except the last one.
fn finishing(store: &Store) {
    thin(store, 0);
    set(store, &key(0, 80), 64);
}

/// Creates a hash table of 8 buckets, one of which has a chain: it contains the first six of
/// `crowd` keys, and each further bucket of the chain contains six more.
fn crowd(store: &Store, crowd: usize) {
    for index in 0..25 {
        set(store, &uncrowded(index), 64);
    }
    for index in 0..crowd {
        set(store, &crowded(index), 64);
    }
}

fn overflow(store: &Store) {
    crowd(store, 8);
    delete(store, &[crowded(7)]);
}

fn overflow_within(store: &Store) {
    crowd(store, 14);
    for index in 6..11 {
        delete(store, &[crowded(index)]);
    }
}

fn grown_overflow(store: &Store) {
    crowd(store, 8);
    for index in 25..33 {
        set(store, &uncrowded(index), 64);
    }
    // With 41 keys, the hash table doubles: one step zeroes the new buckets, and the next step
    // moves keys to them.
    set(store, &key(1, 0), 64);
    set(store, &uncrowded(34), 64);
}

fn flushed(store: &Store) {
    two_databases(store);
    store.flush(&[0], false).expect("room");
}
