//! Stores with damage anywhere: opened, read, written and checked, they give an
//! answer or an error, and never a crash, a hang or an access outside.
//!
//! - `UNDERCROFT_DAMAGE_SEED`: the first seed, as a failing run prints it
//! - `UNDERCROFT_DAMAGE_COUNT`: how many seeds from there on (default 3,000)

use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use undercroft_memory::layout::PAGE;

use crate::child::{Child, Role, limit, say};
use crate::image::{Image, samples, use_store};

pub(crate) const ROLES: &[Role] = &[("damage", damage_batch)];

const SEED: &str = "UNDERCROFT_DAMAGE_SEED";
const COUNT: &str = "UNDERCROFT_DAMAGE_COUNT";
/// Seconds after which one store's use counts as a hang; it takes some
/// milliseconds.
const HANG: u32 = 60;
/// Words in a page.
const WORDS: usize = PAGE as usize / 8;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

/// Numbers from a seed (SplitMix64).
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

    /// A word of the image: mostly before the heap, mostly in use.
    fn place(&mut self, image: &Image) -> (usize, usize) {
        let pages = match self.below(4) {
            0 => image.pages(),
            _ => image.control_pages(),
        };
        let page = self.below(pages);
        if self.below(4) == 0 {
            // Where most structures have their fields, in use or not.
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
}

/// Uses one damaged store after the other, each announced.
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

#[test]
fn damage_anywhere_is_an_error_or_an_answer() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let first = number(SEED).unwrap_or_else(|| now.map_or(0, |now| now.as_millis() as u64));
    let count = number(COUNT).unwrap_or(3000);
    let half = count.div_ceil(2);
    std::thread::scope(|scope| {
        for (first, count) in [(first, half), (first + half, count - half)] {
            scope.spawn(move || {
                let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
                let mut command = Command::new(std::env::current_exe().expect("this test"));
                command
                    .env(SEED, first.to_string())
                    .env(COUNT, count.to_string());
                let mut child = Child::start_by(command, "damage", directory.path());
                let mut seed = String::from("none");
                loop {
                    match child.next() {
                        Some(word) if word == "end" => break,
                        Some(word) => seed = word,
                        None => {
                            let status = child.end();
                            panic!("{status} at {seed}; replay by {SEED}=it {COUNT}=1");
                        }
                    }
                }
                child.finish();
            });
        }
    });
    println!("damage: {count} damaged stores used, {SEED}={first}");
}

#[test]
fn the_samples_are_sound() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("sound");
    let images = samples(directory.path());
    assert_eq!(images.len(), 4);
    for image in images {
        image.write_to(&path);
        let segment = undercroft_memory::Segment::open(&path, true).expect("a store");
        let mut reached = 0;
        let report = segment
            .check(|shard, view, reach, _| {
                for root in 0..8 {
                    reach(view.root(shard, root));
                    reached += 1;
                }
            })
            .expect("a check");
        assert_eq!(report.problems, Vec::<String>::new());
        assert_eq!(reached, 16);
    }
}
