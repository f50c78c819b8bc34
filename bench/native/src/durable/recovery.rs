//! The longest write while a checkpoint is written, and the time that a recovery takes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use undercroft_engine::Durability;

use super::{Disk, Journaled, key};
use crate::lists::Chance;

/// The size of the values in bytes.
const VALUE: usize = 1000;

#[derive(Args)]
pub(crate) struct Checkpoint {
    #[command(flatten)]
    disk: Disk,
    /// The amount of data in the store, in MiB.
    #[arg(long, default_value_t = 1024)]
    mib: u64,
    /// The number of checkpoints.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The number of writes a second.
    #[arg(long, default_value_t = 50_000)]
    writes: u64,
}

/// Fills a store with values. Returns the number of keys.
fn fill(journaled: &Journaled, mib: u64) -> u64 {
    journaled.store.set_max_memory(0).expect("no limit");
    let keys = (mib << 20) / VALUE as u64;
    for number in 0..keys {
        let value = [number as u8; VALUE];
        journaled.store.set(0, &key(number), &value).expect("room");
    }
    journaled.store.make_durable().expect("a durable journal");
    keys
}

/// Returns the resident memory of this process that is not part of a file, in bytes.
fn private_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("this process's status");
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.expect("a number of kB") << 10
}

/// Returns the processor time of this thread in nanoseconds.
fn processor() -> u64 {
    let text =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("the scheduler's figures");
    text.split(' ')
        .next()
        .and_then(|field| field.parse().ok())
        .expect("a number")
}

impl Checkpoint {
    pub(crate) fn run(&self) {
        let journaled = Journaled::new(&self.disk.disk, Durability::EverySecond);
        let keys = fill(&journaled, self.mib);
        let (mut seconds, mut clock, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
        let (mut memory, mut alone) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            let quiet = AtomicBool::new(false);
            let (longest, _) = std::thread::scope(|scope| {
                let writer = scope.spawn(|| self.write(&journaled, keys, &quiet));
                std::thread::sleep(Duration::from_secs(1));
                quiet.store(true, Ordering::Relaxed);
                writer.join().expect("a writer")
            });
            alone.push(longest);
            let done = AtomicBool::new(false);
            let before = private_memory();
            let mut most = before;
            let (longest, processor) = std::thread::scope(|scope| {
                let writer = scope.spawn(|| self.write(&journaled, keys, &done));
                let start = Instant::now();
                let copier = scope.spawn(|| journaled.checkpoint());
                while !copier.is_finished() {
                    most = most.max(private_memory());
                    std::thread::sleep(Duration::from_millis(20));
                }
                seconds.push(start.elapsed().as_secs_f64());
                done.store(true, Ordering::Relaxed);
                writer.join().expect("a writer")
            });
            clock.push(longest);
            cpu.push(processor);
            memory.push((most - before) as f64 / (self.mib << 20) as f64);
        }
        println!(
            "{{\"seconds\": {seconds:?}, \"longest_ms\": {clock:?}, \"processor_ms\": {cpu:?}, \
             \"alone_ms\": {alone:?}, \"memory\": {memory:?}}}"
        );
    }

    /// Writes until `done` is true. Returns the longest SET in milliseconds by the clock, and the
    /// longest in processor time.
    fn write(&self, journaled: &Journaled, keys: u64, done: &AtomicBool) -> (f64, f64) {
        let mut chance = Chance(7);
        let (start, mut writes) = (Instant::now(), 0_u64);
        let (mut longest, mut processor_longest) = (0, 0);
        let mut used = processor();
        while !done.load(Ordering::Relaxed) {
            let due = (start.elapsed().as_secs_f64() * self.writes as f64) as u64;
            if writes >= due {
                std::thread::sleep(Duration::from_micros(100));
                used = processor();
                continue;
            }
            let number = chance.next();
            let begun = Instant::now();
            let value = [number as u8; VALUE];
            journaled
                .store
                .set(0, &key(number % keys), &value)
                .expect("room");
            let took = begun.elapsed().as_nanos() as u64;
            writes += 1;
            longest = longest.max(took);
            // Reading the scheduler's figures takes longer than a SET, so only long ones are examined.
            if took > 100_000 {
                let now = processor();
                processor_longest = processor_longest.max((now - used).min(took));
                used = now;
            }
        }
        (longest as f64 / 1e6, processor_longest as f64 / 1e6)
    }
}

#[derive(Args)]
pub(crate) struct Recovery {
    #[command(flatten)]
    disk: Disk,
    /// The amount of data in the store, in MiB.
    #[arg(long, default_value_t = 1024)]
    mib: u64,
    /// The amount of records after the checkpoint, in MiB.
    #[arg(long, default_value_t = 512)]
    records: u64,
    /// The number of rounds.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

impl Recovery {
    pub(crate) fn run(&self) {
        let (mut checkpoints, mut records) = (Vec::new(), Vec::new());
        let (mut sizes, mut bytes) = (Vec::new(), Vec::new());
        let mut journaled = Journaled::new(&self.disk.disk, Durability::EverySecond);
        let keys = fill(&journaled, self.mib);
        for round in 0..self.rounds {
            journaled.checkpoint();
            let journal = journaled.store.journal().expect("a journal");
            let size = journal.checkpoint_bytes as f64;
            let (recovered, took) = journaled.recover();
            journaled = recovered;
            checkpoints.push(took);
            sizes.push(size);
            let before = journaled.head();
            let mut chance = Chance(round as u64 + 1);
            while journaled.head() - before < self.records << 20 {
                let number = chance.next();
                let value = [number as u8; VALUE];
                journaled
                    .store
                    .set(0, &key(number % keys), &value)
                    .expect("room");
            }
            journaled.store.make_durable().expect("a durable journal");
            bytes.push((journaled.head() - before) as f64);
            let (recovered, both) = journaled.recover();
            journaled = recovered;
            records.push(both - took);
        }
        println!(
            "{{\"checkpoint_bytes\": {sizes:?}, \"checkpoint_seconds\": {checkpoints:?}, \
             \"records_bytes\": {bytes:?}, \"records_seconds\": {records:?}}}"
        );
    }
}
