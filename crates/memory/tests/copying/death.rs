//! Whoever dies at any step of a copy, or of a change while one is made, leaves a whole store, and nothing that is lost.

use std::path::Path;

use undercroft_memory::fault::die_after;
use undercroft_memory::{Error, Segment, ShardSet};

use crate::objects::{change, check, content, content_of, create, filled, seed};

fn used_pages(segment: &Segment) -> u64 {
    // What has gone to a graveyard is as good as free.
    (0..segment.shards()).for_each(|index| while segment.give_back(index).expect("room") {});
    let statistics = segment.statistics();
    statistics.reserved - statistics.free
}

#[test]
fn whoever_dies_while_copying_leaves_nothing() {
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
            // Its copy goes on being served, until somebody finds it dead.
            0 => {
                pass_by(steps as u8);
                check(&segment);
                segment.recover().expect("a recovery");
            }
            1 => drop(segment.free_dead_copy().expect("no lock is held")),
            // The next copier ends it.
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

/// A change between two pages of a copy: blocks that are replaced, filled anew, changed in place and undone.
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
            // The heir rolls back while the copy is on.
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
fn whoever_dies_while_a_copy_is_made_spoils_neither() {
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
fn a_copy_that_a_stopped_writer_keeps_from_ending_is_ended_later() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("store");
    let segment = filled(&path, 32 << 20, &mut fastrand::Rng::with_seed(seed()));
    let other = Segment::open(&path, true).expect("the same store");
    segment.set_patience(std::time::Duration::from_millis(1));
    let used = used_pages(&segment);
    // The writer holds the lock of its shard until it is told to go on.
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
                        begin.send(()).expect("somebody waits");
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
    // Nothing keeps it any more: whoever comes finds it, this process as well as others once it is gone.
    assert!(segment.free_dead_copy().expect("no lock is held"));
    assert!(!segment.free_dead_copy().expect("no lock is held"));
    assert_eq!(used_pages(&segment), used);
    check(&segment);
}
