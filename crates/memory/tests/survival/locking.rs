//! Tests locks whose owner is stopped, killed, or in another pid namespace (W1 to W3, R1, R5).

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use undercroft_memory::{
    Error, Holder, Segment, ShardSet, WaitHook, limit_patience, unlimited_patience,
};

use crate::child::{Child, Role, listen, say, skip};
use crate::pairs::{IMPATIENT, SHARDS, Store, increment, read, read_all, set};

pub(crate) const ROLES: &[Role] = &[
    ("hold", hold),
    ("hold two", hold_two),
    ("read", read_on),
    ("read locked", read_locked),
    ("wait", wait),
];

fn first_two() -> ShardSet {
    ShardSet::first(2)
}

/// Holds the locks of shards 0 and 1, halfway through a change.
fn hold(store: &Path) {
    let segment = Segment::open(store, true).expect("a store");
    set(&segment, first_two(), 7, || {
        say("holding");
        listen();
    })
    .expect("a change");
    say("done");
    listen();
}

/// Holds the locks of two shards in each of two threads.
fn hold_two(store: &Path) {
    let segment = Segment::open(store, true).expect("a store");
    std::thread::scope(|scope| {
        for shards in [[0, 2], [1, 3]] {
            let segment = &segment;
            scope.spawn(move || {
                let held = || {
                    say("holding");
                    listen();
                };
                set(segment, shards.into_iter().collect(), 7, held).expect("a change");
            });
        }
    });
}

/// Stops in the middle of an optimistic read.
fn read_on(store: &Path) {
    let segment = Segment::open(store, true).expect("a store");
    let result = segment.read(first_two(), |view| {
        say("reading");
        listen();
        Ok::<_, Error>(view.root(0, 0))
    });
    result.expect("a read");
}

/// Stops in the middle of a read that acquired the lock because every lock-free attempt encountered
/// a change.
fn read_locked(store: &Path) {
    let segment = Segment::open(store, true).expect("a store");
    let runs = AtomicU32::new(0);
    let result = segment.read(ShardSet::one(0), |view| {
        if runs.fetch_add(1, Ordering::Relaxed) == 64 {
            say("locked");
            listen();
        } else {
            increment(&segment, ShardSet::one(0))?;
        }
        Ok::<_, Error>(view.root(0, 0))
    });
    result.expect("a read");
}

/// A wait hook that reports the first sleep to the parent.
#[derive(Default)]
struct Telling(AtomicBool);

impl WaitHook for Telling {
    fn blocked(&self, block: &mut dyn FnMut()) {
        if !self.0.swap(true, Ordering::Relaxed) {
            say("waiting");
        }
        block();
    }

    fn interrupted(&self) -> bool {
        false
    }
}

/// Waits for shard 0 and reports how the wait ended.
fn wait(store: &Path) {
    let mut segment = Segment::open(store, true).expect("a store");
    segment.set_wait_hook(Box::new(Telling::default()));
    segment.set_patience(Duration::from_secs(2));
    match increment(&segment, ShardSet::one(0)) {
        Ok(()) => say("had"),
        Err(Error::Busy { pid, .. }) => say(&format!("busy {pid}")),
        Err(error) => panic!("{error}"),
    }
    listen();
}

fn assert_busy<T: std::fmt::Debug>(result: Result<T, Error>, expected: Holder, child: u32) {
    match result {
        Err(Error::Busy { holder, pid }) if holder == expected && pid == child => {}
        other => panic!("expected Busy by {expected:?} process {child}, found {other:?}"),
    }
}

#[test]
fn a_stopped_holder_keeps_its_lock() {
    let store = Store::new();
    let mut holder = Child::start("hold", &store.path);
    holder.expect("holding");
    holder.stop();
    for handle in [store.open(true), store.open(false)] {
        // Readers do not wait, because they read through the undo log of the lock's owner (R9).
        handle.set_patience(Duration::ZERO);
        assert_eq!(read(&handle, 0).expect("a read"), 0);
        assert_eq!(read(&handle, 2).expect("a free shard"), 0);
        assert_eq!(read_all(&handle).expect("a read"), [0; SHARDS]);
        handle.set_patience(IMPATIENT);
        if handle.writable() {
            for shards in [ShardSet::one(0), ShardSet::first(SHARDS)] {
                let result = increment(&handle, shards);
                assert_busy(result, Holder::Stopped, holder.pid());
            }
            let held = handle.held_locks();
            let stopped = |lock: &undercroft_memory::HeldLock| {
                lock.holder == Holder::Stopped && lock.pid == holder.pid()
            };
            assert_eq!(held.len(), 2);
            assert!(held.iter().all(stopped), "{held:?}");
        }
    }
    holder.signal(libc::SIGCONT);
    holder.tell();
    holder.expect("done");
    assert_eq!(store.check(), [7, 7, 0, 0]);
    increment(&store.segment, ShardSet::first(SHARDS)).expect("the locks");
    holder.finish();
    assert_eq!(store.check(), [8, 8, 1, 1]);
}

