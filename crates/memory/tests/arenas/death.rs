//! Tests that operations on arenas survive death at every step: a thread dies after the N-th
//! significant store, for N = 0, 1, 2, ... until the operation completes. Another handle must then
//! find a consistent store that contains either all of the operation or none of it. For some N,
//! that handle also dies, at every step of its recovery.

use std::path::Path;

use undercroft_memory::fault::die_after;
use undercroft_memory::{Error, Segment, ShardSet};

use crate::object::{Content, Object, SLOTS, both, content, create, empty};

/// If the number of steps is a multiple of this, a second process dies during recovery.
const SECOND_DEATHS: u64 = 101;
/// If the number of steps is a multiple of this, a process that joined before the death also
/// detects it. Such a process waits briefly before it checks whether a lock's owner is alive.
const WITNESSED: u64 = 23;

type Operation<'o> = &'o dyn Fn(&Segment) -> Result<(), Error>;

/// Creates a store and prepares it for the operation.
fn prepared(path: &Path, prepare: Operation<'_>) -> Segment {
    let segment = create(path);
    prepare(&segment).expect("room");
    segment
}

/// Runs the operation and dies after `steps` steps. Returns false if the operation completed.
fn die(segment: &Segment, steps: u64, operation: Operation<'_>) -> bool {
    let died = die_after(steps, || operation(segment).expect("room")).is_none();
    if died {
        segment.abandon();
    }
    died
}

/// Recovers the store and checks that it has one of two expected contents, still works, and is
/// empty once its objects are freed.
fn recover(path: &Path, expected: [&Content; 2], what: &str) {
    let heir = Segment::open(path, true).expect("the same store");
    let found = content(&heir);
    assert!(
        expected.contains(&&found),
        "{what}: {found:?}\nexpected one of {expected:?}"
    );
    for &(shard, slot) in found.keys() {
        let work = heir.write(ShardSet::one(shard), |transaction| {
            let object = Object::at(transaction, shard, slot).expect("found");
            object.push(transaction, 5000, 99)?;
            object.push(transaction, 30_000, 98)
        });
        work.expect("room");
    }
    content(&heir);
    empty(&heir);
}

/// Uses one shard and then the other in a process that joined before the death, so that each shard
/// is recovered separately.
fn recover_one_by_one(path: &Path, witness: &Segment, first: usize, expected: [&Content; 2]) {
    for shard in [first, 1 - first] {
        // The runs granted to the dead process can be allocated again.
        make(witness, shard, SLOTS - 1, EVERY_KIND).expect("room");
        make(witness, shard, SLOTS - 2, EVERY_KIND).expect("room");
    }
    let mut found = content(witness);
    found.retain(|&(_, slot), _| slot < SLOTS - 2);
    assert!(
        expected.contains(&&found),
        "shard {first} first: {found:?}\nexpected one of {expected:?}"
    );
    recover(path, [&content(witness); 2], "after the witness");
}

/// Runs the operation repeatedly, dying at each of its steps in turn. Returns the number of steps.
fn die_everywhere(prepare: Operation<'_>, operation: Operation<'_>) -> u64 {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("store");
    let remove = || std::fs::remove_file(&path).expect("just made");
    let segment = prepared(&path, prepare);
    let before = content(&segment);
    operation(&segment).expect("room");
    let after = content(&segment);
    assert_ne!(before, after, "the operation changes something");
    drop(segment);
    remove();
    for steps in 0.. {
        let died = die(&prepared(&path, prepare), steps, operation);
        let expected = if died { &before } else { &after };
        recover(&path, [expected, &after], &format!("after {steps} steps"));
        remove();
        if !died {
            return steps;
        }
        if steps % WITNESSED == 0 {
            let segment = prepared(&path, prepare);
            let witness = Segment::open(&path, true).expect("the same store");
            witness.recover().expect("a whole store");
            die(&segment, steps, operation);
            let first = (steps / WITNESSED % 2) as usize;
            recover_one_by_one(&path, &witness, first, [&before, &after]);
            remove();
        }
        for again in 0.. {
            if steps % SECOND_DEATHS != 0 {
                break;
            }
            die(&prepared(&path, prepare), steps, operation);
            let second = Segment::open(&path, true).expect("the same store");
            let died = die(&second, again, &Segment::recover);
            drop(second);
            let what = format!("after {steps} steps, and {again} of the recovery");
            recover(&path, [&before, &after], &what);
            remove();
            if !died {
                break;
            }
        }
    }
    unreachable!("the loop ends when the operation completes")
}

