//! Tests shard marks (L5), which make processes clean up a shard before they read or change it.
//! Setting a mark is atomic, like any change.

use std::path::Path;

use undercroft_memory::fault::die_after;
use undercroft_memory::{Error, Marks, Options, Segment, ShardSet, coarse_milliseconds};

const ONE: usize = 1;

fn create(path: &Path) -> Segment {
    let options = Options {
        capacity: Some(8 << 20),
        shards: Some(2),
        ring: None,
    };
    Segment::create(path, &options).expect("a new store")
}

/// Sets both the mark and root 0 to `bits`.
fn mark(segment: &Segment, bits: u64) -> Result<(), Error> {
    segment.write_where(ShardSet::one(ONE), Marks::Ignored, |transaction| {
        transaction.set_root(ONE, 0, bits)?;
        transaction.set_mark(ONE, bits)
    })
}

/// Returns root 0 and the mark, as read by a caller that ignores marks.
fn state(segment: &Segment) -> (u64, u64) {
    let state = segment.read_marked(ShardSet::one(ONE), |view| {
        Ok::<_, Error>((view.root(ONE, 0), view.mark(ONE)))
    });
    state.expect("no process holds the lock")
}

/// Returns true if every kind of access is rejected. All kinds must agree.
fn is_refused(segment: &Segment) -> bool {
    let one = ShardSet::one(ONE);
    let both = segment.all_shards();
    let mut refused = Vec::new();
    for shards in [one, both] {
        refused.push(segment.read(shards, |_| Ok::<_, Error>(())));
        refused.push(segment.write(shards, |_| Ok::<_, Error>(())));
        let change = segment.write(shards, |transaction| transaction.set_root(ONE, 1, 7));
        refused.push(change);
    }
    let marks = refused.iter().map(|result| match result {
        Ok(()) => false,
        Err(Error::Marked) => true,
        Err(error) => panic!("{error}"),
    });
    let marks: Vec<bool> = marks.collect();
    assert!(
        marks.iter().all(|mark| *mark == marks[0]),
        "of several minds: {marks:?}"
    );
    assert_eq!(marks[0], segment.is_marked(ONE));
    marks[0]
}

#[test]
fn a_marked_shard_is_neither_read_nor_changed() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("store");
    let segment = create(&path);
    let read_only = Segment::open(&path, false).expect("the same store");
    assert!(!is_refused(&segment));
    mark(&segment, 5).expect("room");
    assert!(is_refused(&segment));
    let read = read_only.read(ShardSet::one(ONE), |_| Ok::<_, Error>(()));
    assert!(matches!(read, Err(Error::Marked)), "{read:?}");
    // A process that has cleaned up the shard may use it until the clock advances.
    let let_in = (0..1_000_000).any(|_| {
        segment.looked_after(ONE, coarse_milliseconds());
        segment
            .read(ShardSet::one(ONE), |_| Ok::<_, Error>(()))
            .is_ok()
    });
    assert!(let_in);
    while segment
        .read(ShardSet::one(ONE), |_| Ok::<_, Error>(()))
        .is_ok()
    {}
    assert!(is_refused(&segment));
    // The other shard is still accessible.
    let other = segment.write(ShardSet::one(0), |transaction| {
        transaction.set_root(0, 0, 1)
    });
    other.expect("no mark");
    mark(&segment, 0).expect("room");
    assert!(!is_refused(&segment));
}

/// Without this rule, a slow process, or one with much to clean up, would do nothing but clean up.
#[test]
fn a_process_may_ignore_a_mark_for_as_long_as_its_cleanup_took() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let segment = create(&directory.path().join("store"));
    mark(&segment, 5).expect("room");
    let began = coarse_milliseconds();
    while coarse_milliseconds() < began + 100 {}
    segment.looked_after(ONE, began);
    let looked = coarse_milliseconds();
    while coarse_milliseconds() == looked {}
    let result = segment.read(ShardSet::one(ONE), |_| Ok::<_, Error>(()));
    // If the machine was suspended in the meantime, the test proves nothing.
    assert!(result.is_ok() || coarse_milliseconds() > looked + 100);
}

#[test]
fn a_rolled_back_mark_leaves_no_trace() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let segment = create(&directory.path().join("store"));
    for before in [0, 3] {
        mark(&segment, before).expect("room");
        let shard = ShardSet::one(ONE);
        let undone = segment.write_where(shard, Marks::Ignored, |transaction| {
            transaction.set_mark(ONE, 3 - before)?;
            Err::<(), Error>(Error::Interrupted)
        });
        undone.expect_err("its own error");
        assert_eq!(state(&segment).1, before);
        assert_eq!(is_refused(&segment), before != 0);
        let kept = segment.write_where(shard, Marks::Ignored, |transaction| {
            let savepoint = transaction.savepoint();
            transaction.set_mark(ONE, 3 - before)?;
            transaction.roll_back_to(&savepoint)
        });
        kept.expect("nothing stands in the way");
        assert_eq!(state(&segment).1, before);
        assert_eq!(is_refused(&segment), before != 0);
    }
}

#[test]
fn death_at_any_step_of_marking_leaves_a_mark_or_none() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    for (before, after) in [(0, 6), (6, 0)] {
        for steps in 0.. {
            let path = directory.path().join(format!("store-{before}-{steps}"));
            let segment = create(&path);
            mark(&segment, before).expect("room");
            let survived = die_after(steps, || mark(&segment, after).expect("room")).is_some();
            segment.abandon();
            let heir = Segment::open(&path, true).expect("the same store");
            heir.recover().expect("a recovery");
            let (root, bits) = state(&heir);
            assert_eq!(root, bits, "after {steps} steps");
            assert!(
                [before, after].contains(&bits),
                "after {steps} steps: {bits}"
            );
            assert_eq!(is_refused(&heir), bits != 0, "after {steps} steps");
            let report = heir.check(|_, _, _, _| ()).expect("a check");
            assert_eq!(report.problems, Vec::<String>::new());
            std::fs::remove_file(path).expect("just made");
            if survived {
                assert!(steps > 5 && bits == after);
                break;
            }
        }
    }
}
