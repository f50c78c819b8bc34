//! Tests that operations survive death at every step: a thread dies after the N-th significant
//! store, for N = 0, 1, 2, ... until the operation completes. Another handle must then find a
//! consistent store that contains either all of the operation or none of it.

use std::collections::BTreeMap;
use std::path::Path;

use undercroft_memory::fault::die_after;
use undercroft_memory::{Error, Need, Offset, Options, Segment, ShardSet, removing};

/// In each of the two shards, the number of roots that contain the offset of a block. A block's
/// first word is its length, and all its other words are equal.
const ROOTS: usize = 8;

fn both() -> ShardSet {
    ShardSet::first(2)
}

fn create(path: &Path) -> Segment {
    let options = Options {
        capacity: Some(8 << 20),
        shards: Some(2),
        ring: None,
    };
    Segment::create(path, &options).expect("a new store")
}

fn put(segment: &Segment, shard: usize, root: usize, length: u64, mark: u64) -> Result<(), Error> {
    segment.write(ShardSet::one(shard), |transaction| {
        let old = transaction.view().root(shard, root);
        if old != 0 {
            transaction.free(shard, old);
        }
        let at = transaction.allocate(shard, length)?;
        transaction.fill(at, &mark.to_le_bytes().repeat((length / 8) as usize))?;
        transaction.fill_word(at, length)?;
        transaction.set_root(shard, root, at)
    })
}

fn clear(segment: &Segment, shard: usize, root: usize) -> Result<(), Error> {
    segment.write(ShardSet::one(shard), |transaction| {
        let old = transaction.view().root(shard, root);
        transaction.free(shard, old);
        transaction.set_root(shard, root, 0)
    })
}

type Content = BTreeMap<(usize, usize), (u64, u64)>;

/// Returns the content reachable from the roots, after checking every block and the store's
/// structure.
fn content(segment: &Segment) -> Content {
    let mut content = Content::new();
    let report = segment
        .check(|shard, view, reach, report| {
            for root in 0..ROOTS {
                let at: Offset = view.root(shard, root);
                if at == 0 {
                    continue;
                }
                reach(at);
                let length = view.word(at).expect("a block");
                let mut words = Vec::new();
                view.append_to(at, length, &mut words).expect("a block");
                if words[8..16].repeat(words.len() / 8 - 1) != words[8..] {
                    report.problem(|| format!("a torn block in root {root} of shard {shard}"));
                }
                let mark = u64::from_le_bytes(words[8..16].try_into().expect("eight bytes"));
                content.insert((shard, root), (length, mark));
            }
        })
        .expect("a check");
    assert_eq!(report.problems, Vec::<String>::new());
    content
}

/// Runs the operation repeatedly, dying at each of its steps in turn. Returns the number of steps.
fn die_everywhere(
    prepare: impl Fn(&Segment),
    operation: impl Fn(&Segment) -> Result<(), Error>,
) -> u64 {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    for steps in 0.. {
        let path = directory.path().join(format!("store-{steps}"));
        let segment = create(&path);
        prepare(&segment);
        let before = content(&segment);
        let survived = die_after(steps, || operation(&segment).expect("enough memory")).is_some();
        if survived {
            assert_ne!(content(&segment), before, "the operation changes something");
            return steps;
        }
        segment.abandon();
        let heir = Segment::open(&path, true).expect("the same store");
        // Read first, before any writer recovers the store.
        let read_only = Segment::open(&path, false).expect("the same store");
        read_only.set_patience(std::time::Duration::ZERO);
        let glimpse = read_only.read(both(), |view| {
            Ok::<_, Error>((view.root(0, 0), view.root(1, 0)))
        });
        drop(glimpse);
        let after = content(&heir);
        let done = {
            let path = directory.path().join("done");
            let twin = create(&path);
            prepare(&twin);
            operation(&twin).expect("enough memory");
            let done = content(&twin);
            std::fs::remove_file(path).expect("just made");
            done
        };
        assert!(
            after == before || after == done,
            "after {steps} steps: {after:?}\nbefore: {before:?}\ndone: {done:?}"
        );
        // The store still works, and no freed memory is lost.
        for (shard, root) in after.keys() {
            clear(&heir, *shard, *root).expect("a free");
        }
        heir.recover().expect("a recovery");
        assert!(content(&heir).is_empty());
        assert_eq!(heir.statistics().used, 0);
        std::fs::remove_file(path).expect("just made");
    }
    unreachable!("the loop ends when the operation survives")
}

