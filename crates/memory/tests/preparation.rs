//! Tests that a long run is prepared in bounded steps, after changes that do not wait for it, even
//! if processes die during the preparation.

use std::path::Path;

use undercroft_memory::fault::die_after;
use undercroft_memory::layout::EXTENT;
use undercroft_memory::{Error, Options, Segment, ShardSet};

/// The length of the run in bytes.
const LONG: u64 = 1 << 20;
/// The maximum number of extents that a single step may back with memory.
const A_STEP: u64 = 4;

fn create(path: &Path) -> Segment {
    let options = Options {
        capacity: Some(16 << 20),
        shards: Some(1),
        ring: None,
    };
    Segment::create(path, &options).expect("a new store")
}

/// Allocates the long run if it is ready, and a small block in any case. Stores their offsets in
/// the roots.
fn change(segment: &Segment) {
    let changed = segment.write(ShardSet::one(0), |transaction| {
        if transaction.view().root(0, 0) == 0
            && let Some(at) = transaction.allocate_if_ready(0, LONG)?
        {
            transaction.set_root(0, 0, at)?;
        }
        let small = transaction.view().root(0, 1);
        if small != 0 {
            transaction.free(0, small);
        }
        let small = transaction.allocate(0, 100)?;
        transaction.set_root(0, 1, small)
    });
    changed.expect("room");
}

fn has_it(segment: &Segment) -> bool {
    let read = segment.read(ShardSet::one(0), |view| Ok::<_, Error>(view.root(0, 0)));
    read.expect("no lock is held") != 0
}

fn sound(segment: &Segment) {
    let report = segment.check(|_, view, reach, _| {
        let roots = [view.root(0, 0), view.root(0, 1)];
        roots.into_iter().filter(|&at| at != 0).for_each(reach);
    });
    assert_eq!(report.expect("a check").problems, Vec::<String>::new());
}

#[test]
fn each_change_prepares_only_a_part_of_a_long_run() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let segment = create(&directory.path().join("store"));
    change(&segment);
    let mut changes = 1;
    while !has_it(&segment) {
        let before = segment.statistics().reserved;
        change(&segment);
        let backed = (segment.statistics().reserved - before) / EXTENT;
        assert!(backed <= A_STEP, "{backed} extents at once");
        changes += 1;
        assert!(changes <= 4 + LONG / EXTENT / A_STEP, "it never comes");
    }
    sound(&segment);
}

#[test]
fn upkeep_makes_a_long_run_ready() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let segment = create(&directory.path().join("store"));
    let steps = (0..100).take_while(|_| segment.prepare(LONG).expect("room"));
    assert!(steps.count() as u64 <= 3 + LONG / EXTENT / A_STEP);
    change(&segment);
    assert!(has_it(&segment));
    let too_long = segment.prepare(1 << 30);
    assert!(matches!(too_long, Err(Error::OutOfMemory)), "{too_long:?}");
    sound(&segment);
}

#[test]
fn death_while_a_run_is_prepared_loses_nothing() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("store");
    for steps in 0.. {
        let segment = create(&path);
        let all = || {
            while !has_it(&segment) {
                change(&segment);
            }
        };
        let died = die_after(steps, all).is_none();
        if died {
            segment.abandon();
        }
        drop(segment);
        let heir = Segment::open(&path, true).expect("a whole store");
        heir.recover().expect("a recovery");
        sound(&heir);
        while !has_it(&heir) {
            change(&heir);
        }
        sound(&heir);
        std::fs::remove_file(&path).expect("just made");
        if !died {
            assert!(steps > 100, "{steps} steps");
            break;
        }
    }
}
