//! Memory that was freed is used again, however much of it at once and by whichever shard: the heap does not grow.

use std::cell::Cell;

use undercroft_memory::{Error, Offset, Options, Pool, Segment, ShardSet, Transaction};

const SHARDS: usize = 2;
/// Blocks that lie in slabs of five pages, of which three go into an extent.
const BYTES: u64 = 10_000;
const IN_SLAB: usize = 2;
const SLABS_IN_EXTENT: usize = 3;
const PAGES_IN_SLAB: usize = 5;
const PAGES_IN_EXTENT: usize = 16;
const PAGE: usize = 4096;
/// Free pages that only removals may take (H6).
const PAGES_KEPT: usize = 2 * PAGES_IN_EXTENT;
/// How often something is done.
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

/// An arena in a shard, with so many blocks.
fn arena(transaction: &mut Transaction<'_>, blocks: usize) -> Result<Pool, Error> {
    let pool = transaction.create_arena(0)?;
    for _ in 0..blocks {
        transaction.allocate(pool, BYTES)?;
    }
    Ok(pool)
}

/// Does something a few times, and many more times: the heap is not to grow then, but for a few extents.
fn assert_heap_stays(segment: &Segment, mut body: impl FnMut()) {
    (0..SOME).for_each(|_| body());
    let before = segment.statistics().reserved;
    (SOME..MANY).for_each(|_| body());
    let after = segment.statistics().reserved;
    assert!(after <= before + before / 8, "{before}, {after}");
}

#[test]
fn what_an_arena_held_is_there_for_the_next_one() {
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
fn what_many_blocks_held_is_there_for_the_next_ones() {
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
fn what_was_freed_in_another_shard_is_there_as_well() {
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
        // Nothing is granted there any more: only who needs memory can give this back.
        one(1, &|transaction| transaction.bury_arena(moved));
    });
}

#[test]
fn a_run_is_found_wherever_an_extent_has_one() {
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
    // One slab of each extent, but in the lower half, each of which still has a page.
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
    // One after the other, so that nothing is reserved ahead.
    (0..slabs).for_each(|_| drop(allocate(IN_SLAB)));
    assert_eq!(segment.statistics().reserved, before.reserved);
}
