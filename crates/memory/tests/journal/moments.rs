//! Changes at particular moments of the journal's work, which random histories rarely meet.

use std::sync::mpsc;
use std::time::Duration;

use undercroft_memory::fault::die_after;
use undercroft_memory::{Durability, Error, Segment, ShardSet, Transaction};

use crate::history::{History, MARK, SEGMENT};
use crate::store::{content, put};

/// A root that no other test uses.
const UNUSED_ROOT: usize = 200;

/// Returns the journal position after the last change.
fn head(segment: &Segment) -> u64 {
    segment.journal().expect("a journal").head
}

#[test]
fn changes_during_the_first_checkpoint_are_recovered() {
    // The checkpoint and the first segment start at the same position.
    let mut history = History::new();
    put(&history.segment, 0, 0, 64, 1).expect("a change");
    history.note();
    history.watch(1, 1000, |segment| {
        put(segment, 1, 1, 64, 2).expect("a change during the checkpoint");
    });
    history.begin().expect("a journal");
    history.disk.remove_hook();
    assert!(history.last().contains_key(&(1, 1)));
    history.settle("after the first checkpoint");
}

#[test]
fn change_that_began_before_the_journal_is_recovered() {
    let mut history = History::new();
    put(&history.segment, 0, 0, 4_000, 1).expect("a change");
    let segment = history.another_handle();
    let (sender, begun) = mpsc::channel();
    let change = std::thread::spawn(move || {
        let result = segment.write(ShardSet::one(0), |transaction| {
            sender.send(()).expect("a receiver");
            // Meanwhile, the journal begins, and its first checkpoint waits for this change, which
            // has no record.
            std::thread::sleep(Duration::from_millis(100));
            let at = transaction.view().root(0, 0);
            transaction.write(0, at + 8, &[9; 3_992])
        });
        result.expect("a change");
    });
    begun.recv().expect("a change");
    history.begin().expect("a journal");
    change.join().expect("a change");
    history.note();
    history.settle("after the first checkpoint");
}

#[test]
fn changes_during_the_first_checkpoint_of_a_recovered_store_are_recovered() {
    let mut history = History::journaled();
    for round in 0..3 {
        put(&history.segment, 0, 0, 64, round + 1).expect("a change");
        history.note();
        history.segment.make_durable().expect("a durable journal");
        history.note_durable();
        history.restart(Some(&mut |_| 0), "a restart");
        history.watch(1, 1000, move |segment| {
            put(segment, 1, 1, 64, round + 5).expect("a change during the checkpoint");
        });
        history.segment.checkpoint().expect("a checkpoint");
        history.disk.remove_hook();
        history.settle("after the checkpoint");
    }
}

#[test]
fn change_that_is_undone_during_a_checkpoint_is_not_recovered() {
    change_during_a_checkpoint(|_, _| Err(Error::ReadOnly));
}

#[test]
fn words_that_change_and_change_back_during_a_checkpoint_are_recovered() {
    // The log is so long that it contains each word only once, with its old contents.
    change_during_a_checkpoint(|transaction, at| {
        (0..999).try_for_each(|word| transaction.store(0, at + word * 8, 1))
    });
}

#[test]
fn setting_and_mode_are_durable_when_their_call_returns_with_always() {
    let history = History::journaled();
    let is_durable = || {
        let journal = history.segment.journal().expect("a journal");
        journal.durable == journal.head
    };
    change_setting(&history.segment);
    assert!(!is_durable());
    let set = history.segment.set_durability(Durability::Always);
    set.expect("a mode");
    assert!(is_durable());
    change_setting(&history.segment);
    assert!(is_durable());
}