#[test]
fn a_killed_holder_is_rolled_back_whatever_accesses_the_store_next() {
    for comer in ["writer", "reader", "check", "recover"] {
        let store = Store::new();
        let mut holder = Child::start("hold", &store.path);
        holder.expect("holding");
        holder.kill();
        let expected = match comer {
            "writer" => {
                increment(&store.segment, ShardSet::one(1)).expect("the lock");
                [0, 1, 0, 0]
            }
            "reader" => {
                assert_eq!(read(&store.segment, 1).expect("a read"), 0);
                [0; 4]
            }
            "recover" => {
                store.segment.recover().expect("a recovery");
                let read_only = store.open(false);
                assert_eq!(read(&read_only, 0).expect("a read"), 0);
                [0; 4]
            }
            _ => [0; 4],
        };
        assert_eq!(store.check(), expected, "{comer}");
    }
}

#[test]
fn a_reader_needs_no_recovery_after_a_writers_death() {
    let store = Store::new();
    let mut holder = Child::start("hold", &store.path);
    holder.expect("holding");
    holder.kill();
    for handle in [store.open(false), store.open(true)] {
        handle.set_patience(Duration::ZERO);
        assert_eq!(read(&handle, 0).expect("a read"), 0);
        assert_eq!(read_all(&handle).expect("a read"), [0; SHARDS]);
        assert_eq!(
            store.segment.held_locks().len(),
            2,
            "no process recovered it"
        );
    }
    let read_only = store.open(false);
    increment(&store.segment, ShardSet::one(0)).expect("the lock");
    assert_eq!(read(&read_only, 0).expect("a recovered shard"), 1);
    assert!(matches!(
        increment(&read_only, ShardSet::one(0)),
        Err(Error::ReadOnly)
    ));
}

/// A process that also writes recovers a dead writer's shards when it reads them, instead of
/// reading through their logs forever.
#[test]
fn a_reader_that_writes_too_recovers_after_a_writers_death() {
    let store = Store::new();
    let mut holder = Child::start("hold", &store.path);
    holder.expect("holding");
    let reader = store.open(true);
    reader.set_patience(Duration::ZERO);
    // The reader must join before the death. Otherwise it would claim the dead process's table
    // entry.
    increment(&reader, ShardSet::one(SHARDS - 1)).expect("a free shard");
    holder.kill();
    assert_eq!(store.segment.held_locks().len(), 2);
    let begun = Instant::now();
    while !store.segment.held_locks().is_empty() {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "the shards were not recovered"
        );
        for shard in 0..2 {
            assert_eq!(read(&reader, shard).expect("a read"), 0);
        }
    }
}

/// If a log cannot be read through, readers report the owner of the shard's lock after the timeout.
#[test]
fn a_reader_names_the_holder_of_a_shard_whose_log_is_damaged() {
    use std::os::unix::fs::FileExt;
    use undercroft_memory::layout::{Layout, shard};
    let store = Store::new();
    let mut holder = Child::start("hold", &store.path);
    holder.expect("holding");
    holder.kill();
    let layout = Layout::new(SHARDS, 16 << 20, 1 << 20);
    let file = std::fs::OpenOptions::new().write(true).open(&store.path);
    let at = layout.shard(0) + shard::LOG_TAIL;
    let file = file.expect("the store");
    file.write_all_at(&u64::MAX.to_le_bytes(), at)
        .expect("room");
    let mut read_only = store.open(false);
    read_only.set_patience(IMPATIENT);
    assert_busy(read(&read_only, 0), Holder::Dead, holder.pid());
    assert_eq!(read(&read_only, 1).expect("a sound log"), 0);
    read_only.set_wait_hook(Box::new(Interrupting));
    assert!(matches!(read(&read_only, 0), Err(Error::Interrupted)));
}

#[test]
fn both_threads_of_a_killed_process_are_recovered() {
    let store = Store::new();
    let mut holder = Child::start("hold two", &store.path);
    holder.expect("holding");
    holder.expect("holding");
    holder.kill();
    // Lock each shard separately, as commands on different keys do.
    for shard in [3, 0, 1, 2] {
        increment(&store.segment, ShardSet::one(shard)).expect("the lock");
    }
    assert_eq!(store.check(), [1; SHARDS]);
}

#[test]
fn a_killed_reader_leaves_nothing_behind() {
    let store = Store::new();
    let before = store.segment.members().len();
    let mut reader = Child::start("read", &store.path);
    reader.expect("reading");
    assert_eq!(store.segment.members().len(), before, "readers do not join");
    reader.kill();
    store.segment.set_patience(Duration::ZERO);
    increment(&store.segment, first_two()).expect("a free lock");
    assert_eq!(store.check(), [1, 1, 0, 0]);
}

