//! Runs a storm of kills: writer processes are killed with SIGKILL at random moments while others
//! write and read. No process may hang, no value may be torn, keys that are set together must
//! remain equal, and no increment may be lost or made twice. The store must be structurally sound,
//! hold no locks after the kills, and use no memory after it has been emptied. Each copy made in
//! the meantime must be a consistent snapshot, and copiers that are killed must leave no state in
//! the store.
//!
//! With a journal, checkpoints are written in the meantime, by processes that are killed as well. A
//! store that is recovered from the journal alone must fulfil the same conditions, and must equal the
//! survivor once everything is durable.

use std::path::Path;
use std::time::Duration;

use undercroft_engine::{Durability, Holder, Options, Store};
use undercroft_memory::{JournalOptions, Segment};
use undercroft_testkit::fresh::{self, Extent};
use undercroft_testkit::journals::{Copied, compare_with_journal};
use undercroft_testkit::state::problems;
use undercroft_testkit::storm::member::{Member, wait_for_progress};
use undercroft_testkit::storm::{COUNTERS, check_values, reader};

/// The minimum number of writer kills, by extent.
const KILLS: [u32; 3] = [20, 100, 1500];
/// The minimum number of writer kills with a journal in each mode, by extent.
const KILLS_JOURNALED: [u32; 3] = [20, 60, 400];
/// The sizes of the ring and of the journal's segments in bytes, so small that a storm uses many.
const SIZES: JournalOptions = JournalOptions {
    ring: Some(1 << 20),
    segment: Some(1 << 20),
};
/// The number of kills in each store before it is checked and discarded. Hash tables and undo logs
/// grow only in a young store.
const KILLS_PER_STORE: u32 = 20;
/// The number of threads of each writer. All writers except the last one are repeatedly killed.
const WRITERS: [u64; 4] = [1, 2, 1, 1];
const PROGRAM: &str = env!("CARGO_BIN_EXE_crash-child");

fn writer(directory: &Path, number: u32, threads: u64, seed: u64) -> Member {
    let name = format!("writer-{number}");
    Member::start(PROGRAM, directory, &name, "write", threads, seed)
}

/// The totals of all storms so far.
#[derive(Default)]
struct Tally {
    kills: u32,
    /// The number of kills after which a dead process held a lock.
    holding: u32,
    /// The number of killed copiers. `copying` is the number of those that were killed during a
    /// copy.
    copiers: u32,
    copying: u32,
    copies: u64,
    checkpoints: u64,
    operations: u64,
    stores: u32,
}

struct Storm {
    seed: u64,
    random: fastrand::Rng,
    directory: tempfile::TempDir,
    store: Store,
    writers: Vec<Member>,
    readers: Vec<Member>,
    /// The processes that copy the store. The first one is repeatedly killed.
    copiers: Vec<Member>,
    /// The processes that write checkpoints, if the store has a journal. The first one is repeatedly
    /// killed.
    checkpointers: Vec<Member>,
    started: u32,
    /// For each counter, the numbers of increments that dead writers completed and started.
    increments: [(u64, u64); COUNTERS as usize],
}

impl Storm {
    /// Starts a storm. `seed` is the seed of the run, which test messages show, and `own` is the
    /// seed of this store.
    fn new(seed: u64, own: u64, durability: Durability) -> Storm {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let options = Options {
            capacity: Some(128 << 20),
            shards: Some(4),
            ring: None,
        };
        let path = directory.path().join("store");
        let store = Store::create(&path, &options).expect("a new store");
        if durability != Durability::None {
            let segment = Segment::open(&path, true).expect("the store");
            let folder = directory.path().join("store.journal");
            (segment.begin_journal(&folder, durability, &SIZES)).expect("a journal");
        }
        let mut storm = Storm {
            seed,
            random: fastrand::Rng::with_seed(own),
            store,
            writers: Vec::new(),
            readers: Vec::new(),
            copiers: Vec::new(),
            checkpointers: Vec::new(),
            started: 0,
            increments: [(0, 0); COUNTERS as usize],
            directory,
        };
        for threads in WRITERS {
            let writer = storm.new_writer(threads);
            storm.writers.push(writer);
        }
        for role in ["read", "read-only"] {
            let seed = storm.random.u64(..);
            let reader = Member::start(PROGRAM, storm.directory.path(), role, role, 1, seed);
            storm.readers.push(reader);
        }
        for _ in 0..2 {
            let copier = storm.new_member("copy");
            storm.copiers.push(copier);
            if durability != Durability::None {
                let checkpointer = storm.new_member("checkpoint");
                storm.checkpointers.push(checkpointer);
            }
        }
        storm
    }

