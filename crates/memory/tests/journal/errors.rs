//! Errors of the disk: after a failed write or sync, nothing is reported as durable until a
//! checkpoint has succeeded, and a power cut at any point leaves what was durable before (J5).

use std::path::PathBuf;

use fastrand::Rng;
use undercroft_memory::{Disk, Durability, Error, JournalOptions, Setting};

use crate::history::{History, SEGMENT, random_choice};
use crate::power::{repetitions, seed};
use crate::store::{change, content, create, create_journaled, put};

/// The error number of a failed operation of a device.
const EIO: i32 = 5;
/// The error number of a full disk.
const ENOSPC: i32 = 28;

/// Returns true if a call failed because of the journal.
fn is_journal_error(result: Result<(), Error>) -> bool {
    if !matches!(result, Err(Error::Journal { .. })) {
        println!("expected an error of the journal, got {result:?}");
        return false;
    }
    true
}

/// Returns true if an error has stopped the journal.
fn has_failed(history: &History) -> bool {
    let journal = history.segment.journal().expect("a journal");
    journal.error.is_some()
}

/// Applies a change. Returns false if it was refused, which must leave the store unchanged.
fn try_change(history: &History, random: &mut Rng, context: &str) -> bool {
    match change(&history.segment, random) {
        Ok(_) => {
            history.note();
            true
        }
        Err(Error::Journal { .. }) => {
            assert_eq!(content(&history.segment), history.last(), "{context}");
            false
        }
        Err(error) => panic!("{context}: {error}"),
    }
}

/// Runs changes, a sync, a checkpoint, changes and a sync, until a call fails. Returns false if
/// one did.
fn run(history: &History, random: &mut Rng, context: &str) -> bool {
    let changes = |random: &mut Rng| (0..3).all(|_| try_change(history, random, context));
    let sync = || match history.segment.make_durable() {
        Ok(()) => {
            history.note_durable();
            true
        }
        result => {
            assert!(is_journal_error(result), "{context}");
            false
        }
    };
    let checkpoint = || match history.segment.checkpoint() {
        Ok(()) => {
            history.note_durable();
            true
        }
        result => {
            assert!(is_journal_error(result), "{context}");
            false
        }
    };
    // The long blocks fill several segments.
    let fill = || {
        (0..2).all(|root| match put(&history.segment, 0, root, 80_000, 5) {
            Ok(()) => {
                history.note();
                true
            }
            result => {
                assert!(is_journal_error(result), "{context}");
                false
            }
        })
    };
    changes(random) && fill() && sync() && checkpoint() && changes(random) && fill() && sync()
}

/// Verifies that a failed journal refuses everything that it could not make durable.
fn verify_refusals(history: &History, random: &mut Rng, context: &str) {
    let segment = &history.segment;
    assert!(is_journal_error(put(segment, 0, 0, 64, 7)), "{context}");
    assert!(is_journal_error(segment.make_durable()), "{context}");
    assert!(
        is_journal_error(segment.set_max_memory(1 << 40)),
        "{context}"
    );
    let setting = Setting::EvictionPolicy;
    assert!(
        is_journal_error(segment.set_setting(setting, 1)),
        "{context}"
    );
    for _ in 0..2 {
        try_change(history, random, context);
    }
    assert_eq!(content(segment), history.last(), "{context}");
}

