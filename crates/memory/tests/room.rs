//! Room for transactions of any size (W10): how often they run.

use std::cell::Cell;

use undercroft_memory::{Error, Need, Options, Segment, ShardSet, Transaction};

const SHARDS: usize = 8;

fn create(capacity: u64) -> (tempfile::TempDir, Segment) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let options = Options {
        capacity: Some(capacity),
        shards: Some(SHARDS),
        ring: Some(64 << 10),
    };
    let segment = Segment::create(&directory.path().join("store"), &options).expect("a new store");
    (directory, segment)
}

/// Allocates blocks in all shards, one after the other, each after the last one
/// of its shard.
fn blocks(transaction: &mut Transaction<'_>, count: usize, bytes: u64) -> Result<(), Error> {
    for block in 0..count {
        let shard = block % SHARDS;
        let at = transaction.allocate(shard, bytes)?;
        let last = transaction.view().root(shard, 0);
        transaction.fill_word(at, last)?;
        transaction.set_root(shard, 0, at)?;
    }
    Ok(())
}

/// Finds each block where the roots lead, and nothing else.
fn check(segment: &Segment) {
    let checked = segment.check(|shard, view, reach, _| {
        let mut at = view.root(shard, 0);
        while at != 0 {
            reach(at);
            at = view.word(at).expect("a block");
        }
    });
    assert_eq!(checked.expect("a check").problems, Vec::<String>::new());
}

/// How often the body of a transaction runs that allocates so many blocks.
fn runs(segment: &Segment, count: usize, bytes: u64) -> (Result<(), Error>, u32) {
    let runs = Cell::new(0);
    let result = segment.write(ShardSet::first(SHARDS), |transaction| {
        runs.set(runs.get() + 1);
        blocks(transaction, count, bytes)
    });
    (result, runs.get())
}

#[test]
fn a_large_transaction_runs_a_few_times() {
    for (count, bytes, most) in [
        (1000, 64, 3),
        (10_000, 64, 4),
        (100_000, 64, 5),
        (300, 100_000, 6),
    ] {
        let (_directory, segment) = create(256 << 20);
        let (result, runs) = runs(&segment, count, bytes);
        result.expect("room");
        assert!(runs <= most, "{count} blocks of {bytes} bytes: {runs} runs");
        check(&segment);
    }
}

#[test]
fn one_that_was_expected_runs_once() {
    for (count, bytes) in [(10_000, 64), (100_000, 64), (300, 100_000)] {
        let (_directory, segment) = create(256 << 20);
        let need = Need {
            log: count as u64 * 200,
            memory: count as u64 * (bytes + bytes / 3),
        };
        segment.expect(ShardSet::first(SHARDS), &need);
        let (result, runs) = runs(&segment, count, bytes);
        result.expect("room");
        assert_eq!(runs, 1, "{count} blocks of {bytes} bytes");
        // What is there is not reserved again.
        let before = segment.statistics();
        segment.expect(ShardSet::first(SHARDS), &Need { memory: 0, ..need });
        let after = segment.statistics();
        assert_eq!((after.logs, after.reserved), (before.logs, before.reserved));
    }
}

#[test]
fn one_that_cannot_be_is_out_of_memory_soon_and_changes_nothing() {
    let (_directory, segment) = create(4 << 20);
    let used = segment.statistics().used;
    let (result, runs) = runs(&segment, 10_000, 4000);
    assert!(matches!(result, Err(Error::OutOfMemory)), "{result:?}");
    assert!(runs <= 10, "{runs} runs");
    assert_eq!(segment.statistics().used, used);
    check(&segment);
    // A guess that is far too high fails nothing.
    let need = Need {
        log: u64::MAX / 8,
        memory: u64::MAX / 8,
    };
    segment.expect(ShardSet::first(SHARDS), &need);
    let (result, _) = self::runs(&segment, 100, 4000);
    result.expect("room for less");
    check(&segment);
}
