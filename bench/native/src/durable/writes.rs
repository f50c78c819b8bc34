//! Writes to a store with a journal, compared with a store without one.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use undercroft_commands::reply::{Recorder, Tree};
use undercroft_embedded::{Place, StoreOf};
use undercroft_engine::{Durability, Terms};

use super::{Disk, Journaled, key};

/// The number of keys that writers change.
const KEYS: u64 = 10_000;
/// The number of bytes that are written to a file in one call.
const PIECE: usize = 4 << 20;

#[derive(Args)]
pub(crate) struct Sets {
    #[command(flatten)]
    disk: Disk,
    /// The number of interleaved rounds.
    #[arg(long, default_value_t = 15)]
    rounds: u8,
    /// The number of SETs in a round.
    #[arg(long, default_value_t = 500_000)]
    count: u64,
    /// Instead of comparing two stores, changes one with this mode, for counting instructions.
    #[arg(long)]
    only: Option<String>,
}

impl Sets {
    pub(crate) fn run(&self) {
        if let Some(mode) = &self.only {
            let mode = Durability::from_name(mode).expect("none, everysec or always");
            let journaled = Journaled::new(&self.disk.disk, mode);
            set_all(&journaled, self.count, 1);
            println!("{{\"operations\": {}}}", self.count);
            return;
        }
        let modes = [Durability::None, Durability::EverySecond];
        let sides = modes.map(|mode| Journaled::new(&self.disk.disk, mode));
        let mut times = [const { Vec::new() }; 2];
        for side in &sides {
            set_all(side, KEYS, 0);
        }
        let before = sides[1].head();
        for round in 0..self.rounds {
            for (side, times) in sides.iter().zip(&mut times) {
                times.push(set_all(side, self.count, round));
            }
        }
        let bytes =
            (sides[1].head() - before) as f64 / (self.count * u64::from(self.rounds)) as f64;
        let [none, everysec] = times;
        println!("{{\"none_ns\": {none:?}, \"everysec_ns\": {everysec:?}, \"bytes\": {bytes}}}");
    }
}

/// Sets keys to new values of 64 bytes. Returns the nanoseconds per SET.
fn set_all(journaled: &Journaled, count: u64, round: u8) -> f64 {
    let keys: Vec<_> = (0..KEYS).map(|number| key(number * 7919 % KEYS)).collect();
    let mut value = [round; 64];
    let start = Instant::now();
    for at in 0..count {
        let key = &keys[(at % KEYS) as usize];
        // A word that keeps its value is not in the journal.
        value.fill(round ^ (at / KEYS) as u8);
        let (key, value) = black_box((&key[..], &value[..]));
        journaled.store.set(0, key, value).expect("room");
    }
    start.elapsed().as_nanos() as f64 / count as f64
}

#[derive(Args)]
pub(crate) struct Always {
    #[command(flatten)]
    disk: Disk,
    /// The numbers of writing threads to measure, in interleaved rounds.
    #[arg(long, num_args = 1.., default_values_t = [1, 16, 64])]
    writers: Vec<usize>,
    /// The number of rounds.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The length of a round in seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
}

impl Always {
    pub(crate) fn run(&self) {
        let journaled = Journaled::new(&self.disk.disk, Durability::Always);
        let mut rates = vec![Vec::new(); self.writers.len()];
        for _ in 0..self.rounds {
            for (&writers, rates) in self.writers.iter().zip(&mut rates) {
                rates.push(self.rate(&journaled, writers));
            }
        }
        println!(
            "{{\"writers\": {:?}, \"sets_per_second\": {rates:?}}}",
            self.writers
        );
    }

    fn rate(&self, journaled: &Journaled, writers: usize) -> f64 {
        let (done, end) = (AtomicU64::new(0), AtomicBool::new(false));
        let start = Instant::now();
        std::thread::scope(|scope| {
            for writer in 0..writers as u64 {
                let (done, end) = (&done, &end);
                scope.spawn(move || {
                    let mut count = 0;
                    while !end.load(Ordering::Relaxed) {
                        let key = key((writer * 101 + count) % KEYS);
                        journaled
                            .store
                            .set(0, &key, &[count as u8; 64])
                            .expect("room");
                        count += 1;
                    }
                    done.fetch_add(count, Ordering::Relaxed);
                });
            }
            std::thread::sleep(Duration::from_secs_f64(self.seconds));
            end.store(true, Ordering::Relaxed);
        });
        done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
    }
}

#[derive(Args)]
pub(crate) struct Bulk {
    #[command(flatten)]
    disk: Disk,
    /// The number of interleaved rounds.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The amount of data of each kind in a round, in MiB.
    #[arg(long, default_value_t = 256)]
    mib: u64,
    /// The number of items that are appended to a feed in a round.
    #[arg(long, default_value_t = 1_000_000)]
    items: u64,
}

impl Bulk {
    pub(crate) fn run(&self) {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let folder = tempfile::tempdir_in(&self.disk.disk).expect("a directory on the disk");
        let terms = Terms {
            capacity: Some(16 << 30),
            max_memory: Some(0),
            durability: Some(Durability::EverySecond),
            journal: Some(folder.path().join("journal")),
            ..Terms::default()
        };
        let path = directory.path().join("store");
        let place = Place::new(path.to_str().expect("a path of letters"), terms);
        let store = StoreOf(
            place
                .expect("a path is a name")
                .open(|| None)
                .expect("a store"),
        );
        let (mut file, mut values, mut hashes, mut feeds) = (vec![], vec![], vec![], vec![]);
        for round in 0..self.rounds {
            file.push(sequential(&self.disk.disk, self.mib));
            values.push(rate(&store, || self.values(&store, round as u8)));
            hashes.push(rate(&store, || self.hashes(&store, round)));
            feeds.push(rate(&store, || self.feeds(&store, round)));
        }
        println!(
            "{{\"file_mb\": {file:?}, \"values_mb\": {values:?}, \"hashes_mb\": {hashes:?}, \
             \"feeds_mb\": {feeds:?}}}"
        );
    }

