//! Tests damage to words of an index and of the labels that the index depends on. The check must
//! find every damaged word, and operations that read a damaged word must return an error or an
//! answer.

use std::fs::File;
use std::os::unix::fs::FileExt;

use fastrand::Rng;
use undercroft_engine::Error;
use undercroft_engine::feeds::{FoundItems, Order, Rows, Schema, Seen, Selection};
use undercroft_engine::lists::End;
use undercroft_testkit::fresh;

use crate::pair::Pair;

const ITEMS: u32 = 9_000;
const LEAF: u64 = 0x400;
const BLOCK: u64 = 0x401;

fn value(number: u32) -> Vec<u8> {
    format!("{:06}", number % 6_000).into_bytes()
}

fn filled() -> Pair {
    let schema = Schema::new(6, &[2], Order::List).and_then(Schema::with_index);
    let pair = Pair::new(schema.expect("sound"));
    let mut rows = Rows::new(&pair.schema);
    (0..ITEMS).for_each(|number| rows.push(&value(number), &[number % 4], false));
    pair.write(|writer, key| writer.feed_add(0, key, -1, &rows));
    pair
}

struct Words {
    file: File,
    /// The offsets of the feed's leaves, and of the blocks of its index.
    leaves: Vec<u64>,
    blocks: Vec<u64>,
}

impl Words {
    fn read(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        self.file
            .read_exact_at(&mut word, at)
            .expect("within the file");
        u64::from_le_bytes(word)
    }

    fn write(&self, at: u64, word: u64) {
        self.file
            .write_all_at(&word.to_le_bytes(), at)
            .expect("within the file");
    }

    /// Returns the offsets of all normal-sized blocks whose headers begin with `magic`.
    fn begins(&self, magic: u64) -> Vec<u64> {
        let end = self.file.metadata().expect("a file").len();
        let mut all = Vec::new();
        let mut page = [0; 1 << 16];
        for start in (0..end).step_by(page.len()) {
            let length = self
                .file
                .read_at(&mut page, start)
                .expect("within the file");
            for at in (0..length).step_by(256) {
                let word = u64::from_le_bytes(page[at..at + 8].try_into().expect("a word"));
                if word & 0xffff == magic && word >> 16 & 0xffff == 4096 && word >> 32 > 1 {
                    all.push(start + at as u64);
                }
            }
        }
        all
    }

    /// Returns the offset of a randomly chosen word, either of an index block, including its
    /// header, or of a label.
    fn some(&self, random: &mut Rng) -> u64 {
        let is_label = random.u32(..4) == 0;
        let all = if is_label { &self.leaves } else { &self.blocks };
        let at = all[random.usize(..all.len())];
        match is_label {
            true => at + 8,
            false => at + random.u64(0..=(self.read(at) >> 32).min(400)) * 8,
        }
    }
}

fn words(pair: &Pair) -> Words {
    let path = pair.directory.path().join("store");
    let file = File::options().read(true).write(true).open(path);
    let mut words = Words {
        file: file.expect("the store"),
        leaves: Vec::new(),
        blocks: Vec::new(),
    };
    (words.leaves, words.blocks) = (words.begins(LEAF), words.begins(BLOCK));
    assert!(words.leaves.len() >= 8 && words.blocks.len() >= 8);
    words
}

fn is_clean(pair: &Pair) -> bool {
    let report = pair.store.check().expect("a walk");
    report.problems.is_empty()
}

#[test]
fn check_finds_every_damaged_word() {
    let mut random = Rng::with_seed(fresh::seed());
    let pair = filled();
    let words = words(&pair);
    for _ in 0..150 {
        let at = words.some(&mut random);
        let word = words.read(at);
        words.write(at, word ^ 1 << random.u32(..64));
        assert!(!is_clean(&pair), "{word:#x} at {at:#x}");
        words.write(at, word);
    }
    assert!(is_clean(&pair));
}

#[test]
fn operations_on_damaged_words_return_an_error_or_an_answer() {
    let mut random = Rng::with_seed(fresh::seed());
    let mut errors = 0;
    for _ in 0..40 {
        let pair = filled();
        let words = words(&pair);
        for _ in 0..random.u32(1..20) {
            let (at, other) = (words.some(&mut random), words.some(&mut random));
            let word = match random.u32(..3) {
                0 => words.read(other),
                1 => random.u64(..),
                _ => words.read(at) ^ 1 << random.u32(..64),
            };
            words.write(at, word);
        }
        let key = pair.store.key(b"feed");
        for _ in 0..300 {
            let value = value(random.u32(..ITEMS));
            let values = [value.as_slice()];
            let selection = Selection::of_values(&values);
            let position = random.i64(-1..i64::from(ITEMS));
            let mut rows = Rows::new(&pair.schema);
            (0..[1, 500][random.usize(..2)]).for_each(|_| rows.push(&value, &[1], false));
            let what = random.u32(..7);
            let shards = pair.store.shards_of([&key]);
            let done = pair.store.write(shards, |writer| match what {
                0 => writer.feed_add(0, &key, position, &rows).map(drop),
                1 => writer.feed_remove(0, &key, &selection).map(drop),
                2 => writer.feed_hide(0, &key, &selection, true).map(drop),
                3 => writer
                    .feed_set_attributes(0, &key, &value, &[Some(2)])
                    .map(drop),
                4 | 5 => writer.feed_move(0, &key, &value, position).map(drop),
                _ => {
                    let mut out = FoundItems::new();
                    writer.feed_pop(0, &key, End::Left, 3, &mut out).map(drop)
                }
            });
            errors += u32::from(done.is_err());
            let read = pair.store.read(shards, |reader| {
                let feed = reader.feed(0, &key)?;
                let feed = feed.ok_or(Error::WrongItem)?;
                feed.position(reader.view(), &value, Seen::All)
            });
            errors += u32::from(read.is_err());
        }
        // Compaction rebuilds the index without reading it, so it repairs the index unless the
        // items themselves are damaged.
        let shards = pair.store.shards_of([&key]);
        let compacted = pair
            .store
            .write(shards, |writer| writer.feed_compact(0, &key));
        assert!(compacted.is_err() || is_clean(&pair));
        let _ = pair.store.delete(0, &[b"feed".as_slice()]);
        while pair.store.reclaim(|| false).unwrap_or(false) {}
    }
    assert!(errors > 0);
}
