//! Tests that memory abandoned by a flush is freed in bulk, however often the shard is emptied and
//! whatever else the store contains.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use undercroft_memory::layout::{Layout, descriptor, header, shard};
use undercroft_memory::{Error, Offset, Options, Segment, ShardSet};

const CAPACITY: u64 = 512 << 20;
const PATIENCE: Duration = Duration::from_secs(5);

fn create(path: &Path) -> Segment {
    let options = Options {
        capacity: Some(CAPACITY),
        shards: Some(2),
        ring: None,
    };
    Segment::create(path, &options).expect("a new store")
}

fn allocate(segment: &Segment, index: usize, bytes: u64) -> Offset {
    let block = segment.write(ShardSet::one(index), |transaction| {
        transaction.allocate(index, bytes)
    });
    block.expect("room")
}

fn leave_behind(segment: &Segment, index: usize) -> bool {
    let left = segment.write(ShardSet::one(index), |transaction| {
        transaction.leave_behind(index, 1)
    });
    left.expect("no lock is held")
}

fn problems(segment: &Segment) -> Vec<String> {
    let report = segment.check(|_, _, _, _| {});
    report.expect("a check").problems
}

fn file(segment: &Segment) -> std::fs::File {
    let mut options = std::fs::File::options();
    let options = options.read(true).write(true);
    options.open(segment.path()).expect("a file")
}

fn word(segment: &Segment, at: u64) -> u64 {
    let mut word = [0; 8];
    let read = file(segment).read_exact_at(&mut word, at);
    read.expect("a word");
    u64::from_le_bytes(word)
}

/// Changes a word of a store directly in the store's file.
fn set_word(segment: &Segment, at: u64, value: u64) {
    let written = file(segment).write_all_at(&value.to_le_bytes(), at);
    written.expect("a word");
}

fn layout(segment: &Segment) -> Layout {
    Layout::new(segment.shards(), CAPACITY, word(segment, header::RING))
}

#[test]
fn memory_is_freed_even_if_a_shard_is_emptied_repeatedly() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let segment = create(&directory.path().join("store"));
    // A single step cannot get past all of these blocks.
    let others: Vec<Offset> = (0..320).map(|_| allocate(&segment, 1, 15 * 4096)).collect();
    let mut most = 0;
    for _ in 0..200 {
        for _ in 0..64 {
            allocate(&segment, 0, 16 * 4096);
        }
        assert!(leave_behind(&segment, 0));
        for _ in 0..2 {
            segment.free_remains(0, PATIENCE).expect("a step");
        }
        most = most.max(segment.statistics().left);
    }
    assert!(most < 64 << 20, "{most} bytes are left");
    while segment.free_remains(0, PATIENCE).expect("a step") {}
    assert_eq!(segment.statistics().left, 0);
    let report = segment.check(|index, _, reach, _| {
        let of_it = others.iter().filter(|_| index == 1);
        of_it.for_each(|&at| reach(at));
    });
    assert_eq!(report.expect("a check").problems, Vec::<String>::new());
}

#[test]
fn an_age_is_not_reused_while_runs_of_that_age_are_left() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let segment = create(&directory.path().join("store"));
    allocate(&segment, 0, 100);
    assert!(leave_behind(&segment, 0));
    allocate(&segment, 0, 100);
    assert!(leave_behind(&segment, 0));
    allocate(&segment, 0, 100);
    // Pretend that the shard was emptied one time fewer than there are distinct ages.
    let at = layout(&segment).shard(0) + shard::LEFT_SINCE;
    set_word(&segment, at, 3);
    assert!(!leave_behind(&segment, 0));
    assert!(!segment.free_remains(0, PATIENCE).expect("a step"));
    assert!(leave_behind(&segment, 0));
    assert!(!segment.free_remains(0, PATIENCE).expect("a step"));
    assert_eq!(problems(&segment), Vec::<String>::new());
}

#[test]
fn a_damaged_run_is_not_freed() {
    for pages in [0, 3, 1 << 20, u64::from(u32::MAX)] {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let segment = create(&directory.path().join("store"));
        // Allocate one run in the middle of an extent, and another that fills an entire extent.
        for bytes in [3 << 12, 16 << 12] {
            let block = allocate(&segment, 0, bytes);
            let layout = layout(&segment);
            let page = (block - layout.heap) / 4096;
            let at = layout.descriptor(page) + descriptor::RUN;
            let run = word(&segment, at) & 0xffff_ffff;
            set_word(&segment, at, run | pages << 32);
        }
        assert!(leave_behind(&segment, 0));
        assert_ne!(problems(&segment), Vec::<String>::new());
        let freed = segment.free_remains(0, PATIENCE);
        match pages {
            // A length of three pages is plausible for either run, so the damage is not detected.
            3 => assert!(!freed.expect("a step")),
            _ => assert!(matches!(freed, Err(Error::Damaged(_))), "{freed:?}"),
        }
    }
}
