//! Compares feeds with a plain list of items by running random operations on feeds of every length
//! with all kinds of schemas.
//!
//! - `damage`: tests damage to words of an index.
//! - `indexed`: tests difficult cases of feeds with an index.
//! - `pair`: changes and reads a feed and a plain list of items in the same ways.
//! - `tallies`: tests that the tallies (cached counts) of each node match its contents after every
//!   change.

use std::ops::Bound;

use fastrand::Rng;
use undercroft_engine::feeds::{FeedRange, FeedType, FoundItems, Order, Rows, Schema, Selection};
use undercroft_engine::lists::End;
use undercroft_engine::{Error, Limits, Ranges, ValueType, rdb};
use undercroft_testkit::fresh;

mod damage;
mod indexed;
mod pair;
mod tallies;

use pair::Pair;

#[test]
fn feed_matches_a_list_of_items() {
    let seed = fresh::seed();
    let mut random = Rng::with_seed(seed);
    let schemas: [(u8, &[u8]); 7] = [
        (12, &[4, 3, 1]),
        (1, &[]),
        (8, &[1]),
        (255, &[32, 5]),
        (33, &[2; 16]),
        (3, &[32; 16]),
        (20, &[7, 12]),
    ];
    for (size, widths) in schemas {
        let schema = Schema::new(size, widths, Order::List).expect("sound");
        compare_for_long(schema, 300, &mut random);
    }
}

/// Searches for values use the index, which must reflect every change to the leaves.
#[test]
fn feed_with_an_index_matches_a_list_of_items() {
    let seed = fresh::seed();
    let mut random = Rng::with_seed(seed);
    let schemas: [(u8, &[u8], Order); 4] = [
        (12, &[4, 3, 1], Order::List),
        (1, &[], Order::List),
        (255, &[32, 5], Order::Queue),
        (20, &[7, 12], Order::List),
    ];
    for (size, widths, order) in schemas {
        let schema = Schema::new(size, widths, order).and_then(Schema::with_index);
        compare_for_long(schema.expect("sound"), 300, &mut random);
    }
}

#[test]
fn sorted_feed_matches_an_ordered_list() {
    let seed = fresh::seed();
    let mut random = Rng::with_seed(seed);
    for (index, of) in FeedType::ALL.into_iter().enumerate() {
        for unique in [false, true] {
            let size = of.size().unwrap_or([5, 40][usize::from(unique)]);
            let widths: &[u8] = [&[4, 3, 1][..], &[], &[7, 12]][index % 3];
            let schema = Schema::new(size, widths, Order::Sorted { of, unique });
            compare_for_long(schema.expect("sound"), 100, &mut random);
        }
    }
}

fn compare_for_long(schema: Schema, rounds: u32, random: &mut Rng) {
    let mut pair = Pair::new(schema);
    for round in 0..rounds {
        match random.u32(..16) {
            0..5 => pair.add(random),
            5..7 => pair.remove(random),
            7 if pair.model.len() > 500 => pair.remove_where(random),
            7..9 => pair.pop(random),
            9..11 => pair.shift(random),
            11 => pair.whole(random),
            _ => pair.mark(random),
        }
        pair.compare(random);
        if round % 10 == 0 {
            pair.check();
        }
    }
    pair.check();
}

/// Repeated insertions at one position first move the items on one side of it, then all items in
/// the leaf, and finally split the leaf.
#[test]
fn items_inserted_at_one_place_stay_in_order() {
    for (widths, place, more) in [(&[4, 3, 1][..], 40, 1), (&[], 250, 1), (&[32; 4], 3, 70)] {
        let schema = Schema::new(12, widths, Order::List).expect("sound");
        let pair = Pair::new(schema);
        let (mut expected, mut number) = (Vec::new(), 0_u32);
        for round in 0..500 {
            let (mut rows, mut some) = (Rows::new(&schema), Vec::new());
            for _ in 0..if round == 0 { 260 } else { more } {
                number += 1;
                let value = format!("{number:012}").into_bytes();
                let attributes = (0..widths.len()).map(|index| number & schema.greatest(index));
                let (attributes, hidden): (Vec<u32>, bool) =
                    (attributes.collect(), number % 5 == 0);
                rows.push(&value, &attributes, hidden);
                some.push(schema.item_row(&value, &attributes, hidden));
            }
            let at = if round == 0 { 0 } else { place };
            pair.write(|writer, key| writer.feed_add(0, key, at as i64, &rows));
            expected.splice(at..at, some);
        }
        let found = pair.rows();
        assert!(found.iter().skip(1).eq(&expected), "{widths:?} at {place}");
        let report = pair.store.check().expect("a walk");
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }
}

