//! Tests blocks that are filled without the lock: they are either published in one step or freed,
//! wherever a process dies.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use undercroft_memory::fault::die_after;
use undercroft_memory::{Error, Options, Segment, ShardSet, WaitHook};

const LENGTH: u64 = 100_000;

fn create(path: &Path) -> Segment {
    let options = Options {
        capacity: Some(8 << 20),
        shards: Some(2),
        ring: None,
    };
    Segment::create(path, &options).expect("a new store")
}

/// Stages a block in shard 1, fills it, and makes root 0 refer to it.
fn publish(segment: &Segment) -> Result<(), Error> {
    let mut staged = segment.stage(1, LENGTH)?;
    for position in (0..LENGTH).step_by(25_000) {
        staged.fill(position, &[7; 25_000]);
    }
    segment.write(ShardSet::one(1), |transaction| {
        let old = transaction.view().root(1, 0);
        if old != 0 {
            transaction.free(1, old);
        }
        let at = transaction.adopt(&staged)?;
        transaction.set_root(1, 0, at)
    })?;
    staged.adopted();
    Ok(())
}

/// Returns true if root 0 refers to a complete block. The store must be consistent.
fn published(segment: &Segment) -> bool {
    let mut found = false;
    let report = segment
        .check(|shard, view, reach, _| {
            let at = view.root(shard, 0);
            if at != 0 {
                reach(at);
                let mut bytes = Vec::new();
                view.append_to(at, LENGTH, &mut bytes).expect("a block");
                assert!(bytes.iter().all(|&byte| byte == 7));
                found = true;
            }
        })
        .expect("a check");
    assert_eq!(report.problems, Vec::<String>::new());
    found
}

#[test]
fn a_staged_block_is_published_or_freed_after_a_death_at_any_step() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let mut deaths = 0;
    for steps in 0.. {
        let path = directory.path().join(format!("store-{steps}"));
        let segment = create(&path);
        let done = die_after(steps, || publish(&segment).expect("room")).is_some();
        if done {
            assert!(published(&segment));
            break;
        }
        deaths += 1;
        segment.abandon();
        // The process that opens the store next claims the dead process's slot, and frees the
        // blocks that it staged.
        let heir = Segment::open(&path, true).expect("the same store");
        let there = published(&heir);
        assert_eq!(heir.statistics().used > 0, there, "after {steps} steps");
        publish(&heir).expect("room");
        assert!(published(&heir));
        std::fs::remove_file(path).expect("just made");
    }
    assert!(deaths > 50, "{deaths} deaths");
}

#[test]
fn a_staged_block_that_is_dropped_is_freed() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let segment = create(&directory.path().join("store"));
    let mut staged = segment.stage(0, LENGTH).expect("room");
    staged.fill(0, &[1; 1000]);
    assert!(segment.statistics().used >= LENGTH);
    assert!(!published(&segment));
    drop(staged);
    assert_eq!(segment.statistics().used, 0);
    assert!(!published(&segment));
}

#[test]
fn blocks_staged_by_another_living_process_are_left_alone() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("store");
    let first = create(&path);
    let staged = first.stage(0, LENGTH).expect("room");
    let second = Segment::open(&path, true).expect("the same store");
    second.recover().expect("a recovery");
    assert!(second.statistics().used >= LENGTH, "its owner lives");
    first.abandon();
    second.recover().expect("a recovery");
    assert_eq!(second.statistics().used, 0, "its owner is dead");
    std::mem::forget(staged);
}

#[test]
fn a_block_is_received_in_pieces_and_excess_bytes_go_elsewhere() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let segment = create(&directory.path().join("store"));
    let (ours, mut theirs) = UnixStream::pair().expect("sockets");
    let sent: Vec<u8> = (0..LENGTH as usize + 53).map(|at| (at / 3) as u8).collect();
    for length in [LENGTH, LENGTH + 1, LENGTH + 7] {
        let mut staged = segment.stage(1, length).expect("room");
        // The block reuses memory, so all of it except the first part contains old data.
        staged.fill(0, &vec![0xee; length as usize]);
        staged.fill(0, &sent[..1003]);
        let mut block = staged.put_down();
        let (mut position, mut more) = (1003, Vec::with_capacity(100));
        for piece in sent[1003..].chunks(31_111) {
            theirs.write_all(piece).expect("sent");
            let mut staged = segment.take_up(block);
            let at = (position as u64).min(length);
            position += staged.receive(at, ours.as_fd(), &mut more).expect("bytes");
            block = staged.put_down();
        }
        assert_eq!(position, sent.len());
        let staged = segment.take_up(block);
        let mut found = Vec::new();
        staged.append_to(&mut found);
        found.extend_from_slice(&more);
        assert!(found == sent);
        // The last word is padded with zeros.
        let word = segment.write(ShardSet::one(1), |transaction| {
            let at = transaction.adopt(&staged)?;
            let word = transaction.view().word(at + length / 8 * 8)?;
            transaction.free(1, at);
            Ok::<_, Error>(word)
        });
        staged.adopted();
        if !length.is_multiple_of(8) {
            assert_eq!(word.expect("room") >> (length % 8 * 8), 0);
        }
        assert_eq!(segment.statistics().used, 0);
    }
    // A block that is resumed is freed like any other.
    let block = segment.stage(0, LENGTH).expect("room").put_down();
    assert!(segment.statistics().used >= LENGTH);
    drop(segment.take_up(block));
    assert_eq!(segment.statistics().used, 0);
}

/// A runtime with a pending signal. The store must not ask it to handle the signal.
struct Signalled(Arc<AtomicUsize>);

impl WaitHook for Signalled {
    fn blocked(&self, block: &mut dyn FnMut()) {
        block();
    }

    fn interrupted(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        true
    }
}

#[test]
fn a_block_that_cannot_be_freed_now_is_freed_later_and_loses_no_signal() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("store");
    let mut segment = create(&path);
    let asked = Arc::new(AtomicUsize::new(0));
    segment.set_wait_hook(Box::new(Signalled(asked.clone())));
    segment.set_patience(Duration::from_millis(1));
    let staged = segment.stage(1, LENGTH).expect("room");
    let other = Segment::open(&path, true).expect("the same store");
    let staged = std::cell::Cell::new(Some(staged));
    let held = other.write(ShardSet::one(1), |_| {
        drop(staged.take());
        Ok::<_, Error>(())
    });
    held.expect("the lock is this handle's");
    assert_eq!(asked.load(Ordering::Relaxed), 0, "a signal was taken");
    assert!(segment.statistics().used >= LENGTH, "it was after the lock");
    // The block's former owner is alive but does nothing more.
    assert!(other.free_dead_staged().expect("a step of upkeep"));
    assert_eq!(segment.statistics().used, 0);
    assert!(!published(&segment));
}