#[test]
fn a_reader_killed_with_the_lock_blocks_no_process() {
    let store = Store::new();
    let mut reader = Child::start("read locked", &store.path);
    reader.expect("locked");
    let read_only = store.open(false);
    assert_eq!(read(&read_only, 0).expect("nothing changes"), 64);
    reader.kill();
    increment(&store.segment, ShardSet::one(0)).expect("the lock");
    assert_eq!(store.check(), [65, 0, 0, 0]);
}

#[test]
fn an_old_waiter_leaves_a_reused_slot_alone() {
    let store = Store::new();
    // The slot that is reused must not be the slot of the handle that created the store.
    increment(&store.segment, ShardSet::one(3)).expect("a slot");
    let slot_of = |pid: u32| {
        let members = store.segment.members();
        let member = members.iter().find(|member| member.pid == pid);
        member.expect("a member").slot
    };
    let mut first = Child::start("hold", &store.path);
    first.expect("holding");
    let slot = slot_of(first.pid());
    let mut waiter = Child::start("wait", &store.path);
    waiter.expect("waiting");
    waiter.stop();
    first.kill();
    let mut second = Child::start("hold", &store.path);
    second.expect("holding");
    assert_eq!(slot_of(second.pid()), slot, "the slot is reused");
    waiter.signal(libc::SIGCONT);
    let busy = waiter.expect("busy");
    assert_eq!(busy, second.pid().to_string());
    second.tell();
    second.expect("done");
    assert_eq!(store.check(), [7, 7, 0, 1]);
    waiter.finish();
}

#[test]
fn a_holder_in_another_pid_namespace_counts_as_alive() {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args([
            "--user",
            "--map-root-user",
            "--pid",
            "--fork",
            "--kill-child",
        ]);
        command
    };
    if !unshare()
        .arg("true")
        .status()
        .is_ok_and(|status| status.success())
    {
        skip(
            "a holder in another pid namespace",
            "unshare is not allowed",
        );
        return;
    }
    let store = Store::new();
    let mut command = unshare();
    command.arg(std::env::current_exe().expect("this test"));
    let mut holder = Child::start_by(command, "hold", &store.path);
    holder.expect("holding");
    let inside = store.segment.members();
    assert!(inside.iter().any(|member| member.pid == 1), "{inside:?}");
    store.segment.set_patience(IMPATIENT);
    // In this namespace, the owner's pid belongs to another process, but the owner still counts as
    // alive.
    let result = increment(&store.segment, ShardSet::one(0));
    assert!(
        matches!(result, Err(Error::Busy { pid: 1, .. })),
        "{result:?}"
    );
    holder.kill();
    store.segment.set_patience(Duration::from_secs(60));
    increment(&store.segment, ShardSet::one(0)).expect("the lock");
    assert_eq!(store.check(), [1, 0, 0, 0]);
}

#[test]
fn a_limited_patience_covers_all_waits_of_a_thread() {
    const PATIENCE: Duration = Duration::from_secs(60);
    let store = Store::new();
    let mut holder = Child::start("hold", &store.path);
    holder.expect("holding");
    store.segment.set_patience(PATIENCE);
    let limited = limit_patience(Duration::from_millis(1));
    assert_eq!(store.segment.patience(), Duration::from_millis(1));
    for shards in [ShardSet::one(0), first_two()] {
        let result = increment(&store.segment, shards);
        assert_busy(result, Holder::Active, holder.pid());
    }
    assert_eq!(store.segment.patience(), Duration::ZERO);
    assert_eq!(read(&store.segment, 1).expect("it waits for no process"), 0);
    {
        // Neither of these calls extends the remaining time.
        let _again = limit_patience(PATIENCE);
        assert_eq!(store.segment.patience(), Duration::ZERO);
        unlimited_patience(|| assert_eq!(store.segment.patience(), PATIENCE));
    }
    assert_eq!(store.segment.patience(), Duration::ZERO);
    drop(limited);
    assert_eq!(store.segment.patience(), PATIENCE);
    holder.kill();
    increment(&store.segment, ShardSet::one(0)).expect("the lock");
}

struct Interrupting;

impl WaitHook for Interrupting {
    fn blocked(&self, block: &mut dyn FnMut()) {
        block();
    }

    fn interrupted(&self) -> bool {
        true
    }
}

#[test]
fn a_signal_ends_the_wait() {
    let store = Store::new();
    let mut holder = Child::start("hold", &store.path);
    holder.expect("holding");
    for write in [true, false] {
        let mut handle = store.open(write);
        handle.set_wait_hook(Box::new(Interrupting));
        assert_eq!(read(&handle, 0).expect("it waits for no process"), 0);
        if write {
            for shards in [ShardSet::one(0), first_two()] {
                let result = increment(&handle, shards);
                assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
            }
        }
    }
}
