//! Tests blocks that are read in place (R7) and blocks that are taken over (W8), with deaths at
//! every step.

use std::path::Path;

use undercroft_memory::fault::die_after;
use undercroft_memory::{Error, Offset, Options, Pinned, Segment, ShardSet, SuspendedBlock};

const LENGTH: u64 = 100_000;

fn create(path: &Path) -> Segment {
    let options = Options {
        capacity: Some(8 << 20),
        shards: Some(2),
        ring: None,
    };
    Segment::create(path, &options).expect("a new store")
}

/// Stores `byte` in a new block, makes root 0 refer to it, and frees the previous block.
fn publish(segment: &Segment, byte: u8) {
    let mut staged = segment.stage(1, LENGTH).expect("room");
    staged.fill(0, &[byte; LENGTH as usize]);
    let done = segment.write(ShardSet::one(1), |transaction| {
        let old = transaction.view().root(1, 0);
        if old != 0 {
            transaction.free(1, old);
        }
        let at = transaction.adopt(&staged)?;
        transaction.set_root(1, 0, at)
    });
    done.expect("room");
    staged.adopted();
}

/// Returns the block to which root 0 refers.
fn referred(segment: &Segment) -> Offset {
    let found = segment.read(ShardSet::one(1), |view| Ok::<_, Error>(view.root(1, 0)));
    found.expect("a root")
}

/// Pins the block to which root 0 refers, as a reader does.
fn pin(segment: &Segment) -> Pinned {
    loop {
        let pinned = segment.pin(referred(segment), LENGTH).expect("an entry");
        let pinned = pinned.expect("a free pin, and a large block");
        if pinned.is_of(segment, referred(segment)) {
            return pinned;
        }
        segment.unpin(pinned);
    }
}

fn free(segment: &Segment) {
    let done = segment.write(ShardSet::one(1), |transaction| {
        let old = transaction.view().root(1, 0);
        if old != 0 {
            transaction.free(1, old);
            transaction.set_root(1, 0, 0)?;
        }
        Ok::<_, Error>(())
    });
    done.expect("room for the log");
}

fn take_over(segment: &Segment) -> SuspendedBlock {
    let taken = segment.write(ShardSet::one(1), |transaction| {
        let at = transaction.view().root(1, 0);
        transaction.set_root(1, 0, 0)?;
        transaction.take_over(1, at, LENGTH)
    });
    taken.expect("room for the log").expect("a large block")
}

/// Reads the pinned bytes, which must all be equal, and returns their value.
fn read_pinned(segment: &Segment, pinned: &Pinned) -> u8 {
    let at = segment.address_of_pinned(pinned);
    // SAFETY: the block is pinned and has the length recorded in its pin.
    let bytes = unsafe { std::slice::from_raw_parts(at, LENGTH as usize) };
    assert!(bytes.iter().all(|&byte| byte == bytes[0]));
    bytes[0]
}

/// Checks that the store and the block to which root 0 refers are consistent.
fn check(segment: &Segment) -> bool {
    let mut found = false;
    let report = segment
        .check(|shard, view, reach, _| {
            let at = view.root(shard, 0);
            if at != 0 {
                reach(at);
                found = true;
            }
        })
        .expect("a check");
    assert_eq!(report.problems, Vec::<String>::new());
    found
}

#[test]
fn a_block_freed_while_it_is_read_in_place_stays_until_its_last_pin_is_removed() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("store");
    let (reader, writer) = (create(&path), Segment::open(&path, true).expect("it"));
    publish(&writer, 1);
    let (first, second) = (pin(&reader), pin(&reader));
    let mine = pin(&writer);
    publish(&writer, 2);
    free(&writer);
    publish(&writer, 3);
    // Neither recovery nor upkeep may free the pinned block.
    writer.recover().expect("a recovery");
    assert!(!writer.free_dead_staged().expect("a step of upkeep"));
    assert_eq!(read_pinned(&reader, &first), 1);
    assert_eq!(writer.statistics().used, 2 * LENGTH.next_multiple_of(4096));
    let pins = writer.pins();
    assert_eq!(pins.len(), 3);
    assert!(
        pins.iter()
            .all(|pin| pin.lives && pin.parked && pin.bytes == LENGTH)
    );
    for pinned in [first, mine, second] {
        assert_eq!(read_pinned(&reader, &pinned), 1);
        assert!(check(&reader));
        if writer.pins().len() % 2 == 0 {
            writer.unpin(pinned);
        } else {
            reader.unpin(pinned);
        }
        if let [_, ..] = &writer.pins()[..] {
            assert_eq!(writer.statistics().used, 2 * LENGTH.next_multiple_of(4096));
        }
    }
    assert_eq!(writer.statistics().used, LENGTH.next_multiple_of(4096));
    free(&writer);
    assert_eq!(writer.statistics().used, 0);
}

