//! Copies of a journal that are made while a store is writing to it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use undercroft_memory::{
    Durability, JournalOptions, RecoveryWatch, Segment, Until, back_up_journal, verify_journal,
};

use crate::power::repetitions;
use crate::store::{ROOTS, content, create, put};

/// Puts consecutive numbers into the roots of a shard, and writes checkpoints.
fn write_until(segment: &Segment, is_done: &AtomicBool, durable: &AtomicU64) {
    let mut number = 0;
    while !is_done.load(Ordering::Relaxed) {
        number += 1;
        let length = if number % 50 == 0 { 150_000 } else { 800 };
        put(segment, 0, (number % ROOTS as u64) as usize, length, number).expect("a change");
        if number % 7 == 0 {
            segment.make_durable().expect("a durable journal");
            durable.store(number, Ordering::Release);
        }
        if number % 400 == 0 {
            segment.checkpoint().expect("a checkpoint");
        }
    }
}

#[test]
fn copies_made_during_writes_and_checkpoints_are_complete() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let segment = create(&directory.path().join("store"));
    let folder = directory.path().join("journal");
    let options = JournalOptions {
        ring: Some(1 << 20),
        segment: Some(64 << 10),
    };
    segment
        .begin_journal(&folder, Durability::EverySecond, &options)
        .expect("a journal");
    let (is_done, durable) = (AtomicBool::new(false), AtomicU64::new(0));
    let watch = RecoveryWatch::default();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_until(&segment, &is_done, &durable));
        for number in 0..30 * repetitions() {
            let before = durable.load(Ordering::Acquire);
            let target = directory.path().join(format!("copy{number}"));
            let copied = back_up_journal(&folder, &target, &watch).expect("a copy");
            let verdict = verify_journal(&target, &watch).expect("a verdict");
            assert_eq!(verdict.damage, Vec::<String>::new());
            assert_eq!((verdict.end, verdict.cut), (copied.position, None));
            let path = directory.path().join("recovered");
            let recovered =
                Segment::recover_until(&path, &target, Until::End, &watch).expect("a store");
            assert_eq!(recovered.position, copied.position);
            let marks: Vec<u64> = content(&recovered.segment)
                .values()
                .map(|found| found.1)
                .collect();
            let (least, most) = (marks.iter().min(), marks.iter().max());
            let most = most.copied().unwrap_or(0);
            // The store of one moment has the last numbers without a gap, and all durable ones.
            assert!(most >= before, "{most} after {before} was durable");
            assert_eq!(marks.len() as u64, most.min(ROOTS as u64));
            assert_eq!(
                least.copied().unwrap_or(0),
                (most + 1).saturating_sub(ROOTS as u64).max(most.min(1))
            );
            drop(recovered);
            std::fs::remove_file(&path).expect("it exists");
            std::fs::remove_dir_all(&target).expect("it exists");
        }
        is_done.store(true, Ordering::Relaxed);
        writer.join().expect("a writer");
    });
}

#[test]
fn copy_has_no_other_files() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let segment = create(&directory.path().join("store"));
    let folder = directory.path().join("journal");
    segment
        .begin_journal(&folder, Durability::EverySecond, &JournalOptions::default())
        .expect("a journal");
    put(&segment, 0, 0, 800, 1).expect("a change");
    segment.make_durable().expect("a durable journal");
    std::fs::write(folder.join("0000000000000001.segment.making"), "x").expect("a file");
    let watch = RecoveryWatch::default();
    let target = directory.path().join("copy");
    back_up_journal(&folder, &target, &watch).expect("a copy");
    let mut names: Vec<String> = std::fs::read_dir(&target)
        .expect("a folder")
        .map(|entry| {
            entry
                .expect("a file")
                .file_name()
                .into_string()
                .expect("a name")
        })
        .collect();
    names.sort();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names[0].ends_with(".checkpoint") || names[1].ends_with(".checkpoint"));
    // An existing folder is not changed, and a failed copy leaves nothing.
    let error = back_up_journal(&folder, &target, &watch).expect_err("it exists");
    assert!(error.to_string().contains("does not exist"), "{error}");
    let nowhere = directory.path().join("missing").join("copy");
    back_up_journal(&folder, &nowhere, &watch).expect_err("no such folder");
    let other = directory.path().join("other");
    let error = back_up_journal(directory.path(), &other, &watch).expect_err("no journal");
    assert!(error.to_string().contains("found no checkpoint"), "{error}");
    assert!(!other.exists());
}