/// Runs the history of [`run`] with an error of the operation after `count` others. Returns false if
/// the history needs no more operations than that.
fn fail_once(seed: u64, count: u64, code: i32) -> bool {
    let context = format!("seed {seed}, error {code} after {count} operations");
    let mut history = History::journaled();
    let mut random = Rng::with_seed(seed);
    history.disk.fail_after(count, code, false);
    let completed = run(&history, &mut random, &context);
    if !history.disk.repair() {
        assert!(completed, "{context}");
        return false;
    }
    assert!(!completed, "{context}: an error was not reported");
    if has_failed(&history) {
        verify_refusals(&history, &mut random, &context);
    }
    history.verify(&mut |_| 0, &context);
    history.verify(&mut |options| options - 1, &context);
    history.verify(&mut random_choice(&mut random), &context);
    // The failure lasts as long as the disk fails.
    if has_failed(&history) {
        history.disk.fail_after(random.u64(..8), code, true);
        assert!(is_journal_error(history.segment.checkpoint()), "{context}");
        assert!(history.disk.repair(), "{context}");
        if has_failed(&history) {
            verify_refusals(&history, &mut random, &context);
        }
        // Otherwise, the checkpoint was complete, and the removal of old files failed.
        history.verify(&mut random_choice(&mut random), &context);
    }
    // A power cut during the checkpoint that clears it is like any other.
    let failed = has_failed(&history);
    // Meanwhile, refused transactions take memory from the heap and return it.
    history.watch(random.u64(..), 10, move |segment| {
        match put(segment, 0, 23, 200_000, 1) {
            Ok(()) => assert!(!failed),
            result => assert!(failed && is_journal_error(result)),
        }
    });
    history.segment.checkpoint().expect(&context);
    history.disk.remove_hook();
    history.verify_taken(&context);
    assert!(!has_failed(&history), "{context}");
    history.note();
    history.note_durable();
    history.verify(&mut |_| 0, &context);
    assert!(run(&history, &mut random, &context), "{context}");
    history.settle(&context);
    let disk = history.disk.clone();
    let recovered = history
        .recover(&disk)
        .expect(&context)
        .expect("a checkpoint");
    let difference = history.segment.first_difference(&recovered.segment);
    assert_eq!(difference, None, "{context}");
    true
}

#[test]
fn failed_operation_stops_the_journal_until_a_checkpoint_succeeds() {
    let seed = seed();
    let mut operations = 0;
    while fail_once(seed, operations, EIO) {
        operations += 1;
    }
    println!("{operations} operations");
    assert!(operations > 30, "{operations} operations");
    // The kind of the error makes no difference, so a sample suffices.
    let sample = (seed % 8..operations).step_by(8 / repetitions().min(8) as usize);
    for count in sample {
        assert!(fail_once(seed, count, ENOSPC));
    }
}

#[test]
fn failure_is_cleared_although_the_ring_is_full() {
    let mut history = History::journaled();
    let mut random = Rng::with_seed(1);
    history.disk.fail_after(0, EIO, true);
    while put(&history.segment, 0, 0, 60_000, 1).is_ok() {
        history.note();
    }
    // Neither the failed epoch nor the one that a checkpoint began in vain gets more records from
    // refused transactions, which still take memory from the heap and return it.
    assert!(is_journal_error(history.segment.checkpoint()));
    for _ in 0..20_000 {
        let refused = put(&history.segment, random.usize(..4), 1, 200_000, 2);
        assert!(is_journal_error(refused));
    }
    assert_eq!(content(&history.segment), history.last());
    assert!(history.disk.repair());
    history.segment.checkpoint().expect("a checkpoint");
    history.note();
    history.note_durable();
    history.verify(&mut |_| 0, "after the checkpoint");
    put(&history.segment, 0, 0, 64, 3).expect("a change");
    history.note();
    history.settle("after a change");
}

#[test]
fn changes_are_refused_until_the_checkpoint_after_a_failure_is_complete() {
    let history = History::journaled();
    put(&history.segment, 0, 0, 64, 1).expect("a change");
    history.note();
    history.disk.fail_after(0, EIO, false);
    assert!(is_journal_error(history.segment.make_durable()));
    assert!(history.disk.repair());
    let (sender, results) = std::sync::mpsc::channel();
    let segment = history.another_handle();
    history.disk.set_hook(move |(kind, _)| {
        if kind == "rename" {
            let change = put(&segment, 0, 0, 64, 2);
            let sync = segment.make_durable();
            sender.send((change, sync)).expect("a receiver");
        }
    });
    history.segment.checkpoint().expect("a checkpoint");
    history.disk.remove_hook();
    let mut count = 0;
    for (change, sync) in results.try_iter() {
        assert!(is_journal_error(change) && is_journal_error(sync));
        count += 1;
    }
    assert!(count > 0);
    put(&history.segment, 0, 0, 64, 3).expect("a change");
}

