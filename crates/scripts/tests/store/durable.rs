//! Runs random commands of every type, scripts, evictions and expiries on a store with a journal, while
//! checkpoints are written. What the store holds must equal what recovery from its journal gives (J3).

use undercroft_commands::reply::Tree;
use undercroft_conformance::command::Command;
use undercroft_conformance::generate::{FAMILIES, Family, Generator};
use undercroft_engine::Store;
use undercroft_memory::{Durability, JournalOptions, Segment};
use undercroft_testkit::fresh::{self, Extent};
use undercroft_testkit::journals::compare_with_journal;
use undercroft_testkit::race::{CASES, State, states};

use crate::host::{Client, Embedded};

/// The number of comparisons, by extent, and the number of steps before each one.
const BATCHES: [usize; 3] = [12, 100, 300];
const STEPS: usize = 400;
/// The sizes of the ring and of the journal's segments in bytes, so small that a run uses many.
const SIZES: JournalOptions = JournalOptions {
    ring: Some(1 << 20),
    segment: Some(256 << 10),
};
const KEYS: [&str; 3] = ["k", "j", "d"];
/// Commands that change whole databases.
const WHOLE: [&str; 5] = [
    "FLUSHALL",
    "FLUSHDB",
    "FLUSHALL ASYNC",
    "SWAPDB 0 1",
    "SELECT 0",
];
/// A script that changes several keys of several types.
const SCRIPT: &str = "\
redis.call('incr', 'script:counter')
redis.call('rpush', 'script:list', ARGV[1])
redis.call('hset', 'script:hash', ARGV[1], ARGV[1])
redis.call('set', 'script:' .. ARGV[1], string.rep('x', ARGV[1]))
return redis.pcall('lpop', 'k')";

struct Run<'e> {
    client: Client<'e>,
    store: &'e Store,
    random: fastrand::Rng,
    generator: Generator,
    states: Vec<State>,
    time: u64,
    checkpoints: u32,
}

impl Run<'_> {
    fn run(&mut self, words: &[&[u8]]) -> Option<Tree> {
        self.client.run_bytes(words)
    }

    fn line(&mut self, line: &str) -> Option<Tree> {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.run(&words)
    }

    fn key(&mut self) -> &'static str {
        KEYS[self.random.usize(..KEYS.len())]
    }

    /// Puts a key into a random state.
    fn enter_state(&mut self) {
        let (key, state) = (self.key(), self.random.usize(..self.states.len()));
        self.line(&format!("DEL {key}"));
        for command in self.states[state].commands.clone() {
            let named = command.iter().map(|word| match word.as_slice() {
                b"@" => key.as_bytes(),
                word => word,
            });
            let words: Vec<&[u8]> = named.collect();
            self.run(&words);
        }
    }

    fn dump_and_restore(&mut self) {
        let (from, to) = (self.key(), self.key());
        if let Some(Tree::Bulk(payload)) = self.line(&format!("DUMP {from}")) {
            let words = [b"RESTORE", to.as_bytes(), b"0", &payload, b"REPLACE"];
            self.run(&words);
        }
    }

    /// Sets keys while the memory limit is below the memory in use.
    fn evict(&mut self) {
        let limit = self.store.used_memory().max(10_000) / 4 * 3;
        let policy = ["allkeys-random", "allkeys-lru", "volatile-ttl"][self.random.usize(..3)];
        self.line(&format!("CONFIG SET maxmemory-policy {policy}"));
        self.line(&format!("CONFIG SET maxmemory {limit}"));
        for _ in 0..20 {
            let (number, length) = (self.random.u32(..1000), self.random.usize(..3000));
            let value = "v".repeat(length);
            self.line(&format!("SET evicted:{number} {value} PX 100000"));
        }
        self.line("CONFIG SET maxmemory 0");
    }

    fn step(&mut self) {
        match self.random.u32(..40) {
            0..4 => self.enter_state(),
            4..18 => {
                let lines = CASES[self.random.usize(..CASES.len())].lines;
                let line = lines[self.random.usize(..lines.len())];
                self.line(line);
            }
            18 => {
                let line = WHOLE[self.random.usize(..WHOLE.len())];
                self.line(line);
            }
            19 => self.dump_and_restore(),
            20 => self.evict(),
            21 => {
                // Some keys expire, and upkeep removes them.
                self.time += self.random.u64(..200_000);
                self.store.set_time(self.time);
                if self.random.bool() {
                    self.store.upkeep_all().expect("a sound store");
                }
            }
            22 => {
                let number = self.random.u32(..500).to_string();
                self.run(&[b"EVAL", SCRIPT.as_bytes(), b"0", number.as_bytes()]);
            }
            23 if self.random.u32(..5) == 0 => {
                self.store.checkpoint().expect("a checkpoint");
                self.checkpoints += 1;
            }
            _ => {
                let Command(words) = self.generator.command();
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                // Only a server can suspend a client.
                if !words.iter().any(|word| word.eq_ignore_ascii_case(b"BLOCK")) {
                    self.run(&words);
                }
            }
        }
    }
}

/// Returns the families of commands that an embedded store runs at once.
fn families() -> Vec<Family> {
    let known = FAMILIES.iter().copied();
    known.filter(|family| family.name != "blocking").collect()
}

#[test]
fn store_equals_its_recovery_after_random_commands() {
    let seed = fresh::seed();
    let embedded = Embedded::of_shards(4);
    let store = embedded.store();
    let folder = store.path().with_extension("journal");
    let segment = Segment::open(store.path(), true).expect("the store");
    let begun = segment.begin_journal(&folder, Durability::EverySecond, &SIZES);
    begun.expect("a journal");
    drop(segment);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut run = Run {
        client: embedded.client(),
        store,
        generator: Generator::new(random.u64(..), &families()),
        random,
        states: states(),
        time: 1_900_000_000_000,
        checkpoints: 0,
    };
    store.set_time(run.time);
    let batches = BATCHES[Extent::asked() as usize];
    for batch in 0..batches {
        (0..STEPS).for_each(|_| run.step());
        if let Err(why) = compare_with_journal(store, run.time) {
            panic!("after batch {batch} (seed {seed}): {why}");
        }
    }
    println!(
        "durable: {} random steps with {} checkpoints recovered {batches} times",
        batches * STEPS,
        run.checkpoints
    );
    assert!(run.checkpoints > 0);
}
