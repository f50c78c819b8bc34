//! Tests that the pages that shards retain for their next blocks are returned if a long run is
//! needed, even if processes die in the meantime.

use std::path::Path;

use undercroft_memory::fault::die_after;
use undercroft_memory::{Error, Offset, Options, Segment, ShardSet};

const CAPACITY: u64 = 2 << 20;
/// Sizes in bytes: a block of one page, a block that fits twice in a slab of five pages, and a run
/// that needs most of the heap.
const PAGE: u64 = 4096;
const IN_SLAB: u64 = 10_000;
const LONG: u64 = CAPACITY / 4 * 3;
/// The number of free pages that a shard retains.
const KEPT: usize = 16;

/// Creates a store whose second shard retains scattered pages and a slab.
fn create(path: &Path) -> Segment {
    let options = Options {
        capacity: Some(CAPACITY),
        shards: Some(2),
        ring: Some(64 << 10),
    };
    let segment = Segment::create(path, &options).expect("a new store");
    let shard = ShardSet::one(1);
    let in_slab = segment.write(shard, |transaction| transaction.allocate(1, IN_SLAB));
    let in_slab = in_slab.expect("room");
    let mut pages: Vec<Offset> = Vec::new();
    while let Ok(at) = segment.write(shard, |transaction| transaction.allocate(1, PAGE)) {
        pages.push(at);
    }
    pages.sort_unstable();
    // The shard retains the pages that are freed first.
    let step = pages.len() / KEPT;
    let order = (0..step).flat_map(|first| (first..pages.len()).step_by(step));
    for index in order {
        let freed = segment.write(shard, |transaction| {
            transaction.free(1, pages[index]);
            Ok::<_, Error>(())
        });
        freed.expect("it exists");
    }
    let freed = segment.write(shard, |transaction| {
        transaction.free(1, in_slab);
        Ok::<_, Error>(())
    });
    freed.expect("it exists");
    while segment.give_back(1).expect("no process holds a lock") {}
    segment
}

fn take_long_run(segment: &Segment) {
    let taken = segment.write(ShardSet::one(0), |transaction| {
        let at = transaction.allocate(0, LONG)?;
        transaction.set_root(0, 0, at)
    });
    taken.expect("room for the run");
}

fn sound(segment: &Segment) {
    let report = segment.check(|index, view, reach, _| {
        let root = view.root(0, 0);
        (index == 0 && root != 0).then(|| reach(root));
    });
    assert_eq!(report.expect("a check").problems, Vec::<String>::new());
}

#[test]
fn a_long_run_is_found_even_if_kept_pages_block_it() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("store");
    for steps in 0.. {
        let segment = create(&path);
        let died = die_after(steps, || take_long_run(&segment)).is_none();
        if died {
            segment.abandon();
        }
        drop(segment);
        let heir = Segment::open(&path, true).expect("a whole store");
        heir.recover().expect("a recovery");
        sound(&heir);
        let read = heir.read(ShardSet::one(0), |view| Ok::<_, Error>(view.root(0, 0)));
        if read.expect("no lock is held") == 0 {
            take_long_run(&heir);
        }
        sound(&heir);
        std::fs::remove_file(&path).expect("just made");
        if !died {
            assert!(steps > 100, "{steps} steps");
            break;
        }
    }
}
