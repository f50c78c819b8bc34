//! Measures a long list: memory, ranges, pushes and pops, and readers concurrent with a writer.

use std::hint::black_box;
use std::time::Instant;

use clap::{Args, ValueEnum};
use undercroft_engine::lists::End;
use undercroft_engine::{Ranges, Store};

use crate::fresh_store;

const KEY: &[u8] = b"list";
/// The number of items in a range.
const RANGE: i64 = 100;

/// The kind of items in the list.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Items {
    /// Strings of 12 bytes.
    Texts,
    /// Integers of 12 digits.
    Integers,
}

#[derive(Args)]
pub(crate) struct Work {
    /// The kind of items in the list.
    #[arg(long, value_enum, default_value_t = Items::Texts)]
    kind: Items,
    /// The number of items.
    #[arg(long, default_value_t = 10_000_000)]
    items: u64,
    /// The number of interleaved rounds of ranges, and of pushes and pops.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// The number of operations in a round.
    #[arg(long, default_value_t = 50_000)]
    count: u64,
}

/// A generator of pseudorandom numbers, the same in every run.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Returns the item with this number; the items are unordered and distinct.
fn item(kind: Items, number: u64) -> [u8; 12] {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let mut item = [0; 12];
    for place in item.iter_mut().rev() {
        *place = b'0' + (mixed % 10) as u8;
        mixed /= 10;
    }
    match kind {
        Items::Texts => item[11] = b'z',
        Items::Integers => item[0] = b'1' + (number % 9) as u8,
    }
    item
}

/// Pushes this number of items at the tail of the list.
pub(crate) fn fill(store: &Store, kind: Items, items: u64) {
    let mut number = 0;
    while number < items {
        let some = (number..items.min(number + 100)).map(|number| item(kind, number));
        let some: Vec<[u8; 12]> = some.collect();
        let values: Vec<&[u8]> = some.iter().map(<[u8; 12]>::as_slice).collect();
        number = store.list_push(0, KEY, End::Right, &values).expect("room");
    }
}

/// Pushes one item at the tail of the list.
pub(crate) fn push(store: &Store, number: u64) {
    let item = item(Items::Texts, number);
    store.list_push(0, KEY, End::Right, &[&item]).expect("room");
}

/// Reads the range that starts at a position into `out`.
pub(crate) fn range(store: &Store, start: i64, out: &mut Ranges) {
    out.clear();
    let stop = if start < 0 { -1 } else { start + RANGE - 1 };
    let found = store.list_range(0, KEY, start, stop, out);
    assert!(found.expect("readable") && out.len() == RANGE as usize);
    black_box(&out);
}

impl Work {
    pub(crate) fn run(&self) {
        let (_directory, store) = fresh_store(4 << 30);
        let granted = || {
            let sizes = store.statistics();
            sizes.reserved - sizes.free
        };
        let empty = granted();
        fill(&store, self.kind, self.items);
        let taken = granted() - empty;
        let mut out = Ranges::new();
        for number in [0, self.items / 2, self.items - 1] {
            out.clear();
            let at = number as i64;
            store
                .list_range(0, KEY, at, at, &mut out)
                .expect("readable");
            assert_eq!(out.get(0), item(self.kind, number), "item {number}");
        }
        let places = ["head", "middle", "random", "tail"];
        let mut found = places.map(|_| Vec::new());
        let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
        for _ in 0..self.rounds {
            for (place, times) in places.iter().zip(&mut found) {
                let start = Instant::now();
                for _ in 0..self.count {
                    let position = match *place {
                        "head" => 0,
                        "middle" => self.items as i64 / 2,
                        "random" => (chance.next() % (self.items - RANGE as u64)) as i64,
                        _ => -RANGE,
                    };
                    range(&store, position, &mut out);
                }
                times.push(start.elapsed().as_nanos() as f64 / self.count as f64);
            }
        }
        print!("{{\"items\": {}, \"granted\": {taken}", self.items);
        for (place, times) in places.iter().zip(&found) {
            print!(", \"{place}_ns\": {times:?}");
        }
        self.ends(&store);
        println!("}}");
    }

    /// Times pushes and pops of single items at both ends.
    fn ends(&self, store: &Store) {
        let mut out = Ranges::new();
        let sides = [("lpush", "lpop", End::Left), ("rpush", "rpop", End::Right)];
        for (push, pop, end) in sides {
            let (mut pushes, mut pops) = (Vec::new(), Vec::new());
            for _ in 0..self.rounds {
                let start = Instant::now();
                for number in 0..self.count {
                    let item = item(self.kind, number);
                    store.list_push(0, KEY, end, &[&item]).expect("room");
                }
                pushes.push(start.elapsed().as_nanos() as f64 / self.count as f64);
                let start = Instant::now();
                for number in (0..self.count).rev() {
                    out.clear();
                    store.list_pop(0, KEY, end, 1, &mut out).expect("readable");
                    debug_assert_eq!(out.get(0), item(self.kind, number));
                }
                pops.push(start.elapsed().as_nanos() as f64 / self.count as f64);
                assert_eq!(out.get(0), item(self.kind, 0));
            }
            print!(", \"{push}_ns\": {pushes:?}, \"{pop}_ns\": {pops:?}");
        }
    }
}