#[test]
fn folder_is_recorded_with_its_absolute_path() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let segment = create(&directory.path().join("store"));
    let here = std::env::current_dir().expect("a working directory");
    let up = here.components().skip(1).map(|_| "..");
    let root: PathBuf = up.collect();
    let inside = directory
        .path()
        .strip_prefix("/")
        .expect("an absolute path");
    let relative = root.join(inside).join("new/journal");
    let options = JournalOptions::default();
    segment
        .begin_journal(&relative, Durability::EverySecond, &options)
        .expect("a journal");
    let folder = segment.journal().expect("a journal").folder;
    assert!(folder.is_absolute(), "{}", folder.display());
    assert!(directory.path().join("new/journal").is_dir());
}

#[test]
fn segment_of_another_journal_is_never_overwritten() {
    let history = History::journaled();
    let head = history.segment.journal().expect("a journal").head;
    let next = (head / SEGMENT + 1) * SEGMENT;
    let path = history.folder.join(format!("{next:016x}.segment"));
    let foreign = vec![7; SEGMENT as usize];
    let file = history.disk.open(&path, true).expect("a file");
    file.write_all_at(&foreign, 0).expect("space");
    put(&history.segment, 0, 0, 2 * SEGMENT, 1).expect("a change");
    let error = history
        .segment
        .make_durable()
        .expect_err("a foreign segment");
    let text = error.to_string();
    assert!(text.contains("expected a segment of epoch"), "{text}");
    assert_eq!(history.disk.bytes(&path), foreign);
    assert!(has_failed(&history));
}

#[test]
fn journal_that_could_not_be_begun_can_be_begun_again() {
    for count in 0.. {
        let history = History::new();
        put(&history.segment, 0, 0, 64, 1).expect("a change");
        history.disk.fail_after(count, ENOSPC, false);
        let begun = history.begin();
        if !history.disk.repair() {
            begun.expect("a journal");
            assert!(count > 5, "{count} operations");
            return;
        }
        let context = format!("error after {count} operations");
        if begun.is_err() {
            assert!(is_journal_error(begun), "{context}");
            assert!(history.segment.journal().is_none(), "{context}");
            put(&history.segment, 0, 0, 64, 2).expect("a change");
            history.begin().expect(&context);
        }
    }
}

#[test]
fn blocks_of_dead_processes_do_not_stop_the_checkpoint_after_a_failure() {
    let history = History::journaled();
    let dying = history.another_handle();
    std::mem::forget(dying.stage(0, 40_000).expect("a block"));
    dying.abandon();
    history.disk.fail_after(0, ENOSPC, false);
    assert!(is_journal_error(history.segment.make_durable()));
    assert!(history.disk.repair());
    // A process that joins frees the blocks of dead ones if it can.
    history.another_handle().checkpoint().expect("a checkpoint");
    put(&history.segment, 0, 0, 64, 1).expect("a change");
    history.segment.recover().expect("a recovery");
    history.segment.make_durable().expect("a durable journal");
    content(&history.segment);
}

#[test]
fn lock_file_that_cannot_be_opened_stops_the_journal() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let (segment, folder) = create_journaled(directory.path());
    let lock = folder.join("undercroft.lock");
    std::fs::remove_file(&lock).expect("it exists");
    std::fs::create_dir(&lock).expect("space");
    put(&segment, 0, 0, 64, 1).expect("a change");
    assert!(is_journal_error(segment.make_durable()));
    assert!(segment.journal().expect("a journal").error.is_some());
    assert!(is_journal_error(put(&segment, 0, 0, 64, 2)));
    std::fs::remove_dir(&lock).expect("it exists");
    segment.checkpoint().expect("a checkpoint");
    put(&segment, 0, 0, 64, 3).expect("a change");
}