/// Changes a block while a checkpoint copies it, then ends the change with `end`, which must leave
/// the block as it was.
fn change_during_a_checkpoint(end: fn(&mut Transaction<'_>, u64) -> Result<(), Error>) {
    let mut history = History::journaled();
    put(&history.segment, 0, 0, 8_000, 1).expect("a change");
    history.note();
    history.segment.make_durable().expect("a durable journal");
    let mut unused = Some(history.another_handle());
    history.disk.set_hook(move |(kind, path)| {
        let in_checkpoint = path.to_string_lossy().contains(".checkpoint");
        if kind != "open" || !in_checkpoint {
            return;
        }
        let Some(segment) = unused.take() else {
            return;
        };
        let (sender, changed) = mpsc::channel();
        // The checkpoint copies the block while it is changed, then waits for the lock, so the
        // change ends before the checkpoint does.
        std::thread::spawn(move || {
            let result = segment.write(ShardSet::one(0), |transaction| {
                let at = transaction.view().root(0, 0) + 8;
                transaction.write(0, at, &[9; 7_992])?;
                sender.send(()).expect("a receiver");
                std::thread::sleep(Duration::from_millis(100));
                end(transaction, at)
            });
            assert!(matches!(result, Ok(()) | Err(Error::ReadOnly)));
        });
        changed.recv().expect("a change");
    });
    history.segment.checkpoint().expect("a checkpoint");
    history.disk.remove_hook();
    assert_eq!(content(&history.segment), history.last());
    history.note();
    history.settle("after the checkpoint");
}

/// Appends a short record.
fn change_setting(segment: &Segment) {
    // A setting that keeps its value has no record.
    let value = (1 << 40) + head(segment);
    segment.set_max_memory(value).expect("a setting");
}

/// Appends records until the journal's head is at the end of its first segment.
fn fill_segment(history: &History) {
    while head(&history.segment) < 2 * SEGMENT {
        change_setting(&history.segment);
    }
    assert_eq!(head(&history.segment), 2 * SEGMENT);
    history.note();
}

#[test]
fn segment_that_ends_with_a_record_is_synced_before_the_next() {
    // The ring is as long as a segment. The records that fill it are written without a sync when the
    // next change needs space.
    let mut history = History::journaled_with(SEGMENT);
    fill_segment(&history);
    // Needs no memory from the heap, whose records have no space either.
    let changed = history.segment.write(ShardSet::one(0), |transaction| {
        transaction.set_root(0, UNUSED_ROOT, 1)
    });
    changed.expect("a change");
    history.note();
    history.settle("after the sync");
}

#[test]
fn recovery_makes_durable_what_a_store_had_only_written() {
    // The small ring is written to files without a sync. The store is then lost without a power cut.
    let mut history = History::journaled_with(SEGMENT);
    for root in 0..8 {
        put(&history.segment, 0, root, 12_000, 1).expect("a change");
        history.note();
    }
    history.restart(None, "a restart");
    assert!(!history.last().is_empty());
    put(&history.segment, 1, 0, 64, 2).expect("a change");
    history.note();
    history.settle("after the restart");
}

#[test]
fn journal_that_ends_with_a_segment_is_continued() {
    let mut history = History::journaled();
    put(&history.segment, 0, 0, 64, 1).expect("a change");
    history.note();
    history.segment.checkpoint().expect("a checkpoint");
    history.restart(Some(&mut |_| 0), "a restart at the beginning");
    let start = head(&history.segment);
    assert_eq!(start % SEGMENT, 0);
    while head(&history.segment) < start + SEGMENT - MARK {
        change_setting(&history.segment);
    }
    history.segment.make_durable().expect("a durable journal");
    assert_eq!(head(&history.segment), start + SEGMENT);
    for round in 0..3 {
        history.restart(Some(&mut |_| 0), "a restart");
        put(&history.segment, 0, 0, 64, round + 2).expect("a change");
        history.note();
        history.settle("after a restart");
    }
}

/// Dies at every step of `operation`, which follows `prepare`. A living process then makes
/// everything durable with `complete`, and the power is cut.
fn die_everywhere(
    prepare: impl Fn(&History),
    operation: impl Fn(&Segment) -> Result<(), Error>,
    complete: impl Fn(&Segment) -> Result<(), Error>,
) -> u64 {
    for steps in 0.. {
        let context = format!("death after {steps} steps");
        let mut history = History::journaled();
        prepare(&history);
        let died = die_after(steps, || operation(&history.segment).expect(&context)).is_none();
        if !died {
            return steps;
        }
        let heir = history.another_handle();
        history.segment.abandon();
        history.segment = heir;
        history.segment.recover().expect(&context);
        assert_eq!(content(&history.segment), history.last(), "{context}");
        history.verify(&mut |_| 0, &context);
        history.verify(&mut |options| options - 1, &context);
        complete(&history.segment).expect(&context);
        history.note();
        history.note_durable();
        history.verify(&mut |_| 0, &context);
        put(&history.segment, 0, 5, 64, 9).expect(&context);
        history.note();
        history.settle(&context);
    }
    unreachable!("the loop ends when the operation survives")
}

/// Puts blocks whose records fill several segments.
fn put_long_blocks(history: &History) {
    for root in 0..3 {
        put(&history.segment, 0, root, 50_000, 1).expect("a change");
        history.note();
    }
}

#[test]
fn death_of_the_writer_before_a_power_cut_loses_nothing_durable() {
    let sync = |segment: &Segment| segment.make_durable();
    let steps = die_everywhere(put_long_blocks, sync, sync);
    assert!(steps > 10, "{steps} steps");
}

#[test]
fn death_during_the_checkpoint_after_a_failure_loses_nothing() {
    let prepare = |history: &History| {
        put_long_blocks(history);
        history.disk.fail_after(3, 5, false);
        let result = history.segment.make_durable();
        assert!(matches!(result, Err(Error::Journal { .. })));
        assert!(history.disk.repair());
    };
    let checkpoint = |segment: &Segment| segment.checkpoint();
    let steps = die_everywhere(prepare, checkpoint, checkpoint);
    assert!(steps > 20, "{steps} steps");
}
