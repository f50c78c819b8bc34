//! Tests stores on a disk after a power failure (D1 to D3): pages that were not synced may date
//! from any moment.
//!
//! An image simulates the disk. It receives the pages that the store syncs and, at a power failure,
//! an arbitrary selection of the pages that changed since the last sync.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use undercroft_memory::layout::{PAGE, header};
use undercroft_memory::{Error, Initially, Options, Segment, ShardSet, fault};

const SHARDS: usize = 2;

/// Nonzero pages, by page number.
type Pages = BTreeMap<u64, Vec<u8>>;

struct Store {
    path: PathBuf,
    segment: Segment,
    directory: tempfile::TempDir,
}

impl Store {
    fn new() -> Store {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let path = directory.path().join("store");
        let options = Options {
            capacity: Some(1 << 20),
            shards: Some(SHARDS),
            ring: Some(64 << 10),
        };
        let segment = Segment::create(&path, &options).expect("a new store");
        for shard in 0..SHARDS {
            let made = segment.write(ShardSet::one(shard), |transaction| {
                let at = transaction.allocate(shard, 16)?;
                transaction.fill(at, &[0; 16])?;
                transaction.set_root(shard, 0, at)
            });
            made.expect("room for a block");
        }
        Store {
            path,
            segment,
            directory,
        }
    }

    /// Creates the file as another machine would find it. Returns its path.
    fn elsewhere(&self, pages: &Pages) -> PathBuf {
        let path = self.directory.path().join("elsewhere");
        let length = fs::metadata(&self.path).expect("a file").len();
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .expect("a file");
        file.set_len(length).expect("a length");
        for (&page, bytes) in pages {
            file.write_all_at(bytes, page * PAGE).expect("a page");
        }
        let at = header::UNSYNCED;
        let boot = word(&file, at);
        if boot != 0 {
            let other = (boot ^ 2).to_le_bytes();
            file.write_all_at(&other, at).expect("a word");
        }
        path
    }
}

fn word(file: &File, at: u64) -> u64 {
    let mut word = [0; 8];
    file.read_exact_at(&mut word, at).expect("a word");
    u64::from_le_bytes(word)
}

/// Returns the nonzero pages in `length` bytes of a file, starting at `start`.
fn pages(path: &Path, start: u64, length: u64) -> Pages {
    let file = File::open(path).expect("a file");
    let (mut pages, end) = (Pages::new(), start + length);
    let mut at = start;
    loop {
        // SAFETY: the descriptor is open, and the call touches no memory.
        let data = unsafe { libc::lseek(file.as_raw_fd(), at as i64, libc::SEEK_DATA) };
        if data < 0 || data as u64 >= end {
            return pages;
        }
        at = data as u64 / PAGE * PAGE;
        let mut page = vec![0; PAGE as usize];
        file.read_exact_at(&mut page, at).expect("a page");
        if page.iter().any(|&byte| byte != 0) {
            pages.insert(at / PAGE, page);
        }
        at += PAGE;
    }
}

/// Returns the nonzero pages of an entire file.
fn all_pages(path: &Path) -> Pages {
    pages(path, 0, fs::metadata(path).expect("a file").len())
}

/// Increments the counts in both shards in one transaction.
fn increment(segment: &Segment) -> Result<(), Error> {
    segment.write(ShardSet::first(SHARDS), |transaction| {
        for shard in 0..SHARDS {
            let at = transaction.view().root(shard, 0);
            let [value, copy] = transaction.view().words(at)?;
            assert_eq!(value, copy, "a torn pair");
            transaction.store(shard, at, value + 1)?;
            transaction.store(shard, at + 8, value + 1)?;
        }
        Ok(())
    })
}

/// Returns the counts in a store, which must be consistent.
fn counts(segment: &Segment) -> [u64; SHARDS] {
    let mut counts = [0; SHARDS];
    let report = segment.check(|shard, view, reach, _| {
        let at = view.root(shard, 0);
        reach(at);
        let [value, copy] = view.words(at).expect("a pair");
        assert_eq!(value, copy, "a torn pair in shard {shard}");
        counts[shard] = value;
    });
    let report = report.expect("a check");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    counts
}

fn is_unclean(result: Result<Segment, Error>) -> bool {
    matches!(result, Err(Error::Unclean { .. }))
}

