//! Tests listing the processes that have a store mapped, whether or not they write.

use std::path::Path;

use undercroft_memory::{Segment, ShardSet};

use crate::child::{Child, Role, listen, say};
use crate::pairs::{Store, increment};

pub(crate) const ROLES: &[Role] = &[
    ("map", map),
    ("map twice and write", map_and_write),
    ("map and fork", map_and_fork),
];

fn map(store: &Path) {
    let _segment = Segment::open(store, false).expect("a store");
    say("mapped");
    listen();
}

fn map_and_write(store: &Path) {
    let _reader = Segment::open(store, false).expect("a store");
    let segment = Segment::open(store, true).expect("a store");
    increment(&segment, ShardSet::one(0)).expect("a change");
    say("written");
    listen();
}

/// Forks a child that does not use the store.
fn map_and_fork(store: &Path) {
    let _segment = Segment::open(store, false).expect("a store");
    // SAFETY: the child makes only system calls.
    if unsafe { libc::fork() } == 0 {
        say("forked");
        listen();
        // SAFETY: `_exit` only ends the process.
        unsafe { libc::_exit(0) };
    }
    loop {
        // SAFETY: `pause` waits for a signal and touches no memory.
        unsafe { libc::pause() };
    }
}

/// Returns the pids of the other processes that have the store mapped, and whether each has
/// written.
fn users(store: &Store) -> Vec<(u32, bool)> {
    let users = store.segment.users().expect("the path may be opened");
    assert!(users.iter().all(|user| user.here));
    users
        .iter()
        .map(|user| (user.pid, user.member.is_some()))
        .collect()
}

#[test]
fn a_reader_is_listed_until_it_ends() {
    let store = Store::new();
    assert_eq!(users(&store), []);
    let mut readers: Vec<Child> = (0..5).map(|_| Child::start("map", &store.path)).collect();
    let mut writer = Child::start("map twice and write", &store.path);
    for reader in &mut readers {
        reader.expect("mapped");
    }
    writer.expect("written");
    let mut expected: Vec<_> = readers.iter().map(|reader| (reader.pid(), false)).collect();
    expected.sort_unstable();
    expected.insert(0, (writer.pid(), true));
    assert_eq!(users(&store), expected);
    readers.remove(0).kill();
    writer.kill();
    for mut reader in readers {
        reader.tell();
        reader.finish();
    }
    assert_eq!(users(&store), []);
}

#[test]
fn an_inherited_mapping_is_listed_after_the_parents_death() {
    let store = Store::new();
    let mut parent = Child::start("map and fork", &store.path);
    parent.expect("forked");
    let seen = || store.segment.users().expect("the path may be opened");
    let [user] = &seen()[..] else {
        panic!("one user")
    };
    assert!(user.pid == parent.pid() && !user.ended);
    parent.kill();
    let [user] = &seen()[..] else {
        panic!("one user")
    };
    assert!(user.pid == parent.pid() && user.ended);
    // The forked child reads from the same pipe, so this line ends the child.
    parent.tell();
}
