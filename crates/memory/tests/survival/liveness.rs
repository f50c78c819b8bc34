//! Tests when a process counts as alive and when it counts as dead (L1, L2).

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use undercroft_memory::{Error, Holder, Segment, ShardSet};

use crate::child::{Child, Role, listen, say};
use crate::pairs::{IMPATIENT, Store, increment, set};

pub(crate) const ROLES: &[Role] = &[
    ("close all", close_all),
    ("exec", exec),
    ("fork and die", fork_and_die),
];

/// Closes all descriptors except the pipes while holding a lock.
fn close_all(store: &Path) {
    let segment = Segment::open(store, true).expect("a store");
    set(&segment, ShardSet::one(0), 7, || {
        // SAFETY: no descriptor above 2 is used after this call.
        let result = unsafe { libc::close_range(3, u32::MAX, 0) };
        assert_eq!(result, 0, "close_range");
        say("closed");
        listen();
    })
    .expect("a change");
}

/// Executes another program while holding a lock.
fn exec(store: &Path) {
    let segment = Segment::open(store, true).expect("a store");
    let result = set(&segment, ShardSet::one(0), 7, || {
        say("holding");
        listen();
        // `cat` echoes its input until the pipe is closed.
        let error = Command::new("cat").exec();
        panic!("{error}");
    });
    result.expect("never here");
}

/// Forks while holding a lock. The child stays alive and does not use the store.
fn fork_and_die(store: &Path) {
    let segment = Segment::open(store, true).expect("a store");
    set(&segment, ShardSet::one(0), 7, || {
        // SAFETY: the child makes only system calls.
        match unsafe { libc::fork() } {
            0 => {
                say("forked");
                listen();
                say("alive");
                listen();
                // SAFETY: `_exit` only ends the process.
                unsafe { libc::_exit(0) }
            }
            pid => assert!(pid > 0, "fork"),
        }
        loop {
            // SAFETY: `pause` waits for a signal and touches no memory.
            unsafe { libc::pause() };
        }
    })
    .expect("never here");
}

#[test]
fn a_process_that_closes_every_descriptor_counts_as_alive() {
    let store = Store::new();
    let mut holder = Child::start("close all", &store.path);
    holder.expect("closed");
    let impatient = store.open(true);
    impatient.set_patience(IMPATIENT);
    match increment(&impatient, ShardSet::one(0)) {
        Err(Error::Busy { holder: state, pid }) => {
            assert_eq!(pid, holder.pid());
            assert_ne!(state, Holder::Dead);
        }
        other => panic!("expected Busy, found {other:?}"),
    }
    holder.tell();
    holder.finish();
    assert_eq!(store.check(), [7, 0, 0, 0]);
}

#[test]
fn a_process_counts_as_dead_after_exec() {
    let store = Store::new();
    let mut holder = Child::start("exec", &store.path);
    holder.expect("holding");
    holder.tell();
    increment(&store.segment, ShardSet::one(0)).expect("the lock");
    assert_eq!(store.check(), [1, 0, 0, 0]);
    holder.finish();
}

#[test]
fn an_idle_forked_child_does_not_keep_its_parents_slot() {
    let store = Store::new();
    let mut parent = Child::start("fork and die", &store.path);
    parent.expect("forked");
    parent.kill();
    increment(&store.segment, ShardSet::one(0)).expect("the lock");
    assert_eq!(store.check(), [1, 0, 0, 0]);
    // The forked child reads from the same pipe.
    parent.tell();
    parent.expect("alive");
    parent.tell();
}

#[test]
fn unreachable_owner_counts_as_alive() {
    let store = Store::new();
    let mut holder = Child::start("exec", &store.path);
    holder.expect("holding");
    holder.kill();
    let away = store.path.with_extension("away");
    std::fs::rename(&store.path, &away).expect("a new name");
    let reader = Segment::open(&away, true).expect("the same store");
    store.segment.set_patience(IMPATIENT);
    let result = increment(&store.segment, ShardSet::one(0));
    assert!(
        matches!(result, Err(Error::Busy { holder, .. }) if holder != Holder::Dead),
        "{result:?}"
    );
    increment(&reader, ShardSet::one(0)).expect("by its new name it can be asked");
}
