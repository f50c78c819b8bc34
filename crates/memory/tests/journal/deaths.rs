//! Deaths at every step with a journal on. What the surviving store holds must equal what recovery
//! from its journal gives.

use std::path::Path;

use fastrand::Rng;
use undercroft_memory::fault::die_after;
use undercroft_memory::{Error, Segment, local_disk};

use crate::store::{Content, OwnDisk, change, content, create_journaled, recover};

/// Compares the surviving store with the one that is recovered from its journal.
pub(crate) fn compare(directory: &Path, folder: &Path, heir: &Segment, context: &str) -> Content {
    heir.recover().expect("a recovery");
    let survived = content(heir);
    heir.make_durable().expect("a durable journal");
    let recovered = recover(directory, folder, &*local_disk()).expect(context);
    assert_eq!(content(&recovered.segment), survived, "{context}");
    let difference = heir.first_difference(&recovered.segment);
    assert_eq!(difference, None, "{context}");
    survived
}

/// Applies random operations, then dies in `operation` after each number of steps.
fn die_everywhere(
    seed: u64,
    prefix: usize,
    operation: impl Fn(&Segment) -> Result<(), Error>,
) -> u64 {
    for steps in 0.. {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let (mut segment, folder) = create_journaled(directory.path());
        // No other thread syncs the journal, so that the operation's own thread does.
        segment.set_disk(Box::new(OwnDisk(local_disk())));
        let mut random = Rng::with_seed(seed);
        for _ in 0..prefix {
            change(&segment, &mut random).expect("an operation");
        }
        let survived = die_after(steps, || operation(&segment).expect("enough memory")).is_some();
        if survived {
            return steps;
        }
        segment.abandon();
        let path = directory.path().join("store");
        let heir = Segment::open(&path, true).expect("the same store");
        let context = format!("seed {seed}, after {steps} steps");
        compare(directory.path(), &folder, &heir, &context);
        // The store and its journal still work.
        for _ in 0..3 {
            change(&heir, &mut random).expect("an operation");
        }
        compare(directory.path(), &folder, &heir, &context);
    }
    unreachable!("the loop ends when the operation survives")
}

#[test]
fn journal_agrees_with_the_store_after_a_death_at_every_step_of_a_change() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut steps = 0;
    for round in 0..60 {
        let seed = seed.wrapping_add(round);
        steps += die_everywhere(seed, 10, |segment| {
            change(segment, &mut Rng::with_seed(seed)).map(drop)
        });
        // Some seeds have only short changes.
        if round >= 5 && steps > 200 {
            return;
        }
    }
    panic!("{steps} steps");
}

#[test]
fn death_of_the_writer_at_every_step_loses_no_record() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let steps = die_everywhere(seed, 60, |segment| segment.make_durable());
    assert!(steps > 5, "{steps} steps");
}

#[test]
fn death_at_every_step_of_a_checkpoint_loses_no_record() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let steps = die_everywhere(seed, 40, |segment| segment.checkpoint());
    assert!(steps > 20, "{steps} steps");
}
