//! Random operations, after which the recovered store must equal the original.

use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;

use undercroft_memory::{Durability, Error, JournalOptions, ShardSet, local_disk, removing};

use crate::store::{OwnDisk, ROOTS, change, content, create, create_journaled, put, recover};

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory")
}

/// Runs `count` random operations after the first checkpoint, with further checkpoints among them.
fn run(seed: u64, count: usize) {
    let directory = directory();
    let (segment, folder) = create_journaled(directory.path());
    let mut random = Rng::with_seed(seed);
    let mut done = Vec::new();
    for _ in 0..count {
        done.push(change(&segment, &mut random).expect("an operation"));
        if random.u32(..100) == 0 {
            segment.checkpoint().expect("a checkpoint");
        }
    }
    segment.make_durable().expect("a durable journal");
    let recovered = recover(directory.path(), &folder, &*local_disk()).expect("a recovered store");
    let expected = content(&segment);
    assert_eq!(content(&recovered.segment), expected, "seed {seed}");
    let tail = &done[done.len().saturating_sub(20)..];
    let difference = segment.first_difference(&recovered.segment);
    assert_eq!(difference, None, "seed {seed}, last operations {tail:?}");
    assert_eq!(recovered.cut, None, "seed {seed}");
}

#[test]
fn recovered_store_equals_the_survivor_after_random_operations() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    for round in 0..20 {
        run(seed.wrapping_add(round), 20 * round as usize);
    }
}

#[test]
fn recovered_store_can_be_recovered_again() {
    let directory = directory();
    let (mut segment, folder) = create_journaled(directory.path());
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = Rng::with_seed(seed);
    for _ in 0..5 {
        for _ in 0..50 {
            change(&segment, &mut random).expect("an operation");
        }
        segment.make_durable().expect("a durable journal");
        let expected = content(&segment);
        let recovered =
            recover(directory.path(), &folder, &*local_disk()).expect("a recovered store");
        segment = recovered.segment;
        assert_eq!(content(&segment), expected);
    }
}

#[test]
fn checkpoint_during_writes_recovers_the_same_store() {
    let directory = directory();
    let (segment, folder) = create_journaled(directory.path());
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (segment, stop) = (&segment, &stop);
            scope.spawn(move || {
                let mut random = Rng::with_seed(seed.wrapping_add(thread));
                while !stop.load(Ordering::Relaxed) {
                    change(segment, &mut random).expect("an operation");
                }
            });
        }
        for _ in 0..10 {
            segment.checkpoint().expect("a checkpoint");
        }
        stop.store(true, Ordering::Relaxed);
    });
    segment.make_durable().expect("a durable journal");
    let recovered = recover(directory.path(), &folder, &*local_disk()).expect("a recovered store");
    assert_eq!(content(&recovered.segment), content(&segment));
    assert_eq!(segment.first_difference(&recovered.segment), None);
}

/// A removal that is committed in parts cannot run again, so it must find space in the ring (H6).
#[test]
fn removal_in_parts_continues_although_the_ring_is_full() {
    let directory = directory();
    let mut segment = create(&directory.path().join("store"));
    // Before the journal begins, because the ring grows for a long record.
    put(&segment, 0, ROOTS - 1, 5 << 20, 2).expect("room");
    let folder = directory.path().join("store.journal");
    let options = JournalOptions {
        ring: Some(64 << 10),
        segment: Some(256 << 10),
    };
    segment
        .begin_journal(&folder, Durability::EverySecond, &options)
        .expect("a journal");
    // No other thread makes space in the ring.
    segment.set_disk(Box::new(OwnDisk(local_disk())));
    for root in 0..ROOTS - 1 {
        put(&segment, 0, root, 5000, 1).expect("room");
    }
    let _removing = removing();
    let removed = segment.write(ShardSet::one(0), |transaction| {
        if !transaction.is_in_parts() {
            // Preserve more bytes than fit in any log of this store.
            let long = transaction.view().root(0, ROOTS - 1);
            transaction.preserve(0, long, 5 << 20)?;
        }
        let mut removed = 0;
        for root in 0..ROOTS - 1 {
            let at = transaction.view().root(0, root);
            transaction.preserve(0, at, 4096)?;
            transaction.free(0, at);
            transaction.set_root(0, root, 0)?;
            removed += 1;
            transaction.end_of_part()?;
        }
        Ok::<_, Error>(removed)
    });
    assert_eq!(removed.expect("a removal in parts"), ROOTS - 1);
    segment.make_durable().expect("a durable journal");
    let recovered = recover(directory.path(), &folder, &*local_disk()).expect("a recovered store");
    assert_eq!(content(&recovered.segment), content(&segment));
    assert_eq!(segment.first_difference(&recovered.segment), None);
}

/// Records leave out words that keep their old contents. The descriptors of memory that was returned
/// to the system keep theirs, so a checkpoint must contain them.
#[test]
fn descriptors_of_returned_memory_are_recovered() {
    let directory = directory();
    let (segment, folder) = create_journaled(directory.path());
    let fill = || {
        for root in 0..ROOTS {
            let length = if root % 3 == 0 { 200_000 } else { 1000 };
            put(&segment, 0, root, length, 7).expect("room");
        }
    };
    fill();
    segment
        .write(ShardSet::one(0), |transaction| {
            for root in 0..ROOTS {
                let at = transaction.view().root(0, root);
                transaction.free(0, at);
                transaction.set_root(0, root, 0)?;
            }
            Ok::<_, Error>(())
        })
        .expect("an empty store");
    let mut returned = 0;
    loop {
        while segment.give_back(0).expect("a step") {}
        let trimmed = segment.trim_now(0).expect("a slice");
        returned += trimmed.bytes;
        if !trimmed.more {
            break;
        }
    }
    assert!(returned > 0, "no memory was returned");
    segment.checkpoint().expect("a checkpoint");
    fill();
    segment.make_durable().expect("a durable journal");
    let recovered = recover(directory.path(), &folder, &*local_disk()).expect("a recovered store");
    assert_eq!(content(&recovered.segment), content(&segment));
    assert_eq!(segment.first_difference(&recovered.segment), None);
}
