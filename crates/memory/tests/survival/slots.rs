//! Tests the process table and its records: reclaimed entries, a full table, and more threads than
//! records (L4, W6).

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Barrier;

use undercroft_memory::layout::{SLOTS, slot};
use undercroft_memory::{Error, Segment, ShardSet};

use crate::child::{Child, Role, listen, say};
use crate::pairs::{SHARDS, Store, increment, set};

pub(crate) const ROLES: &[Role] = &[("die with all", die_with_all)];

/// Holds the locks of all shards.
fn die_with_all(store: &Path) {
    let segment = Segment::open(store, true).expect("a store");
    set(&segment, ShardSet::first(SHARDS), 7, || {
        say("holding");
        listen();
    })
    .expect("a change");
}

#[test]
fn dead_slots_are_recovered_before_they_are_reclaimed() {
    let store = Store::new();
    for _ in 0..10 {
        let mut child = Child::start("die with all", &store.path);
        child.expect("holding");
        let members = store.segment.members();
        assert_eq!(members.len(), 2, "{members:?}");
        let slots: Vec<u64> = members.iter().map(|member| member.slot).collect();
        assert_eq!(slots, [0, 1], "the dead one's slot is used again");
        child.kill();
    }
    assert_eq!(store.check(), [0; SHARDS]);
}

#[test]
fn a_full_process_table_is_a_clear_error() {
    let store = Store::new();
    let late = store.open(true);
    // A single lock that covers all remaining slots has the same effect on the table as that many
    // processes.
    let file = File::options()
        .read(true)
        .write(true)
        .open(&store.path)
        .expect("the store's file");
    let range = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: (slot::TABLE + slot::STRIDE) as libc::off_t,
        l_len: ((SLOTS - 1) * slot::STRIDE) as libc::off_t,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open and `range` is a valid request.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &range) };
    assert_eq!(result, 0, "a lock on the other slots");
    let refused = increment(&late, ShardSet::one(0));
    assert!(
        matches!(refused, Err(Error::TooManyProcesses)),
        "{refused:?}"
    );
    // A process that has joined can still write, and reads need no slot.
    increment(&store.segment, ShardSet::one(0)).expect("a change");
    assert_eq!(crate::pairs::read(&late, 0).expect("a read"), 1);
    drop(file);
    increment(&late, ShardSet::one(0)).expect("a slot is free again");
    assert_eq!(store.check(), [2, 0, 0, 0]);
}

#[test]
fn more_threads_than_records_can_write() {
    const THREADS: u64 = slot::RECORD_COUNT + 40;
    const CHANGES: u64 = 100;
    let store = Store::new();
    let barrier = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (segment, barrier) = (&store.segment, &barrier);
            let shards = match thread % 3 {
                0 => ShardSet::first(SHARDS),
                1 => [0, 2].into_iter().collect(),
                _ => [1, 3].into_iter().collect(),
            };
            scope.spawn(move || {
                barrier.wait();
                for _ in 0..CHANGES {
                    increment(segment, shards).expect("a change");
                }
            });
        }
    });
    let of = |kind: u64| (0..THREADS).filter(|thread| thread % 3 == kind).count() as u64 * CHANGES;
    let (even, odd) = (of(0) + of(1), of(0) + of(2));
    assert_eq!(store.check(), [even, odd, even, odd]);
}
