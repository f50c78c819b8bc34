//! Power cuts: whatever a power cut leaves of the journal's files, recovery returns the store as it
//! was at one moment, which is not before the last one that was reported as durable (J7).

use std::sync::{Arc, Mutex};

use fastrand::Rng;

use crate::history::{History, random_choice};
use crate::store::{change, put};

/// Returns how many times the default number of histories to run, by `UNDERCROFT_CRASH`.
pub(crate) fn repetitions() -> u64 {
    match std::env::var("UNDERCROFT_CRASH").as_deref() {
        Err(_) => 1,
        Ok("soak") => 20,
        Ok("full") => 100,
        Ok(other) => panic!("UNDERCROFT_CRASH: expected soak or full, got {other:?}"),
    }
}

/// Returns a random seed, or the one in `UNDERCROFT_SEED`.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("UNDERCROFT_SEED").ok();
    let seed = given.map_or_else(|| fastrand::u64(..), |seed| seed.parse().expect("a number"));
    println!("seed {seed}: repeat with UNDERCROFT_SEED={seed}");
    seed
}

/// Applies random changes, syncs, checkpoints and recoveries, and verifies images taken before any of
/// the disk's operations. Returns the number of images.
fn run(seed: u64, operations: u32) -> usize {
    let mut history = History::journaled();
    let mut random = Rng::with_seed(seed);
    for number in 0..operations {
        let context = format!("seed {seed}, operation {number}");
        let mut inner = random.fork();
        history.watch(random.u64(..), 4, move |segment| {
            change(segment, &mut inner).expect("a change during a checkpoint");
        });
        match random.u32(..40) {
            0..30 => {
                change(&history.segment, &mut random).expect("a change");
                history.disk.remove_hook();
                history.note();
            }
            30..35 => {
                history.segment.make_durable().expect("a durable journal");
                history.disk.remove_hook();
                history.note_durable();
            }
            35..38 => history.segment.checkpoint().expect("a checkpoint"),
            38 => history.restart(None, &context),
            _ => history.restart(Some(&mut random_choice(&mut random)), &context),
        }
        history.disk.remove_hook();
        history.verify_taken(&context);
        if random.u32(..8) == 0 {
            history.verify(&mut random_choice(&mut random), &context);
        }
    }
    history.settle(&format!("seed {seed}, at the end"));
    history.images
}

#[test]
fn power_cut_leaves_the_store_of_one_moment() {
    let seed = seed();
    let (mut images, mut rounds) = (0, 0);
    while images < 400 * repetitions() as usize {
        images += run(seed.wrapping_add(rounds), 50);
        rounds += 1;
    }
    println!("{images} images in {rounds} histories");
}

/// Calls `each` with every sequence of choices that an image offers.
fn for_each_choice(mut each: impl FnMut(&mut dyn FnMut(usize) -> usize)) -> usize {
    let mut digits: Vec<(usize, usize)> = Vec::new();
    let mut images = 0;
    loop {
        let mut used = 0;
        each(&mut |options| {
            if used == digits.len() {
                digits.push((0, options));
            }
            used += 1;
            digits[used - 1].0
        });
        images += 1;
        digits.truncate(used);
        while digits
            .last()
            .is_some_and(|(digit, options)| digit + 1 == *options)
        {
            digits.pop();
        }
        match digits.last_mut() {
            Some((digit, _)) => *digit += 1,
            None => return images,
        }
    }
}

/// Runs an operation that makes all changes durable, and verifies everything that a power cut before
/// each of the disk's operations may leave. Returns the number of images.
fn in_every_subset(
    history: &mut History,
    context: &str,
    operation: impl FnOnce(&History),
) -> usize {
    let copies = Arc::new(Mutex::new(Vec::new()));
    let (disk, taken) = (history.disk.clone(), copies.clone());
    history.disk.set_hook(move |(kind, path)| {
        // The other operations change nothing that an earlier or a later copy does not have.
        if ["sync", "sync_directory", "rename"].contains(&kind) {
            let name = format!("{kind} {}", path.display());
            let copy = disk.unsynced_copy();
            taken.lock().expect("no panic").push((name, copy));
        }
    });
    operation(history);
    history.disk.remove_hook();
    let mut images = 0;
    let disk = history.disk.clone();
    let copies = std::mem::take(&mut *copies.lock().expect("no panic"));
    for (name, copy) in copies {
        history.disk = copy;
        let context = format!("{context}, before {name}");
        images += for_each_choice(|choose| history.verify(choose, &context));
    }
    history.disk = disk;
    history.note_durable();
    images += for_each_choice(|choose| history.verify(choose, context));
    images
}

#[test]
fn every_subset_of_a_short_history_recovers() {
    let mut history = History::journaled();
    let mut images = 0;
    for round in 0..3 * repetitions() {
        for mark in 0..3 {
            put(&history.segment, 0, mark as usize, 400, mark + 1).expect("a change");
            history.note();
        }
        images += in_every_subset(&mut history, "a sync", |history| {
            history.segment.make_durable().expect("a durable journal");
        });
        put(&history.segment, 0, 3, 400, round + 1).expect("a change");
        history.note();
        images += in_every_subset(&mut history, "a checkpoint", |history| {
            history.segment.checkpoint().expect("a checkpoint");
        });
        history.restart(None, "a restart");
    }
    println!("{images} images");
    assert!(images > 100, "{images} images");
}
