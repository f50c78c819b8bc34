//! Random operations, after which the recovered store must equal the original.

use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;

use crate::store::{change, content, create_journaled, recover};
use undercroft_memory::local_disk;

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
