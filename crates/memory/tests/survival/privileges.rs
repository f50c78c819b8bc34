//! Tests processes that drop their privileges while a store is open, like `gunicorn`, `uwsgi` and
//! `celery --uid` (L2, L3, L5). The stores are in directories of mode 0700, so such a process
//! cannot even check whether its file exists.

use std::path::Path;
use std::process::Command;

use undercroft_memory::{Error, Holder, Segment, ShardSet, effective_user};

use crate::child::{Child, Role, listen, say, skip};
use crate::pairs::{IMPATIENT, Store, increment, read, set};

pub(crate) const ROLES: &[Role] = &[
    ("drop and write", drop_and_write),
    ("drop, fork and write", drop_fork_and_write),
    ("drop, fork and hold", drop_fork_and_hold),
    ("fork, drop and hold", fork_drop_and_hold),
    ("drop and take over", drop_and_take_over),
    ("drop and enter a namespace", drop_and_enter_a_namespace),
];

const NOBODY: libc::uid_t = 65_534;

/// Switches to another user, like a server that has opened all the files it needs.
fn drop_privileges() {
    // SAFETY: these system calls touch no memory of this process.
    let dropped = unsafe { libc::setgid(NOBODY) == 0 && libc::setuid(NOBODY) == 0 };
    assert!(dropped, "setuid");
}