    /// Starts a process that copies the store or writes checkpoints.
    fn new_member(&mut self, role: &str) -> Member {
        self.started += 1;
        let (name, seed) = (format!("{role}-{}", self.started), self.random.u64(..));
        Member::start(PROGRAM, self.directory.path(), &name, role, 1, seed)
    }

    fn new_writer(&mut self, threads: u64) -> Member {
        self.started += 1;
        let seed = self.random.u64(..);
        writer(self.directory.path(), self.started, threads, seed)
    }

    /// Waits until every thread of every process has made progress.
    fn wait_for_progress(&mut self) {
        let members = self.writers.iter_mut().chain(&mut self.readers);
        let members = members.chain(&mut self.copiers);
        wait_for_progress(&mut members.collect::<Vec<_>>(), &self.store, self.seed);
    }

    /// Kills one or two writers at a random moment, and starts new ones.
    fn kill_some(&mut self, tally: &mut Tally) {
        std::thread::sleep(Duration::from_micros(self.random.u64(0..3000)));
        let count = if self.random.u32(0..4) == 0 { 2 } else { 1 };
        let first = self.random.usize(0..WRITERS.len() - 1);
        let victims: Vec<usize> = (0..count)
            .map(|offset| (first + offset) % (WRITERS.len() - 1))
            .collect();
        for &victim in &victims {
            self.writers[victim].expect_alive(self.seed);
            self.writers[victim].kill();
        }
        let dead = |lock: &undercroft_engine::HeldLock| matches!(lock.holder, Holder::Dead);
        tally.holding += u32::from(self.store.held_locks().iter().any(dead));
        if self.random.u32(0..2) == 0 {
            self.copiers[0].expect_alive(self.seed);
            self.copiers[0].kill();
            tally.copiers += 1;
            tally.copying += u32::from(self.store.statistics().copy > 0);
            tally.copies += self.copiers[0].operations().iter().sum::<u64>();
            self.copiers[0] = self.new_member("copy");
        }
        if !self.checkpointers.is_empty() && self.random.bool() {
            self.checkpointers[0].expect_alive(self.seed);
            self.checkpointers[0].kill();
            tally.checkpoints += self.checkpointers[0].operations().iter().sum::<u64>();
            self.checkpointers[0] = self.new_member("checkpoint");
        }
        for &victim in &victims {
            self.bury(victim, tally);
            self.writers[victim] = self.new_writer(WRITERS[victim]);
        }
    }

    /// Adds the increments that a dead writer made.
    fn bury(&mut self, victim: usize, tally: &mut Tally) {
        let progress = &self.writers[victim].progress;
        for (counter, (done, begun)) in (0..).zip(&mut self.increments) {
            let (more_done, more_begun) = progress.increments(counter);
            *done += more_done;
            *begun += more_begun;
        }
        tally.kills += 1;
        tally.operations += progress.operations().iter().sum::<u64>();
    }

    fn expect_sound(&self, when: &str) {
        let found = self.store.check().expect("a check").problems;
        assert!(found.is_empty(), "{when} (seed {}): {found:?}", self.seed);
    }

