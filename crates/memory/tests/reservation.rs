//! Tests how often transactions of any size run before enough memory is reserved for them (W10).

use std::cell::Cell;

use undercroft_memory::{
    BlockStock, Error, LogSavepoint, Need, Options, Segment, ShardSet, Transaction, removing,
};

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

/// Allocates blocks in all shards in turn. Links each block to the previous block of its shard.
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

/// Checks that exactly the blocks reachable from the roots are allocated.
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

/// Runs a transaction that allocates `count` blocks. Returns its result and the number of times
/// that its body ran.
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
fn a_transaction_whose_need_was_reserved_runs_once() {
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
        // Memory that is already reserved is not reserved again.
        segment.expect(ShardSet::first(SHARDS), &Need { memory: 0, ..need });
        let before = segment.statistics();
        segment.expect(ShardSet::first(SHARDS), &Need { memory: 0, ..need });
        let after = segment.statistics();
        assert_eq!((after.logs, after.reserved), (before.logs, before.reserved));
    }
}

#[test]
fn a_transaction_that_declares_its_demand_runs_two_or_three_times() {
    // Blocks that consist of whole pages need free runs, which may cause another retry.
    for (count, bytes, most) in [(100_000, 40, 2), (50_000, 500, 2), (400, 100_000, 3)] {
        let (_directory, segment) = create(1 << 30);
        let runs = Cell::new(0);
        let result = segment.write(ShardSet::one(0), |transaction| {
            runs.set(runs.get() + 1);
            let mut stock = BlockStock::new(0);
            stock.expect_many(bytes, count);
            for _ in 0..count {
                let at = stock.take(transaction, bytes)?;
                let last = transaction.view().root(0, 0);
                transaction.fill_word(at, last)?;
                transaction.set_root(0, 0, at)?;
            }
            stock.close(transaction);
            Ok::<_, Error>(())
        });
        result.expect("room enough");
        let runs = runs.get();
        assert!(runs <= most, "{count} blocks of {bytes} bytes: {runs} runs");
        check(&segment);
    }
}

#[test]
fn words_that_change_repeatedly_are_logged_once() {
    let (_directory, segment) = create(16 << 20);
    let (before, runs) = (segment.statistics().logs, Cell::new(0));
    let change = |fails| {
        segment.write(ShardSet::one(0), |transaction| {
            runs.set(runs.get() + 1);
            for round in 1..10_000 {
                transaction.set_root(0, round % 100, round as u64)?;
            }
            if fails {
                return Err(Error::ReadOnly);
            }
            Ok(())
        })
    };
    change(true).expect_err("it fails");
    let words = |segment: &Segment| {
        let read = segment.read(ShardSet::one(0), |view| {
            Ok::<_, Error>(
                (0..100)
                    .map(|word| view.root(0, word))
                    .collect::<Vec<u64>>(),
            )
        });
        read.expect("a read")
    };
    assert_eq!(words(&segment), vec![0; 100]);
    change(false).expect("room");
    assert_eq!(words(&segment), (9900..10_000).collect::<Vec<u64>>());
    assert_eq!((runs.get(), segment.statistics().logs), (2, before));
}

#[test]
fn words_are_logged_once_whatever_the_savepoints() {
    let (_directory, segment) = create(16 << 20);
    let before = segment.statistics().logs;
    let most = Cell::new(0);
    let change = |transaction: &mut Transaction<'_>| {
        let mut savepoint = LogSavepoint::default();
        for round in 1..50_000_u64 {
            transaction.renew(&mut savepoint);
            transaction.set_root(0, 7, round)?;
            if round % 3 == 0 {
                // Run a command that fails, and in it a nested command that also fails.
                let inner = transaction.savepoint();
                transaction.set_root(0, 7, u64::MAX)?;
                transaction.set_root(0, 8, round)?;
                transaction.roll_back_to(&inner)?;
                assert_eq!(transaction.view().root(0, 7), round);
                transaction.set_root(0, 7, 0)?;
                transaction.roll_back_to(&savepoint)?;
            }
            let last = if round % 3 == 0 { round - 1 } else { round };
            assert_eq!(transaction.view().root(0, 7), last);
        }
        most.set(segment.statistics().logs);
        Ok::<_, Error>(())
    };
    segment.write(ShardSet::one(0), change).expect("room");
    assert_eq!(most.get(), before, "the log did not grow");
    let read = segment.read(ShardSet::one(0), |view| {
        Ok::<_, Error>((view.root(0, 7), view.root(0, 8)))
    });
    assert_eq!(read.expect("a read"), (49_999, 0));
}

