//! Defines scenarios that change feeds.

use undercroft_engine::Store;
use undercroft_engine::feeds::{
    FeedType, Filter, FoundItems, Order, Rows, Schema, Seen, Selection, Test,
};
use undercroft_engine::lists::End;

use crate::scenario::changes::{copy, delete, rename, write};
use crate::scenario::definition::{Scenario, full, gradual, log_steps, quick};
use crate::scenario::names::key;
use crate::scenario::stores::some_keys;

/// The number of items in a full leaf.
const LEAF: u32 = 310;

/// The scenarios for feeds.
pub(super) const SCENARIOS: &[Scenario] = &[
    quick("FEED.CREATE", some_keys, create),
    quick(
        "FEED.ADD, the first item",
        |s| with(s, 0),
        |s| add(s, -1, 7..8),
    ),
    full(
        "FEED.ADD, leaves at once",
        |s| with(s, 0),
        |s| add(s, -1, 0..700),
    ),
    // Changes within a leaf.
    quick("FEED.ADD at the tail", small, |s| add(s, -1, 50..52)),
    full("FEED.ADD at the head, a small leaf moves", small, |s| {
        add(s, 0, 50..52)
    }),
    quick("FEED.ADD at the head", headed, |s| add(s, 0, 60..61)),
    full("FEED.ADD inside a small leaf", small, |s| add(s, 5, 50..52)),
    quick("FEED.ADD inside", thin, |s| add(s, 300, 9000..9003)),
    full(
        "FEED.ADD inside, all of a leaf move",
        |s| with(s, LEAF - 40),
        |s| add(s, 10, 9000..9001),
    ),
    full(
        "FEED.ADD, a small leaf grows",
        |s| with(s, 15),
        |s| add(s, -1, 50..60),
    ),
    full("FEED.ADD inside, a leaf splits", tree, |s| {
        add(s, 400, 9000..9001)
    }),
    full("FEED.ADD inside, leaves more", tree, |s| {
        add(s, 400, 9000..9800)
    }),
    // Changes that add or remove leaves.
    quick(
        "FEED.ADD, a leaf more",
        |s| with(s, LEAF),
        |s| add(s, -1, 9000..9001),
    ),
    full("FEED.ADD at the head, leaves more", tree, |s| {
        add(s, 0, 9000..9700)
    }),
    log_steps(
        "FEED.ADD, the tree grows higher",
        |s| with(s, LEAF * 73),
        |s| add(s, -1, 0..400),
    ),
    quick(
        "FEED.POP, a leaf less",
        |s| with(s, LEAF + 1),
        |s| pop(s, End::Right, 1),
    ),
    full("FEED.POP over leaves", tree, |s| pop(s, End::Left, 700)),
    full("FEED.POP of all", small, |s| pop(s, End::Right, 99)),
    quick("FEED.DEL inside", tree, |s| remove(s, &[400])),
    full("FEED.DEL, two leaves become one", thin, |s| {
        remove(s, &[310, 311, 312])
    }),
    full(
        "FEED.DEL of the only item",
        |s| with(s, 1),
        |s| remove(s, &[0]),
    ),
    full("FEED.DELWHERE, rebuilt", tree, |s| remove_where(s, 3)),
    // Compacting does not change the contents of a feed, so it is combined with another change in
    // one transaction.
    full("EXEC of FEED.COMPACT and FEED.HIDE", thin, |s| {
        let values: [&[u8]; 1] = [&value(5)];
        write(s, &[&feed()], |writer| {
            writer.feed_compact(0, &s.key(&feed()))?;
            writer.feed_hide(0, &s.key(&feed()), &Selection::of_values(&values), true)
        });
    }),
    // Changes to the visibility and the attributes of items.
    quick("FEED.HIDE", tree, |s| hide(s, &[5, 400, 700], true)),
    full("FEED.SHOW", tree, |s| hide(s, &[7, 14], false)),
    quick("FEED.SETATTR", tree, |s| {
        set(s, 400, &[Some(15), None, Some(0)])
    }),
    quick("FEED.MOVE to the head", tree, |s| shift(s, 500, 0)),
    full("FEED.MOVE within a leaf", small, |s| shift(s, 2, 6)),
    // Changes to tallies, which count the items below a node by attribute.
    full("EXEC of a tally, then FEED.HIDE", wide, |s| {
        let values: [&[u8]; 1] = [&value(5)];
        write(s, &[&feed()], |writer| {
            writer.feed_tally(0, &s.key(&feed()), 0)?;
            writer.feed_hide(0, &s.key(&feed()), &Selection::of_values(&values), true)
        });
    }),
    full("EXEC of FEED.HIDE, then a tally", tallied, |s| {
        let values: [&[u8]; 1] = [&value(5)];
        write(s, &[&feed()], |writer| {
            writer.feed_hide(0, &s.key(&feed()), &Selection::of_values(&values), true)?;
            writer.feed_tally(0, &s.key(&feed()), 0)
        });
    }),
    quick("FEED.ADD below a tally", tallied, |s| {
        add(s, -1, 9000..9001)
    }),
    full(
        "FEED.ADD inside below a tally, a leaf splits",
        tallied,
        |s| add(s, 400, 9000..9001),
    ),
    // Changes to sorted feeds.
    quick("FEED.ADD to a sorted feed", sorted, |s| {
        add(s, -1, 300..301)
    }),
    full("FEED.ADD to a sorted feed, here and there", sorted, |s| {
        add_rows(s, -1, &rows([500, 40]))
    }),
    full("FEED.ADD to a sorted feed, rebuilt", sorted, |s| {
        add(s, -1, 250..420)
    }),
    full("FEED.DEL in a sorted feed", sorted, |s| {
        remove(s, &[0, 1, 2, 310, 311])
    }),
    quick("FEED.HIDE in a sorted feed", sorted, |s| {
        hide(s, &[5, 400, 401], true)
    }),
    // Changes to feeds with an index.
    quick("FEED.ADD to a feed with an index", indexed, |s| {
        add(s, -1, 9000..9002)
    }),
    full(
        "FEED.ADD inside with an index, a leaf splits",
        indexed,
        |s| add(s, 400, 9000..9001),
    ),
    full(
        "FEED.ADD inside with an index, among those that leave",
        indexed,
        |s| add(s, 560, 9000..9001),
    ),
    full("FEED.ADD with an index, its blocks split", indexed, |s| {
        add(s, 0, 9000..9400)
    }),
    quick("FEED.MOVE to the head with an index", indexed, |s| {
        shift(s, 500, 0)
    }),
    full("FEED.DEL with an index, a leaf less", indexed, |s| {
        remove(s, &(LEAF..LEAF * 2).collect::<Vec<_>>())
    }),
    quick("FEED.SETATTR with an index", indexed, |s| {
        set(s, 400, &[Some(15), None, Some(0)])
    }),
    full("FEED.DELWHERE with an index, rebuilt", indexed, |s| {
        remove_where(s, 3)
    }),
    full("FEED.ADD, leaves get other labels", crowded, |s| {
        add(s, 400, 9000..9300)
    }),
    full("COPY of a feed with an index", indexed, |s| {
        copy(s, (0, &feed()), (2, &key(0, 91)))
    }),
    gradual("DEL of a feed with an index, then freeing", indexed, |s| {
        delete(s, &[feed()]);
        s.sweep(1).expect("room");
        s.sweep(64).expect("room");
    }),
    // Operations on entire feeds.
    quick("DEL of a feed", tree, |s| delete(s, &[feed()])),
    gradual("DEL of a feed, then freeing", tree, |s| {
        delete(s, &[feed()]);
        s.sweep(1).expect("room");
        s.sweep(64).expect("room");
    }),
    full("RENAME of a feed to another shard", tree, |s| {
        rename(s, &feed(), &key(1, 91))
    }),
    full("COPY of a feed", tree, |s| {
        copy(s, (0, &feed()), (2, &key(0, 91)))
    }),
    log_steps(
        "FEED.ADD that moves a feed to an arena",
        |s| with(s, LEAF * 16),
        |s| add(s, -1, 0..1),
    ),
    quick("FEED.ADD in an arena", in_arena, |s| add(s, -1, 0..1)),
    log_steps("FEED.DELWHERE in an arena, rebuilt", in_arena, |s| {
        remove_where(s, 3)
    }),
    quick("DEL of a feed in an arena", in_arena, |s| {
        delete(s, &[feed()])
    }),
    // If the transaction is rolled back, the items removed by the pop must be restored.
    full("EXEC of FEED.POP and FEED.ADD", tree, |s| {
        let rows = rows(9000..9001);
        write(s, &[&feed()], |writer| {
            let (name, mut out) = (feed(), FoundItems::new());
            let key = s.key(&name);
            writer.feed_pop(0, &key, End::Right, 3, &mut out)?;
            writer.feed_add(0, &key, -1, &rows)?;
            writer.feed_pop(0, &key, End::Left, 2, &mut out)?;
            writer.feed_add(0, &key, 0, &rows)
        });
    }),
];