    /// Checks the values in a store after all processes were killed. If `is_complete` is true, the
    /// store must have every increment that was completed.
    fn expect_whole(&self, store: &Store, is_complete: bool, when: &str) {
        let seed = self.seed;
        let found = problems(store).expect("a check");
        assert!(found.is_empty(), "{when} (seed {seed}): {found:?}");
        if let Err(torn) = check_values(store) {
            panic!("{when} (seed {seed}): {torn}");
        }
        for (index, (done, begun)) in (0..).zip(self.increments) {
            let value = reader::read_counter(store, index).expect("a counter");
            let least = if is_complete { done } else { 0 };
            assert!(
                (least..=begun).contains(&value),
                "{when}: counter {index} (seed {seed}): expected {least} to {begun}, got {value}"
            );
        }
    }

    /// Kills all processes, and then checks the store.
    fn end(mut self, tally: &mut Tally) {
        self.expect_sound("the check while all write");
        for reader in &mut self.readers {
            reader.expect_alive(self.seed);
            reader.kill();
            tally.operations += reader.operations().iter().sum::<u64>();
        }
        for copier in &mut self.copiers {
            copier.expect_alive(self.seed);
            copier.kill();
            tally.copies += copier.operations().iter().sum::<u64>();
        }
        for checkpointer in &mut self.checkpointers {
            checkpointer.expect_alive(self.seed);
            checkpointer.kill();
            tally.checkpoints += checkpointer.operations().iter().sum::<u64>();
        }
        for writer in &mut self.writers {
            writer.expect_alive(self.seed);
            writer.kill();
        }
        (0..WRITERS.len()).for_each(|victim| self.bury(victim, tally));
        tally.stores += 1;
        let seed = self.seed;
        if let Some(journal) = self.store.journal() {
            // The store as a failure of the machine leaves it.
            let copied = Copied::recover(&journal.folder);
            let is_complete = journal.durability == Durability::Always;
            self.expect_whole(&copied.store, is_complete, "recovered from the journal");
        }
        // Recovery frees values that dead writers had not finished.
        self.store.recover().expect("a recovery");
        self.expect_whole(&self.store, true, "after the storm");
        if self.store.journal().is_some() {
            let time = self.store.now() + 1000;
            if let Err(why) = compare_with_journal(&self.store, time) {
                panic!("the journal differs (seed {seed}): {why}");
            }
        }
        self.store.flush_all(true).expect("an emptied store");
        self.expect_sound("the emptied store");
        assert_eq!(self.store.used_memory(), 0, "a leak (seed {seed})");
        assert_eq!(
            self.store.statistics().copy,
            0,
            "left of a copy (seed {seed})"
        );
    }
}

/// Runs storms until there were enough kills.
fn run_storms(durability: Durability, kills: [u32; 3]) {
    let extent = Extent::asked();
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut tally = Tally::default();
    while tally.kills < kills[extent as usize] {
        let mut storm = Storm::new(seed, random.u64(..), durability);
        storm.wait_for_progress();
        let last = tally.kills + KILLS_PER_STORE;
        while tally.kills < last {
            storm.kill_some(&mut tally);
            storm.wait_for_progress();
        }
        storm.end(&mut tally);
    }
    println!(
        "storm with durability {}: {} kill -9 of writers in {} stores, {} of them with a lock held, and {} of copiers, {} \
         of them in the middle of a copy; {} operations, {} copies and {} checkpoints counted; no process hung, nothing torn, lost or leaked ({}; seed {seed})",
        durability.name(),
        tally.kills,
        tally.stores,
        tally.holding,
        tally.copiers,
        tally.copying,
        tally.operations,
        tally.copies,
        tally.checkpoints,
        if extent == Extent::Full {
            "the whole storm"
        } else {
            "a part; `make crash` runs all"
        }
    );
}

#[test]
fn a_storm_of_kills() {
    run_storms(Durability::None, KILLS);
}

#[test]
fn a_storm_of_kills_with_a_journal() {
    run_storms(Durability::EverySecond, KILLS_JOURNALED);
}

#[test]
fn a_storm_of_kills_with_a_journal_that_changes_wait_for() {
    run_storms(Durability::Always, KILLS_JOURNALED);
}