#[test]
fn allocating_a_block_in_a_new_slab_is_all_or_nothing() {
    let steps = die_everywhere(|_| (), |segment| put(segment, 0, 0, 64, 7));
    assert!(steps > 50, "{steps} steps: a slab and a grant");
}

#[test]
fn replacing_a_block_is_all_or_nothing() {
    die_everywhere(
        |segment| put(segment, 0, 0, 64, 1).expect("room"),
        |segment| put(segment, 0, 0, 640, 2),
    );
}

#[test]
fn allocating_and_freeing_a_large_block_are_all_or_nothing() {
    die_everywhere(|_| (), |segment| put(segment, 1, 2, 300_000, 3));
    die_everywhere(
        |segment| put(segment, 1, 2, 300_000, 3).expect("room"),
        |segment| clear(segment, 1, 2),
    );
    die_everywhere(
        |segment| put(segment, 1, 2, 30_000, 3).expect("room"),
        |segment| put(segment, 1, 2, 20_000, 4),
    );
}

#[test]
fn freeing_the_last_block_of_a_slab_is_all_or_nothing() {
    die_everywhere(
        |segment| put(segment, 0, 0, 3000, 1).expect("room"),
        |segment| clear(segment, 0, 0),
    );
    die_everywhere(
        |segment| put(segment, 0, 0, 104, 1).expect("room"),
        |segment| clear(segment, 0, 0),
    );
}

#[test]
fn two_shards_change_together() {
    die_everywhere(
        |segment| put(segment, 0, 0, 64, 1).expect("room"),
        |segment| {
            segment.write(both(), |transaction| {
                for shard in [0, 1] {
                    let at = transaction.allocate(shard, 200)?;
                    transaction.fill(at, &9_u64.to_le_bytes().repeat(25))?;
                    transaction.fill_word(at, 200)?;
                    transaction.set_root(shard, 5, at)?;
                }
                let old = transaction.view().root(0, 0);
                transaction.write(0, old + 8, &5_u64.to_le_bytes().repeat(7))
            })
        },
    );
}

#[test]
fn a_large_block_moves_to_another_shard() {
    die_everywhere(
        |segment| put(segment, 0, 0, 100_000, 6).expect("room"),
        |segment| {
            segment.write(both(), |transaction| {
                let at = transaction.view().root(0, 0);
                assert!(transaction.transfer(at, 0, 1)?);
                transaction.set_root(0, 0, 0)?;
                transaction.set_root(1, 1, at)
            })
        },
    );
}

#[test]
fn a_change_whose_log_must_grow_is_all_or_nothing() {
    die_everywhere(
        |segment| put(segment, 0, 0, 40_000, 1).expect("room"),
        |segment| {
            segment.write(ShardSet::one(0), |transaction| {
                let at = transaction.view().root(0, 0);
                transaction.write(0, at + 8, &2_u64.to_le_bytes().repeat(4999))
            })
        },
    );
}

/// A process can die after recording the run to be returned, but before removing it from the
/// graveyard. The run must not stay in the graveyard once it is returned, because its next user's
/// memory would then be freed.
#[test]
fn an_interrupted_return_is_finished_before_more_are_buried() {
    const BLOCK: u64 = 30_000;
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    for steps in 0.. {
        let path = directory.path().join(format!("store-{steps}"));
        let segment = create(&path);
        for root in 0..6 {
            put(&segment, 0, root, BLOCK, 1).expect("room");
        }
        if die_after(steps, || clear(&segment, 0, 0).expect("a free")).is_some() {
            break;
        }
        segment.abandon();
        let heir = Segment::open(&path, true).expect("the same store");
        heir.write(ShardSet::one(0), |transaction| {
            for root in 1..6 {
                let at = transaction.view().root(0, root);
                transaction.free(0, at);
                transaction.set_root(0, root, 0)?;
            }
            Ok::<_, Error>(())
        })
        .expect("frees");
        for root in 1..8 {
            put(&heir, 0, root, BLOCK, 2).expect("room");
            content(&heir);
        }
        std::fs::remove_file(path).expect("just made");
    }
}