    fn values(&self, store: &StoreOf, round: u8) {
        let value = vec![round; 8 << 20];
        for number in 0..self.mib / 8 {
            store.set(0, &key(number % 4), &value).expect("room");
        }
    }

    fn hashes(&self, store: &StoreOf, round: usize) {
        let value = [round as u8; 64];
        // Each field has a name of 16 bytes.
        for hash in 0..(self.mib << 20) / 8_000_000 {
            let name = format!("hash:{}", hash % 4);
            let fields: Vec<_> = (0..100_000).map(key).collect();
            let mut words: Vec<&[u8]> = vec![b"HSET", name.as_bytes()];
            words.extend(fields.iter().flat_map(|field| [&field[..], &value[..]]));
            let mut session = store.0.session();
            run(store, &mut session, &[b"DEL", name.as_bytes()]);
            run(store, &mut session, &words);
        }
    }

    fn feeds(&self, store: &StoreOf, round: usize) {
        let mut session = store.0.session();
        if round == 0 {
            run(
                store,
                &mut session,
                &[b"FEED.CREATE", b"feed", b"SIZE", b"8"],
            );
        }
        let mut at = 0;
        while at < self.items {
            let items: Vec<[u8; 8]> = (at..at + 1000)
                .map(|item| (item * 977).to_be_bytes())
                .collect();
            let mut words: Vec<&[u8]> = vec![b"FEED.ADD", b"feed", b"-1"];
            words.extend(items.iter().map(|item| &item[..]));
            run(store, &mut session, &words);
            at += 1000;
        }
    }
}

fn run(store: &StoreOf, session: &mut undercroft_commands::session::Session, words: &[&[u8]]) {
    let mut reply = Recorder::new();
    store
        .0
        .execute(session, words, &mut reply)
        .expect("no process holds a lock");
    let tree = reply.finish().expect("a reply");
    assert!(!matches!(tree[..], [Tree::Error(_)]), "{tree:?}");
}

/// Returns the megabytes of journal a second that some changes write, a final sync included.
fn rate(store: &StoreOf, changes: impl FnOnce()) -> f64 {
    let head = || store.journal().expect("a journal").head;
    let (before, start) = (head(), Instant::now());
    changes();
    store.make_durable().expect("a durable journal");
    (head() - before) as f64 / 1e6 / start.elapsed().as_secs_f64()
}

/// Returns the megabytes a second with which a new file is written, a final sync included.
fn sequential(disk: &std::path::Path, mib: u64) -> f64 {
    use std::io::Write;
    let mut file = tempfile::tempfile_in(disk).expect("a file on the disk");
    let piece = vec![7; PIECE];
    let start = Instant::now();
    for _ in 0..(mib << 20) / PIECE as u64 {
        file.write_all(&piece).expect("space");
    }
    file.sync_data().expect("a sync");
    (mib << 20) as f64 / 1e6 / start.elapsed().as_secs_f64()
}

#[derive(Args)]
pub(crate) struct Readers {
    #[command(flatten)]
    disk: Disk,
    /// The number of interleaved rounds.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// The length of a round in seconds.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// The number of writes a second.
    #[arg(long, default_value_t = 1_000)]
    writes: u64,
}

impl Readers {
    pub(crate) fn run(&self) {
        let modes = [
            Durability::None,
            Durability::EverySecond,
            Durability::Always,
        ];
        let sides = modes.map(|mode| Journaled::new(&self.disk.disk, mode));
        let mut rates = [const { Vec::new() }; 3];
        let mut written = [const { Vec::new() }; 3];
        for side in &sides {
            for number in 0..KEYS {
                // Not durable one by one, to take less time.
                if side.store.durability() != Durability::Always || number < 100 {
                    side.store.set(0, &key(number), &[0; 64]).expect("room");
                }
            }
        }
        for _ in 0..self.rounds {
            for (at, side) in sides.iter().enumerate() {
                let (reads, writes) = self.rate(side);
                rates[at].push(reads);
                written[at].push(writes);
            }
        }
        println!("{{\"gets_per_second\": {rates:?}, \"writes_per_second\": {written:?}}}");
    }

    /// Returns the reads a second of one thread while another one writes, and the writes a second.
    fn rate(&self, journaled: &Journaled) -> (f64, f64) {
        let end = AtomicBool::new(false);
        let mut writes = 0_u64;
        let mut reads = 0_u64;
        let start = Instant::now();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let (mut count, mut out) = (0_u64, Vec::with_capacity(64));
                while !end.load(Ordering::Relaxed) {
                    for number in 0..100 {
                        out.clear();
                        let found = journaled.store.get(0, &key(number), &mut out);
                        assert!(found.expect("readable"));
                    }
                    count += 100;
                }
                count
            });
            while start.elapsed().as_secs_f64() < self.seconds {
                let due = (start.elapsed().as_secs_f64() * self.writes as f64) as u64;
                match writes < due {
                    true => {
                        let value = [writes as u8; 64];
                        journaled
                            .store
                            .set(0, &key(writes % 100), &value)
                            .expect("room");
                        writes += 1;
                    }
                    false => std::thread::sleep(Duration::from_micros(200)),
                }
            }
            end.store(true, Ordering::Relaxed);
            reads = reader.join().expect("a reader");
        });
        let seconds = start.elapsed().as_secs_f64();
        (reads as f64 / seconds, writes as f64 / seconds)
    }
}
