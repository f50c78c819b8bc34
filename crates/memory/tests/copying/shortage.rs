//! Tests a stock that runs out, a store without free memory, and two copiers.

use std::time::Duration;

use undercroft_memory::{Error, Segment, ShardSet};

use crate::objects::{change, check, content, content_of, create, filled, seed};

/// Changes a word in every page of the blocks that [`paged`] created.
fn change_all(segment: &Segment, value: u64) {
    segment
        .write(ShardSet::one(0), |transaction| {
            for root in (0..40).step_by(2) {
                let at = transaction.view().root(0, root);
                for page in 0..if at == 0 { 0 } else { 64 } {
                    transaction.store(0, at + page * 4096 + 8, value)?;
                }
            }
            Ok::<_, Error>(())
        })
        .expect("room in the log");
}

/// Creates a store with twenty blocks of 64 pages each.
fn paged(path: &std::path::Path, capacity: u64) -> Segment {
    let segment = create(path, capacity);
    segment
        .write(ShardSet::one(0), |transaction| {
            for root in (0..40).step_by(2) {
                let at = transaction.allocate(0, 64 * 4096)?;
                transaction.fill_zero(at, 64 * 4096)?;
                transaction.store(0, at, 64 * 4096)?;
                transaction.set_root(0, root, at)?;
            }
            Ok::<_, Error>(())
        })
        .expect("room");
    segment
}

#[test]
fn a_lost_copy_restarts_with_a_larger_stock() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let segment = paged(&directory.path().join("store"), 256 << 20);
    let (mut moments, pages) = (Vec::new(), std::cell::Cell::new(0));
    let (image, last) = segment
        .image(
            || {
                moments.push(pages.get());
                pages.get()
            },
            &mut || {
                pages.set(pages.get() + 1);
                change_all(&segment, pages.get());
            },
        )
        .expect("an image");
    assert!(moments.len() > 1, "{moments:?}");
    assert_eq!(moments.last(), Some(&last));
    for (_, _, bytes) in content_of(&image.view()).expect("a sound image") {
        let word = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
        assert_eq!(word, last);
    }
    check(&segment);
}

#[test]
fn a_store_that_changes_too_fast_to_copy_is_a_clear_error() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    // The free memory is enough for less than half of the pages that change.
    let segment = paged(&directory.path().join("store"), 7 << 20);
    let free = segment.statistics().free;
    let mut pages = 0;
    let result = segment.image(|| (), &mut || {
        pages += 1;
        change_all(&segment, pages);
    });
    let Err(error @ Error::CopyLost { attempts, room }) = result.map(drop) else {
        panic!("an image of a store that was lost");
    };
    assert!(attempts > 1 && room > 0 && room < 2 << 20, "{error}");
    assert!(error.to_string().contains("1 MiB"), "{error}");
    check(&segment);
    assert!(segment.statistics().free >= free);
    // Without concurrent changes, copying succeeds.
    let expected = content(&segment);
    let (image, ()) = segment.image(|| (), &mut || {}).expect("an image");
    assert!(content_of(&image.view()).expect("a sound image") == expected);
}

#[test]
fn a_full_store_is_copied_under_its_locks() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let segment = create(&directory.path().join("store"), 1 << 20);
    let mut root = 0;
    loop {
        let full = segment.write(ShardSet::one(0), |transaction| {
            let at = transaction.allocate(0, 4096)?;
            transaction.fill_zero(at, 4096)?;
            transaction.store(0, at, 4096)?;
            transaction.set_root(0, root, at)
        });
        match full {
            Ok(()) => root += 1,
            Err(Error::OutOfMemory) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(root > 100, "{root}");
    let mut interrupted = 0;
    let (image, locked) = segment
        .image(|| segment.is_locked(1), &mut || interrupted += 1)
        .expect("an image");
    assert!(locked && interrupted == 0, "{interrupted}");
    let view = image.view();
    for root in 0..root {
        assert_eq!(view.word(view.root(0, root)).expect("a word"), 4096);
    }
    assert!(!segment.is_locked(1));
}

#[test]
fn one_copy_is_made_at_a_time() {
    let mut random = fastrand::Rng::with_seed(seed());
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("store");
    let segment = filled(&path, 64 << 20, &mut random);
    let other = Segment::open(&path, true).expect("the same store");
    other.set_patience(Duration::from_millis(1));
    segment.set_patience(Duration::from_millis(1));
    let mut refused = 0;
    let (image, expected) = segment
        .image(|| content(&other), &mut || {
            if refused > 2 {
                return;
            }
            for copier in [&other, &segment] {
                match copier.image(|| (), &mut || {}) {
                    Err(Error::Copying { pid }) => assert_eq!(pid, std::process::id()),
                    result => panic!("{:?}", result.map(drop)),
                }
            }
            refused += 1;
            assert!(!other.free_dead_copy().expect("its owner lives"));
            change(&other, &mut random);
        })
        .expect("an image");
    assert!(refused > 0);
    assert!(content_of(&image.view()).expect("a sound image") == expected);
    other
        .image(|| (), &mut || {})
        .expect("the first one is done");
}
