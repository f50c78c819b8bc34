//! The progress of recoveries, and their interruption.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;

use fastrand::Rng;
use undercroft_memory::layout::header;
use undercroft_memory::{
    Durability, Error, Initially, JournalTerms, Options, RecoveryProgress, RecoveryStage,
    RecoveryWatch, Segment, WaitHook,
};

use crate::store::{Content, OPTIONS, change, content, create_journaled};

/// A hook that interrupts the program when it is asked for the last time.
struct Ends(AtomicU32);

impl WaitHook for Ends {
    fn blocked(&self, block: &mut dyn FnMut()) {
        block();
    }

    fn interrupted(&self) -> bool {
        self.0.fetch_sub(1, Ordering::Relaxed) == 1
    }
}

/// Creates a journal whose store is gone. Returns the store's content.
fn journal_without_a_store(directory: &Path) -> Content {
    let (segment, _) = create_journaled(directory);
    let mut random = Rng::with_seed(5);
    for _ in 0..80 {
        change(&segment, &mut random).expect("a change");
    }
    segment.make_durable().expect("a durable journal");
    let expected = content(&segment);
    drop(segment);
    std::fs::remove_file(directory.join("store")).expect("it exists");
    expected
}

fn open(directory: &Path, watch: &RecoveryWatch<'_>) -> Result<Segment, Error> {
    let journal = JournalTerms {
        folder: directory.join("store.journal"),
        durability: Some(Durability::EverySecond),
        options: OPTIONS,
    };
    let path = directory.join("store");
    Segment::open_watched(
        &path,
        &Options::default(),
        Initially::default(),
        &journal,
        watch,
    )
    .map(|opened| opened.segment)
}

#[test]
fn recovery_that_is_interrupted_leaves_no_store() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let expected = journal_without_a_store(directory.path());
    for asked in 1.. {
        let hook = Ends(AtomicU32::new(asked));
        let watch = RecoveryWatch {
            hook: Some(&hook),
            report: None,
        };
        match open(directory.path(), &watch) {
            Err(Error::Interrupted) => {
                let names: Vec<_> = std::fs::read_dir(directory.path())
                    .expect("a directory")
                    .map(|entry| entry.expect("a file").file_name())
                    .collect();
                assert_eq!(names, ["store.journal"], "interrupted at {asked}");
            }
            Err(error) => panic!("{error}"),
            Ok(segment) => {
                assert!(asked > 2, "a checkpoint and records were read");
                assert_eq!(content(&segment), expected);
                break;
            }
        }
    }
}

#[test]
fn process_that_waits_sees_the_progress_and_then_the_store() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let expected = journal_without_a_store(directory.path());
    let (begins, began) = channel();
    let (sees, seen) = channel();
    let is_first = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let directory = directory.path();
        let expected = &expected;
        scope.spawn(move || {
            // Stops in the middle of the recovery, until the other thread has seen its progress.
            let report = |progress: RecoveryProgress| {
                if is_first.swap(false, Ordering::Relaxed) {
                    assert_eq!(progress.stage, RecoveryStage::Checkpoint);
                    assert!(progress.done > 0 && progress.done <= progress.total);
                    begins.send(progress).expect("the other thread");
                    seen.recv().expect("the other thread");
                }
            };
            let watch = RecoveryWatch {
                hook: None,
                report: Some(&report),
            };
            let segment = open(directory, &watch).expect("a store");
            assert_eq!(&content(&segment), expected);
        });
        let shown = began.recv().expect("progress");
        let report = |progress: RecoveryProgress| {
            assert_eq!(progress.stage, RecoveryStage::Waiting);
            if (progress.done, progress.total) == (shown.done, shown.total) {
                let _ = sees.send(());
            }
        };
        let watch = RecoveryWatch {
            hook: None,
            report: Some(&report),
        };
        let segment = open(directory, &watch).expect("a store");
        assert_eq!(&content(&segment), expected);
    });
}

#[test]
fn wait_for_a_recovery_can_be_interrupted() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    journal_without_a_store(directory.path());
    let (begins, began) = channel();
    let (ends, ended) = channel::<()>();
    std::thread::scope(|scope| {
        let directory = directory.path();
        scope.spawn(move || {
            let report = |_: RecoveryProgress| {
                let _ = begins.send(());
                let _ = ended.recv();
            };
            let watch = RecoveryWatch {
                hook: None,
                report: Some(&report),
            };
            open(directory, &watch).expect("a store");
        });
        began.recv().expect("a recovery");
        let hook = Ends(AtomicU32::new(3));
        let watch = RecoveryWatch {
            hook: Some(&hook),
            report: None,
        };
        let refused = open(directory, &watch).err();
        assert!(matches!(refused, Some(Error::Interrupted)), "{refused:?}");
        drop(ends);
    });
}

#[test]
fn unclean_store_stays_if_its_recovery_is_interrupted() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("store");
    let (segment, _) = create_journaled(directory.path());
    change(&segment, &mut Rng::with_seed(5)).expect("a change");
    segment.make_durable().expect("a durable journal");
    let expected = content(&segment);
    let store = File::options().write(true).open(&path);
    store
        .and_then(|store| store.write_all_at(&[1; 8], header::UNSYNCED))
        .expect("the header");
    segment.abandon();
    // Another process seems to write records of the old file.
    let lock = File::open(directory.path().join("store.journal/undercroft.lock"));
    let lock = lock.expect("a lock file");
    let range = libc::flock {
        l_type: libc::F_RDLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 1,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open and `range` is a valid request.
    let result = unsafe { libc::fcntl(lock.as_raw_fd(), libc::F_OFD_SETLK, &range) };
    assert_eq!(result, 0, "a shared lock");
    let hook = Ends(AtomicU32::new(1));
    let watch = RecoveryWatch {
        hook: Some(&hook),
        report: None,
    };
    let refused = open(directory.path(), &watch).err();
    assert!(matches!(refused, Some(Error::Interrupted)), "{refused:?}");
    assert!(path.exists() && !path.with_extension("unclean").exists());
    drop(lock);
    let recovered = open(directory.path(), &RecoveryWatch::default()).expect("a store");
    assert_eq!(content(&recovered), expected);
}
