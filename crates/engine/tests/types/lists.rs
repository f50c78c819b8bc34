//! Compares lists with a plain sequence by running random operations on items of every kind and
//! size, in lists of every length.

use std::collections::VecDeque;

use fastrand::Rng;
use undercroft_engine::lists::{End, Inserted, Positions};
use undercroft_engine::{Error, Options, Ranges, Store};

type Model = VecDeque<Vec<u8>>;

struct Pair {
    store: Store,
    model: Vec<Model>,
    _directory: tempfile::TempDir,
}

const KEYS: [&[u8]; 3] = [b"one", b"two", b"three"];

impl Pair {
    fn new() -> Pair {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let path = directory.path().join("store");
        let options = Options {
            shards: Some(2),
            ..Options::default()
        };
        Pair {
            store: Store::create(&path, &options).expect("a new store"),
            model: vec![Model::new(); KEYS.len()],
            _directory: directory,
        }
    }

    fn range(&self, key: usize, start: i64, stop: i64) -> Vec<Vec<u8>> {
        let mut out = Ranges::new();
        let read = (self.store).list_range(0, KEYS[key], start, stop, &mut out);
        read.expect("read");
        out.iter().map(<[u8]>::to_vec).collect()
    }

    fn write<R>(
        &self,
        key: usize,
        body: impl Fn(
            &mut undercroft_engine::Writer<'_, '_>,
            &undercroft_engine::Key<'_>,
        ) -> Result<R, Error>
        + Sync,
    ) -> R {
        let key = self.store.key(KEYS[key]);
        let written = self
            .store
            .write(self.store.shards_of([&key]), |writer| body(writer, &key));
        written.expect("written")
    }

    fn rename(&mut self, key: usize, other: usize) {
        let (from, to) = (self.store.key(KEYS[key]), self.store.key(KEYS[other]));
        let renamed = self
            .store
            .write(self.store.shards_of([&from, &to]), |writer| {
                writer.rename(0, &from, &to)
            });
        assert_eq!(renamed.expect("written"), !self.model[key].is_empty());
        if !self.model[key].is_empty() && key != other {
            self.model[other] = std::mem::take(&mut self.model[key]);
        }
    }

    fn compare(&self) {
        for (key, model) in self.model.iter().enumerate() {
            let items = self.range(key, 0, -1);
            assert_eq!(items.len(), model.len(), "length of {key}");
            assert!(items.iter().eq(model.iter()), "items of {key}");
            let key = self.store.key(KEYS[key]);
            let there = self.store.exists(0, &[key.bytes()]).expect("read");
            assert_eq!(there, u64::from(!model.is_empty()));
        }
        let report = self.store.check().expect("checked");
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }
}

/// The kind of items in a test run.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Fixed,
    Integers,
    Counting,
    Texts,
    Long,
    Mixed,
    Empty,
}

fn item(random: &mut Rng, kind: Kind) -> Vec<u8> {
    match kind {
        Kind::Fixed => format!("{:012}x", random.u64(..50)).into_bytes(),
        Kind::Integers => (random.i64(..) >> random.u32(0..64))
            .to_string()
            .into_bytes(),
        Kind::Counting => random
            .u32(100_000_000..100_000_400)
            .to_string()
            .into_bytes(),
        Kind::Texts => vec![b'a' + random.u8(..4); random.usize(..40)],
        Kind::Long => vec![b'l'; random.usize(250..1500)],
        Kind::Empty => Vec::new(),
        Kind::Mixed => {
            let kinds = [
                Kind::Fixed,
                Kind::Integers,
                Kind::Texts,
                Kind::Long,
                Kind::Empty,
            ];
            let kind = kinds[random.usize(..kinds.len())];
            item(random, kind)
        }
    }
}

fn end(random: &mut Rng) -> End {
    if random.bool() { End::Left } else { End::Right }
}

