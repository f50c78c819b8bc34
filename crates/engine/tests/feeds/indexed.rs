//! Tests difficult cases of feeds with an index, such as many leaves, many equal values, and
//! repeated insertions at one position.

use fastrand::Rng;
use undercroft_engine::feeds::{FoundItems, Order, Rows, Schema, Seen, Selection};
use undercroft_engine::lists::End;
use undercroft_memory::work::{self, Work};
use undercroft_testkit::fresh;

use crate::pair::Pair;

fn schema() -> Schema {
    let schema = Schema::new(8, &[3], Order::List).and_then(Schema::with_index);
    schema.expect("a sound schema")
}

fn value(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

fn add(pair: &Pair, position: i64, numbers: impl IntoIterator<Item = u64>) {
    let mut rows = Rows::new(&pair.schema);
    for number in numbers {
        rows.push(&value(number), &[(number % 8) as u32], false);
    }
    pair.write(|writer, key| writer.feed_add(0, key, position, &rows));
}

fn position(pair: &Pair, number: u64) -> Option<u64> {
    pair.read(|feed, view| feed.position(view, &value(number), Seen::All))
}

fn check(pair: &Pair) {
    let report = pair.store.check().expect("a walk");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

/// The range of labels between two leaves is limited. Once no label is left, the surrounding leaves
/// get new labels.
#[test]
fn repeated_insertions_at_one_place_never_run_out_of_labels() {
    for place in [0, 1, 700, -2, -1] {
        let pair = Pair::new(schema());
        add(&pair, -1, 0..2_000);
        // A leaf contains about 440 items, so each step adds a leaf and halves the remaining range
        // of labels.
        for step in 0..150 {
            let numbers = 10_000 + step * 1000..;
            add(&pair, place, numbers.take(450));
        }
        check(&pair);
        for number in [0, 1_999, 10_000, 10_449, 159_000] {
            assert!(position(&pair, number).is_some(), "{number} at {place}");
        }
        assert_eq!(position(&pair, 9_999), None);
    }
}

#[test]
fn frequent_value_is_found_at_every_place() {
    let pair = Pair::new(schema());
    for part in 0..40 {
        add(&pair, -1, (0..500).map(|number| number % 5 * (1000 + part)));
    }
    assert_eq!(position(&pair, 0), Some(0));
    assert_eq!(position(&pair, 1039), Some(39 * 500 + 1));
    let hidden = pair.write(|writer, key| {
        let values: [&[u8]; 2] = [&value(0), &value(4 * 1039)];
        writer.feed_hide(0, key, &Selection::of_values(&values), true)
    });
    assert_eq!(hidden, 40 * 100 + 100);
    check(&pair);
    pair.write(|writer, key| writer.feed_move(0, key, &value(0), -1));
    let removed =
        pair.write(|writer, key| writer.feed_remove(0, key, &Selection::of_values(&[&value(0)])));
    assert_eq!(removed, 40 * 100);
    assert_eq!(position(&pair, 0), None);
    check(&pair);
}

/// Adds enough items for an index of several levels, individually and a thousand at a time, and
/// then removes them step by step.
#[test]
fn index_grows_and_shrinks_with_its_feed() {
    let seed = fresh::seed();
    let mut random = Rng::with_seed(seed);
    let pair = Pair::new(schema());
    let mut all: Vec<u64> = (0..120_000).collect();
    random.shuffle(&mut all);
    let (mut done, step) = (0, [1, 40, 9_000]);
    while done < all.len() {
        let count = step[random.usize(..3)].min(all.len() - done);
        let place = [0, -1, random.i64(0..=done as i64)][random.usize(..3)];
        add(&pair, place, all[done..done + count].iter().copied());
        done += count;
    }
    check(&pair);
    for _ in 0..500 {
        let number = all[random.usize(..all.len())];
        let moved = pair.write(|writer, key| writer.feed_move(0, key, &value(number), 0));
        assert!(moved && position(&pair, number) == Some(0), "{number}");
    }
    check(&pair);
    random.shuffle(&mut all);
    while !all.is_empty() {
        let some: Vec<[u8; 8]> = all.iter().rev().take(900).map(|&it| value(it)).collect();
        let values: Vec<&[u8]> = some.iter().map(<[u8; 8]>::as_slice).collect();
        let removed =
            pair.write(|writer, key| writer.feed_remove(0, key, &Selection::of_values(&values)));
        assert_eq!(removed as usize, values.len());
        all.truncate(all.len() - values.len());
        if all.len() % 20_000 < 900 {
            check(&pair);
        }
    }
    check(&pair);
}

/// Returns the amount of work for a feed of a hundred thousand items with `values` different
/// values.
fn work_of(values: u64, seed: u64) -> Work {
    let mut random = Rng::with_seed(seed);
    let pair = Pair::new(schema());
    // Prevent upkeep from shrinking the undo log. Otherwise, the change after that would run twice,
    // at a time that depends on the machine.
    pair.store.leave_upkeep_to_a_timer();
    let before = work::done();
    for part in 0..100 {
        let position = random.i64(0..=part * 1000);
        add(&pair, position, (0..1000).map(|_| random.u64(..values)));
    }
    for _ in 0..3_000 {
        let items = pair.read(|feed, _| Ok(feed.items()));
        add(&pair, random.i64(1..items as i64), [random.u64(..values)]);
    }
    for end in [End::Left, End::Right] {
        for count in [1, 30, 20_000] {
            pair.write(|writer, key| writer.feed_pop(0, key, end, count, &mut FoundItems::new()));
        }
    }
    let after = work::done();
    check(&pair);
    let all = Selection::all();
    assert_eq!(
        pair.write(|writer, key| writer.feed_remove(0, key, &all)),
        103_000 - 40_062
    );
    check(&pair);
    Work {
        logged: after.logged - before.logged,
        touched: after.touched - before.touched,
        ..Work::default()
    }
}

#[test]
fn equal_values_take_no_more_work_than_different_ones() {
    let seed = fresh::seed();
    let different = work_of(u64::MAX, seed);
    for values in [1, 2, 300] {
        let equal = work_of(values, seed);
        assert!(
            equal.logged < different.logged * 3 / 2,
            "{values}: {equal:?}, {different:?}"
        );
        assert!(
            equal.touched < different.touched * 3 / 2,
            "{values}: {equal:?}, {different:?}"
        );
    }
}