fn feed() -> Vec<u8> {
    key(0, 90)
}

fn schema() -> Schema {
    Schema::new(12, &[4, 3, 1], Order::List).expect("a sound schema")
}

fn value(number: u32) -> Vec<u8> {
    format!("item{number:08}").into_bytes()
}

fn rows(numbers: impl IntoIterator<Item = u32>) -> Rows {
    let mut rows = Rows::new(&schema());
    for number in numbers {
        let attributes = [number % 16, number % 5, number % 2];
        rows.push(&value(number), &attributes, number % 7 == 0);
    }
    rows
}

fn create(store: &Store) {
    create_as(store, &schema());
}

fn create_as(store: &Store, schema: &Schema) {
    let made = write(store, &[&feed()], |writer| {
        writer.feed_create(0, &store.key(&feed()), schema)
    });
    assert!(made, "nothing was there");
}

fn add(store: &Store, position: i64, numbers: std::ops::Range<u32>) {
    add_rows(store, position, &rows(numbers));
}

fn add_rows(store: &Store, position: i64, rows: &Rows) {
    let length = write(store, &[&feed()], |writer| {
        writer.feed_add(0, &store.key(&feed()), position, rows)
    });
    assert!(length.is_some(), "a feed that is there");
}

fn pop(store: &Store, end: End, count: u64) {
    write(store, &[&feed()], |writer| {
        writer.feed_pop(0, &store.key(&feed()), end, count, &mut FoundItems::new())
    });
}