/// Runs `child` in a forked child process and then ends that process. Returns its process ID.
fn fork(child: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the children use only the store, system calls, and `malloc`, which the C library
    // keeps usable after `fork`.
    match unsafe { libc::fork() } {
        0 => {
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

fn wait_for(pid: libc::pid_t) -> libc::c_int {
    let mut status = 0;
    // SAFETY: the call waits for a child of this process, and `status` is writable.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    status
}

fn kill(pid: libc::pid_t) {
    // SAFETY: the child has not been waited for, so the signal goes to the child. The call touches
    // no memory.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
}

/// Holds the lock of the first shard forever, halfway through a change.
fn hold(segment: &Segment) {
    let held = set(segment, ShardSet::one(0), 7, || {
        say("holding");
        loop {
            // SAFETY: `pause` waits for a signal and touches no memory.
            unsafe { libc::pause() };
        }
    });
    held.expect("never here");
}

fn open(store: &Path) -> Segment {
    let segment = Segment::open(store, true).expect("a store");
    segment.set_patience(IMPATIENT);
    segment
}

fn drop_and_write(store: &Path) {
    let segment = open(store);
    increment(&segment, ShardSet::one(0)).expect("a change");
    drop_privileges();
    assert!(Segment::open(store, true).is_err(), "a directory of root's");
    // Run the path check, which otherwise happens once a second.
    assert!(!segment.removed());
    increment(&segment, ShardSet::one(0)).expect("a change");
    say("written");
    listen();
    assert!(segment.removed(), "the file is gone");
    let late = increment(&segment, ShardSet::one(0));
    assert!(matches!(late, Err(Error::Removed { .. })), "{late:?}");
}

fn drop_fork_and_write(store: &Path) {
    let segment = open(store);
    increment(&segment, ShardSet::one(0)).expect("a change");
    drop_privileges();
    let children = [0, 1, 2].map(|_| {
        fork(|| {
            for _ in 0..1000 {
                increment(&segment, ShardSet::one(0)).expect("a change");
            }
            say("written");
            listen();
        })
    });
    for _ in 0..1000 {
        increment(&segment, ShardSet::one(0)).expect("a change");
    }
    listen();
    assert!(children.into_iter().all(|child| wait_for(child) == 0));
}

/// A process drops its privileges, and its child is killed while holding a lock. Both the parent,
/// before it reaps the child, and another process can acquire the lock.
fn drop_fork_and_hold(store: &Path) {
    let segment = open(store);
    drop_privileges();
    let child = fork(|| hold(&segment));
    listen();
    kill(child);
    increment(&segment, ShardSet::one(0)).expect("the dead child's lock");
    assert_eq!(wait_for(child), libc::SIGKILL);
    let child = fork(|| hold(&segment));
    listen();
    kill(child);
    assert_eq!(wait_for(child), libc::SIGKILL);
    say("killed");
    listen();
}

/// Opens the store before the fork and drops privileges after it, as gunicorn does.
fn fork_drop_and_hold(store: &Path) {
    let segment = open(store);
    let [first, second] = [0, 1].map(|which| {
        fork(|| {
            drop_privileges();
            if which == 0 {
                hold(&segment);
            }
            increment(&segment, ShardSet::one(1)).expect("a change");
            say("written");
        })
    });
    assert_eq!(wait_for(second), 0);
    listen();
    kill(first);
    assert_eq!(wait_for(first), libc::SIGKILL);
}

/// Seizes the lock of a killed process that was permitted to open the file.
fn drop_and_take_over(store: &Path) {
    let segment = open(store);
    drop_privileges();
    say("dropped");
    listen();
    let busy = increment(&segment, ShardSet::one(0));
    assert!(
        matches!(busy, Err(Error::Busy { holder, .. }) if holder != Holder::Dead),
        "{busy:?}"
    );
    say("refused");
    listen();
    increment(&segment, ShardSet::one(0)).expect("the dead holder's lock");
}

/// The process number of a child in a separate pid namespace does not distinguish the child from
/// other processes.
fn drop_and_enter_a_namespace(store: &Path) {
    let segment = open(store);
    // SAFETY: the system call touches no memory of this process.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWPID) }, 0, "unshare");
    drop_privileges();
    let child = fork(|| {
        let error = increment(&segment, ShardSet::one(0)).expect_err("no right to the file");
        assert!(matches!(error, Error::Forbidden { .. }), "{error:?}");
        let said = error.to_string();
        assert!(said.contains("Permission denied"), "{said}");
        assert!(said.contains("after dropping privileges"), "{said}");
        assert_eq!(read(&segment, 0).expect("a read without a slot"), 0);
    });
    assert_eq!(wait_for(child), 0);
}

/// Returns true if this test is permitted to change its user.
fn is_root(test: &str) -> bool {
    let root = effective_user() == 0;
    if !root {
        skip(test, "only root can drop its privileges");
    }
    root
}

#[test]
fn an_unprivileged_process_continues_until_the_file_is_removed() {
    if !is_root("a process that drops its privileges continues") {
        return;
    }
    let store = Store::new();
    let mut child = Child::start("drop and write", &store.path);
    child.expect("written");
    std::fs::remove_file(&store.path).expect("the store's file");
    child.tell();
    child.finish();
    assert_eq!(read(&store.segment, 0).expect("a read"), 2);
}

#[test]
fn children_of_an_unprivileged_process_join_separately() {
    if !is_root("children of a process that dropped its privileges") {
        return;
    }
    let store = Store::new();
    let before = store.segment.members().len();
    let mut parent = Child::start("drop, fork and write", &store.path);
    for _ in 0..3 {
        parent.expect("written");
    }
    assert_eq!(store.segment.members().len(), before + 4);
    for _ in 0..4 {
        parent.tell();
    }
    parent.finish();
    assert_eq!(store.check(), [4001, 0, 0, 0]);
    assert_eq!(store.segment.members().len(), before);
}

#[test]
fn a_killed_child_of_an_unprivileged_process_is_recognized_as_dead() {
    if !is_root("a killed child of a process that dropped its privileges") {
        return;
    }
    let store = Store::new();
    store.segment.set_patience(IMPATIENT);
    let mut parent = Child::start("drop, fork and hold", &store.path);
    parent.expect("holding");
    let result = increment(&store.segment, ShardSet::one(0));
    assert!(
        matches!(result, Err(Error::Busy { holder, .. }) if holder != Holder::Dead),
        "{result:?}"
    );
    parent.tell();
    parent.expect("holding");
    parent.tell();
    parent.expect("killed");
    increment(&store.segment, ShardSet::one(0)).expect("the dead child's lock");
    parent.tell();
    parent.finish();
    assert_eq!(store.check(), [2, 0, 0, 0]);
}

#[test]
fn forked_workers_that_drop_their_privileges_join_separately() {
    if !is_root("forked workers that drop their privileges") {
        return;
    }
    let store = Store::new();
    let mut parent = Child::start("fork, drop and hold", &store.path);
    let mut said = [parent.next(), parent.next()];
    said.sort();
    assert_eq!(said, [Some("holding".into()), Some("written".into())]);
    parent.tell();
    parent.finish();
    increment(&store.segment, ShardSet::one(0)).expect("the dead worker's lock");
    assert_eq!(store.check(), [1, 1, 0, 0]);
}

#[test]
fn an_unprivileged_process_takes_over_from_a_killed_holder() {
    if !is_root("a process that dropped its privileges takes over") {
        return;
    }
    let store = Store::new();
    let mut heir = Child::start("drop and take over", &store.path);
    heir.expect("dropped");
    let mut holder = Child::start("hold", &store.path);
    holder.expect("holding");
    heir.tell();
    heir.expect("refused");
    holder.kill();
    heir.tell();
    heir.finish();
    assert_eq!(store.check(), [1, 0, 0, 0]);
}

#[test]
fn a_process_with_an_ambiguous_pid_is_refused() {
    if !is_root("a process that is indistinguishable from others") {
        return;
    }
    let store = Store::new();
    Child::start("drop and enter a namespace", &store.path).finish();
}

#[test]
fn processes_of_an_ended_pid_namespace_are_recognized_as_dead() {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork"]);
        command
    };
    let test = "a pid namespace that ended";
    if !is_root(test) {
        return;
    }
    if !unshare()
        .arg("true")
        .status()
        .is_ok_and(|status| status.success())
    {
        return skip(test, "unshare is not allowed");
    }
    let store = Store::new();
    let mut command = unshare();
    command.arg(std::env::current_exe().expect("this test"));
    let mut inside = Child::start_by(command, "drop, fork and hold", &store.path);
    inside.expect("holding");
    inside.tell();
    inside.expect("holding");
    inside.tell();
    inside.expect("killed");
    // A process outside the namespace cannot look up a process number in it.
    store.segment.set_patience(IMPATIENT);
    let result = increment(&store.segment, ShardSet::one(0));
    assert!(
        matches!(
            result,
            Err(Error::Busy {
                holder: Holder::Unknown,
                ..
            })
        ),
        "{result:?}"
    );
    inside.tell();
    inside.finish();
    increment(&store.segment, ShardSet::one(0)).expect("the dead child's lock");
    assert_eq!(store.check(), [2, 0, 0, 0]);
}