/// If a return is interrupted after it took effect, another shard may already own the run and may
/// transfer it to this shard. The run must not be returned again.
#[test]
fn an_interrupted_return_is_completed_before_its_run_is_transferred_back() {
    const BLOCK: u64 = 100_000;
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    for steps in 0.. {
        let path = directory.path().join(format!("store-{steps}"));
        let segment = create(&path);
        put(&segment, 0, 0, BLOCK, 1).expect("room");
        if die_after(steps, || clear(&segment, 0, 0).expect("a free")).is_some() {
            break;
        }
        segment.abandon();
        let heir = Segment::open(&path, true).expect("the same store");
        put(&heir, 1, 0, BLOCK, 2).expect("room");
        heir.write(both(), |transaction| {
            let at = transaction.view().root(1, 0);
            assert!(transaction.transfer(at, 1, 0)?);
            transaction.set_root(1, 0, 0)?;
            transaction.set_root(0, 1, at)
        })
        .expect("a transfer");
        put(&heir, 0, 2, BLOCK, 3).expect("room");
        assert_eq!(content(&heir).get(&(0, 1)), Some(&(BLOCK, 2)), "{steps}");
        std::fs::remove_file(path).expect("just made");
    }
}

/// A dead process's record of a run that is free again may be read after the run's memory was
/// returned to the system. In that case, nothing remains to be returned.
#[test]
fn stale_records_of_runs_returned_to_the_system_are_harmless() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let large = |segment: &Segment| put(segment, 0, 0, 300_000, 1).expect("room");
    let freed = |segment: &Segment| clear(segment, 0, 0).expect("a free");
    let mut given_back = 0;
    for (prepare, operation) in [
        (
            &(|_: &Segment| ()) as &dyn Fn(&Segment),
            &large as &dyn Fn(&Segment),
        ),
        (&large, &freed),
    ] {
        for steps in 0.. {
            let path = directory.path().join("store");
            let segment = create(&path);
            prepare(&segment);
            // The witness already has a slot. Claiming the dead process's slot would recover the
            // shard.
            let witness = Segment::open(&path, true).expect("the same store");
            witness.recover().expect("a whole store");
            if die_after(steps, || operation(&segment)).is_some() {
                std::fs::remove_file(path).expect("just made");
                break;
            }
            segment.abandon();
            for _ in 0..4 {
                given_back += witness.trim_now(0).expect("a trim").bytes;
            }
            witness.recover().expect("a recovery");
            content(&witness);
            put(&witness, 0, 1, 100_000, 2).expect("room");
            assert_eq!(
                content(&witness).get(&(0, 1)),
                Some(&(100_000, 2)),
                "{steps}"
            );
            std::fs::remove_file(path).expect("just made");
        }
    }
    assert!(given_back > 0);
}

#[test]
fn a_second_death_during_recovery_is_survived() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let operation = |segment: &Segment| put(segment, 0, 0, 300_000, 2);
    let mut second_deaths = 0;
    for steps in 0.. {
        let path = directory.path().join(format!("store-{steps}"));
        let first = create(&path);
        put(&first, 0, 0, 104, 1).expect("room");
        if die_after(steps, || operation(&first).expect("enough memory")).is_some() {
            break;
        }
        first.abandon();
        for again in 0.. {
            let second = Segment::open(&path, true).expect("the same store");
            // The process that recovers the store dies at each step of its recovery in turn.
            let done = die_after(again, || second.recover().expect("a recovery")).is_some();
            second.abandon();
            if done {
                break;
            }
            second_deaths += 1;
        }
        let third = Segment::open(&path, true).expect("the same store");
        let found = content(&third);
        let old = Content::from([((0, 0), (104, 1))]);
        let new = Content::from([((0, 0), (300_000, 2))]);
        assert!(found == old || found == new, "{found:?}");
        std::fs::remove_file(path).expect("just made");
    }
    assert!(second_deaths > 1000, "{second_deaths} second deaths");
}

#[test]
fn a_long_transaction_rolls_back_to_a_savepoint() {
    let change = |segment: &Segment| {
        segment.write(ShardSet::one(0), |transaction| {
            let at = transaction.view().root(0, 0);
            let words = |mark: u64| mark.to_le_bytes().repeat(999);
            transaction.write(0, at + 8, &words(2))?;
            let savepoint = transaction.savepoint();
            // Change words that are already in the log, and words that are not.
            transaction.write(0, at + 8, &words(3)[..160])?;
            let other = transaction.allocate(0, 64)?;
            transaction.fill(other, &4_u64.to_le_bytes().repeat(8))?;
            transaction.fill_word(other, 64)?;
            transaction.set_root(0, 1, other)?;
            let inner = transaction.savepoint();
            transaction.write(0, at + 8, &words(5)[..320])?;
            transaction.roll_back_to(&inner)?;
            transaction.roll_back_to(&savepoint)
        })
    };
    let steps = die_everywhere(
        |segment| {
            put(segment, 0, 0, 8000, 1).expect("room");
            segment.expect(ShardSet::one(0), &long_log());
        },
        change,
    );
    assert!(
        steps > 80,
        "{steps} steps: each word that is put back is one"
    );
}

