//! Defines scenarios that change lists.

use undercroft_engine::lists::End;
use undercroft_engine::{Limits, Ranges, Store, ValueType};

use crate::fixture::NOW;
use crate::scenario::changes::{self, copy, delete, expire, move_to, rename, write};
use crate::scenario::definition::{Scenario, full, gradual, log_steps, quick};
use crate::scenario::names::key;
use crate::scenario::stores::some_keys;

/// The number of 13-byte items in a full leaf of 4,096 bytes.
const LEAF: usize = 313;

/// The scenarios for lists.
pub(super) const SCENARIOS: &[Scenario] = &[
    // Changes to packed lists.
    quick("RPUSH insert", some_keys, |s| {
        push(s, End::Right, &texts(0..2))
    }),
    quick("LPUSH to a small list", small, |s| {
        push(s, End::Left, &texts(5..6))
    }),
    quick("LPOP from a small list", small, |s| pop(s, End::Left, 1)),
    full("RPOP of all of a small list", small, |s| {
        pop(s, End::Right, 9)
    }),
    full("LSET in a small list", small, |s| set(s, 1, b"another")),
    full("LINSERT into a small list", small, |s| insert(s, 1, b"x")),
    full("DEL of a small list", small, |s| delete(s, &[list()])),
    full("RENAME of a small list to another shard", small, |s| {
        rename(s, &list(), &key(1, 90))
    }),
    // Conversions between packed lists and trees.
    quick(
        "RPUSH, a small list becomes a tree",
        |s| with(s, 38),
        |s| push(s, End::Right, &texts(50..52)),
    ),
    full("LPUSH insert, a tree at once", some_keys, |s| {
        push(s, End::Left, &texts(0..700))
    }),
    full("RPUSH insert of a long item", some_keys, |s| {
        push(s, End::Right, &[vec![b'l'; 3000]])
    }),
    full("RPUSH insert of many long items", some_keys, |s| {
        push(s, End::Right, &vec![vec![b'l'; 600]; 12])
    }),
    full("RPOP of all of a tree", tree, |s| pop(s, End::Right, 5000)),
    // Changes within a leaf.
    quick("RPUSH to a leaf", tree, |s| {
        push(s, End::Right, &texts(50..51))
    }),
    quick("LPUSH to a leaf", tree, |s| {
        push(s, End::Left, &texts(50..51))
    }),
    quick("RPOP from a leaf", tree, |s| pop(s, End::Right, 1)),
    quick("LPOP from a leaf", tree, |s| pop(s, End::Left, 3)),
    full("RPUSH to a leaf of integers", integers, |s| {
        push(s, End::Right, &[b"1234".to_vec()])
    }),
    full("RPUSH, a leaf of integers gets wider", integers, |s| {
        push(s, End::Right, &[b"99999999".to_vec()])
    }),
    full("RPUSH, a leaf of integers gets a text", integers, |s| {
        push(s, End::Right, &[b"text".to_vec()])
    }),
    full(
        "RPUSH, a small leaf grows",
        |s| with(s, 76),
        |s| push(s, End::Right, &texts(80..84)),
    ),
    full("LPUSH, a leaf of one length gets lengths", tree, |s| {
        push(s, End::Left, &[b"short".to_vec(), vec![b'l'; 700]])
    }),
    quick("LSET in place", tree, |s| set(s, 400, b"another text!")),
    full("LSET of another length", tree, |s| set(s, 400, b"short")),
    full("LSET of a long item", tree, |s| set(s, 400, &[b'l'; 900])),
    full("LSET over a long item", long_items, |s| set(s, 1, b"short")),
    quick("LINSERT in the middle", thin, |s| insert(s, 200, b"x")),
    full("LINSERT in the middle, a leaf splits", tree, |s| {
        insert(s, 400, b"another text!")
    }),
    full("LREM from one leaf", tree, |s| remove(s, 1, &text(350))),
    full("LREM, two leaves become one", thin, |s| {
        remove(s, 0, b"repeated")
    }),
    full("LREM of a long item", long_items, |s| {
        remove(s, 0, &[b'l'; 900])
    }),
    // Changes that add or remove leaves.
    quick(
        "RPUSH, a leaf more",
        |s| with(s, LEAF),
        |s| push(s, End::Right, &texts(900..901)),
    ),
    full("LPUSH, leaves more", tree, |s| {
        push(s, End::Left, &texts(0..700))
    }),
    quick(
        "RPOP, a leaf less",
        |s| with(s, LEAF + 1),
        |s| pop(s, End::Right, 1),
    ),
    full("LPOP over leaves", tree, |s| pop(s, End::Left, 700)),
    log_steps(
        "RPUSH, the tree grows higher",
        |s| with(s, LEAF * 255),
        |s| push(s, End::Right, &texts(0..1)),
    ),
    log_steps(
        "RPOP, the tree gets lower",
        |s| with(s, LEAF * 255 + 1),
        |s| pop(s, End::Right, 1),
    ),
    quick("LTRIM within leaves", tree, |s| trim(s, 100, -100)),
    full("LTRIM to one leaf", tree, |s| trim(s, 320, 400)),
    full("LTRIM of all", tree, |s| trim(s, 1, 0)),
    full("LTRIM of long items", long_items, |s| trim(s, 1, 1)),
    log_steps(
        "LTRIM of most of a high tree",
        |s| with(s, LEAF * 256),
        |s| trim(s, 40_000, 60_000),
    ),
    gradual("LTRIM, then freeing", tree, |s| {
        trim(s, 100, 200);
        s.sweep(2).expect("room");
        s.sweep(64).expect("room");
    }),
    // Changes to several keys, and operations on entire lists.
    quick("LMOVE between shards", in_both, |s| {
        shift(s, (&list(), End::Left), (&key(1, 90), End::Right))
    }),
    full("LMOVE within a list", tree, |s| {
        shift(s, (&list(), End::Right), (&list(), End::Left))
    }),
    full("LMOVE of the only item", in_both, |s| {
        shift(s, (&key(1, 90), End::Left), (&list(), End::Right))
    }),
    quick("DEL of a tree", tree, |s| delete(s, &[list()])),
    gradual("DEL of a tree, then freeing", long_items, |s| {
        delete(s, &[list()]);
        s.sweep(1).expect("room");
        s.sweep(64).expect("room");
    }),
    full("RENAME of a tree in a shard", tree, |s| {
        rename(s, &list(), &key(0, 91))
    }),
    full("RENAME of a tree to another shard", long_items, |s| {
        rename(s, &list(), &key(1, 91))
    }),
    full("COPY of a tree", long_items, |s| {
        copy(s, (0, &list()), (2, &key(0, 91)))
    }),
    full("MOVE of a tree", tree, |s| move_to(s, &list(), 2)),
    full("EXPIRE of a tree", tree, |s| {
        expire(s, &list(), Some(NOW + 1000))
    }),
    // Changes to lists that are in an arena (the pages of one large object).
    log_steps(
        "RPUSH that moves a list to an arena",
        |s| with(s, LEAF * 16),
        |s| push(s, End::Right, &texts(0..1)),
    ),
    log_steps("LPUSH insert, an arena at once", some_keys, |s| {
        push(s, End::Left, &texts(0..5100))
    }),
    log_steps("LSET of a long item, an arena at once", tree, |s| {
        set(s, 400, &[b'l'; 66_000])
    }),
    quick("RPUSH in an arena", in_arena, |s| {
        push(s, End::Right, &texts(0..1))
    }),
    log_steps("LPUSH of leaves in an arena", in_arena, |s| {
        push(s, End::Left, &texts(0..1000))
    }),
    log_steps("RPOP of all in an arena", in_arena, |s| {
        pop(s, End::Right, 6000)
    }),
    quick("LTRIM in an arena", in_arena, |s| trim(s, 1000, 3000)),
    log_steps("LTRIM in an arena, parts left before", cut, |s| {
        trim(s, 700, -1)
    }),
    log_steps("RPUSH in an arena, parts left before", cut, |s| {
        push(s, End::Right, &texts(0..3))
    }),
    gradual("LTRIM in an arena, then freeing", in_arena, |s| {
        trim(s, 900, 1200);
        s.sweep(2).expect("room");
        s.sweep(64).expect("room");
        s.sweep(64).expect("room");
    }),
    quick("RENAME in an arena to another shard", in_arena, |s| {
        rename(s, &list(), &key(1, 91))
    }),
    full("RENAME in an arena, parts left", cut, |s| {
        rename(s, &list(), &key(1, 91))
    }),
    gradual("RENAME in an arena, then freeing of parts", cut, |s| {
        rename(s, &list(), &key(1, 91));
        s.sweep(64).expect("room");
        s.sweep(64).expect("room");
    }),
    quick("DEL in an arena", in_arena, |s| delete(s, &[list()])),
    gradual("DEL in an arena, parts left, then freeing", cut, |s| {
        delete(s, &[list()]);
        s.sweep(64).expect("room");
    }),
    log_steps("COPY in an arena", in_arena, |s| {
        copy(s, (0, &list()), (2, &key(0, 91)))
    }),
    full("SET over a tree", tree, |s| changes::set(s, &list(), 64)),
    full(
        "SORT STORE over a large list in another shard",
        in_both,
        |s| sort_into(s, &key(0, 90), &key(1, 90)),
    ),
    full("SORT STORE over its own list", tree, |s| {
        sort_into(s, &list(), &list())
    }),
    quick("SORT STORE of nothing", small, |s| {
        sort_into(s, &key(1, 70), &list())
    }),
    // If the transaction is rolled back, the items removed by the pop must be restored.
    full("EXEC of RPOP and RPUSH", tree, |s| {
        write(s, &[&list()], |writer| {
            let (key, mut out) = (list(), Ranges::new());
            let key = s.key(&key);
            writer.list_pop(0, &key, End::Right, 3, &mut out)?;
            writer.list_push(0, &key, End::Right, &[b"another text!"], false)?;
            writer.list_pop(0, &key, End::Left, 2, &mut out)?;
            writer.list_push(0, &key, End::Left, &[b"another text!"], false)
        });
    }),
];

