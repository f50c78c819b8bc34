//! Tests that freed memory is reused, no matter how much is allocated and in which shard, so that
//! the heap does not grow.

use std::cell::Cell;

use undercroft_memory::{Error, Offset, Options, Pool, Segment, ShardSet, Transaction};

const SHARDS: usize = 2;
/// The size in bytes of a block in a slab of five pages. Three such slabs fit in an extent.
const BYTES: u64 = 10_000;
const IN_SLAB: usize = 2;
const SLABS_IN_EXTENT: usize = 3;
const PAGES_IN_SLAB: usize = 5;
const PAGES_IN_EXTENT: usize = 16;
const PAGE: usize = 4096;
/// The number of free pages that only removals may use (H6).
const PAGES_KEPT: usize = 2 * PAGES_IN_EXTENT;
/// The number of repetitions before the heap's size is recorded, and the total number of
/// repetitions.
const SOME: u32 = 100;
const MANY: u32 = 400;

fn store() -> (tempfile::TempDir, Segment) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let options = Options {
        capacity: Some(2 << 30),
        shards: Some(SHARDS),
        ring: Some(64 << 10),
    };
    let segment = Segment::create(&directory.path().join("store"), &options).expect("a new store");
    (directory, segment)
}

fn write<R>(
    segment: &Segment,
    mut body: impl FnMut(&mut Transaction<'_>) -> Result<R, Error>,
) -> R {
    segment
        .write(ShardSet::first(SHARDS), &mut body)
        .expect("room")
}

/// Creates an arena in shard 0 with `blocks` blocks.
fn arena(transaction: &mut Transaction<'_>, blocks: usize) -> Result<Pool, Error> {
    let pool = transaction.create_arena(0)?;
    for _ in 0..blocks {
        transaction.allocate(pool, BYTES)?;
    }
    Ok(pool)
}

/// Runs `body` `MANY` times. Checks that the heap grows by at most a few extents after the first
/// `SOME` runs.
fn assert_heap_stays(segment: &Segment, mut body: impl FnMut()) {
    (0..SOME).for_each(|_| body());
    let before = segment.statistics().reserved;
    (SOME..MANY).for_each(|_| body());
    let after = segment.statistics().reserved;
    assert!(after <= before + before / 8, "{before}, {after}");
}

#[test]
fn memory_of_an_arena_is_reused_by_the_next_one() {
    let (_directory, segment) = store();
    let (last, runs) = (Cell::new(None), Cell::new(0));
    assert_heap_stays(&segment, || {
        let made = write(&segment, |transaction| {
            runs.set(runs.get() + 1);
            let made = arena(transaction, 100)?;
            if let Some(last) = last.get() {
                transaction.bury_arena(last);
            }
            Ok(made)
        });
        last.set(Some(made));
    });
    assert!(runs.get() < MANY + SOME, "{} runs", runs.get());
}

#[test]
fn memory_of_many_blocks_is_reused_by_the_next_ones() {
    let (_directory, segment) = store();
    let (mut last, runs): (Vec<Offset>, _) = (Vec::new(), Cell::new(0));
    assert_heap_stays(&segment, || {
        last = write(&segment, |transaction| {
            runs.set(runs.get() + 1);
            last.iter().for_each(|&at| transaction.free(0, at));
            (0..100).map(|_| transaction.allocate(0, BYTES)).collect()
        });
    });
    assert!(runs.get() < MANY + SOME, "{} runs", runs.get());
}

#[test]
fn memory_freed_in_another_shard_is_reused() {
    let (_directory, segment) = store();
    assert_heap_stays(&segment, || {
        let made = segment.write(ShardSet::one(0), |transaction| arena(transaction, 100));
        let made = made.expect("room");
        let one = |index, body: &dyn Fn(&mut Transaction<'_>)| {
            let done = segment.write(ShardSet::one(index), |transaction| {
                body(transaction);
                Ok::<_, Error>(())
            });
            done.expect("room");
        };
        let moved = write(&segment, |transaction| transaction.transfer_arena(made, 1));
        // Shard 1 no longer receives grants, so only a writer that needs memory returns the shard's
        // freed memory.
        one(1, &|transaction| transaction.bury_arena(moved));
    });
}

#[test]
fn a_free_run_is_found_in_any_extent() {
    const EXTENTS: usize = 400;
    let (_directory, segment) = store();
    let allocate = |blocks: usize| {
        write(&segment, |transaction| {
            let blocks = (0..blocks).map(|_| transaction.allocate(0, BYTES));
            blocks.collect::<Result<Vec<_>, _>>()
        })
    };
    let mut blocks = allocate(EXTENTS * SLABS_IN_EXTENT * IN_SLAB);
    blocks.sort_unstable();
    // Free one slab in each extent, except in the lower half, where each extent still has one free
    // page.
    let slabs = blocks.chunks(IN_SLAB).skip(blocks.len() / IN_SLAB / 2);
    let freed: Vec<&[Offset]> = slabs.step_by(SLABS_IN_EXTENT).collect();
    write(&segment, |transaction| {
        freed
            .concat()
            .iter()
            .for_each(|&at| transaction.free(0, at));
        Ok(())
    });
    while segment.give_back(0).expect("a return") {}
    let before = segment.statistics();
    let pages = before.free as usize / PAGE;
    let pages = pages - EXTENTS - freed.len() * PAGES_IN_SLAB - PAGES_KEPT;
    let slabs = freed.len() + pages / PAGES_IN_EXTENT * SLABS_IN_EXTENT;
    // Allocate the slabs one by one, so that nothing is reserved in advance.
    (0..slabs).for_each(|_| drop(allocate(IN_SLAB)));
    assert_eq!(segment.statistics().reserved, before.reserved);
}