/// Creates an object in a slot, with blocks of the given lengths.
fn make(segment: &Segment, shard: usize, slot: usize, lengths: &[u64]) -> Result<(), Error> {
    segment.write(ShardSet::one(shard), |transaction| {
        let object = Object::new(transaction, shard, slot)?;
        (lengths.iter()).try_for_each(|&length| object.push(transaction, length, 1))
    })
}

/// Changes the object in a slot of shard 0, with both shards locked.
fn change<R>(
    segment: &Segment,
    slot: usize,
    body: impl Fn(&mut undercroft_memory::Transaction<'_>, Object) -> Result<R, Error>,
) -> Result<(), Error> {
    segment.write(both(), |transaction| {
        let object = Object::at(transaction, 0, slot).expect("made before");
        body(transaction, object).map(drop)
    })
}

/// Lengths of blocks of every kind: small blocks, including blocks in a multi-page slab, and a
/// large block.
const EVERY_KIND: &[u64] = &[24, 64, 64, 3000, 9000, 9000, 40_000, 600];

#[test]
fn an_arena_is_made_and_filled() {
    let steps = die_everywhere(&|_| Ok(()), &|s| make(s, 0, 0, &[]));
    assert!(steps > 15, "{steps} steps: a grant and a page");
    let empty = |s: &Segment| make(s, 0, 0, &[]);
    // The block needs single pages, and the first of them becomes a slab.
    die_everywhere(&empty, &|s| change(s, 0, |t, o| o.push(t, 64, 2)));
    // The block needs a multi-page slab.
    die_everywhere(&empty, &|s| change(s, 0, |t, o| o.push(t, 9000, 2)));
    // The block needs a run of pages.
    die_everywhere(&empty, &|s| change(s, 0, |t, o| o.push(t, 100_000, 2)));
    die_everywhere(&|_| Ok(()), &|s| make(s, 1, 0, EVERY_KIND));
}

#[test]
fn blocks_of_an_arena_are_allocated_and_freed() {
    let several = |s: &Segment| make(s, 0, 0, EVERY_KIND);
    die_everywhere(&several, &|s| {
        change(s, 0, |t, o| {
            for _ in 0..EVERY_KIND.len() - 1 {
                o.pop(t)?;
            }
            o.push(t, 20_000, 3)
        })
    });
    // Free runs in the middle of the arena's list.
    let large = |s: &Segment| make(s, 0, 0, &[20_000, 20_000, 20_000, 20_000]);
    die_everywhere(&large, &|s| {
        change(s, 0, |t, o| {
            o.pop(t)?;
            o.pop(t)
        })
    });
}

#[test]
fn an_arena_moves_to_another_shard() {
    let several = |s: &Segment| make(s, 0, 0, EVERY_KIND);
    let steps = die_everywhere(&several, &|s| change(s, 0, |t, o| o.transfer(t, 1, 1)));
    let mut twice = EVERY_KIND.to_vec();
    twice.extend(EVERY_KIND);
    let larger = |s: &Segment| make(s, 0, 0, &twice);
    let more = die_everywhere(&larger, &|s| change(s, 0, |t, o| o.transfer(t, 1, 1)));
    assert_eq!(steps, more, "the steps do not depend on the size");
}

#[test]
fn an_arena_is_changed_before_and_after_its_move() {
    let several = |s: &Segment| make(s, 0, 0, EVERY_KIND);
    // Overwrite existing blocks, in a slab and in a large run, before and after the move.
    die_everywhere(&several, &|s| {
        change(s, 0, |t, o| {
            o.overwrite(t, 2)?;
            let moved = o.transfer(t, 1, 0)?;
            moved.overwrite(t, 3)
        })
    });
    let ends_large = |s: &Segment| make(s, 0, 0, &[64, 30_000]);
    die_everywhere(&ends_large, &|s| {
        change(s, 0, |t, o| {
            o.overwrite(t, 2)?;
            let moved = o.transfer(t, 1, 0)?;
            moved.overwrite(t, 3)
        })
    });
    // Allocate and free blocks, slabs and runs before and after the move.
    die_everywhere(&several, &|s| {
        change(s, 0, |t, o| {
            o.push(t, 3000, 4)?;
            o.pop(t)?;
            let moved = o.transfer(t, 1, 0)?;
            moved.pop(t)?;
            moved.push(t, 64, 5)?;
            moved.push(t, 1800, 6)?;
            moved.push(t, 50_000, 7)?;
            moved.overwrite(t, 8)
        })
    });
    // Transfer the arena to the other shard and back.
    die_everywhere(&several, &|s| {
        change(s, 0, |t, o| {
            let moved = o.transfer(t, 1, 0)?;
            moved.push(t, 9000, 5)?;
            let back = moved.transfer(t, 0, 2)?;
            back.push(t, 700, 6)?;
            back.pop(t)?;
            back.pop(t)
        })
    });
}

#[test]
fn an_arena_is_freed() {
    let several = |s: &Segment| make(s, 0, 0, EVERY_KIND);
    die_everywhere(&several, &|s| change(s, 0, |t, o| o.bury(t)));
    die_everywhere(&several, &|s| {
        change(s, 0, |t, o| {
            o.pop(t)?;
            o.transfer(t, 1, 2)?.bury(t)
        })
    });
    // Create another arena while this arena is freed.
    die_everywhere(&several, &|s| {
        change(s, 0, |t, o| {
            o.bury(t)?;
            let other = Object::new(t, 0, 0)?;
            other.push(t, 9000, 2)?;
            other.push(t, 90_000, 2)
        })
    });
    // Create, move and free an arena, and create another, in one transaction.
    die_everywhere(&|_| Ok(()), &|s| {
        s.write(both(), |transaction| {
            let object = Object::new(transaction, 0, 0)?;
            object.push(transaction, 64, 1)?;
            let moved = object.transfer(transaction, 1, 0)?;
            moved.push(transaction, 30_000, 1)?;
            moved.bury(transaction)?;
            Object::new(transaction, 1, 2)?.push(transaction, 64, 2)
        })
    });
}

/// Memory is returned to the heap in separate steps, each of which a death can interrupt. The heap
/// may grant the run to another shard before the next step.
#[test]
fn freeing_an_arena_may_be_interrupted_anywhere() {
    let most = [&[][..], &[64, 9000, 40_000]].map(|lengths| {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let path = directory.path().join("store");
        (0..)
            .find(|&steps| !return_interrupted(&path, lengths, steps))
            .expect("it ends")
    });
    assert!(most[0] > 40 && most[1] > 80, "{most:?} steps");
}

/// Frees an object, dying after `steps` steps. Returns true if the return of its memory was
/// interrupted.
fn return_interrupted(path: &Path, lengths: &[u64], steps: u64) -> bool {
    let segment = create(path);
    make(&segment, 0, 0, lengths).expect("room");
    // From here on, the witness does not access the arena's shard.
    let witness = Segment::open(path, true).expect("the same store");
    witness.recover().expect("a whole store");
    let died = die(&segment, steps, &|s| {
        change(s, 0, |t, o| o.bury(t))?;
        while s.give_back(0)? {}
        Ok(())
    });
    // Another shard allocates the free runs and transfers them to this shard.
    make(&witness, 1, 1, EVERY_KIND).expect("room");
    witness
        .write(both(), |transaction| {
            let object = Object::at(transaction, 1, 1).expect("just made");
            object.transfer(transaction, 0, 2)
        })
        .expect("room");
    make(&witness, 0, 1, EVERY_KIND).expect("room");
    let mut found = content(&witness);
    let old = found.remove(&(0, 0)).is_some();
    assert_eq!(found.len(), 2, "after {steps} steps");
    assert!(died || !old, "completed, but the arena still exists");
    empty(&witness);
    std::fs::remove_file(path).expect("just made");
    died
}
