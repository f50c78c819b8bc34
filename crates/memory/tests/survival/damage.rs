//! Tests stores that are damaged in random places. Opening, reading, writing and checking such a
//! store must yield a result or an error, and never a crash, a hang or an out-of-bounds access.
//!
//! - `UNDERCROFT_DAMAGE_SEED`: the first seed, as printed by a failing run
//! - `UNDERCROFT_DAMAGE_COUNT`: the number of seeds (default 3,000)

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use undercroft_memory::layout::PAGE;
use undercroft_memory::{Segment, ShardSet};

use crate::child::{Child, Role, limit, say};
use crate::image::{Image, ROOTS, get, reach_all, samples, use_store};

pub(crate) const ROLES: &[Role] = &[("damage", damage_batch), ("live", live)];

const SEED: &str = "UNDERCROFT_DAMAGE_SEED";
const COUNT: &str = "UNDERCROFT_DAMAGE_COUNT";
/// The time limit for using one store, in seconds, after which the use counts as a hang. It
/// normally takes milliseconds.
const HANG: u32 = 60;
/// The number of words in a page.
const WORDS: usize = PAGE as usize / 8;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

/// A generator of numbers from a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Picks a word in the image, usually a nonzero word before the heap.
    fn place(&mut self, image: &Image) -> (usize, usize) {
        let pages = match self.below(4) {
            0 => image.pages(),
            _ => image.control_pages(),
        };
        let page = self.below(pages);
        if self.below(4) == 0 {
            // Most structures have their fields in the first 64 words of a page, whether or not the
            // page is in use.
            return (page, self.below(64));
        }
        for _ in 0..200 {
            let word = self.below(WORDS);
            if image.word(page, word) != 0 {
                return (page, word);
            }
        }
        (page, self.below(WORDS))
    }
}

/// Damages one to eight words.
fn damage(image: &mut Image, seed: u64) {
    let mut random = Random(seed);
    for _ in 0..=random.below(8) {
        let (page, word) = random.place(image);
        let old = image.word(page, word);
        let new = match random.below(8) {
            0..3 => old ^ 1 << random.below(64),
            3 => random.next(),
            4 => 0,
            5 => old.wrapping_add(random.next() % 3).wrapping_sub(1),
            6 => random.next() % 4096,
            _ => {
                let (page, word) = random.place(image);
                image.word(page, word)
            }
        };
        image.set_word(page, word, new);
    }
    // Correct the checksum in most cases: damage after the header is reached only if the header
    // seems valid.
    if random.below(8) != 0 {
        image.seal();
    }
    if random.below(64) == 0 {
        image.cut(random.below(20_000) as u64 * PAGE);
    }
}

/// Uses damaged stores one after another. Reports each store's seed to the parent.
fn damage_batch(directory: &Path) {
    let images = samples(directory);
    let first = number(SEED).expect("the first seed");
    let path = directory.join("damaged");
    for seed in first..first + number(COUNT).expect("a number of seeds") {
        say(&format!("seed {seed}"));
        limit(HANG);
        let mut image = images[seed as usize % images.len()].clone();
        damage(&mut image, seed);
        image.write_to(&path);
        use_store(&path);
    }
    say("end");
}

/// Reads every block of a store many times.
fn read_store(path: &Path, write: bool) {
    let Ok(segment) = Segment::open(path, write) else {
        return;
    };
    segment.set_patience(Duration::from_millis(1));
    for round in 0..200 {
        for root in 0..ROOTS {
            let shard = round % segment.shards();
            let _ = segment.read(ShardSet::one(shard), |view| get(view, shard, root));
        }
        let shards = ShardSet::first(segment.shards());
        let _ = segment.read(shards, |view| get(view, 0, 1));
        let _ = segment.statistics();
    }
}

/// Writes the damaged pages to the file, and then the original pages.
fn write_changes(damaged: &Image, sound: &Image, file: &File) {
    for image in [damaged, sound] {
        for (pages, (at, page)) in damaged.pages.iter().zip(&sound.pages).zip(&image.pages) {
            let ((_, damaged), (_, sound)) = pages;
            for word in (0..page.len()).step_by(8) {
                if damaged[word..word + 8] != sound[word..word + 8] {
                    file.write_all_at(&page[word..word + 8], at + word as u64)
                        .expect("a word");
                }
            }
        }
    }
}

/// Reads while another thread damages the file. The reader may acquire locks for every second seed,
/// and is read-only for the others.
fn live(directory: &Path) {
    let path = directory.join("damaged");
    let first = number(SEED).expect("the first seed");
    for seed in first..first + number(COUNT).expect("a number of seeds") {
        say(&format!("seed {seed}"));
        limit(HANG);
        let image = samples(directory).swap_remove(0);
        image.write_to(&path);
        let (done, barrier) = (AtomicBool::new(false), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let file = File::options().write(true).open(&path).expect("a file");
                let mut random = Random(seed);
                barrier.wait();
                while !done.load(Ordering::Relaxed) {
                    let mut damaged = image.clone();
                    damage(&mut damaged, random.next());
                    write_changes(&damaged, &image, &file);
                }
            });
            barrier.wait();
            read_store(&path, seed % 2 == 0);
            done.store(true, Ordering::Relaxed);
        });
    }
    say("end");
}

/// Runs a role over a range of seeds in a child process. If the child dies, fails with the seed
/// that it was using.
fn run_batch(role: &str, first: u64, count: u64) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command
        .env(SEED, first.to_string())
        .env(COUNT, count.to_string());
    let mut child = Child::start_by(command, role, directory.path());
    let mut seed = String::from("none");
    loop {
        match child.next() {
            Some(word) if word == "end" => break,
            Some(word) => seed = word,
            None => {
                let status = child.end();
                panic!("{role}: {status} at {seed}; replay by {SEED}=it {COUNT}=1");
            }
        }
    }
    child.finish();
}

/// Returns the first seed: the requested seed, or a new one.
fn first_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    number(SEED).unwrap_or_else(|| now.map_or(0, |now| now.as_millis() as u64))
}

#[test]
fn readers_survive_concurrent_damage() {
    let (first, count) = (first_seed(), number(COUNT).unwrap_or(3000).div_ceil(100));
    run_batch("live", first, count);
    println!("damage: {count} stores damaged under their readers, {SEED}={first}");
}

#[test]
fn damage_anywhere_yields_an_error_or_a_result() {
    let (first, count) = (first_seed(), number(COUNT).unwrap_or(3000));
    let half = count.div_ceil(2);
    std::thread::scope(|scope| {
        for (first, count) in [(first, half), (first + half, count - half)] {
            scope.spawn(move || run_batch("damage", first, count));
        }
    });
    println!("damage: {count} damaged stores used, {SEED}={first}");
}

#[test]
fn undamaged_samples_are_sound() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("sound");
    let images = samples(directory.path());
    assert_eq!(images.len(), 4);
    for image in images {
        image.write_to(&path);
        let segment = undercroft_memory::Segment::open(&path, true).expect("a store");
        let report = segment
            .check(|shard, view, reach, _| reach_all(shard, view, reach))
            .expect("a check");
        assert_eq!(report.problems, Vec::<String>::new());
        assert_eq!(report.blocks, 2 * (8 + 6));
    }
}