fn long_log() -> Need {
    Need {
        log: 64 << 10,
        memory: 0,
    }
}

/// A removal whose log cannot grow is committed in parts. A death leaves a whole number of parts
/// committed.
#[test]
fn death_in_a_removal_in_parts_leaves_whole_parts() {
    const BLOCK: u64 = 5000;
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let remove = |segment: &Segment| {
        let _removing = removing();
        segment.write(both(), |transaction| {
            if !transaction.is_in_parts() {
                // Preserve more bytes than fit in any log of this store.
                transaction.preserve(0, transaction.view().root(0, 7), 700_000)?;
            }
            let mut removed = 0;
            for root in 0..6 {
                for shard in [0, 1] {
                    let at = transaction.view().root(shard, root);
                    transaction.preserve(shard, at, 4096)?;
                    transaction.free(shard, at);
                    transaction.set_root(shard, root, 0)?;
                }
                removed += 1;
                transaction.end_of_part()?;
            }
            Ok::<_, Error>(removed)
        })
    };
    let mut seen = std::collections::BTreeSet::new();
    for steps in 0.. {
        let path = directory.path().join(format!("store-{steps}"));
        let segment = create(&path);
        for (root, shard) in (0..6).flat_map(|root| [(root, 0), (root, 1)]) {
            put(&segment, shard, root, BLOCK, root as u64 + 1).expect("room");
        }
        put(&segment, 0, 7, 700_000, 9).expect("room");
        let removed = die_after(steps, || remove(&segment).expect("a removal in parts"));
        if let Some(removed) = removed {
            assert_eq!(removed, 6, "all of them, in one run");
            assert_eq!(content(&segment).len(), 1);
            break;
        }
        segment.abandon();
        let heir = Segment::open(&path, true).expect("the same store");
        let after = content(&heir);
        let left: Vec<usize> = (0..6)
            .filter(|&root| after.contains_key(&(0, root)))
            .collect();
        let others: Vec<usize> = (0..6)
            .filter(|&root| after.contains_key(&(1, root)))
            .collect();
        assert_eq!(left, others, "{steps}: both shards, or neither");
        assert_eq!(left, (6 - left.len()..6).collect::<Vec<_>>(), "{steps}");
        seen.insert(left.len());
        for (shard, root) in after.keys() {
            clear(&heir, *shard, *root).expect("a free");
        }
        heir.recover().expect("a recovery");
        assert_eq!(heir.statistics().used, 0, "{steps}");
        std::fs::remove_file(path).expect("just made");
    }
    assert!(seen.len() >= 6, "{seen:?}");
}

/// A death while a log grows or its memory is returned leaves a working log and loses no memory.
#[test]
fn death_while_a_log_grows_or_shrinks_loses_nothing() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    for steps in 0.. {
        let path = directory.path().join(format!("store-{steps}"));
        let segment = create(&path);
        put(&segment, 0, 0, 40_000, 1).expect("room");
        let least = segment.statistics().logs;
        let there_and_back = || {
            segment.expect(ShardSet::one(0), &long_log());
            segment.shrink_logs_now().expect("no lock is held");
        };
        if die_after(steps, there_and_back).is_some() {
            assert_eq!(segment.statistics().logs, least);
            assert!(steps > 10, "{steps} steps");
            break;
        }
        segment.abandon();
        let heir = Segment::open(&path, true).expect("the same store");
        // A long log is possible immediately, as if no process had died.
        heir.write(ShardSet::one(0), |transaction| {
            let at = transaction.view().root(0, 0);
            transaction.write(0, at + 8, &2_u64.to_le_bytes().repeat(4999))
        })
        .expect("a log that grows");
        assert_eq!(content(&heir).get(&(0, 0)), Some(&(40_000, 2)), "{steps}");
        heir.shrink_logs_now().expect("no lock is held");
        assert_eq!(heir.statistics().logs, least, "{steps}");
        std::fs::remove_file(path).expect("just made");
    }
}