#[test]
fn range_by_value_requires_a_sorted_feed() {
    let pair = Pair::new(Schema::new(5, &[], Order::List).expect("sound"));
    let key = pair.store.key(b"feed");
    let range = FeedRange {
        from: 0,
        count: 1,
        reverse: false,
        attributes: false,
    };
    let read = pair.store.read(pair.store.shards_of([&key]), |reader| {
        let feed = reader.feed(0, &key)?.expect("a feed");
        let (all, limits) = (Selection::all(), (Bound::Unbounded, Bound::Unbounded));
        feed.range_between(reader.view(), &all, limits, range, &mut FoundItems::new())
    });
    assert!(matches!(read, Err(Error::WrongOrder)));
}

/// Inserts more items in a single call than one insertion step can process.
#[test]
fn large_insertions_stay_in_order_at_any_place() {
    let schema = Schema::new(4, &[4], Order::List).expect("sound");
    for schema in [schema, schema.with_index().expect("a list")] {
        for (there, position) in [
            (0, 0),
            (2, -1),
            (2, 0),
            (2, 1),
            (900, -1),
            (900, 0),
            (900, 450),
        ] {
            let pair = Pair::new(schema);
            let add = |position: i64, numbers: std::ops::Range<u32>| {
                let mut rows = Rows::new(&schema);
                for number in numbers {
                    rows.push(&number.to_be_bytes(), &[number % 16], false);
                }
                pair.write(|writer, key| writer.feed_add(0, key, position, &rows));
            };
            add(0, 0..there);
            add(position, 100_000..170_000);
            let at = u32::try_from(position).unwrap_or(there);
            let expected = (0..at).chain(100_000..170_000).chain(at..there);
            let rows = pair.rows();
            let found = rows.iter().skip(1).map(|row| row[1..5].to_vec());
            assert!(
                found.eq(expected.map(|number| number.to_be_bytes().to_vec())),
                "another order after {there} items, at {position}"
            );
            let report = pair.store.check().expect("a walk");
            assert!(report.problems.is_empty(), "{:?}", report.problems);
        }
    }
}

