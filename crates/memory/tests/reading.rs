//! Tests lock-free readers: they read a consistent state of several shards (R4), and write nothing
//! but hints (R6).

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use undercroft_memory::layout::{Layout, shard};
use undercroft_memory::race::Moment;
use undercroft_memory::{Error, Options, Segment, ShardSet};

const RING: u64 = 64 << 10;
const SHARDS: usize = 4;
const CAPACITY: u64 = 8 << 20;

fn create() -> (tempfile::TempDir, PathBuf, Segment) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("store");
    let options = Options {
        capacity: Some(CAPACITY),
        shards: Some(SHARDS),
        ring: Some(RING),
    };
    let segment = Segment::create(&path, &options).expect("a new store");
    (directory, path, segment)
}

/// Sets root 0 of the given shards.
fn set(segment: &Segment, shards: impl Iterator<Item = usize> + Clone, value: u64) {
    segment
        .write(shards.clone().collect(), |transaction| {
            (shards.clone()).try_for_each(|shard| transaction.set_root(shard, 0, value))
        })
        .expect("a write");
}

#[test]
fn reading_several_shards_detects_a_change_of_any_of_them() {
    let (_directory, path, writer) = create();
    let reader = Segment::open(&path, false).expect("the same store");
    let mut value = 0;
    for changed in 0..SHARDS {
        // Change a shard after some of the shards have been read, and after all have been read.
        for after in 0..SHARDS {
            value += 1;
            let runs = AtomicUsize::new(0);
            let read = reader.read(ShardSet::first(SHARDS), |view| {
                let run = runs.fetch_add(1, Ordering::Relaxed);
                let mut roots = [0; SHARDS];
                for (shard, root) in roots.iter_mut().enumerate() {
                    *root = view.root(shard, 0);
                    if run == 0 && shard == after {
                        set(&writer, 0..SHARDS, value);
                        set(&writer, std::iter::once(changed), value);
                    }
                }
                Ok::<_, Error>(roots)
            });
            assert_eq!(read.expect("a read"), [value; SHARDS]);
            assert_eq!(runs.into_inner(), 2);
        }
        // Change only this shard.
        let runs = AtomicUsize::new(0);
        let read = reader.read(ShardSet::first(SHARDS), |view| {
            let before = view.root(changed, 0);
            if runs.fetch_add(1, Ordering::Relaxed) == 0 {
                set(&writer, std::iter::once(changed), value + 1);
            }
            Ok::<_, Error>(before)
        });
        assert_eq!(read.expect("a read"), value + 1);
        assert_eq!(runs.into_inner(), 2, "shard {changed} alone");
        value += 1;
    }
}

/// The number of attempts that a read makes before acquiring the lock.
const TRIES: u64 = 64;

/// Reads root 0 of one or more shards while a hook sets it to 1, 2, 3, ... at one kind of moment.
/// Returns the value read and the number of times that the hook ran.
fn read_interrupted(write: bool, shards: usize, moment: Moment, changes: u64) -> (u64, u64) {
    let (_directory, path, writer) = create();
    let reader = Segment::open(&path, write).expect("the same store");
    let runs = Arc::new(AtomicU64::new(0));
    let count = runs.clone();
    reader.interrupt_reads(Some(Box::new(move |now| {
        if now == moment && count.fetch_add(1, Ordering::Relaxed) < changes {
            set(&writer, 0..SHARDS, count.load(Ordering::Relaxed));
        }
    })));
    let read = reader.read(ShardSet::first(shards), |view| {
        Ok::<_, Error>(view.root(0, 0))
    });
    reader.interrupt_reads(None);
    (read.expect("a read"), runs.load(Ordering::Relaxed))
}

#[test]
fn race_hook_interrupts_reads_at_the_chosen_moment() {
    for shards in [1, SHARDS] {
        for moment in [Moment::Looking, Moment::Tried] {
            for changes in [0, 1, 3, TRIES - 1] {
                let (read, runs) = read_interrupted(true, shards, moment, changes);
                assert_eq!((read, runs), (changes, changes + 1), "{shards} {moment:?}");
            }
            // A read that holds the lock is not interrupted.
            let (read, runs) = read_interrupted(true, shards, moment, u64::MAX);
            assert_eq!((read, runs), (TRIES, TRIES), "{shards} {moment:?}");
            // A read-only handle cannot lock, so it retries until the store stops changing.
            let (read, runs) = read_interrupted(false, shards, moment, TRIES + 3);
            assert_eq!((read, runs), (TRIES + 3, TRIES + 4), "{shards} {moment:?}");
        }
    }
}

#[test]
fn scratch_filled_before_a_change_is_discarded() {
    let (_directory, path, writer) = create();
    let reader = Segment::open(&path, true).expect("the same store");
    for shards in [ShardSet::one(0), ShardSet::first(SHARDS)] {
        // The first case makes two attempts without a lock. The second makes all of them and one
        // attempt with the lock.
        for changes in [1, 64] {
            let mut scratch = (b"before the read".to_vec(), Vec::new());
            let runs = AtomicUsize::new(0);
            let read = reader.read_into(shards, &mut scratch, |_, (bytes, words)| {
                assert_eq!((bytes.len(), words.len()), (0, 0), "R8");
                let run = runs.fetch_add(1, Ordering::Relaxed);
                if run < changes {
                    bytes.extend_from_slice(b"torn");
                    words.push(run);
                    set(&writer, 0..1, run as u64);
                }
                Ok::<_, Error>(run == changes)
            });
            assert!(read.expect("a read"));
            assert_eq!(scratch, (vec![], vec![]), "{changes} changes");
        }
    }
}