fn run(seed: u64, kind: Kind, steps: usize, growth: usize) {
    let mut random = Rng::with_seed(seed);
    println!("seed {seed}, {kind:?}, growth {growth}");
    let mut pair = Pair::new();
    for step in 0..steps {
        let key = random.usize(..KEYS.len());
        let length = pair.model[key].len();
        let position = |random: &mut Rng| random.usize(..length + 2) as i64 - (length / 2) as i64;
        match random.u32(..18) {
            0..5 => {
                let count = random.usize(1..=growth);
                let items: Vec<Vec<u8>> = (0..count).map(|_| item(&mut random, kind)).collect();
                let values: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
                let end = end(&mut random);
                let pushed = pair.write(key, |writer, key| {
                    writer.list_push(0, key, end, &values, false)
                });
                for item in items {
                    match end {
                        End::Left => pair.model[key].push_front(item),
                        End::Right => pair.model[key].push_back(item),
                    }
                }
                assert_eq!(pushed, pair.model[key].len() as u64);
            }
            5..8 => {
                let count = random.usize(..=growth);
                let end = end(&mut random);
                let out = pair.write(key, |writer, key| {
                    let mut out = Ranges::new();
                    writer.list_pop(0, key, end, count as u64, &mut out)?;
                    Ok(out)
                });
                for popped in out.iter() {
                    let expected = match end {
                        End::Left => pair.model[key].pop_front(),
                        End::Right => pair.model[key].pop_back(),
                    };
                    assert_eq!(expected.as_deref(), Some(popped));
                }
                assert_eq!(out.len(), count.min(length));
            }
            8 => {
                let (index, value) = (position(&mut random), item(&mut random, kind));
                let set = pair.write(key, |writer, key| writer.list_set(0, key, index, &value));
                let at = if index < 0 {
                    index + length as i64
                } else {
                    index
                };
                let there = (0..length as i64).contains(&at);
                assert_eq!(set, (length > 0, there), "{index} of {length}");
                if there {
                    pair.model[key][at as usize] = value;
                }
            }
            9..12 => {
                let pivot = if length > 0 && random.u32(..10) > 0 {
                    pair.model[key][random.usize(..length)].clone()
                } else {
                    b"nowhere".to_vec()
                };
                let (before, value) = (random.bool(), item(&mut random, kind));
                let inserted = pair.write(key, |writer, key| {
                    writer.list_insert(0, key, before, &pivot, &value)
                });
                let found = pair.model[key].iter().position(|item| *item == pivot);
                match found {
                    Some(index) => {
                        let index = index + usize::from(!before);
                        pair.model[key].insert(index, value);
                        assert_eq!(inserted, Inserted::Length(length as u64 + 1));
                    }
                    None if length == 0 => assert_eq!(inserted, Inserted::NoKey),
                    None => assert_eq!(inserted, Inserted::NoPivot),
                }
            }
            12 if length > 0 => {
                let text = pair.model[key][random.usize(..length)].clone();
                let count = random.i64(-3..=3);
                let removed =
                    pair.write(key, |writer, key| writer.list_remove(0, key, count, &text));
                let mut places: Vec<usize> = (0..length)
                    .filter(|&place| pair.model[key][place] == text)
                    .collect();
                if count < 0 {
                    places.reverse();
                }
                if count != 0 {
                    places.truncate(count.unsigned_abs() as usize);
                }
                assert_eq!(removed, places.len() as u64);
                places.sort_unstable();
                for place in places.into_iter().rev() {
                    pair.model[key].remove(place);
                }
            }
            13 if random.u32(..4) == 0 => {
                let (start, stop) = (random.usize(..=length / 3), random.usize(..=length / 3));
                let stop = -1 - stop as i64;
                pair.write(key, |writer, key| {
                    writer.list_trim(0, key, start as i64, stop)
                });
                let keep = (length as i64 + stop + 1).max(start as i64) as usize;
                pair.model[key].truncate(keep.min(length));
                let kept = pair.model[key].len();
                pair.model[key].drain(..start.min(kept));
            }
            14 => {
                let other = random.usize(..KEYS.len());
                let (from_end, to_end) = (end(&mut random), end(&mut random));
                let (from, to) = (pair.store.key(KEYS[key]), pair.store.key(KEYS[other]));
                let mut out = Ranges::new();
                let shards = pair.store.shards_of([&from, &to]);
                let moved = pair.store.write_into(shards, &mut out, |writer, out| {
                    writer.list_move(0, (&from, from_end), (&to, to_end), out)
                });
                assert_eq!(moved.expect("written"), length > 0);
                let item = match from_end {
                    End::Left => pair.model[key].pop_front(),
                    End::Right => pair.model[key].pop_back(),
                };
                if let Some(item) = item {
                    assert_eq!(out.get(0), item);
                    match to_end {
                        End::Left => pair.model[other].push_front(item),
                        End::Right => pair.model[other].push_back(item),
                    }
                }
            }
            15 if random.u32(..3) == 0 => {
                let other = random.usize(..KEYS.len());
                pair.rename(key, other);
            }
            16 => {
                pair.store.sweep(4).expect("swept");
            }
            _ => {
                let (start, stop) = (position(&mut random), position(&mut random));
                let items = pair.range(key, start, stop);
                let count = length as i64;
                let clamp = |index: i64| if index < 0 { index + count } else { index };
                let (from, to) = (clamp(start).max(0), clamp(stop).min(count - 1));
                let wanted = (to - from + 1).max(0) as usize;
                let expected: Vec<&Vec<u8>> = pair.model[key]
                    .iter()
                    .skip(from as usize)
                    .take(wanted)
                    .collect();
                assert!(items.iter().eq(expected), "{start} {stop} of {length}");
                positions(&pair, key, &mut random);
            }
        }
        if step % 64 == 0 {
            pair.compare();
        }
    }
    for key in 0..KEYS.len() {
        pair.rename(key, (key + 1) % KEYS.len());
        pair.compare();
    }
    let used = pair.store.used_memory();
    pair.store.delete(0, &KEYS).expect("deleted");
    pair.model.iter_mut().for_each(VecDeque::clear);
    pair.compare();
    while pair.store.sweep(64).expect("swept") > 0 {}
    for _ in 0..2000 {
        pair.store.sweep(64).expect("swept");
    }
    assert!(
        used == 0 || pair.store.used_memory() < used.min(40_000),
        "all is freed"
    );
    pair.compare();
}

