//! Tests that allocating blocks in a batch, in a shard's slabs or in an arena, gives the same
//! result as single allocations in a fraction of the steps.

use std::collections::BTreeMap;

use proptest::prelude::*;
use undercroft_memory::{
    BlockStock, Error, Offset, Options, Pool, Segment, ShardSet, Transaction, fault,
};

fn store() -> (tempfile::TempDir, Segment) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let options = Options {
        capacity: Some(64 << 20),
        shards: Some(1),
        ring: None,
    };
    let segment = Segment::create(&directory.path().join("store"), &options).expect("a new store");
    (directory, segment)
}

/// The pool from which a transaction allocated blocks, and the blocks' sizes by offset.
type Made = (Pool, BTreeMap<Offset, u64>);

/// Allocates blocks of the given sizes and marks each block with its number.
fn make(
    segment: &Segment,
    in_arena: bool,
    sizes: &[u64],
    mut allocate: impl FnMut(&mut Transaction<'_>, Pool) -> Result<Vec<Offset>, Error>,
) -> Made {
    segment
        .write(ShardSet::one(0), |transaction| {
            let pool = if in_arena {
                transaction.create_arena(0)?
            } else {
                0.into()
            };
            let offsets = allocate(transaction, pool)?;
            let mut made = BTreeMap::new();
            for (number, (&at, &size)) in offsets.iter().zip(sizes).enumerate() {
                transaction.fill(at, &vec![number as u8; size as usize])?;
                assert!(transaction.block_size(pool, at)? >= size);
                assert!(made.insert(at, size).is_none(), "twice the same block");
            }
            // No two adjacent blocks overlap.
            let ends = made.iter().map(|(at, size)| at + size);
            assert!(
                ends.zip(made.keys().skip(1))
                    .all(|(end, &next)| end <= next)
            );
            Ok::<_, Error>((pool, made))
        })
        .expect("room enough")
}

fn assert_sound(segment: &Segment, (pool, made): &Made) {
    let report = segment
        .check(|_, _, reach, _| {
            if pool.arena() != 0 {
                reach(pool.arena());
            }
            made.keys().for_each(|&at| reach(at));
        })
        .expect("a check");
    assert_eq!(report.problems, [""; 0]);
}

fn one_by_one(
    sizes: &[u64],
    transaction: &mut Transaction<'_>,
    pool: Pool,
) -> Result<Vec<Offset>, Error> {
    let allocate = |&size| transaction.allocate(pool, size);
    sizes.iter().map(allocate).collect()
}

/// Creates partly used slabs in the shard.
fn begun(segment: &Segment) -> Made {
    let sizes: Vec<u64> = [16, 24, 64, 200]
        .into_iter()
        .flat_map(|size| std::iter::repeat_n(size, size as usize))
        .collect();
    make(segment, false, &sizes, |transaction, pool| {
        one_by_one(&sizes, transaction, pool)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn blocks_allocated_in_a_batch_match_single_allocations(
        in_arena: bool,
        sizes in prop_oneof![
            proptest::collection::vec(1_u64..40, 1..2000),
            proptest::collection::vec(1_u64..300, 1..500),
            proptest::collection::vec(1_u64..20_000, 1..60),
        ],
        // Take some blocks that were not announced, and announce some that are not taken.
        unexpected in 0..2000_usize,
        extra in 0..100_u64,
    ) {
        let (_one, alone) = store();
        let (_other, together) = store();
        begun(&alone);
        let before = begun(&together);
        let expected = make(&alone, in_arena, &sizes, |transaction, pool| {
            one_by_one(&sizes, transaction, pool)
        });
        let (pool, mut made) = make(&together, in_arena, &sizes, |transaction, pool| {
            let mut stock = BlockStock::new(pool);
            for &size in sizes.iter().skip(unexpected) {
                stock.expect(size);
            }
            stock.expect_many(40, extra);
            let taken = sizes.iter().map(|&size| stock.take(transaction, size));
            let taken = taken.collect::<Result<Vec<_>, _>>()?;
            stock.close(transaction);
            Ok(taken)
        });
        prop_assert_eq!(together.used_bytes(0), alone.used_bytes(0));
        let sum = |made: &BTreeMap<Offset, u64>| made.values().sum::<u64>();
        prop_assert_eq!(sum(&made), sum(&expected.1));
        let blocks: Vec<Offset> = made.keys().copied().collect();
        made.extend(&before.1);
        assert_sound(&together, &(pool, made));
        together
            .write(ShardSet::one(0), |transaction| {
                blocks.iter().for_each(|&at| transaction.free(pool, at));
                Ok::<_, Error>(())
            })
            .expect("frees");
        assert_sound(&together, &(pool, before.1));
    }
}

#[test]
fn many_blocks_take_few_steps() {
    let sizes = vec![40; 20_000];
    for in_arena in [false, true] {
        let (_directory, segment) = store();
        let mut steps = [0; 2];
        let mut count = |index: usize, started: u64| steps[index] = fault::steps_taken() - started;
        // Count only the steps of the last run, which did not run out of memory.
        make(&segment, in_arena, &[], |transaction, pool| {
            let started = fault::steps_taken();
            let mut stock = BlockStock::new(pool);
            stock.expect_many(40, 20_000);
            for &size in &sizes {
                stock.take(transaction, size)?;
            }
            stock.close(transaction);
            count(0, started);
            Ok(Vec::new())
        });
        make(&segment, in_arena, &[], |transaction, pool| {
            let started = fault::steps_taken();
            one_by_one(&sizes, transaction, pool)?;
            count(1, started);
            Ok(Vec::new())
        });
        assert!(steps[0] * 5 < steps[1], "{steps:?}");
    }
}
