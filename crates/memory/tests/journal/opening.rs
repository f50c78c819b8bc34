//! Opening stores with a journal: creating, recovering, and refusing another store's journal.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use undercroft_memory::layout::header;
use undercroft_memory::{
    Durability, Error, Initially, JournalOptions, JournalTerms, Opened, Options, Segment,
};

use crate::store::{OPTIONS, SHARDS, change, content, put};

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory")
}

fn open(path: &Path, durability: Option<Durability>) -> Result<Opened, Error> {
    let options = Options {
        capacity: Some(64 << 20),
        shards: Some(SHARDS),
        ring: None,
    };
    let journal = JournalTerms {
        folder: path.with_extension("journal"),
        durability,
        options: OPTIONS,
    };
    Segment::open_with_journal(path, &options, Initially::default(), &journal)
}

fn change_some(segment: &Segment, seed: u64) {
    let mut random = Rng::with_seed(seed);
    for _ in 0..40 {
        change(segment, &mut random).expect("an operation");
    }
}

#[test]
fn missing_store_is_recovered_from_its_journal() {
    let directory = directory();
    let path = directory.path().join("store");
    let first = open(&path, Some(Durability::EverySecond)).expect("a new store");
    assert!(first.recovery.is_none());
    change_some(&first.segment, 1);
    first.segment.make_durable().expect("a durable journal");
    let expected = content(&first.segment);
    drop(first);
    std::fs::remove_file(&path).expect("it exists");
    // A process that asks for no durability must not create an empty store instead.
    let second = open(&path, None).expect("a recovered store");
    assert!(second.recovery.is_some());
    assert_eq!(content(&second.segment), expected);
    assert_eq!(second.segment.durability(), Durability::EverySecond);
    drop(second);
    let third = open(&path, Some(Durability::EverySecond)).expect("the same store");
    assert!(third.recovery.is_none(), "the file exists");
}

#[test]
fn store_of_another_boot_is_recovered_from_its_journal() {
    let directory = directory();
    let path = directory.path().join("store");
    let first = open(&path, Some(Durability::EverySecond)).expect("a new store");
    change_some(&first.segment, 2);
    first.segment.make_durable().expect("a durable journal");
    let expected = content(&first.segment);
    // This change is in the file only, as after a failure of the machine.
    put(&first.segment, 0, 0, 64, 77).expect("an operation");
    let store = std::fs::File::options().write(true).open(&path);
    store
        .and_then(|store| store.write_all_at(&[1; 8], header::UNSYNCED))
        .expect("the header");
    first.segment.abandon();
    let second = open(&path, None).expect("a recovered store");
    assert!(second.recovery.is_some());
    assert_eq!(content(&second.segment), expected);
    assert!(!path.with_extension("unclean").exists());
}

#[test]
fn every_call_is_durable_with_always() {
    let directory = directory();
    let path = directory.path().join("store");
    let store = open(&path, Some(Durability::Always)).expect("a new store");
    for mark in 1..20 {
        put(&store.segment, 1, 2, 640, mark).expect("an operation");
        let state = store.segment.journal().expect("a journal");
        assert_eq!(state.durable, state.head);
    }
}

#[test]
fn changes_become_durable_without_any_further_call() {
    let directory = directory();
    let path = directory.path().join("store");
    let store = open(&path, Some(Durability::EverySecond)).expect("a new store");
    // Twice, because the thread that syncs the journal ends if nothing changes.
    for mark in 1..3 {
        put(&store.segment, 1, 2, 640, mark).expect("an operation");
        let is_durable = || {
            let state = store.segment.journal().expect("a journal");
            state.durable == state.head
        };
        let waited = (0..3000).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            is_durable()
        });
        assert!(waited, "not durable after a minute");
    }
}

#[test]
fn journal_of_an_existing_store_is_refused_to_another_one() {
    let directory = directory();
    let path = directory.path().join("store");
    let first = open(&path, Some(Durability::EverySecond)).expect("a new store");
    change_some(&first.segment, 3);
    let journal = JournalTerms {
        folder: path.with_extension("journal"),
        durability: Some(Durability::EverySecond),
        options: JournalOptions::default(),
    };
    let other = directory.path().join("other");
    let options = Options::default();
    let refused = Segment::open_with_journal(&other, &options, Initially::default(), &journal);
    let message = refused.err().expect("an error").to_string();
    assert!(message.contains("which exists"), "{message}");
    assert!(!other.exists());
}

