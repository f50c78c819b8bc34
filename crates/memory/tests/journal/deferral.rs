//! Changes that wait for the disk together: one sync makes all of them durable, and an error of the
//! disk is reported to the caller that waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use undercroft_memory::{Durability, Error, limit_patience, limit_patience_without_sync};

use crate::history::History;
use crate::store::{content, put};

/// More than any wait in these tests takes, so that none of them ends early.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a store in the mode `always`.
fn always() -> History {
    let history = History::journaled();
    let mode = Durability::Always;
    history.segment.set_durability(mode).expect("a journal");
    history.segment.make_durable().expect("a durable journal");
    history
}

/// Counts the syncs of files from now on.
fn count_syncs(history: &History) -> Arc<AtomicU64> {
    let syncs = Arc::new(AtomicU64::new(0));
    let counted = syncs.clone();
    history.disk.set_hook(move |(what, _)| {
        counted.fetch_add(u64::from(what == "sync"), Ordering::Relaxed);
    });
    syncs
}

fn put_some(history: &History, marks: std::ops::Range<u64>) {
    for mark in marks {
        put(&history.segment, 0, mark as usize % 8, 64, mark).expect("a change");
    }
}

#[test]
fn deferred_changes_are_made_durable_by_one_sync() {
    let history = always();
    let syncs = count_syncs(&history);
    put_some(&history, 1..6);
    assert_eq!(syncs.swap(0, Ordering::Relaxed), 5, "each change waits");
    let ((), position) = history.segment.deferring(|| put_some(&history, 6..11));
    assert_eq!(syncs.load(Ordering::Relaxed), 0);
    assert!(position > 0 && !history.segment.is_durable(position));
    assert_eq!(position, history.segment.journal_head());
    let waited = history.segment.wait_until_durable(position, PATIENCE);
    waited.expect("a durable journal");
    assert_eq!(syncs.load(Ordering::Relaxed), 1);
    assert!(history.segment.is_durable(position));
}

#[test]
fn thread_that_may_not_wait_for_the_disk_changes_nothing() {
    let history = always();
    let before = content(&history.segment);
    let syncs = count_syncs(&history);
    {
        let _limited = limit_patience_without_sync(Duration::from_secs(1));
        let refused = put(&history.segment, 0, 0, 64, 1);
        assert!(matches!(refused, Err(Error::MustSync)), "{refused:?}");
        let (refused, position) = history
            .segment
            .deferring(|| put(&history.segment, 0, 0, 64, 1));
        assert!(matches!(refused, Err(Error::MustSync)), "{refused:?}");
        assert_eq!(position, 0);
    }
    assert_eq!(content(&history.segment), before);
    assert_eq!(syncs.load(Ordering::Relaxed), 0);
    put_some(&history, 1..2);
    assert_eq!(syncs.load(Ordering::Relaxed), 1);
    let mode = Durability::EverySecond;
    history.segment.set_durability(mode).expect("a journal");
    let _limited = limit_patience_without_sync(Duration::from_secs(1));
    put_some(&history, 2..3);
}

#[test]
fn deferral_without_changes_has_nothing_to_wait_for() {
    let history = always();
    assert_eq!(history.segment.deferring(|| ()).1, 0);
    let everysec = Durability::EverySecond;
    history.segment.set_durability(everysec).expect("a journal");
    let ((), position) = history.segment.deferring(|| put_some(&history, 1..3));
    assert_eq!(position, 0, "changes wait in the mode always only");
}

#[test]
fn outer_deferral_waits_for_the_changes_of_the_inner_ones() {
    let history = always();
    let syncs = count_syncs(&history);
    let (inner, outer) = history.segment.deferring(|| {
        put_some(&history, 1..2);
        let ((), inner) = history.segment.deferring(|| put_some(&history, 2..4));
        // A panic in a deferral ends it as well.
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            history.segment.deferring(|| panic!("as a command might"))
        }));
        assert!(panicked.is_err());
        inner
    });
    assert!(inner > 0 && inner == outer);
    assert_eq!(syncs.load(Ordering::Relaxed), 0);
    put_some(&history, 4..5);
    assert_eq!(syncs.load(Ordering::Relaxed), 1, "the deferral has ended");
    assert!(history.segment.is_durable(outer));
}

#[test]
fn only_the_named_store_and_thread_defer() {
    let (history, other) = (always(), always());
    let syncs = count_syncs(&other);
    history.segment.deferring(|| {
        put_some(&other, 1..3);
        assert_eq!(syncs.load(Ordering::Relaxed), 2);
        other.segment.deferring(|| {
            std::thread::scope(|scope| {
                scope.spawn(|| put_some(&other, 3..4));
            });
        });
    });
    assert_eq!(syncs.load(Ordering::Relaxed), 3);
}

#[test]
fn change_that_was_made_is_not_reported_as_one_to_repeat() {
    let history = always();
    let another = history.another_handle();
    let (started, has_started) = channel();
    let begun = Instant::now();
    let before = history.segment.journal_head();
    // The first sync ends after the other process has made its change and has waited for longer
    // than its patience.
    let watched = history.another_handle();
    let mut is_first = true;
    history.disk.set_hook(move |(what, _)| {
        if what == "sync" && std::mem::take(&mut is_first) {
            let one = watched.journal_head();
            let _ = started.send(());
            while begun.elapsed() < PATIENCE && watched.journal_head() == one {
                std::hint::spin_loop();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    std::thread::scope(|scope| {
        scope.spawn(|| put(&history.segment, 0, 0, 64, 1).expect("a change"));
        has_started.recv().expect("the first sync has begun");
        let _limited = limit_patience(Duration::from_millis(1));
        // A wait for a lock may end the attempt before the change.
        while let Err(error) = put(&another, 1, 0, 64, 2) {
            assert!(matches!(error, Error::Busy { .. }), "{error:?}");
            assert_eq!(content(&another).get(&(1, 0)), None, "the change was made");
        }
    });
    assert!(history.segment.is_durable(before + 1));
}

#[test]
fn error_of_the_disk_reaches_the_caller_that_waits() {
    let history = always();
    let ((), position) = history.segment.deferring(|| put_some(&history, 1..4));
    history.disk.fail_after(0, 5, true);
    let waited = history.segment.wait_until_durable(position, PATIENCE);
    assert!(matches!(waited, Err(Error::Journal { .. })), "{waited:?}");
    assert!(!history.segment.is_durable(position));
    history.disk.repair();
    // The failure lasts until a checkpoint, which makes the changes durable.
    assert!(!history.segment.is_durable(position));
    history.segment.checkpoint().expect("a checkpoint");
    assert!(history.segment.is_durable(position));
}

#[test]
fn end_of_the_journal_ends_the_wait() {
    let history = always();
    let ((), position) = history.segment.deferring(|| put_some(&history, 1..4));
    history.segment.end_journal().expect("a journal");
    assert!(history.segment.is_durable(position));
    let waited = history.segment.wait_until_durable(position, PATIENCE);
    waited.expect("nothing to wait for");
    assert_eq!(history.segment.journal_head(), 0);
}
