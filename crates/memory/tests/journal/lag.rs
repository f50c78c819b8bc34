//! The age of the oldest change that is not durable.

use std::time::{Duration, Instant};

use undercroft_memory::{Segment, local_disk};

use crate::store::{OwnDisk, create_journaled, put};

/// The accuracy of the clock that the store uses.
const ACCURACY: Duration = Duration::from_millis(20);
const AGE: Duration = Duration::from_millis(100);

fn lag(segment: &Segment) -> Duration {
    Duration::from_millis(segment.journal().expect("a journal").lag_age)
}

/// Waits until the lag exceeds an age, and returns it.
fn wait_for(segment: &Segment, age: Duration) -> Duration {
    loop {
        let found = lag(segment);
        if found > age {
            return found;
        }
        std::thread::yield_now();
    }
}

#[test]
fn lag_is_the_age_of_the_oldest_change_that_is_not_durable() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let (mut segment, _) = create_journaled(directory.path());
    // No other thread syncs the journal.
    segment.set_disk(Box::new(OwnDisk(local_disk())));
    let change = |mark| put(&segment, 0, 0, 64, mark).expect("a change");
    change(1);
    segment.make_durable().expect("a durable journal");
    assert_eq!(lag(&segment), Duration::ZERO);
    // The time since the last sync does not count.
    let idle = Instant::now();
    while idle.elapsed() < 3 * AGE {
        std::thread::yield_now();
    }
    let start = Instant::now();
    change(2);
    let found = wait_for(&segment, AGE);
    assert!(found <= start.elapsed() + ACCURACY, "{found:?}");
    // Later changes do not hide the first one.
    change(3);
    assert!(lag(&segment) >= found);
    wait_for(&segment, 2 * AGE);
    let synced = Instant::now();
    segment.make_durable().expect("a durable journal");
    assert_eq!(lag(&segment), Duration::ZERO);
    change(4);
    assert!(lag(&segment) <= synced.elapsed() + ACCURACY);
}
