//! Compares the heap with a naive model: random transactions over several shards, some of them
//! rolled back. After every few steps, the content of every block and the structure of the store
//! are checked.

use std::collections::BTreeMap;
use std::path::PathBuf;

use proptest::prelude::*;
use undercroft_memory::{Error, Offset, Options, Segment, ShardSet, Transaction};

const SHARDS: usize = 2;

fn store(capacity: u64) -> (tempfile::TempDir, PathBuf, Segment) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("store");
    let options = Options {
        capacity: Some(capacity),
        shards: Some(SHARDS),
        ring: None,
    };
    let segment = Segment::create(&path, &options).expect("a new store");
    (directory, path, segment)
}

/// Returns content that identifies a block and its version.
fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed | 1;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(seed);
            (state >> 33) as u8
        })
        .collect()
}

#[derive(Clone, Debug)]
enum Step {
    Allocate { shard: usize, length: usize },
    Free { pick: usize },
    Overwrite { pick: usize },
    Move { pick: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![
        6 => 1_usize..200,
        3 => 200_usize..5_000,
        2 => 5_000_usize..40_000,
        1 => 60_000_usize..200_000,
    ];
    prop_oneof![
        5 => (0..SHARDS, length).prop_map(|(shard, length)| Step::Allocate { shard, length }),
        4 => any::<usize>().prop_map(|pick| Step::Free { pick }),
        2 => any::<usize>().prop_map(|pick| Step::Overwrite { pick }),
        1 => any::<usize>().prop_map(|pick| Step::Move { pick }),
    ]
}

type Model = BTreeMap<Offset, (usize, Vec<u8>)>;

fn pick(model: &Model, pick: usize) -> Option<(Offset, usize, usize)> {
    let (&at, (shard, content)) = model.iter().nth(pick % model.len().max(1))?;
    Some((at, *shard, content.len()))
}

/// Applies the steps as one transaction. Returns the resulting model if the transaction commits.
fn apply(segment: &Segment, model: &Model, steps: &[Step], seed: u64, fail: bool) -> Option<Model> {
    let mut after = Model::new();
    let result = segment.write(ShardSet::first(SHARDS), |transaction| {
        after = model.clone();
        let mut freed = BTreeMap::new();
        for (number, step) in steps.iter().enumerate() {
            let seed = seed.wrapping_add(number as u64);
            match *step {
                Step::Allocate { shard, length } => {
                    let at = transaction.allocate(shard, length as u64)?;
                    let content = pattern(seed, length);
                    transaction.fill(at, &content)?;
                    assert!(after.insert(at, (shard, content)).is_none());
                    assert!(
                        !freed.contains_key(&at),
                        "a block freed in this transaction"
                    );
                }
                Step::Free { pick: which } => {
                    if let Some((at, shard, _)) = pick(&after, which) {
                        transaction.free(shard, at);
                        freed.insert(at, after.remove(&at));
                    }
                }
                Step::Overwrite { pick: which } => {
                    if let Some((at, shard, length)) = pick(&after, which) {
                        let content = pattern(seed, length);
                        transaction.write(shard, at, &content)?;
                        after.insert(at, (shard, content));
                    }
                }
                Step::Move { pick: which } => {
                    if let Some((at, shard, length)) = pick(&after, which)
                        && transaction.transfer(at, shard, 1 - shard)?
                    {
                        assert!(length > 16 * 1024);
                        let content = after.remove(&at).expect("picked").1;
                        after.insert(at, (1 - shard, content));
                    }
                }
            }
        }
        if fail {
            return Err(Error::Interrupted);
        }
        Ok(())
    });
    match result {
        Ok(()) => Some(after),
        Err(Error::Interrupted) if fail => None,
        Err(Error::OutOfMemory) => None,
        Err(error) => panic!("{error}"),
    }
}

fn verify(segment: &Segment, model: &Model) {
    let report = segment
        .check(|shard, _, reach, _| {
            for (&at, (owner, _)) in model {
                if *owner == shard {
                    reach(at);
                }
            }
        })
        .expect("a check");
    assert_eq!(report.problems, Vec::<String>::new());
    assert_eq!(report.blocks, model.len() as u64);
    for (&at, (shard, content)) in model {
        let read = segment.read(ShardSet::one(*shard), |view| {
            let mut out = Vec::new();
            view.append_to(at, content.len() as u64, &mut out)?;
            assert!(view.equals(at, content)?);
            Ok::<_, Error>(out)
        });
        assert_eq!(&read.expect("a readable block"), content);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn transactions_agree_with_the_model(
        transactions in prop::collection::vec(
            (prop::collection::vec(step(), 1..20), any::<u64>(), prop::bool::weighted(0.3)),
            1..30,
        ),
        small in any::<bool>(),
    ) {
        let (_directory, path, segment) = store(if small { 2 << 20 } else { 64 << 20 });
        let mut model = Model::new();
        for (steps, seed, fail) in &transactions {
            if let Some(after) = apply(&segment, &model, steps, *seed, *fail) {
                model = after;
            }
            verify(&segment, &model);
        }
        drop(segment);
        let again = Segment::open(&path, true).expect("the same store");
        verify(&again, &model);
        // Finally, free all blocks and check that all memory is returned.
        let all: Vec<Step> = model.keys().map(|_| Step::Free { pick: 0 }).collect();
        model = apply(&again, &model, &all, 0, false).expect("frees need little memory");
        prop_assert!(model.is_empty());
        verify(&again, &model);
        prop_assert_eq!(again.statistics().used, 0);
    }
}

#[test]
fn a_full_store_is_an_error_and_works_again_after_a_free() {
    let (_directory, _path, segment) = store(2 << 20);
    let mut blocks = Vec::new();
    loop {
        match segment.write(ShardSet::one(0), |transaction| {
            transaction.allocate(0, 1000)
        }) {
            Ok(at) => blocks.push(at),
            Err(Error::OutOfMemory) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(
        blocks.len() as u64 * 1024 > (2 << 20) * 9 / 10,
        "{}",
        blocks.len()
    );
    // Another shard can use the pages that a shard returns (H3).
    segment
        .write(ShardSet::one(0), |transaction| {
            blocks.iter().for_each(|&at| transaction.free(0, at));
            Ok::<_, Error>(())
        })
        .expect("frees");
    for _ in 0..200 {
        segment.recover().expect("returns what was freed");
    }
    segment
        .write(ShardSet::one(1), |transaction| {
            transaction.allocate(1, 1 << 20)
        })
        .expect("room for another shard");
}

#[test]
fn a_transaction_too_large_for_its_log_changes_nothing() {
    let (_directory, _path, segment) = store(8 << 20);
    let at = segment
        .write(ShardSet::one(0), |transaction| {
            transaction.allocate(0, 1_000_000)
        })
        .expect("a block");
    let before = segment.statistics().used;
    let result = segment.write(ShardSet::one(0), |transaction| {
        for part in 0..10 {
            transaction.write(0, at + part * 100_000, &[7; 100_000])?;
        }
        Ok::<_, Error>(())
    });
    assert!(matches!(result, Err(Error::OutOfMemory)), "{result:?}");
    assert_eq!(segment.statistics().used, before);
    let first = segment.read(ShardSet::one(0), |view| Ok::<_, Error>(view.word(at)?));
    assert_eq!(first.expect("readable"), 0);
}

/// Regression test: changes to a block before its move were in one log, and changes after it in
/// another. Undoing the two logs in the wrong order left a mixture.
#[test]
fn changes_of_a_block_before_and_after_its_move_are_undone() {
    let (_directory, _path, segment) = store(8 << 20);
    let at = segment
        .write(ShardSet::one(0), |transaction| {
            let at = transaction.allocate(0, 20_000)?;
            transaction.fill(at, &[1; 20_000])?;
            Ok::<_, Error>(at)
        })
        .expect("a block");
    let result = segment.write(ShardSet::first(2), |transaction| {
        transaction.write(0, at, &[2; 500])?;
        assert!(transaction.transfer(at, 0, 1)?);
        transaction.write(1, at, &[3; 500])?;
        Err::<(), _>(Error::Interrupted)
    });
    assert!(matches!(result, Err(Error::Interrupted)));
    let first = segment.read(ShardSet::one(0), |view| {
        let mut bytes = [0; 500];
        view.copy_to(at, &mut bytes)?;
        Ok::<_, Error>(bytes)
    });
    assert_eq!(first.expect("readable"), [1; 500]);
}

#[test]
fn any_part_of_a_block_is_read_as_it_was_written() {
    let (_directory, _path, segment) = store(2 << 20);
    let content: Vec<u8> = (0..100).collect();
    let block = segment.write(ShardSet::one(0), |transaction| {
        let at = transaction.allocate(0, 100)?;
        transaction.fill(at, &content)?;
        Ok::<_, Error>(at)
    });
    let at = block.expect("a block");
    let read = segment.read(ShardSet::one(0), |view| {
        for start in 0..=100_usize {
            for end in 0..=100_usize {
                let mut out = b"before".to_vec();
                view.append_part(at, start as u64, end as u64, &mut out)?;
                let expected = content.get(start..end).unwrap_or_default();
                assert_eq!(out, [b"before", expected].concat(), "{start}..{end}");
            }
        }
        let mut out = Vec::new();
        let faults = [(at + 4, 0, 8), (at, 0, 1 << 40), (at, 1, u64::MAX)];
        for (at, start, end) in faults {
            let part = view.append_part(at, start, end, &mut out);
            assert!(part.is_err(), "{start}..{end} of {at}");
        }
        assert!(out.is_empty());
        Ok::<_, Error>(())
    });
    read.expect("readable");
}

/// An empty value after a key that fills its block starts at the block's end, which may be the end
/// of the last extent backed with memory.
#[test]
fn an_empty_range_may_start_at_the_end_of_the_last_block() {
    // Fill the store up to the very last page. Some pages are reserved for removals, so the thread
    // declares that it is removing data.
    let _removing = undercroft_memory::removing();
    let (_directory, _path, segment) = store(2 << 20);
    let last = loop {
        let block = segment.write(ShardSet::one(0), |transaction| transaction.allocate(0, 64));
        let at = block.expect("an extent's end comes before the store's");
        let behind = segment.read(ShardSet::one(0), |view| {
            Ok::<_, Error>(view.word(at + 64).is_ok())
        });
        if !behind.expect("a read") {
            break at;
        }
    };
    let nothing = |transaction: &mut Transaction<'_>| {
        transaction.fill(last + 64, &[])?;
        transaction.write(0, last + 64, &[])
    };
    segment
        .write(ShardSet::one(0), nothing)
        .expect("nothing is written there");
    let undone = segment.write(ShardSet::one(0), |transaction| {
        nothing(transaction)?;
        Err::<(), _>(Error::ReadOnly)
    });
    assert!(matches!(undone, Err(Error::ReadOnly)), "{undone:?}");
    segment
        .write(ShardSet::one(0), nothing)
        .expect("nothing was written there");
    let read = segment.read(ShardSet::one(0), |view| {
        let mut out = Vec::new();
        view.append_to(last + 64, 0, &mut out)?;
        view.copy_to(last + 64, &mut out)?;
        assert!(view.check(last + 64, 1).is_err() && view.check(last + 60, 0).is_err());
        Ok::<_, Error>(out)
    });
    assert_eq!(read.expect("nothing is read there"), b"");
}
