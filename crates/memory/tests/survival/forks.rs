//! Tests `fork` in a process that uses a store (L3).

use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use undercroft_memory::{ForkMutex, Segment, ShardSet};

use crate::child::{Child, Role, limit, listen, say};
use crate::pairs::{SHARDS, Store, increment};

pub(crate) const ROLES: &[Role] = &[
    ("fork and write", fork_and_write),
    ("fork while claiming", fork_while_claiming),
    ("fork idle children", fork_idle_children),
    ("fork with locked mutexes", fork_with_locked_mutexes),
];

/// The number of changes made by each process.
const CHANGES: u64 = 2000;
/// The number of forks, each at a random moment while another thread claims a slot.
const FORKS: u64 = 200;

/// Runs `child` in a forked child process and then ends that process. Returns its process ID.
fn fork(child: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the children of these tests use only the store, system calls, and `malloc`, which the
    // C library keeps usable after `fork`.
    match unsafe { libc::fork() } {
        0 => {
            // A lock that is never released would cause a hang, which this time limit ends.
            limit(60);
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
            // SAFETY: `_exit` only ends the process.
            unsafe { libc::_exit(i32::from(done.is_err())) }
        }
        pid => {
            assert!(pid > 0, "fork");
            pid
        }
    }
}

fn wait_for(pid: libc::pid_t) {
    let mut status = 0;
    // SAFETY: the call waits for a child of this process, and `status` is writable.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0, "the forked child's status");
}

fn change(segment: &Segment) {
    for _ in 0..CHANGES {
        increment(segment, ShardSet::first(SHARDS)).expect("a change");
    }
}

fn fork_and_write(store: &Path) {
    let segment = Segment::open(store, true).expect("a store");
    increment(&segment, ShardSet::one(0)).expect("a slot");
    let child = fork(|| {
        change(&segment);
        say("child");
        listen();
    });
    change(&segment);
    say("parent");
    listen();
    wait_for(child);
}

fn fork_while_claiming(store: &Path) {
    for _ in 0..FORKS {
        let segment = Segment::open(store, true).expect("a store");
        let shards = ShardSet::first(SHARDS);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| increment(&segment, shards).expect("a change"));
            let child = fork(|| increment(&segment, shards).expect("a change"));
            wait_for(child);
            other.join().expect("no panic");
        });
    }
}

/// Forks idle children at random moments while another thread claims a slot. If a child inherited
/// the descriptor, the slot would stay claimed.
fn fork_idle_children(store: &Path) {
    let observer = Segment::open(store, true).expect("a store");
    let before = observer.members().len();
    for _ in 0..FORKS {
        let segment = Segment::open(store, true).expect("a store");
        let (mut ends, barrier) = ([0; 2], Barrier::new(2));
        // SAFETY: the argument points to two writable descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        let [read, write] = ends;
        let child = std::thread::scope(|scope| {
            scope.spawn(|| {
                barrier.wait();
                increment(&segment, ShardSet::one(0)).expect("a change");
            });
            barrier.wait();
            fork(|| {
                let mut byte = 0_u8;
                // SAFETY: the descriptors are open, and the byte is writable.
                unsafe {
                    libc::close(write);
                    libc::read(read, (&raw mut byte).cast(), 1);
                }
            })
        });
        drop(segment);
        let members = observer.members();
        // SAFETY: the descriptors are open and not used elsewhere.
        unsafe { [libc::close(read), libc::close(write)] };
        wait_for(child);
        assert_eq!(members.len(), before, "{members:?}");
    }
}

/// Mutexes that another thread held at the fork are unlocked in a child and in a grandchild, with a
/// fresh value.
fn fork_with_locked_mutexes(_: &Path) {
    static LOCKED: ForkMutex<Vec<u64>> = ForkMutex::new(Vec::new(), || vec![7]);
    static OPEN: ForkMutex<Vec<u64>> = ForkMutex::new(Vec::new(), || vec![7]);
    OPEN.lock().push(1);
    LOCKED.lock().push(2);
    let (barrier, ends) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut held = LOCKED.lock();
            barrier.wait();
            ends.wait();
            held.push(3);
        });
        barrier.wait();
        assert!(
            LOCKED.try_lock().is_none(),
            "this process' own thread has it"
        );
        let child = fork(|| {
            assert_eq!(*OPEN.lock(), [1]);
            assert_eq!(*LOCKED.lock(), [7]);
            let mut held = LOCKED.lock();
            held.push(8);
            // This thread continues in the grandchild and still holds the lock.
            let grandchild = fork(|| {
                held.push(9);
                assert_eq!(*held, [7, 8, 9]);
                assert_eq!(*OPEN.try_lock().expect("open"), [1]);
            });
            wait_for(grandchild);
            drop(held);
            assert_eq!(*LOCKED.try_lock().expect("open"), [7, 8]);
        });
        wait_for(child);
        ends.wait();
    });
    assert_eq!(*LOCKED.lock(), [2, 3]);
    fork_while_threads_count();
}

/// Forks children at random moments while several threads lock and unlock a mutex.
fn fork_while_threads_count() {
    let (counted, is_over) = (ForkMutex::<u64>::default(), AtomicBool::new(false));
    let (counted, is_over) = (&counted, &is_over);
    std::thread::scope(|scope| {
        let count = move || {
            let mut own = 0;
            while !is_over.load(Ordering::Relaxed) {
                *counted.lock() += 1;
                own += 1;
            }
            own
        };
        let threads = [scope.spawn(count), scope.spawn(count), scope.spawn(count)];
        for _ in 0..FORKS {
            wait_for(fork(|| {
                for _ in 0..100 {
                    *counted.lock() += 1;
                }
            }));
        }
        is_over.store(true, Ordering::Relaxed);
        let all: u64 = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .sum();
        assert_eq!(*counted.lock(), all);
    });
}

#[test]
fn a_forked_child_finds_every_mutex_unlocked() {
    let store = Store::new();
    Child::start("fork with locked mutexes", &store.path).finish();
}

#[test]
fn an_idle_child_inherits_no_slot_that_is_being_claimed() {
    let store = Store::new();
    Child::start("fork idle children", &store.path).finish();
    assert_eq!(store.check(), [FORKS, 0, 0, 0]);
}

#[test]
fn a_forked_child_joins_separately() {
    let store = Store::new();
    let before = store.segment.members().len();
    let mut parent = Child::start("fork and write", &store.path);
    // Either process may report first.
    parent.expect("");
    parent.expect("");
    let members = store.segment.members();
    assert_eq!(members.len(), before + 2, "{members:?}");
    parent.tell();
    parent.tell();
    parent.finish();
    let changes = 2 * CHANGES;
    assert_eq!(store.check(), [changes + 1, changes, changes, changes]);
    assert_eq!(store.segment.members().len(), before);
}

#[test]
fn fork_is_safe_while_another_thread_joins() {
    let store = Store::new();
    let before = store.segment.members().len();
    Child::start("fork while claiming", &store.path).finish();
    assert_eq!(store.check(), [2 * FORKS; SHARDS]);
    assert_eq!(store.segment.members().len(), before);
}