fn positions(pair: &Pair, key: usize, random: &mut Rng) {
    let model = &pair.model[key];
    if model.is_empty() {
        return;
    }
    let text = model[random.usize(..model.len())].clone();
    let mut rank = random.i64(-3..=3);
    if rank == 0 {
        rank = 1;
    }
    let wanted = Positions {
        rank,
        count: random.u64(..4),
        most: if random.bool() { 0 } else { random.u64(..200) },
    };
    let hashed = pair.store.key(KEYS[key]);
    let read = pair.store.read(pair.store.shards_of([&hashed]), |reader| {
        let mut found = Vec::new();
        let there = reader.list_positions(0, &hashed, &text, wanted, &mut found)?;
        Ok::<_, Error>(there.then_some(found))
    });
    let found = read.expect("read").expect("the key exists");
    let mut places: Vec<usize> = (0..model.len()).collect();
    if rank < 0 {
        places.reverse();
    }
    if wanted.most > 0 {
        places.truncate(wanted.most as usize);
    }
    let mut expected: Vec<u64> = places
        .into_iter()
        .filter(|&place| model[place] == text)
        .skip(rank.unsigned_abs() as usize - 1)
        .map(|place| place as u64)
        .collect();
    if wanted.count > 0 {
        expected.truncate(wanted.count as usize);
    }
    assert_eq!(found, expected, "{wanted:?}");
}

const KINDS: [Kind; 7] = [
    Kind::Fixed,
    Kind::Integers,
    Kind::Counting,
    Kind::Texts,
    Kind::Long,
    Kind::Mixed,
    Kind::Empty,
];

#[test]
fn small_lists_match_the_model() {
    for (seed, kind) in KINDS.into_iter().enumerate() {
        run(100 + seed as u64, kind, 1500, 8);
    }
}

#[test]
fn lists_of_about_one_leaf_match_the_model() {
    for (seed, kind) in KINDS.into_iter().enumerate() {
        run(200 + seed as u64, kind, 800, 120);
    }
}

#[test]
fn large_lists_match_the_model() {
    for (seed, kind) in KINDS.into_iter().enumerate() {
        run(300 + seed as u64, kind, 300, 3000);
    }
}

#[test]
fn pushes_at_either_end_fill_leaves() {
    for (end, integers, limit) in [
        (End::Right, false, 12.4),
        (End::Left, false, 12.4),
        (End::Right, true, 6.5),
        (End::Left, true, 6.5),
    ] {
        let pair = Pair::new();
        let mut random = Rng::with_seed(5);
        let before = pair.store.used_memory();
        const COUNT: usize = 600_000;
        for _ in 0..COUNT / 100 {
            let items: Vec<Vec<u8>> = (0..100)
                .map(|_| {
                    if integers {
                        random
                            .u64(100_000_000_000..1_000_000_000_000)
                            .to_string()
                            .into_bytes()
                    } else {
                        format!("{:011}x", random.u64(..100_000_000_000)).into_bytes()
                    }
                })
                .collect();
            for item in &items {
                pair.write(0, |writer, key| {
                    writer.list_push(0, key, end, &[item], false)
                });
            }
        }
        // Each page also has a descriptor of 64 bytes.
        let used = (pair.store.used_memory() - before) as f64 * (4096.0 + 64.0) / 4096.0;
        let each = used / COUNT as f64;
        println!("{end:?}, integers {integers}: {each:.2} bytes an item");
        assert!(each <= limit, "{each} bytes an item");
    }
}

#[test]
fn list_keeps_its_deadline_when_its_only_item_is_rotated() {
    let pair = Pair::new();
    for item in [b"item".to_vec(), vec![b'l'; 3000]] {
        let kept = pair.write(0, |writer, key| {
            writer.remove(0, key)?;
            writer.list_push(0, key, End::Left, &[&item], false)?;
            writer.set_expiry(0, key, Some(u64::MAX / 2))?;
            let mut out = Ranges::new();
            writer.list_move(0, (key, End::Left), (key, End::Right), &mut out)?;
            assert_eq!(out.get(0), item);
            writer.expiry(0, key)
        });
        assert_eq!(kept, Some(Some(u64::MAX / 2)));
        assert_eq!(pair.range(0, 0, -1), [item]);
    }
}
