//! Tests the cost of arenas, the operations they reject, and the bounds of a step.

use undercroft_memory::fault::steps_taken;
use undercroft_memory::{Error, Pool, Segment, ShardSet};

use crate::object::{Object, both, content, create, empty};

fn store() -> (tempfile::TempDir, Segment) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let segment = create(&directory.path().join("store"));
    (directory, segment)
}

fn fill(segment: &Segment, slot: usize, blocks: usize) {
    for _ in 0..blocks {
        segment
            .write(ShardSet::one(0), |transaction| {
                let object = match Object::at(transaction, 0, slot) {
                    Some(object) => object,
                    None => Object::new(transaction, 0, slot)?,
                };
                object.push(transaction, 1000, 1)
            })
            .expect("room");
    }
}

/// Counts the steps of one transaction that locks both shards.
fn steps_of(
    segment: &Segment,
    mut body: impl FnMut(&mut undercroft_memory::Transaction<'_>) -> Result<(), Error>,
) -> u64 {
    let before = steps_taken();
    segment.write(both(), &mut body).expect("room");
    steps_taken() - before
}

#[test]
fn moving_and_freeing_take_the_same_steps_regardless_of_size() {
    let (_directory, segment) = store();
    let mut counted = Vec::new();
    for (slot, blocks) in [(0, 10), (1, 3000)] {
        fill(&segment, slot, blocks);
        let moving = steps_of(&segment, |transaction| {
            let object = Object::at(transaction, 0, slot).expect("just made");
            object.transfer(transaction, 1, slot).map(drop)
        });
        let freeing = steps_of(&segment, |transaction| {
            let object = Object::at(transaction, 1, slot).expect("just moved");
            object.bury(transaction)
        });
        counted.push((moving, freeing));
        assert_eq!(segment.statistics().used, 0, "freed at once");
        while segment.give_back(1).expect("a return") {}
    }
    let [(move_small, free_small), (move_large, free_large)] = counted[..] else {
        unreachable!("two sizes")
    };
    assert_eq!(move_small, move_large);
    // A few runs are returned to the heap after the commit. A return takes a few more steps if it
    // makes an entire extent free.
    assert!(free_large < free_small + 10, "{free_small}, {free_large}");
    empty(&segment);
}

#[test]
fn an_empty_arena_takes_one_page_and_a_shrunken_one_at_most_three() {
    let (_directory, segment) = store();
    let bytes = |slot: usize| {
        segment
            .read(ShardSet::one(0), |view| {
                Ok::<_, Error>(view.arena_bytes(view.root(0, slot * 2))?)
            })
            .expect("a read")
    };
    segment
        .write(ShardSet::one(0), |transaction| {
            Object::new(transaction, 0, 0)
        })
        .expect("room");
    assert_eq!(bytes(0), 4096);
    assert_eq!(segment.statistics().used, 4096);
    fill(&segment, 0, 1000);
    let full = bytes(0);
    assert!(full < 1000 * 1024 * 11 / 10, "{full} bytes");
    assert_eq!(segment.used_bytes(0), full);
    for _ in 0..1000 {
        segment
            .write(ShardSet::one(0), |transaction| {
                let object = Object::at(transaction, 0, 0).expect("made above");
                object.pop(transaction)
            })
            .expect("frees");
    }
    assert!(bytes(0) <= 3 * 4096, "{} bytes", bytes(0));
    assert_eq!(segment.used_bytes(0), bytes(0));
    content(&segment);
    empty(&segment);
}

#[test]
fn memory_of_a_freed_arena_is_reused_before_the_store_is_full() {
    let (_directory, segment) = store();
    for round in 0..4 {
        fill(&segment, 0, 6000);
        segment
            .write(both(), |transaction| {
                let object = Object::at(transaction, 0, 0).expect("just made");
                if round % 2 == 0 {
                    return object.bury(transaction);
                }
                object.transfer(transaction, 1, 0)?.bury(transaction)
            })
            .expect("room");
    }
    empty(&segment);
}

#[test]
fn a_block_belongs_to_one_pool() {
    let (_directory, segment) = store();
    fill(&segment, 0, 2);
    fill(&segment, 1, 2);
    let damaged = |result: Result<(), Error>, what: &str| match result {
        Err(Error::Damaged(_)) => {}
        other => panic!("{what}: expected an error, found {other:?}"),
    };
    let arenas = [0, 2].map(|root| {
        segment
            .read(ShardSet::one(0), |view| Ok::<_, Error>(view.root(0, root)))
            .expect("a root")
    });
    let block = segment
        .read(ShardSet::one(0), |view| Ok::<_, Error>(view.root(0, 1)))
        .expect("a root");
    let wrong = [
        Pool::from(0),
        Pool::new(0, arenas[1]),
        Pool::new(1, arenas[0]),
        Pool::new(0, block),
        Pool::new(0, arenas[0] + 8),
        Pool::new(0, 4096),
        Pool::new(0, u64::MAX),
    ];
    for pool in wrong {
        let freed = segment.write(both(), |transaction| {
            transaction.free(pool, block);
            Ok(())
        });
        damaged(freed, "a free");
        let asked = segment.write(both(), |transaction| {
            transaction.block_size(pool, block).map(drop)
        });
        damaged(asked, "its size");
        if pool.arena() == 0 || pool == Pool::new(0, arenas[1]) {
            continue;
        }
        let allocated = segment.write(both(), |transaction| {
            transaction.allocate(pool, 100).map(drop)
        });
        damaged(allocated, "a block");
        let allocated = segment.write(both(), |transaction| {
            transaction.allocate(pool, 100_000).map(drop)
        });
        damaged(allocated, "a run");
        let moved = segment.write(both(), |transaction| {
            transaction.transfer_arena(pool, 1).map(drop)
        });
        damaged(moved, "a move");
        let buried = segment.write(both(), |transaction| {
            transaction.bury_arena(pool);
            Ok(())
        });
        damaged(buried, "an end");
    }
    content(&segment);
    // A shard must not transfer a large block that belongs to an arena.
    fill(&segment, 2, 0);
    let result = segment.write(both(), |transaction| {
        let at = transaction.allocate(Pool::new(0, arenas[0]), 100_000)?;
        transaction.transfer(at, 0, 1).map(drop)
    });
    damaged(result, "a transfer");
    empty(&segment);
}
