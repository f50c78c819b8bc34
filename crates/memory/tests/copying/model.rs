//! Makes random changes between any two pages of a copy, and compares the copy with the content at
//! its moment. Also tests that every copy contains the same sum while threads move amounts between
//! words.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use undercroft_memory::{Error, Segment, ShardSet};

use crate::objects::{ROOTS, SHARDS, change, check, content, content_of, create, filled, seed};

#[test]
fn an_image_shows_one_moment_despite_changes_between_its_pages() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("store");
    let segment = filled(&path, 256 << 20, &mut random);
    let other = Segment::open(&path, true).expect("the same store");
    let mut objects = 0;
    for round in 0..40 {
        let (mut pages, every) = (0, random.u32(1..20));
        let (image, expected) = segment
            .image(
                // The callback for the copy's moment runs again if so much changed that the copy
                // was lost.
                || content(&segment),
                &mut || {
                    pages += 1;
                    if random.u32(..every) == 0 {
                        change(&other, &mut random);
                    }
                },
            )
            .expect("an image");
        objects += expected.len();
        assert!(pages > 100, "round {round}: {pages} pages");
        let found = content_of(&image.view()).expect("a sound image");
        assert_eq!(found.len(), expected.len(), "round {round}");
        assert!(found == expected, "round {round}: another content");
        assert_ne!(content(&other).len(), 0);
        check(&segment);
        for _ in 0..100 {
            change(&other, &mut random);
        }
    }
    // By chance, a round may have few objects, but most rounds have many.
    assert!(objects > 40 * 20, "{objects} objects in 40 rounds");
}

/// Threads move an amount between words in different shards, and each word is on a separate page.
#[test]
fn a_sum_over_all_shards_is_the_same_in_every_image() {
    const WORDS: usize = 40;
    const EACH: u64 = 1000;
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let segment = create(&directory.path().join("store"), 256 << 20);
    segment
        .write(segment.all_shards(), |transaction| {
            for shard in 0..SHARDS {
                for root in 0..WORDS {
                    let at = transaction.allocate(shard, 2 * 4096)?;
                    transaction.fill(at, &EACH.to_le_bytes())?;
                    transaction.set_root(shard, root, at)?;
                }
            }
            Ok::<_, Error>(())
        })
        .expect("room");
    let (done, moved) = (AtomicBool::new(false), AtomicU64::new(0));
    let transfer = |random: &mut fastrand::Rng| {
        let (from, to) = (random.usize(..SHARDS), random.usize(..SHARDS));
        let (first, second) = (random.usize(..WORDS), random.usize(..WORDS));
        let both: ShardSet = [from, to].into_iter().collect();
        let amount = random.u64(1..50);
        segment.write(both, |transaction| {
            let view = transaction.view();
            let (source, target) = (view.root(from, first), view.root(to, second));
            let there = view.word(source)?;
            if source == target || there < amount {
                return Ok::<_, Error>(());
            }
            transaction.store(from, source, there - amount)?;
            // Move the word to fresh memory, so that pages are also allocated and freed.
            let there = transaction.view().word(target)?;
            let at = transaction.allocate(to, 2 * 4096)?;
            transaction.fill(at, &(there + amount).to_le_bytes())?;
            transaction.free(to, target);
            transaction.set_root(to, second, at)
        })
    };
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (done, moved, transfer) = (&done, &moved, &transfer);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                while !done.load(Ordering::Relaxed) {
                    transfer(&mut random).expect("room");
                    moved.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 0..200 {
            let before = moved.load(Ordering::Relaxed);
            while moved.load(Ordering::Relaxed) < before + 20 {
                std::thread::yield_now();
            }
            let (image, ()) = segment.image(|| (), &mut || {}).expect("an image");
            let view = image.view();
            let mut sum = 0;
            for shard in 0..SHARDS {
                for root in 0..WORDS {
                    sum += view.word(view.root(shard, root)).expect("a word");
                }
            }
            assert_eq!(sum, (SHARDS * WORDS) as u64 * EACH, "round {round}");
        }
        done.store(true, Ordering::Relaxed);
    });
    const { assert!(WORDS <= ROOTS) };
}