fn list() -> Vec<u8> {
    key(0, 90)
}

fn text(index: usize) -> Vec<u8> {
    format!("item {index:08}").into_bytes()
}

fn texts(range: std::ops::Range<usize>) -> Vec<Vec<u8>> {
    range.map(text).collect()
}

fn push(store: &Store, end: End, items: &[Vec<u8>]) {
    let values: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
    write(store, &[&list()], |writer| {
        writer.list_push(0, &store.key(&list()), end, &values, false)
    });
}

fn pop(store: &Store, end: End, count: u64) {
    write(store, &[&list()], |writer| {
        writer.list_pop(0, &store.key(&list()), end, count, &mut Ranges::new())
    });
}

fn set(store: &Store, index: i64, value: &[u8]) {
    write(store, &[&list()], |writer| {
        writer.list_set(0, &store.key(&list()), index, value)
    });
}

/// Inserts a value before the item with the index `index`.
fn insert(store: &Store, index: usize, value: &[u8]) {
    write(store, &[&list()], |writer| {
        writer.list_insert(0, &store.key(&list()), true, &text(index), value)
    });
}

fn remove(store: &Store, count: i64, value: &[u8]) {
    write(store, &[&list()], |writer| {
        writer.list_remove(0, &store.key(&list()), count, value)
    });
}

