//! A feed and a plain list of items, changed and read in the same ways.

use std::ops::Bound;

use fastrand::Rng;
use undercroft_engine::feeds::{
    Feed, FeedRange, FeedType, Filter, FoundItems, Order, Rows, Schema, Seen, Selection, Test,
    Untallied,
};
use undercroft_engine::lists::End;
use undercroft_engine::{Error, Key, Limits, Ranges, Store, ValueType, View, Writer, rdb};
use undercroft_testkit::fresh;

pub(crate) type Item = (Vec<u8>, Vec<u32>, bool);

/// A feed, together with the model that it must match.
pub(crate) struct Pair {
    pub(crate) store: Store,
    pub(crate) schema: Schema,
    pub(crate) model: Vec<Item>,
    pub(crate) directory: tempfile::TempDir,
}

const SEEN: [Seen; 3] = [Seen::Visible, Seen::Hidden, Seen::All];

fn sees(seen: Seen, item: &Item) -> bool {
    match seen {
        Seen::Visible => !item.2,
        Seen::Hidden => item.2,
        Seen::All => true,
    }
}

fn holds(test: &Test, attribute: u32) -> bool {
    match test {
        Test::OneOf(values) => values.contains(&attribute),
        Test::NoneOf(values) => !values.contains(&attribute),
        Test::Less(limit) => attribute < *limit,
        Test::Greater(limit) => attribute > *limit,
    }
}

impl Pair {
    pub(crate) fn new(schema: Schema) -> Pair {
        let (directory, store) = fresh::store(2);
        let pair = Pair {
            store,
            schema,
            model: Vec::new(),
            directory,
        };
        assert!(pair.write(|writer, key| writer.feed_create(0, key, &schema)));
        assert!(!pair.write(|writer, key| writer.feed_create(0, key, &schema)));
        pair
    }