#[test]
fn scratch_is_empty_after_a_failed_read() {
    let (_directory, path, _writer) = create();
    let reader = Segment::open(&path, true).expect("the same store");
    let mut scratch = b"before the read".to_vec();
    let failed = reader.read_into(ShardSet::one(0), &mut scratch, |view, scratch| {
        scratch.extend_from_slice(b"half of it");
        view.append_to(u64::MAX, 8, scratch).map_err(Error::from)
    });
    assert!(matches!(failed, Err(Error::Damaged(_))), "{failed:?}");
    assert!(scratch.is_empty());
}

/// Returns the bytes of the file, with the hint tables zeroed.
fn bytes(path: &Path) -> Vec<u8> {
    let mut bytes = fs::read(path).expect("the store");
    for hints in hint_tables() {
        bytes[hints].fill(0);
    }
    bytes
}

fn hint_tables() -> impl Iterator<Item = Range<usize>> {
    let layout = Layout::new(SHARDS, CAPACITY, RING);
    (0..SHARDS).map(move |index| {
        let start = (layout.shard(index) + shard::HINTS) as usize;
        start..start + (4 << shard::HINT_BITS_MAX)
    })
}

#[test]
fn readers_write_nothing_but_hints() {
    let (_directory, path, writer) = create();
    for shard in 0..SHARDS {
        writer
            .write(ShardSet::one(shard), |transaction| {
                let at = transaction.allocate(shard, 20_000)?;
                transaction.fill(at, &[7; 20_000])?;
                transaction.set_root(shard, 1, at)
            })
            .expect("room");
    }
    let before = bytes(&path);
    for write in [false, true] {
        let hints_before = fs::read(&path).expect("the store");
        let reader = Segment::open(&path, write).expect("the same store");
        for shard in 0..SHARDS {
            reader
                .read(ShardSet::one(shard), |view| {
                    let mut out = Vec::new();
                    let at = view.root(shard, 1);
                    view.append_to(at, 20_000, &mut out)?;
                    assert!(view.equals(at, &out)? && out == [7; 20_000]);
                    Ok::<_, Error>(())
                })
                .expect("a read");
            reader.set_hint(shard, 4711, reader.hint(shard, 4711) + 1);
        }
        let all = reader.read(ShardSet::first(SHARDS), |view| {
            Ok::<_, Error>((0..SHARDS).map(|shard| view.root(shard, 1)).max())
        });
        assert!(all.expect("a read").is_some());
        let _ = (
            reader.statistics(),
            reader.members(),
            reader.held_locks(),
            reader.removed(),
        );
        drop(reader);
        assert!(bytes(&path) == before, "write: {write}");
        let hints = fs::read(&path).expect("the store") != hints_before;
        assert_eq!(hints, write, "hints are written where they can be");
    }
}

#[test]
fn a_grown_hint_table_keeps_its_hints() {
    let (_directory, path, segment) = create();
    let first = segment.hints(1);
    let hash = |key: u64| key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for key in 0..first {
        segment.set_hint(1, hash(key), key as u32 + 1);
    }
    let known: Vec<u32> = (0..first).map(|key| segment.hint(1, hash(key))).collect();
    let others = bytes(&path);
    segment.grow_hints(1, first * 5).expect("memory");
    assert_eq!(segment.hints(1), first * 4);
    assert_eq!(segment.hints(0), first);
    for (key, &hint) in known.iter().enumerate() {
        assert_eq!(segment.hint(1, hash(key as u64)), hint, "key {key}");
    }
    let mut now = bytes(&path);
    let at = Layout::new(SHARDS, CAPACITY, RING).shard(1) + shard::HINT_BITS;
    now[at as usize] = others[at as usize];
    assert!(now == others, "nothing else changed");
    segment.grow_hints(1, first).expect("nothing to do");
    assert_eq!(segment.hints(1), first * 4, "it does not shrink");
    segment.grow_hints(1, u64::MAX).expect("memory");
    assert_eq!(segment.hints(1), 1 << shard::HINT_BITS_MAX);
    let reader = Segment::open(&path, false).expect("the same store");
    let refused = reader.grow_hints(0, 1 << 20);
    assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
}

#[test]
fn a_transaction_that_expects_keys_grows_the_hint_table_and_runs_once() {
    let (_directory, _path, segment) = create();
    let mut runs = 0;
    let mut expect = |keys: u64| {
        runs = 0;
        segment
            .write(ShardSet::one(2), |transaction| {
                runs += 1;
                transaction.set_root(2, 0, keys)?;
                transaction.expect_keys(2, keys);
                Ok::<_, Error>(())
            })
            .expect("a write");
        (runs, segment.hints(2))
    };
    assert_eq!(expect(1024), (1, 1024));
    assert_eq!(expect(2048), (1, 2048));
    assert_eq!(expect(2048), (1, 2048));
    // The table grows by a bounded amount each time: to 2^15 entries in one step, then by 128 KiB.
    for bits in 12..=16 {
        assert_eq!(expect(1 << 30), (1, 1 << bits));
    }
    assert_eq!(expect(1 << 30), (1, 1 << 16));
    assert_eq!(expect(1 << 30), (1, 1 << 17));
    let steps = (1..100).find(|_| expect(1 << 30).1 == 1 << 20);
    assert_eq!(steps, Some(4 + 8 + 16));
    assert_eq!(expect(1 << 30), (1, 1 << 20));
}