#[test]
fn memory_of_a_long_log_is_returned_to_the_system() {
    let (_directory, segment) = create(64 << 20);
    let least = segment.statistics().logs;
    let (result, _) = runs(&segment, 100_000, 64);
    result.expect("room");
    assert_eq!(
        segment.statistics().logs,
        least,
        "the end of a long transaction gives it back"
    );
    // Upkeep also shrinks shorter logs, and logs that were only expected to be long.
    let need = Need {
        log: 1 << 20,
        memory: 0,
    };
    segment.expect(ShardSet::first(SHARDS), &need);
    assert!(segment.statistics().logs > least + (1 << 20));
    let shrink = || {
        let shrunk = (0..SHARDS).map(|index| segment.shrink_log(index).expect("no lock is held"));
        shrunk.fold(false, |more, shrunk| more | shrunk.more)
    };
    assert!(shrink(), "not while it may be wanted again");
    let start = std::time::Instant::now();
    while shrink() {
        assert!(start.elapsed().as_secs() < 60, "it comes to an end");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(segment.statistics().logs, least);
    segment.expect(ShardSet::first(SHARDS), &need);
    segment.shrink_logs_now().expect("no lock is held");
    assert_eq!(segment.statistics().logs, least, "at once on request");
    let (result, _) = runs(&segment, 10_000, 64);
    result.expect("a log that grows again");
    check(&segment);
}

#[test]
fn memory_kept_for_removals_is_used_only_by_removals() {
    let (_directory, segment) = create(4 << 20);
    let block = |bytes: u64| {
        segment.write(ShardSet::one(0), |transaction| {
            let at = transaction.allocate(0, bytes)?;
            let last = transaction.view().root(0, 0);
            transaction.fill_word(at, last)?;
            transaction.set_root(0, 0, at)
        })
    };
    for bytes in [60_000, 4000, 500, 64, 8] {
        while block(bytes).is_ok() {}
    }
    let free = segment.statistics().free;
    assert!(free > 0, "some is kept");
    let removing = removing();
    let mut taken = 0;
    while block(4096 * 2).is_ok() {
        taken += 1;
    }
    drop(removing);
    assert!(taken > 0, "of {free} bytes");
    assert!(matches!(block(4096), Err(Error::OutOfMemory)));
    check(&segment);
}

/// Makes random changes, savepoints and rollbacks while the store is being copied.
#[test]
fn a_long_log_rolls_back_to_any_savepoint() {
    for seed in 1..200_u64 {
        let (_directory, segment) = create(16 << 20);
        let mut random = seed;
        let mut below = |limit: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 11) % limit
        };
        let at = segment
            .write(ShardSet::one(0), |transaction| {
                let at = transaction.allocate(0, 8000)?;
                transaction.fill_zero(at, 8000)?;
                transaction.set_root(0, 0, at)?;
                Ok::<_, Error>(at)
            })
            .expect("a block");
        let fails = seed % 4 == 0;
        let read = |view: &undercroft_memory::View<'_>| {
            let mut bytes = Vec::new();
            view.append_to(at, 8000, &mut bytes).map(|()| bytes)
        };
        segment.expect(
            ShardSet::one(0),
            &Need {
                log: 1 << 20,
                memory: 0,
            },
        );
        let mut model = vec![0; 8000];
        let written = segment.write(ShardSet::one(0), |transaction| {
            let mut points = Vec::new();
            for _ in 0..below(600) {
                match below(12) {
                    0 => points.push((transaction.savepoint(), model.clone())),
                    1 if !points.is_empty() => {
                        let kept = below(points.len() as u64) as usize;
                        points.truncate(kept + 1);
                        let (point, then) = &points[kept];
                        transaction.roll_back_to(point)?;
                        model.clone_from(then);
                    }
                    _ => {
                        let from = below(900) as usize * 8;
                        let bytes = vec![below(256) as u8; 8 * (1 + below(100) as usize)];
                        transaction.write(0, at + from as u64, &bytes)?;
                        model[from..from + bytes.len()].copy_from_slice(&bytes);
                    }
                }
                assert_eq!(read(transaction.view())?, model, "seed {seed}");
            }
            if fails { Err(Error::ReadOnly) } else { Ok(()) }
        });
        assert_eq!(written.is_err(), fails, "seed {seed}");
        if fails {
            model.fill(0);
        }
        let after = segment.read(ShardSet::one(0), |view| Ok::<_, Error>(read(view)?));
        assert_eq!(after.expect("a read"), model, "seed {seed}");
    }
}

#[test]
fn an_impossible_transaction_soon_runs_out_of_memory_and_changes_nothing() {
    let (_directory, segment) = create(4 << 20);
    let used = segment.statistics().used;
    let (result, runs) = runs(&segment, 10_000, 4000);
    assert!(matches!(result, Err(Error::OutOfMemory)), "{result:?}");
    assert!(runs <= 10, "{runs} runs");
    assert_eq!(segment.statistics().used, used);
    check(&segment);
    // A vastly excessive estimate does not cause a failure.
    let need = Need {
        log: u64::MAX / 8,
        memory: u64::MAX / 8,
    };
    segment.expect(ShardSet::first(SHARDS), &need);
    let (result, _) = self::runs(&segment, 100, 4000);
    result.expect("room for less");
    check(&segment);
}