#[test]
fn a_store_of_another_boot_is_used_only_if_it_was_synced() {
    let store = Store::new();
    increment(&store.segment).expect("a change");
    let there = store.elsewhere(&all_pages(&store.path));
    let before = all_pages(&there);
    for write in [true, false] {
        assert!(is_unclean(Segment::open(&there, write)));
    }
    let options = Options::default();
    assert!(is_unclean(Segment::open_or_create(
        &there,
        &options,
        Initially::default()
    )));
    let said = Segment::open(&there, true)
        .err()
        .expect("a refusal")
        .to_string();
    for word in ["not synced", "check --unclean", "export --unclean"] {
        assert!(said.contains(word), "{said}");
    }
    // An unclean store can be inspected without changing its file.
    let unclean = Segment::open_unclean(&there).expect("a store");
    assert_eq!(counts(&unclean), [1, 1]);
    increment(&unclean).expect("a change of its own");
    unclean.sync().expect("nothing to sync");
    assert_eq!(counts(&unclean), [2, 2]);
    drop(unclean);
    assert!(all_pages(&there) == before, "the file was changed");
    assert!(!store.segment.is_synced());
    store.segment.sync().expect("a sync");
    assert!(store.segment.is_synced());
    let there = store.elsewhere(&all_pages(&store.path));
    let other = Segment::open(&there, true).expect("a synced store");
    assert_eq!(counts(&other), [1, 1]);
    // Reading leaves the store synced, but changing it does not.
    assert!(other.is_synced());
    increment(&other).expect("a change");
    assert!(!other.is_synced());
    drop(Segment::open(&there, true).expect("it is this boot's now"));
}

#[test]
fn a_write_during_a_sync_spoils_the_sync() {
    let store = Store::new();
    let other = Segment::open(&store.path, true).expect("the same store");
    let mut left = 1;
    fault::on_sync(Some(Box::new(move |_, length| {
        if left > 0 && length > PAGE {
            left -= 1;
            increment(&other).expect("a change");
        }
    })));
    store.segment.sync().expect("the second time");
    assert!(store.segment.is_synced());
    let there = store.elsewhere(&all_pages(&store.path));
    assert_eq!(
        counts(&Segment::open(&there, true).expect("a store")),
        [1, 1]
    );
    let other = Segment::open(&store.path, true).expect("the same store");
    fault::on_sync(Some(Box::new(move |_, length| {
        if length > PAGE {
            increment(&other).expect("a change");
        }
    })));
    let result = store.segment.sync();
    fault::on_sync(None);
    assert!(matches!(result, Err(Error::Unsynced)), "{result:?}");
    assert!(!store.segment.is_synced());
    assert!(is_unclean(Segment::open(
        &store.elsewhere(&all_pages(&store.path)),
        true
    )));
}

/// A generator of reproducible pseudo-random numbers.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> bool {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 32 & 1 == 1
    }
}

/// One change of each kind: to shards, to the ring, and to the heap.
const CHANGES: [fn(&Segment); 3] = [
    |segment| increment(segment).expect("a change"),
    |segment| segment.append(1, 7, b"name", b"body").expect("a message"),
    |segment| {
        segment.trim_now(0).expect("a batch");
    },
];

/// Returns an image of the disk, which is updated with every page that this thread writes to disk.
fn play_the_disk(path: &Path) -> Rc<RefCell<Pages>> {
    let disk = Rc::new(RefCell::new(all_pages(path)));
    let (written, path) = (disk.clone(), path.to_owned());
    fault::on_sync(Some(Box::new(move |start, length| {
        let now = pages(&path, start, length);
        let mut disk = written.borrow_mut();
        disk.retain(|page, _| !(start..start + length).contains(&(page * PAGE)));
        disk.extend(now);
    })));
    disk
}

/// The power fails at every step of the first change after a sync, of the next sync, and of the
/// operations that follow. Whichever pages were written back, the store is either rejected or in a
/// state that a sync wrote.
#[test]
fn a_power_cut_at_any_step_leaves_a_synced_store_or_a_refused_one() {
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    for (first, change) in CHANGES.iter().enumerate() {
        let (mut used, mut refused, mut finished, mut steps) = ([0; 3], 0, false, 0);
        while !finished {
            let store = Store::new();
            store.segment.sync().expect("a sync");
            let disk = play_the_disk(&store.path);
            let done = fault::die_after(steps, || {
                change(&store.segment);
                increment(&store.segment).expect("a change");
                store.segment.sync().expect("a sync");
                change(&store.segment);
            });
            fault::on_sync(None);
            finished = done.is_some();
            if !finished {
                store.segment.abandon();
            }
            let (disk, now) = (disk.borrow(), all_pages(&store.path));
            for mixed in 0..6 {
                let mut found = disk.clone();
                for (page, bytes) in &now {
                    // Write back all changed pages, none of them, or a random selection.
                    if mixed == 0 || mixed > 1 && chance.next() {
                        found.insert(*page, bytes.clone());
                    }
                }
                match Segment::open(&store.elsewhere(&found), true) {
                    Err(Error::Unclean { .. }) => refused += 1,
                    Err(error) => panic!("step {steps}: {error}"),
                    Ok(other) => {
                        let [count, copy] = counts(&other);
                        assert_eq!(count, copy, "step {steps}: half a change");
                        let synced = if first == 0 { [0, 2] } else { [0, 1] };
                        assert!(synced.contains(&count), "step {steps}: {count}");
                        used[count as usize] += 1;
                        increment(&other).expect("a change");
                    }
                }
            }
            steps += 1;
        }
        println!("{steps} steps: {used:?} stores were used and {refused} refused");
        assert!(used[0] > 0 && used[1] + used[2] > 0 && refused > 0);
    }
}
