//! Tests the queries that use tallies (cached counts in tree nodes) and the changes that discard
//! tallies.

use fastrand::Rng;
use undercroft_engine::feeds::{Filter, Order, Rows, Schema, Seen, Selection, Test};
use undercroft_testkit::fresh;

use super::pair::Pair;

/// Creates a feed that is large enough for nodes above the lowest level to have a tally.
fn large(schema: Schema, items: usize, random: &mut Rng) -> Pair {
    let mut pair = Pair::new(schema);
    pair.model = (0..items).map(|_| pair.item(random)).collect();
    let mut rows = Rows::new(&schema);
    for (value, attributes, hidden) in &pair.model {
        rows.push(value, attributes, *hidden);
    }
    let added = pair.write(|writer, key| writer.feed_add(0, key, -1, &rows));
    assert_eq!(added, Some(items as u64));
    pair
}

fn selection(schema: &Schema, attribute: usize, test: Test) -> Selection<'static> {
    let mut filter = Filter::default();
    filter.add(schema, attribute, test);
    Selection::new(Seen::Visible, filter)
}

#[test]
fn counts_of_a_large_feed_stay_correct_after_any_change() {
    let seed = fresh::seed();
    let mut random = Rng::with_seed(seed);
    let schema = Schema::new(40, &[4, 3, 1, 9], Order::List).expect("sound");
    let mut pair = large(schema, 170_000, &mut random);
    for round in 0..80 {
        pair.compare_range(&mut random);
        match random.u32(..9) {
            0 | 1 => pair.add(&mut random),
            2 => pair.remove(&mut random),
            3 => pair.pop(&mut random),
            4 => pair.shift(&mut random),
            5 if round % 20 == 0 => pair.whole(&mut random),
            _ => pair.mark(&mut random),
        }
        if round % 10 == 0 {
            pair.check();
        }
    }
    pair.check();
}

#[test]
fn query_misses_its_tallies_only_once() {
    let mut random = Rng::with_seed(fresh::seed());
    let schema = Schema::new(40, &[4, 3, 1], Order::List).expect("sound");
    let mut pair = large(schema, 20_000, &mut random);
    let ours = selection(&schema, 0, Test::Less(5));
    let expected = |pair: &Pair| {
        let seen = pair.model.iter().filter(|item| !item.2 && item.1[0] < 5);
        seen.count() as u64
    };
    assert_eq!(pair.count(&ours), (expected(&pair), true));
    assert_eq!(pair.count(&ours), (expected(&pair), false));
    // The existing tallies also answer another query on a single attribute.
    let (_, missed) = pair.count(&selection(&schema, 1, Test::NoneOf(vec![2])));
    assert!(!missed);
    // Tallies cannot answer a query that tests two attributes of the same item.
    let mut both = Filter::default();
    both.add(&schema, 0, Test::Less(5));
    both.add(&schema, 1, Test::OneOf(vec![1]));
    let seen = |item: &&super::pair::Item| !item.2 && item.1[0] < 5 && item.1[1] == 1;
    let counted = pair.count(&Selection::new(Seen::Visible, both));
    assert_eq!(counted.0, pair.model.iter().filter(seen).count() as u64);
    pair.check();
    for change in [Pair::add, Pair::mark, Pair::shift, Pair::pop, Pair::remove] {
        for _ in 0..5 {
            change(&mut pair, &mut random);
            // If only a few tallies are missing, one in eight queries creates them.
            for _ in 0..8 {
                assert_eq!(pair.count(&ours).0, expected(&pair));
            }
            assert_eq!(pair.count(&ours), (expected(&pair), false));
        }
        pair.check();
    }
}