/// Inserts items one by one between existing items. Leaves must split at the right position and
/// stay in order.
#[test]
fn sorted_feed_grows_between_its_items() {
    let (of, unique) = (FeedType::Uint32, true);
    let schema = Schema::new(4, &[2], Order::Sorted { of, unique }).expect("sound");
    let pair = Pair::new(schema);
    for number in 0..4000_u32 {
        let mut rows = Rows::new(&schema);
        rows.push(&number.reverse_bits().to_le_bytes(), &[number % 4], false);
        pair.write(|writer, key| writer.feed_add(0, key, -1, &rows));
    }
    let mut values: Vec<u32> = (0..4000_u32).map(u32::reverse_bits).collect();
    values.sort_unstable();
    let rows = pair.rows();
    let found = rows.iter().skip(1).map(|row| row[1..5].to_vec());
    let values = values.iter().map(|value| value.to_le_bytes().to_vec());
    assert!(found.eq(values), "another order");
    let report = pair.store.check().expect("a walk");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[test]
fn no_payload_restores_an_unsorted_feed_as_sorted() {
    for unique in [false, true] {
        let order = Order::Sorted {
            of: FeedType::Float32,
            unique,
        };
        let schema = Schema::new(4, &[], order).expect("sound");
        let payload = |numbers: &[f32]| {
            let mut items = Ranges::new();
            items.push(&schema.row());
            for number in numbers {
                items.push(&schema.item_row(&number.to_le_bytes(), &[], false));
            }
            let encoding = undercroft_engine::Encoding::Feed;
            rdb::dump(ValueType::Feed, encoding, &items)
        };
        let is_taken = |numbers: &[f32]| rdb::restore(&payload(numbers), 1 << 20).is_ok();
        assert!(is_taken(&[-3.0, 0.0, 0.5, f32::INFINITY]));
        assert_eq!(is_taken(&[0.5, 0.5]), !unique);
        assert!(!is_taken(&[0.0, -3.0]) && !is_taken(&[0.5, 0.25, 1.0]));
        assert!(!is_taken(&[f32::NAN]) && !is_taken(&[-0.0, 1.0]));
    }
}

#[test]
fn rolled_back_transaction_leaves_the_feed_unchanged() {
    let seed = fresh::seed();
    let mut random = Rng::with_seed(seed);
    let mut pair = Pair::new(Schema::new(12, &[4, 3, 1], Order::List).expect("sound"));
    for _ in 0..60 {
        pair.add(&mut random);
        let before = pair.rows();
        let mut rows = Rows::new(&pair.schema);
        (0..random.usize(1..500)).for_each(|_| rows.push(b"another item", &[1, 2, 1], false));
        let key = pair.store.key(b"feed");
        let (count, at_left) = (random.u64(1..400), random.bool());
        let failed = pair.store.write(pair.store.shards_of([&key]), |writer| {
            let end = if at_left { End::Left } else { End::Right };
            writer.feed_pop(0, &key, end, count, &mut FoundItems::new())?;
            writer.feed_add(0, &key, if at_left { 0 } else { -1 }, &rows)?;
            writer.feed_pop(0, &key, end, 1, &mut FoundItems::new())?;
            writer.feed_add(0, &key, 7, &rows)?;
            Err::<(), Error>(Error::Overflow)
        });
        assert!(matches!(failed, Err(Error::Overflow)));
        assert_eq!(pair.rows(), before);
        pair.check();
    }
}

#[test]
fn no_payload_restores_an_unsound_feed() {
    let seed = fresh::seed();
    let mut random = Rng::with_seed(seed);
    let (of, unique) = (FeedType::Text, false);
    for order in [Order::List, Order::Sorted { of, unique }] {
        let schema = Schema::new(5, &[4, 12], order).expect("sound");
        restore_damaged(Pair::new(schema), &mut random);
    }
    let indexed = Schema::new(5, &[4, 12], Order::Queue).and_then(Schema::with_index);
    restore_damaged(Pair::new(indexed.expect("sound")), &mut random);
}

fn restore_damaged(mut pair: Pair, random: &mut Rng) {
    (0..40).for_each(|_| pair.add(random));
    let items = pair.rows();
    let mut restored = 0;
    for _ in 0..3000 {
        let mut rows: Vec<Vec<u8>> = items
            .iter()
            .take(random.usize(1..20))
            .map(<[u8]>::to_vec)
            .collect();
        for _ in 0..random.u32(1..3) {
            let row = random.usize(..rows.len());
            let row = &mut rows[row];
            match random.u32(..3) {
                0 => row.truncate(random.usize(..=row.len())),
                1 => row.push(random.u8(..)),
                _ if row.is_empty() => {}
                _ => {
                    let at = random.usize(..row.len());
                    row[at] ^= 1 << random.u32(..8);
                }
            }
        }
        let mut damaged = Ranges::new();
        rows.iter().for_each(|row| damaged.push(row));
        let encoding = undercroft_engine::Encoding::Feed;
        let payload = rdb::dump(ValueType::Feed, encoding, &damaged);
        let Ok((value_type, found)) = rdb::restore(&payload, 1 << 20) else {
            continue;
        };
        restored += 1;
        assert_eq!((value_type, &found), (ValueType::Feed, &damaged));
        let key = pair.store.key(b"feed");
        let put = pair.store.write(pair.store.shards_of([&key]), |writer| {
            writer.put_items(0, &key, value_type, &found, None, &Limits::DEFAULT)
        });
        put.expect("what was let through is sound");
        assert_eq!(pair.rows(), found);
    }
    assert!(restored > 100, "{restored}");
    let report = pair.store.check().expect("a walk");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[test]
fn million_items_take_little_more_than_their_data() {
    let pair = Pair::new(Schema::new(12, &[4, 3, 1], Order::List).expect("sound"));
    let before = pair.store.used_memory();
    for part in 0..400_u32 {
        let mut rows = Rows::new(&pair.schema);
        for number in 0..2500 {
            rows.push(
                format!("{:012}", part * 2500 + number).as_bytes(),
                &[3, 1, 0],
                false,
            );
        }
        pair.write(|writer, key| writer.feed_add(0, key, -1, &rows));
    }
    let used = (pair.store.used_memory() - before) as f64 / 1_000_000.0;
    assert!(used < 13.5, "{used} bytes an item");
}