fn trim(store: &Store, start: i64, stop: i64) {
    write(store, &[&list()], |writer| {
        writer.list_trim(0, &store.key(&list()), start, stop)
    });
}

fn shift(store: &Store, from: (&[u8], End), to: (&[u8], End)) {
    write(store, &[from.0, to.0], |writer| {
        let (from, to) = ((&store.key(from.0), from.1), (&store.key(to.0), to.1));
        writer.list_move(0, from, to, &mut Ranges::new())
    });
}

/// Stores a list's items in descending order in another list.
fn sort_into(store: &Store, from: &[u8], to: &[u8]) {
    write(store, &[from, to], |writer| {
        let mut items = Ranges::new();
        writer
            .reader()
            .list_range(0, &store.key(from), (0, -1), &mut items)?;
        let mut order: Vec<&[u8]> = items.iter().collect();
        order.sort_unstable_by(|one, other| other.cmp(one));
        let mut sorted = Ranges::new();
        order.iter().for_each(|item| sorted.push(item));
        let limits = Limits::DEFAULT;
        writer.put_items(0, &store.key(to), ValueType::List, &sorted, None, &limits)
    });
}

fn small(store: &Store) {
    with(store, 5);
}

/// Creates a list of `items` items of 13 bytes.
fn with(store: &Store, items: usize) {
    some_keys(store);
    push(store, End::Right, &texts(0..items));
}

/// Creates a list with three leaves, the last of which is not full.
fn tree(store: &Store) {
    with(store, 2 * LEAF + 100);
}

/// Creates a list with two sparse leaves in which some items are equal.
fn thin(store: &Store) {
    tree(store);
    trim(store, 200, 400);
    for index in [250, 251, 330, 331] {
        set(store, index - 200, b"repeated");
    }
}

fn integers(store: &Store) {
    some_keys(store);
    let items: Vec<Vec<u8>> = (0..300).map(|n| (n * 7).to_string().into_bytes()).collect();
    push(store, End::Right, &items);
}

/// Creates a tree in which some items are stored in separate blocks.
fn long_items(store: &Store) {
    tree(store);
    for index in [1, 200, 500] {
        set(store, index, &[b'l'; 900]);
    }
}

/// Creates a list with seventeen leaves, which is in an arena (the pages of one large object).
fn in_arena(store: &Store) {
    with(store, 17 * LEAF);
}

/// Creates a list in an arena. Its tail has been cut off, and the memory of the tail is still to be
/// freed.
fn cut(store: &Store) {
    in_arena(store);
    trim(store, 2000, -1);
}

fn in_both(store: &Store) {
    tree(store);
    write(store, &[&key(1, 90)], |writer| {
        writer.list_push(0, &store.key(&key(1, 90)), End::Left, &[b"one"], false)
    });
}