fn remove(store: &Store, numbers: &[u32]) {
    let values: Vec<Vec<u8>> = numbers.iter().map(|&number| value(number)).collect();
    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    let removed = write(store, &[&feed()], |writer| {
        writer.feed_remove(0, &store.key(&feed()), &Selection::of_values(&values))
    });
    assert!(removed > 0, "items that are there");
}

fn remove_where(store: &Store, attribute: u32) {
    let mut filter = Filter::default();
    filter.add(&schema(), 0, Test::OneOf(vec![attribute]));
    let selection = Selection::new(Seen::All, filter);
    write(store, &[&feed()], |writer| {
        writer.feed_remove(0, &store.key(&feed()), &selection)
    });
}

fn hide(store: &Store, numbers: &[u32], hide: bool) {
    let values: Vec<Vec<u8>> = numbers.iter().map(|&number| value(number)).collect();
    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    write(store, &[&feed()], |writer| {
        writer.feed_hide(0, &store.key(&feed()), &Selection::of_values(&values), hide)
    });
}

fn set(store: &Store, number: u32, attributes: &[Option<u32>]) {
    write(store, &[&feed()], |writer| {
        writer.feed_set_attributes(0, &store.key(&feed()), &value(number), attributes)
    });
}

fn shift(store: &Store, number: u32, position: i64) {
    let moved = write(store, &[&feed()], |writer| {
        writer.feed_move(0, &store.key(&feed()), &value(number), position)
    });
    assert!(moved, "an item that is there");
}

fn with(store: &Store, items: u32) {
    some_keys(store);
    create(store);
    if items > 0 {
        add(store, -1, 0..items);
    }
}

fn small(store: &Store) {
    with(store, 10);
}

fn tree(store: &Store) {
    with(store, 2 * LEAF + 100);
}

/// Creates a feed with so many leaves that one of its nodes has room for a tally.
fn wide(store: &Store) {
    with(store, 25 * LEAF);
}

fn tallied(store: &Store) {
    wide(store);
    write(store, &[&feed()], |writer| {
        writer.feed_tally(0, &store.key(&feed()), 0)
    });
}

/// Creates a feed with three leaves and an index of two blocks.
fn indexed(store: &Store) {
    some_keys(store);
    let schema = schema().with_index();
    create_as(store, &schema.expect("not a sorted feed"));
    add(store, -1, 0..2 * LEAF + 100);
}

/// Creates a feed with two adjacent leaves between whose labels (the order numbers of leaves) no
/// further label fits.
fn crowded(store: &Store) {
    indexed(store);
    (0..33).for_each(|step| add(store, 400, 10_000 + step * 200..10_200 + step * 200));
}

/// Creates a sorted feed with three leaves.
fn sorted(store: &Store) {
    some_keys(store);
    let (of, unique) = (FeedType::Text, false);
    let schema = Schema::new(12, &[4, 3, 1], Order::Sorted { of, unique });
    create_as(store, &schema.expect("a sound schema"));
    add(store, -1, 0..2 * LEAF + 100);
}

/// Creates a feed with a full leaf, and then adds items at the feed's head.
fn headed(store: &Store) {
    with(store, LEAF);
    add(store, 0, 9000..9010);
}

/// Creates a feed with two sparse leaves and a fuller one.
fn thin(store: &Store) {
    tree(store);
    let gone: Vec<u32> = (70..LEAF).collect();
    remove(store, &gone);
    remove(store, &(LEAF + 78..LEAF * 2).collect::<Vec<_>>());
    add(store, -1, 9100..9200);
}

fn in_arena(store: &Store) {
    with(store, 6000);
}