#[test]
fn store_without_a_journal_begins_one_when_asked() {
    let directory = directory();
    let path = directory.path().join("store");
    let first = open(&path, None).expect("a new store");
    assert!(first.segment.journal().is_none());
    change_some(&first.segment, 4);
    let expected = content(&first.segment);
    drop(first);
    let second = open(&path, Some(Durability::Always)).expect("the same store");
    assert_eq!(second.segment.durability(), Durability::Always);
    drop(second);
    std::fs::remove_file(&path).expect("it exists");
    let third = open(&path, None).expect("a recovered store");
    assert_eq!(content(&third.segment), expected);
}

#[test]
fn ended_journal_is_removed_and_can_begin_again() {
    let directory = directory();
    let path = directory.path().join("store");
    let folder = path.with_extension("journal");
    let store = open(&path, Some(Durability::Always)).expect("a new store");
    change_some(&store.segment, 5);
    store.segment.end_journal().expect("an end");
    assert!(!folder.exists());
    change_some(&store.segment, 6);
    store
        .segment
        .begin_journal(&folder, Durability::Always, &OPTIONS)
        .expect("a journal");
    change_some(&store.segment, 7);
    let expected = content(&store.segment);
    drop(store);
    std::fs::remove_file(&path).expect("it exists");
    let recovered = open(&path, None).expect("a recovered store");
    assert_eq!(content(&recovered.segment), expected);
}

#[test]
fn copy_of_a_store_does_not_continue_its_journal() {
    let directory = directory();
    let path = directory.path().join("store");
    let first = open(&path, Some(Durability::EverySecond)).expect("a new store");
    change_some(&first.segment, 8);
    first.segment.make_durable().expect("a durable journal");
    let copy = directory.path().join("copy");
    std::fs::copy(&path, &copy).expect("a copy");
    let message = open(&copy, None).err().expect("an error").to_string();
    assert!(message.contains("another file"), "{message}");
    // A process that opens the copy directly cannot write to the journal either.
    let direct = Segment::open(&copy, true).expect("a store");
    assert!(direct.make_durable().is_err());
    let refused = put(&direct, 0, 0, 64, 5);
    assert!(matches!(refused, Err(Error::Journal { .. })), "{refused:?}");
    put(&first.segment, 0, 0, 64, 6).expect("an operation");
    first.segment.make_durable().expect("a durable journal");
}

#[test]
fn replaced_store_does_not_write_to_the_journal_of_its_successor() {
    let directory = directory();
    let path = directory.path().join("store");
    let old = open(&path, Some(Durability::EverySecond)).expect("a new store");
    change_some(&old.segment, 9);
    old.segment.make_durable().expect("a durable journal");
    let expected = content(&old.segment);
    std::fs::remove_file(&path).expect("it exists");
    let new = open(&path, None).expect("a recovered store");
    let _ = put(&old.segment, 0, 0, 64, 7);
    assert!(matches!(
        old.segment.make_durable(),
        Err(Error::Removed { .. })
    ));
    put(&new.segment, 1, 1, 64, 8).expect("an operation");
    new.segment.make_durable().expect("a durable journal");
    drop(new);
    std::fs::remove_file(&path).expect("it exists");
    let mut found = content(&open(&path, None).expect("a recovered store").segment);
    assert_eq!(found.remove(&(1, 1)), Some((64, 8)));
    let mut expected = expected;
    expected.remove(&(1, 1));
    assert_eq!(found, expected);
}

#[test]
fn folder_may_be_named_relative_to_the_working_directory() {
    let directory = directory();
    let path = directory.path().join("store");
    let here = std::env::current_dir().expect("a directory");
    let up: std::path::PathBuf = here.components().skip(1).map(|_| "..").collect();
    let absolute = path.with_extension("journal");
    let journal = JournalTerms {
        folder: up.join(absolute.strip_prefix("/").expect("an absolute path")),
        durability: Some(Durability::Always),
        options: OPTIONS,
    };
    let options = Options {
        capacity: Some(64 << 20),
        shards: Some(SHARDS),
        ring: None,
    };
    let opened = Segment::open_with_journal(&path, &options, Initially::default(), &journal);
    let store = opened.expect("a new store").segment;
    put(&store, 0, 0, 64, 9).expect("an operation");
    let folder = store.journal().expect("a journal").folder;
    assert!(folder.is_absolute() && folder.join("undercroft.lock").exists());
}

#[test]
fn old_file_that_a_dead_recovery_set_aside_is_removed() {
    let directory = directory();
    let path = directory.path().join("store");
    let store = open(&path, Some(Durability::Always)).expect("a new store");
    change_some(&store.segment, 10);
    drop(store);
    // The state after a death between setting the old file aside and recovering the store.
    let aside = directory.path().join("store.unclean");
    std::fs::rename(&path, &aside).expect("it exists");
    assert!(
        open(&path, None)
            .expect("a recovered store")
            .recovery
            .is_some()
    );
    assert!(!aside.exists());
}
