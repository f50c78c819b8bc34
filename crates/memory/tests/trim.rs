//! Tests returning memory to the system: the file shrinks, the returned memory is allocated again
//! when needed, and a death in between loses no extent.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use undercroft_memory::fault::die_after;
use undercroft_memory::{Error, Offset, Options, Segment, ShardSet};

fn create(path: &Path) -> Segment {
    create_of(path, 64 << 20)
}

fn create_of(path: &Path, capacity: u64) -> Segment {
    let options = Options {
        capacity: Some(capacity),
        shards: Some(1),
        ring: None,
    };
    Segment::create(path, &options).expect("a new store")
}

fn allocate(segment: &Segment, bytes: u64) -> Offset {
    let block = segment.write(ShardSet::one(0), |transaction| {
        let at = transaction.allocate(0, bytes)?;
        transaction.fill(at, &vec![9; bytes as usize])?;
        Ok::<_, Error>(at)
    });
    block.expect("room")
}

fn free(segment: &Segment, at: Offset) {
    segment
        .write(ShardSet::one(0), |transaction| {
            transaction.free(0, at);
            Ok::<_, Error>(())
        })
        .expect("a free");
}

fn sound(segment: &Segment, blocks: &[Offset]) {
    let report = segment
        .check(|_, _, reach, _| blocks.iter().for_each(|&at| reach(at)))
        .expect("a check");
    assert_eq!(report.problems, Vec::<String>::new());
}

/// Returns all memory above `keep` to the system, slice by slice. Returns the number of bytes.
fn give_all_back(segment: &Segment, keep: u64) -> u64 {
    let mut bytes = 0;
    loop {
        let trimmed = segment.trim_now(keep).expect("a slice is punched");
        bytes += trimmed.bytes;
        if !trimmed.more {
            return bytes;
        }
    }
}

fn file_bytes(segment: &Segment) -> u64 {
    std::fs::metadata(segment.path()).expect("a file").blocks() * 512
}

#[test]
fn free_memory_is_returned_to_the_system_and_used_again() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let segment = create(&directory.path().join("store"));
    let small = allocate(&segment, 100);
    let large = allocate(&segment, 20 << 20);
    let full = file_bytes(&segment);
    free(&segment, large);
    let trimmed = segment.trim(1 << 20).expect("extents are retired");
    assert_eq!((trimmed.bytes, trimmed.more), (0, true));
    sound(&segment, &[small]);
    assert_eq!(give_all_back(&segment, 1 << 20) >> 20, 19);
    sound(&segment, &[small]);
    assert!(full - file_bytes(&segment) > 18 << 20);
    // Allocate more than the rest of the capacity, so that returned extents must be reused.
    let blocks = [
        allocate(&segment, 30 << 20),
        allocate(&segment, 15 << 20),
        small,
    ];
    sound(&segment, &blocks);
}

#[test]
fn retired_extents_are_used_when_no_other_memory_is_left() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    for steps in 0.. {
        let path = directory.path().join(format!("store-{steps}"));
        let segment = create_of(&path, 4 << 20);
        let large = allocate(&segment, 2 << 20);
        free(&segment, large);
        segment.trim(0).expect("extents are retired");
        let done = die_after(steps, || allocate(&segment, 3 << 20)).is_some();
        segment.abandon();
        let heir = Segment::open(&path, true).expect("the same store");
        heir.recover().expect("what the dead left is undone");
        if done {
            assert!(steps > 20, "{steps} steps");
            break;
        }
        // If the process died after the commit, it left the block allocated.
        if heir.statistics().used == 0 {
            let again = allocate(&heir, 3 << 20);
            sound(&heir, &[again]);
            free(&heir, again);
            give_all_back(&heir, 0);
            sound(&heir, &[]);
        }
        std::fs::remove_file(path).expect("just made");
    }
}

#[test]
fn death_while_returning_memory_loses_nothing() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    for steps in 0.. {
        let path = directory.path().join(format!("store-{steps}"));
        let segment = create(&path);
        let large = allocate(&segment, 2 << 20);
        free(&segment, large);
        let done = die_after(steps, || {
            segment.trim(0).expect("extents are retired");
            give_all_back(&segment, 0);
        })
        .is_some();
        segment.abandon();
        let heir = Segment::open(&path, true).expect("the same store");
        sound(&heir, &[]);
        give_all_back(&heir, 0);
        sound(&heir, &[]);
        sound(&heir, &[allocate(&heir, 3 << 20)]);
        std::fs::remove_file(path).expect("just made");
        if done {
            assert!(steps > 20, "{steps} steps");
            break;
        }
    }
}

#[test]
fn free_extents_anywhere_in_the_heap_are_returned() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let segment = create(&directory.path().join("store"));
    let blocks: Vec<Offset> = (0..300).map(|_| allocate(&segment, 64 << 10)).collect();
    let full = file_bytes(&segment);
    let mut kept = Vec::new();
    for (number, &block) in blocks.iter().enumerate() {
        match number % 3 {
            0 => kept.push(block),
            _ => free(&segment, block),
        }
    }
    while segment.give_back(0).expect("a return") {}
    // One of every three extents is free, and no two free extents are adjacent. All are returned in
    // one call.
    segment.trim(0).expect("extents are retired");
    sound(&segment, &kept);
    assert!(give_all_back(&segment, 0) >= 200 * (64 << 10));
    sound(&segment, &kept);
    assert!(full - file_bytes(&segment) >= 200 * (64 << 10));
}
