//! Feeds against a plain list of items: random operations, schemas of every kind, feeds of every length.

use fastrand::Rng;
use undercroft_engine::{
    End, Error, Feed, FeedRange, Filter, Key, Limits, Order, Ranges, Rows, Schema, Seen, Selection,
    Store, Test, ValueType, View, Writer, rdb,
};
use undercroft_testkit::fresh;

type Item = (Vec<u8>, Vec<u32>, bool);

struct Pair {
    store: Store,
    schema: Schema,
    model: Vec<Item>,
    _directory: tempfile::TempDir,
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
    fn new(schema: Schema) -> Pair {
        let (directory, store) = fresh::store(2);
        let pair = Pair {
            store,
            schema,
            model: Vec::new(),
            _directory: directory,
        };
        assert!(pair.write(|writer, key| writer.feed_create(0, key, &schema)));
        assert!(!pair.write(|writer, key| writer.feed_create(0, key, &schema)));
        pair
    }

    fn write<R>(
        &self,
        body: impl Fn(&mut Writer<'_, '_>, &Key<'_>) -> Result<R, Error> + Sync,
    ) -> R {
        let key = self.store.key(b"feed");
        let shards = self.store.shards_of([&key]);
        let written = self.store.write(shards, |writer| body(writer, &key));
        written.expect("written")
    }

    fn read<R>(&self, body: impl Fn(&Feed, &View<'_>) -> Result<R, Error> + Sync) -> R {
        let key = self.store.key(b"feed");
        let read = self.store.read(self.store.shards_of([&key]), |reader| {
            body(&reader.feed(0, &key)?.expect("a feed"), reader.view())
        });
        read.expect("read")
    }

    /// An item whose value and attributes are likely to be there more than once.
    fn item(&self, random: &mut Rng) -> Item {
        let number = random.u32(..2000);
        let text = format!("{number:06}");
        let size = self.schema.value_size();
        let value: Vec<u8> = text.bytes().rev().cycle().take(size).collect();
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

    /// A filter, and what it means.
    fn filter(&self, random: &mut Rng) -> (Filter, Vec<(usize, Test)>) {
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

    fn add(&mut self, random: &mut Rng) {
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
        let at = match position {
            0.. => position.min(length),
            _ => (length + 1 + position).max(0),
        };
        self.model.splice(at as usize..at as usize, items);
        let added = self.write(|writer, key| writer.feed_add(0, key, position, &rows));
        assert_eq!(added, Some(self.model.len() as u64));
    }

    fn remove(&mut self, random: &mut Rng) {
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

    fn remove_where(&mut self, random: &mut Rng) {
        let (filter, tests) = self.filter(random);
        let seen = SEEN[random.usize(..3)];
        // Most of the time something is left.
        if tests.is_empty() && random.u32(..10) > 0 {
            return;
        }
        let before = self.model.len();
        self.model.retain(|item| !Pair::matches(seen, &tests, item));
        let selection = Selection::new(seen, filter);
        let removed = self.write(|writer, key| writer.feed_remove(0, key, &selection));
        assert_eq!(removed as usize, before - self.model.len());
    }

    fn pop(&mut self, random: &mut Rng) {
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
        let mut out = Ranges::new();
        let popped =
            self.store
                .write_into(self.store.shards_of([&key]), &mut out, |writer, out| {
                    writer.feed_pop(0, &key, end, count as u64, out)
                });
        assert!(popped.expect("written"));
        assert_eq!(out.iter().collect::<Vec<_>>(), expected);
    }

    fn shift(&mut self, random: &mut Rng) {
        let value = self.some_value(random);
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

    fn mark(&mut self, random: &mut Rng) {
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

    /// Takes the feed elsewhere and back.
    fn whole(&self, random: &mut Rng) {
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

    fn rows(&self) -> Ranges {
        let key = self.store.key(b"feed");
        let read = self.store.read(self.store.shards_of([&key]), |reader| {
            let mut items = Ranges::new();
            let entry = reader.find(0, &key)?.expect("a feed");
            entry.append_items(reader.view(), &mut items)?;
            Ok::<_, Error>(items)
        });
        read.expect("read")
    }

    fn compare(&self, random: &mut Rng) {
        let rows = self.model.iter();
        let rows = rows.map(|(value, own, hidden)| self.schema.item_row(value, own, *hidden));
        let rows: Vec<Vec<u8>> = std::iter::once(self.schema.row()).chain(rows).collect();
        assert!(
            self.rows().iter().eq(&rows),
            "other items than in the model"
        );
        let (filter, tests) = self.filter(random);
        let seen = SEEN[random.usize(..3)];
        let selection = Selection::new(seen, filter);
        let all: Vec<&Item> = self
            .model
            .iter()
            .filter(|item| Pair::matches(seen, &tests, item))
            .collect();
        let counted = self.read(|feed, view| feed.count_of(view, &selection));
        assert_eq!(counted as usize, all.len(), "{seen:?} {tests:?}");
        let length = all.len() as i64;
        let range = FeedRange {
            from: random.i64(-length - 3..=length + 3),
            count: [1, 3, 100, u64::MAX][random.usize(..4)],
            reverse: random.bool(),
            attributes: random.bool(),
        };
        let skip = if range.from < 0 {
            (length + range.from).max(0)
        } else {
            range.from
        };
        let mut expected = Vec::new();
        let items: Vec<&&Item> = if range.reverse {
            all.iter().rev().collect()
        } else {
            all.iter().collect()
        };
        for item in items
            .iter()
            .skip(skip as usize)
            .take(range.count.min(1 << 40) as usize)
        {
            expected.push(item.0.clone());
            if range.attributes {
                let texts: Vec<String> = item.1.iter().map(u32::to_string).collect();
                expected.push(texts.join(":").into_bytes());
            }
        }
        let key = self.store.key(b"feed");
        let mut out = Ranges::new();
        let read = self
            .store
            .read_into(self.store.shards_of([&key]), &mut out, |reader, out| {
                let feed = reader.feed(0, &key)?.expect("a feed");
                feed.range(reader.view(), &selection, range, out)
            });
        read.expect("read");
        assert_eq!(
            out.iter().collect::<Vec<_>>(),
            expected,
            "{range:?} {seen:?} {tests:?}"
        );
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

    fn check(&self) {
        let report = self.store.check().expect("a walk");
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        let info = self.read(|feed, view| feed.info(view));
        assert!(info.places >= self.model.len() as u64, "{info:?}");
        let hidden = self.model.iter().filter(|item| item.2).count() as u64;
        let counts = self.read(|feed, _| Ok((feed.items(), feed.hidden())));
        assert_eq!(counts, (self.model.len() as u64, hidden));
    }
}

#[test]
fn a_feed_is_what_a_list_of_items_would_be() {
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
        let mut pair = Pair::new(Schema::new(size, widths, Order::List).expect("sound"));
        for round in 0..300 {
            match random.u32(..16) {
                0..5 => pair.add(&mut random),
                5..7 => pair.remove(&mut random),
                7 if pair.model.len() > 500 => pair.remove_where(&mut random),
                7..9 => pair.pop(&mut random),
                9..11 => pair.shift(&mut random),
                11 => pair.whole(&mut random),
                _ => pair.mark(&mut random),
            }
            pair.compare(&mut random);
            if round % 10 == 0 {
                pair.check();
            }
        }
        pair.check();
    }
}

#[test]
fn a_transaction_that_is_undone_leaves_a_feed_as_it_was() {
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
            writer.feed_pop(0, &key, end, count, &mut Ranges::new())?;
            writer.feed_add(0, &key, if at_left { 0 } else { -1 }, &rows)?;
            writer.feed_pop(0, &key, end, 1, &mut Ranges::new())?;
            writer.feed_add(0, &key, 7, &rows)?;
            Err::<(), Error>(Error::Overflow)
        });
        assert!(matches!(failed, Err(Error::Overflow)));
        assert_eq!(pair.rows(), before);
        pair.check();
    }
}

#[test]
fn no_payload_makes_a_feed_that_is_not_sound() {
    let seed = fresh::seed();
    let mut random = Rng::with_seed(seed);
    let mut pair = Pair::new(Schema::new(5, &[4, 12], Order::List).expect("sound"));
    (0..40).for_each(|_| pair.add(&mut random));
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
fn a_million_items_take_little_more_than_their_bits() {
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
