//! Tests that a death at any step of a copy, or of a change during a copy, leaves a consistent
//! store and loses no data.

use std::path::Path;

use undercroft_memory::fault::die_after;
use undercroft_memory::{Error, Segment, ShardSet};

use crate::objects::{change, check, content, content_of, create, filled, seed};

fn used_pages(segment: &Segment) -> u64 {
    // Returns the number of pages in use. Runs in a graveyard (queued to be freed) count as free.
    (0..segment.shards()).for_each(|index| while segment.give_back(index).expect("room") {});
    let statistics = segment.statistics();
    statistics.reserved - statistics.free
}

#[test]
fn death_while_copying_leaves_nothing_behind() {
    let mut random = fastrand::Rng::with_seed(seed());
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("store");
    let segment = filled(&path, 64 << 20, &mut random);
    let pass_by = |value: u8| {
        segment
            .write(ShardSet::one(0), |transaction| {
                let at = transaction.allocate(0, 9000)?;
                transaction.fill(at, &[value; 9000])?;
                transaction.free(0, at);
                Ok::<_, Error>(())
            })
            .expect("room");
    };
    pass_by(0);
    let (expected, used) = (content(&segment), used_pages(&segment));
    let mut deaths = 0;
    for steps in 0.. {
        let copier = Segment::open(&path, true).expect("the same store");
        let done =
            die_after(steps, || copier.image(|| (), &mut || {}).expect("an image")).is_some();
        copier.abandon();
        match steps % 3 {
            // Writers save pages for the copy until a process detects that the copier is dead.
            0 => {
                pass_by(steps as u8);
                check(&segment);
                segment.recover().expect("a recovery");
            }
            1 => drop(segment.free_dead_copy().expect("no lock is held")),
            // The next copier ends the copy of the dead process.
            _ => {
                let (image, ()) = segment.image(|| (), &mut || {}).expect("an image");
                assert!(content_of(&image.view()).expect("a sound image") == expected);
            }
        }
        assert!(
            !segment.free_dead_copy().expect("no lock is held"),
            "after {steps} steps"
        );
        check(&segment);
        assert_eq!(used_pages(&segment), used, "after {steps} steps");
        assert!(content(&segment) == expected, "after {steps} steps");
        if done {
            break;
        }
        deaths += 1;
    }
    assert!(deaths > 100, "{deaths} deaths");
}

/// Makes changes between two pages of a copy: replaces and refills blocks, changes them in place,
/// and rolls changes back.
fn act(segment: &Segment) {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..6 {
        change(segment, &mut random);
    }
}

fn one_death(path: &Path, steps: u64, seed: u64) -> bool {
    let mut random = fastrand::Rng::with_seed(seed);
    let segment = create(path, 32 << 20);
    for _ in 0..100 {
        change(&segment, &mut random);
    }
    let expected = content(&segment);
    let mut tried = None;
    let (image, ()) = segment
        .image(|| (), &mut || {
            if tried.is_some() {
                return;
            }
            let writer = Segment::open(path, true).expect("the same store");
            tried = Some(die_after(steps, || act(&writer)).is_some());
            writer.abandon();
            // The process that recovers the store rolls the change back while the copy is being
            // made.
            act(&segment);
        })
        .expect("an image");
    let found = content_of(&image.view()).expect("a sound image");
    assert!(found == expected, "after {steps} steps");
    segment.recover().expect("a recovery");
    check(&segment);
    std::fs::remove_file(path).expect("just made");
    tried == Some(false)
}

#[test]
fn a_writers_death_during_a_copy_spoils_neither_copy_nor_store() {
    let seed = seed();
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("store");
    let deaths = (0..)
        .take_while(|&steps| one_death(&path, steps, seed))
        .count();
    println!("{deaths} deaths");
    assert!(deaths > 100, "{deaths} deaths");
}

#[test]
fn a_copy_blocked_by_a_stopped_writer_is_ended_later() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("store");
    let segment = filled(&path, 32 << 20, &mut fastrand::Rng::with_seed(seed()));
    let other = Segment::open(&path, true).expect("the same store");
    segment.set_patience(std::time::Duration::from_millis(1));
    let used = used_pages(&segment);
    // The writer holds its shard's lock until it is told to continue.
    let (begin, begun) = std::sync::mpsc::channel();
    let (go_on, told) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let mut image = None;
        let mut told = Some(told);
        let holder = &other;
        let made = segment.image(|| (), &mut || {
            let Some(told) = told.take() else { return };
            let begin = begin.clone();
            scope.spawn(move || {
                holder
                    .write(ShardSet::one(0), |_| {
                        begin.send(()).expect("a client is waiting");
                        let _ = told.recv();
                        Ok::<_, Error>(())
                    })
                    .expect("no lock is held");
            });
            begun.recv().expect("a writer");
        });
        image.replace(made.expect("an image"));
        go_on.send(()).expect("a writer");
    });
    // The copy is no longer blocked, so any process, including this one, can end it.
    assert!(segment.free_dead_copy().expect("no lock is held"));
    assert!(!segment.free_dead_copy().expect("no lock is held"));
    assert_eq!(used_pages(&segment), used);
    check(&segment);
}