    pub(crate) fn write<R>(
        &self,
        body: impl Fn(&mut Writer<'_, '_>, &Key<'_>) -> Result<R, Error> + Sync,
    ) -> R {
        let key = self.store.key(b"feed");
        let shards = self.store.shards_of([&key]);
        let written = self.store.write(shards, |writer| body(writer, &key));
        written.expect("written")
    }

    pub(crate) fn read<R>(&self, body: impl Fn(&Feed, &View<'_>) -> Result<R, Error> + Sync) -> R {
        let key = self.store.key(b"feed");
        let read = self.store.read(self.store.shards_of([&key]), |reader| {
            body(&reader.feed(0, &key)?.expect("a feed"), reader.view())
        });
        read.expect("read")
    }

    /// Returns a random item. Its value and its attributes are likely to occur more than once.
    pub(crate) fn item(&self, random: &mut Rng) -> Item {
        let number = random.u32(..2000);
        let value = value(&self.schema, number);
        let attributes = (0..self.schema.widths().len()).map(|index| {
            let greatest = self.schema.greatest(index);
            match random.u32(..10) {
                0 => greatest,
                1 => random.u32(..=greatest),
                _ => random.u32(..4).min(greatest),
            }
        });
        (value, attributes.collect(), random.u32(..6) == 0)
    }

    fn some_value(&self, random: &mut Rng) -> Vec<u8> {
        match self.model.len() {
            0 => self.item(random).0,
            length if random.u32(..8) > 0 => self.model[random.usize(..length)].0.clone(),
            _ => self.item(random).0,
        }
    }

    /// Returns a random filter, both as an object for the feed and as a list of tests for the
    /// model.
    pub(crate) fn filter(&self, random: &mut Rng) -> (Filter, Vec<(usize, Test)>) {
        let (mut filter, mut tests) = (Filter::default(), Vec::new());
        for index in 0..self.schema.widths().len() {
            if random.u32(..3) > 0 {
                continue;
            }
            let value = |random: &mut Rng| self.item(random).1[index];
            let test = match random.u32(..5) {
                0 => Test::Less(value(random)),
                1 => Test::Greater(value(random)),
                2 => Test::NoneOf(vec![value(random)]),
                3 => Test::OneOf(vec![value(random), value(random)]),
                _ => Test::OneOf(vec![value(random)]),
            };
            filter.add(&self.schema, index, test.clone());
            tests.push((index, test));
        }
        (filter, tests)
    }

    fn matches(seen: Seen, tests: &[(usize, Test)], item: &Item) -> bool {
        sees(seen, item)
            && tests
                .iter()
                .all(|(index, test)| holds(test, item.1[*index]))
    }

    pub(crate) fn add(&mut self, random: &mut Rng) {
        let most = [2, 3, 40, 700][random.usize(..4)];
        let items: Vec<Item> = (0..random.usize(..most))
            .map(|_| self.item(random))
            .collect();
        let mut rows = Rows::new(&self.schema);
        for (value, attributes, hidden) in &items {
            rows.push(value, attributes, *hidden);
        }
        let length = self.model.len() as i64;
        let position = [0, -1, length + 3, random.i64(-length - 3..=length)][random.usize(..4)];
        if let Order::Sorted { of, unique } = self.schema.order() {
            self.add_sorted(of, unique, items);
        } else {
            let at = match position {
                0.. => position.min(length),
                _ => (length + 1 + position).max(0),
            };
            self.model.splice(at as usize..at as usize, items);
        }
        let added = self.write(|writer, key| writer.feed_add(0, key, position, &rows));
        assert_eq!(added, Some(self.model.len() as u64));
    }

    /// Adds items to the model one by one, each after the last item that is less than or equal to
    /// it.
    fn add_sorted(&mut self, of: FeedType, unique: bool, items: Vec<Item>) {
        for item in items {
            let key = key(of, &item.0);
            let is_before = |other: &Item| self::key(of, &other.0) <= key;
            let at = self.model.partition_point(is_before);
            if !unique || at == 0 || self.model[at - 1].0 != item.0 {
                self.model.insert(at, item);
            }
        }
    }

    pub(crate) fn remove(&mut self, random: &mut Rng) {
        let values: Vec<Vec<u8>> = (0..random.usize(1..4))
            .map(|_| self.some_value(random))
            .collect();
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let before = self.model.len();
        self.model
            .retain(|item| !values.contains(&item.0.as_slice()));
        let removed =
            self.write(|writer, key| writer.feed_remove(0, key, &Selection::of_values(&values)));
        assert_eq!(removed as usize, before - self.model.len());
    }

    pub(crate) fn remove_where(&mut self, random: &mut Rng) {
        let (filter, tests) = self.filter(random);
        let seen = SEEN[random.usize(..3)];
        // Usually keep some of the items.
        if tests.is_empty() && random.u32(..10) > 0 {
            return;
        }
        let before = self.model.len();
        self.model.retain(|item| !Pair::matches(seen, &tests, item));
        let selection = Selection::new(seen, filter);
        let removed = self.write(|writer, key| writer.feed_remove(0, key, &selection));
        assert_eq!(removed as usize, before - self.model.len());
    }

    pub(crate) fn pop(&mut self, random: &mut Rng) {
        let end = [End::Left, End::Right][random.usize(..2)];
        let most = [3, 400][random.usize(..2)];
        let count = random.usize(..most);
        let mut visible: Vec<usize> = (0..self.model.len())
            .filter(|&at| !self.model[at].2)
            .collect();
        if end == End::Right {
            visible.reverse();
        }
        visible.truncate(count);
        let expected: Vec<Vec<u8>> = visible.iter().map(|&at| self.model[at].0.clone()).collect();
        visible.sort_unstable();
        for &at in visible.iter().rev() {
            self.model.remove(at);
        }
        let key = self.store.key(b"feed");
        let mut out = FoundItems::new();
        let popped =
            self.store
                .write_into(self.store.shards_of([&key]), &mut out, |writer, out| {
                    writer.feed_pop(0, &key, end, count as u64, out)
                });
        assert!(popped.expect("written"));
        assert_eq!(texts(&out, false), expected);
    }

    pub(crate) fn shift(&mut self, random: &mut Rng) {
        let value = self.some_value(random);
        if self.schema.order().sorted_by().is_some() {
            let key = self.store.key(b"feed");
            let moved = self.store.write(self.store.shards_of([&key]), |writer| {
                writer.feed_move(0, &key, &value, 0)
            });
            assert!(matches!(moved, Err(Error::WrongOrder)));
            return;
        }
        let length = self.model.len() as i64;
        let position = [0, -1, random.i64(-length - 2..=length)][random.usize(..3)];
        let at = self.model.iter().position(|item| item.0 == value);
        if let Some(at) = at {
            let item = self.model.remove(at);
            let to = match position {
                0.. => position.min(length - 1),
                _ => (length + position).max(0),
            };
            self.model.insert(to as usize, item);
        }
        let moved = self.write(|writer, key| writer.feed_move(0, key, &value, position));
        assert_eq!(moved, at.is_some());
    }

    pub(crate) fn mark(&mut self, random: &mut Rng) {
        let value = self.some_value(random);
        let items = self.model.iter_mut().filter(|item| item.0 == value);
        if random.bool() {
            let hide = random.bool();
            let changed = items.map(|item| std::mem::replace(&mut item.2, hide) != hide);
            let changed = changed.filter(|changed| *changed).count();
            let hidden = self.write(|writer, key| {
                writer.feed_hide(0, key, &Selection::of_values(&[&value]), hide)
            });
            assert_eq!(hidden as usize, changed);
            return;
        }
        let greatest: Vec<u32> = (0..self.schema.widths().len())
            .map(|at| self.schema.greatest(at))
            .collect();
        let attributes: Vec<Option<u32>> = greatest
            .iter()
            .map(|&most| random.bool().then(|| random.u32(..=most)))
            .collect();
        let mut changed = 0;
        for item in items {
            changed += 1;
            for (old, new) in item.1.iter_mut().zip(&attributes) {
                *old = new.unwrap_or(*old);
            }
        }
        let set = self.write(|writer, key| writer.feed_set_attributes(0, key, &value, &attributes));
        assert_eq!(set, changed);
    }

    /// Performs an operation on the entire feed, such as moving it to another key and back.
    pub(crate) fn whole(&self, random: &mut Rng) {
        match random.u32(..3) {
            0 => {
                let other = self.store.key(b"another feed");
                let key = self.store.key(b"feed");
                let both = self.store.shards_of([&key, &other]);
                let done = self.store.write(both, |writer| {
                    writer.copy((0, &key), (0, &other))?;
                    writer.remove(0, &key)?;
                    writer.rename(0, &other, &key)
                });
                assert!(done.expect("written"));
            }
            1 => {
                let key = self.store.key(b"feed");
                let items = self.rows();
                let (value_type, encoding) = (ValueType::Feed, undercroft_engine::Encoding::Feed);
                let payload = rdb::dump(value_type, encoding, &items);
                let (found, items) = rdb::restore(&payload, 1 << 20).expect("our own payload");
                assert_eq!(found, value_type);
                let put = self.store.write(self.store.shards_of([&key]), |writer| {
                    writer.put_items(0, &key, found, &items, None, &Limits::DEFAULT)
                });
                put.expect("written");
            }
            _ => assert!(self.write(|writer, key| writer.feed_compact(0, key))),
        }
    }

    pub(crate) fn rows(&self) -> Ranges {
        let key = self.store.key(b"feed");
        let read = self.store.read(self.store.shards_of([&key]), |reader| {
            let mut items = Ranges::new();
            let entry = reader.find(0, &key)?.expect("a feed");
            entry.append_items(reader.view(), &mut items)?;
            Ok::<_, Error>(items)
        });
        read.expect("read")
    }

    pub(crate) fn compare(&self, random: &mut Rng) {
        let rows = self.model.iter();
        let rows = rows.map(|(value, own, hidden)| self.schema.item_row(value, own, *hidden));
        let rows: Vec<Vec<u8>> = std::iter::once(self.schema.row()).chain(rows).collect();
        assert!(
            self.rows().iter().eq(&rows),
            "other items than in the model"
        );
        self.compare_range(random);
        if self.schema.order().sorted_by().is_some() {
            self.compare_between(random);
        }
        let seen = SEEN[random.usize(..3)];
        let value = self.some_value(random);
        let first = self.model.iter().position(|item| item.0 == value);
        let position = first.filter(|&at| sees(seen, &self.model[at]));
        let position = position.map(|at| {
            self.model[..at]
                .iter()
                .filter(|item| sees(seen, item))
                .count()
        });
        let found = self.read(|feed, view| feed.position(view, &value, seen));
        assert_eq!(found.map(|at| at as usize), position);
    }

    /// Returns the number of items that a query sees, and whether any tally (cached count) was
    /// missing. Creates the missing tallies.
    pub(crate) fn count(&self, selection: &Selection<'_>) -> (u64, bool) {
        let key = self.store.key(b"feed");
        let (shards, mut untallied) = (self.store.shards_of([&key]), Untallied::default());
        let counted = self
            .store
            .read_into(shards, &mut untallied, |reader, untallied| {
                let feed = reader.feed(0, &key)?.expect("a feed");
                feed.count_of(reader.view(), selection, untallied)
            });
        self.store.access().make_tallies(0, &key, &untallied);
        (counted.expect("read"), !untallied.is_empty())
    }

    /// Compares a range of items, selected by position, with the model.
    pub(crate) fn compare_range(&self, random: &mut Rng) {
        let (filter, tests) = self.filter(random);
        let seen = SEEN[random.usize(..3)];
        let selection = Selection::new(seen, filter);
        let all: Vec<&Item> = self
            .model
            .iter()
            .filter(|item| Pair::matches(seen, &tests, item))
            .collect();
        let (counted, _) = self.count(&selection);
        assert_eq!(counted as usize, all.len(), "{seen:?} {tests:?}");
        let range = some_range(random, all.len());
        let expected = expected(&all, range);
        let found = self.read_range(range.attributes, |feed, view, out| {
            feed.range(view, &selection, range, out)
        });
        assert_eq!(found, expected, "{range:?} {seen:?} {tests:?}");
    }

    /// Compares a range of items, selected by value, with the model.
    fn compare_between(&self, random: &mut Rng) {
        let of = self.schema.order().sorted_by().expect("a sorted feed");
        let (filter, tests) = self.filter(random);
        let seen = SEEN[random.usize(..3)];
        let selection = Selection::new(seen, filter);
        let mut limit = || {
            let value = self.some_value(random);
            match random.u32(..5) {
                0 => Bound::Unbounded,
                1 | 2 => Bound::Included(value),
                _ => Bound::Excluded(value),
            }
        };
        let (low, high) = (limit(), limit());
        let lies_between = |item: &Item| {
            let item = key(of, &item.0);
            let above = match &low {
                Bound::Unbounded => true,
                Bound::Included(low) => item >= key(of, low),
                Bound::Excluded(low) => item > key(of, low),
            };
            above
                && match &high {
                    Bound::Unbounded => true,
                    Bound::Included(high) => item <= key(of, high),
                    Bound::Excluded(high) => item < key(of, high),
                }
        };
        let all: Vec<&Item> = self
            .model
            .iter()
            .filter(|item| lies_between(item) && Pair::matches(seen, &tests, item))
            .collect();
        let range = some_range(random, all.len());
        let limits = (
            low.as_ref().map(Vec::as_slice),
            high.as_ref().map(Vec::as_slice),
        );
        let found = self.read_range(range.attributes, |feed, view, out| {
            feed.range_between(view, &selection, limits, range, out)
        });
        let what = format!("{low:?} {high:?} {range:?} {seen:?} {tests:?}");
        assert_eq!(found, expected(&all, range), "{what}");
    }

    fn read_range(
        &self,
        attributes: bool,
        body: impl Fn(&Feed, &View<'_>, &mut FoundItems) -> Result<(), Error> + Sync,
    ) -> Vec<Vec<u8>> {
        let key = self.store.key(b"feed");
        let mut out = FoundItems::new();
        let read = self
            .store
            .read_into(self.store.shards_of([&key]), &mut out, |reader, out| {
                body(&reader.feed(0, &key)?.expect("a feed"), reader.view(), out)
            });
        read.expect("read");
        texts(&out, attributes)
    }

    pub(crate) fn check(&self) {
        let report = self.store.check().expect("a walk");
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        let info = self.read(|feed, view| feed.info(view));
        assert!(info.places >= self.model.len() as u64, "{info:?}");
        let hidden = self.model.iter().filter(|item| item.2).count() as u64;
        let counts = self.read(|feed, _| Ok((feed.items(), feed.hidden())));
        assert_eq!(counts, (self.model.len() as u64, hidden));
    }
}

/// Returns items in the form that a command's reply contains.
fn texts(items: &FoundItems, attributes: bool) -> Vec<Vec<u8>> {
    let mut texts = Ranges::new();
    items.append_to(attributes, &mut texts);
    texts.iter().map(<[u8]>::to_vec).collect()
}

fn some_range(random: &mut Rng, length: usize) -> FeedRange {
    let length = length as i64;
    FeedRange {
        from: random.i64(-length - 3..=length + 3),
        count: [1, 3, 100, u64::MAX][random.usize(..4)],
        reverse: random.bool(),
        attributes: random.bool(),
    }
}

/// Returns the items that a query must return for a range, given all items that it sees.
fn expected(all: &[&Item], range: FeedRange) -> Vec<Vec<u8>> {
    let skip = if range.from < 0 {
        (all.len() as i64 + range.from).max(0)
    } else {
        range.from
    };
    let mut items = all.to_vec();
    if range.reverse {
        items.reverse();
    }
    let items = items.into_iter().skip(skip as usize);
    let mut expected = Vec::new();
    for item in items.take(range.count.min(1 << 40) as usize) {
        expected.push(item.0.clone());
        if range.attributes {
            let texts: Vec<String> = item.1.iter().map(u32::to_string).collect();
            expected.push(texts.join(":").into_bytes());
        }
    }
    expected
}

/// Returns the value with the given number, one of two thousand possible values.
fn value(schema: &Schema, number: u32) -> Vec<u8> {
    let (number, size) = (i64::from(number), schema.value_size());
    match schema.order().sorted_by() {
        Some(FeedType::Int32) => (number as i32 - 1000).to_le_bytes().to_vec(),
        Some(FeedType::Uint32) => (number as u32).rotate_right(2).to_le_bytes().to_vec(),
        Some(FeedType::Int64) => ((number - 1000) << 50).to_le_bytes().to_vec(),
        Some(FeedType::Uint64) => (number as u64).rotate_right(9).to_le_bytes().to_vec(),
        Some(FeedType::Float32) => ((number - 1000) as f32 / 16.0).to_le_bytes().to_vec(),
        Some(FeedType::Float64) => ((number - 1000) as f64 / 7.0).to_le_bytes().to_vec(),
        Some(FeedType::Text) => {
            let mut text = number.to_string().into_bytes();
            text.resize(size, 0);
            text
        }
        Some(FeedType::Bytes) | None => {
            let text = format!("{number:06}");
            text.bytes().rev().cycle().take(size).collect()
        }
    }
}

/// The sort key of a value, computed in a straightforward way.
#[derive(Debug, PartialEq, PartialOrd)]
enum Rank {
    Integer(i128),
    Float(f64),
    Text(Vec<u8>),
}

fn key(of: FeedType, value: &[u8]) -> Rank {
    let mut bytes = [0; 8];
    bytes[..value.len().min(8)].copy_from_slice(&value[..value.len().min(8)]);
    let word = u64::from_le_bytes(bytes);
    match of {
        FeedType::Int32 => Rank::Integer((word as i32).into()),
        FeedType::Int64 => Rank::Integer((word as i64).into()),
        FeedType::Uint32 | FeedType::Uint64 => Rank::Integer(word.into()),
        FeedType::Float32 => Rank::Float(f32::from_bits(word as u32).into()),
        FeedType::Float64 => Rank::Float(f64::from_bits(word)),
        FeedType::Bytes => Rank::Text(value.to_vec()),
        FeedType::Text => {
            let text = String::from_utf8_lossy(value);
            Rank::Text(text.trim_end_matches('\0').into())
        }
    }
}