#[test]
fn a_process_has_a_fixed_number_of_pins_and_reuses_them() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let segment = create(&directory.path().join("store"));
    publish(&segment, 1);
    let pins: Vec<Pinned> = (0..126).map(|_| pin(&segment)).collect();
    let more = segment.pin(referred(&segment), LENGTH).expect("an entry");
    assert!(more.is_none());
    for pinned in pins {
        segment.unpin(pinned);
    }
    segment.unpin(pin(&segment));
    // Neither the middle of a block nor an offset outside the heap can be pinned.
    for at in [referred(&segment) + 8, 0, u64::MAX - 4095] {
        assert!(segment.pin(at, LENGTH).expect("an entry").is_none());
    }
}

/// An action that a process performs on a block that may be pinned.
type Act = fn(&Segment, &Segment);

#[test]
fn death_while_pinning_unpinning_or_freeing_leaves_nothing_behind() {
    let acts: [(&str, Act); 4] = [
        ("pins and unpins", |segment, _| segment.unpin(pin(segment))),
        ("frees what another pins", |segment, other| {
            let pinned = pin(other);
            free(segment);
            assert_eq!(read_pinned(other, &pinned), 1);
            other.unpin(pinned);
        }),
        ("unpins what another freed", |segment, other| {
            let pinned = pin(segment);
            free(other);
            assert_eq!(read_pinned(segment, &pinned), 1);
            segment.unpin(pinned);
        }),
        ("takes over what another pins", |segment, other| {
            let pinned = pin(other);
            drop(segment.take_up(take_over(segment)));
            assert_eq!(read_pinned(other, &pinned), 1);
            other.unpin(pinned);
        }),
    ];
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    for (what, act) in acts {
        let mut deaths = 0;
        for steps in 0.. {
            let path = directory.path().join("store");
            let segment = create(&path);
            publish(&segment, 1);
            let other = Segment::open(&path, true).expect("the same store");
            other.recover().expect("it joins");
            let done = die_after(steps, || act(&segment, &other)).is_some();
            // Both processes are dead now: one died during the action, and the other died with all
            // its pins set.
            segment.abandon();
            other.abandon();
            let heir = Segment::open(&path, true).expect("the same store");
            heir.recover().expect("a recovery");
            let there = check(&heir);
            let expected = u64::from(there) * LENGTH.next_multiple_of(4096);
            assert_eq!(heir.statistics().used, expected, "{what}: {steps} steps");
            assert!(heir.pins().is_empty(), "{what}: {steps} steps");
            publish(&heir, 2);
            let pinned = pin(&heir);
            assert_eq!(read_pinned(&heir, &pinned), 2);
            free(&heir);
            heir.unpin(pinned);
            assert_eq!(heir.statistics().used, 0, "{what}: {steps} steps");
            std::fs::remove_file(path).expect("just made");
            if done {
                break;
            }
            deaths += 1;
        }
        assert!(deaths >= 2, "{what}: {deaths} deaths");
    }
}

#[test]
fn blocks_pinned_by_a_dead_reader_are_freed_but_not_those_of_a_living_one() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("store");
    let (dead, lives) = (create(&path), Segment::open(&path, true).expect("it"));
    publish(&dead, 1);
    let _left = pin(&dead);
    publish(&lives, 2);
    let held = pin(&lives);
    free(&lives);
    dead.abandon();
    assert!(lives.free_dead_staged().expect("a step of upkeep"));
    assert_eq!(lives.statistics().used, LENGTH.next_multiple_of(4096));
    assert_eq!(read_pinned(&lives, &held), 2);
    lives.unpin(held);
    assert_eq!(lives.statistics().used, 0);
    assert!(!check(&lives));
}

#[test]
fn a_shard_with_a_pinned_block_is_not_abandoned() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let segment = create(&directory.path().join("store"));
    publish(&segment, 1);
    let leave = |index| {
        segment.write(ShardSet::one(index), |transaction| {
            transaction.leave_behind(index, 0)
        })
    };
    let pinned = pin(&segment);
    assert!(!leave(1).expect("an answer"));
    assert!(leave(0).expect("an answer"));
    assert_eq!(read_pinned(&segment, &pinned), 1);
    segment.unpin(pinned);
}
