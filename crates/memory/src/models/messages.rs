//! Loom models of the message ring, and of a subscriber's seat (its futex word).

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

use super::parts::{Broken, Counter, Futex, explore_with_canaries};
use crate::messages::ring::{announce, move_tail, published, still_there};
use crate::messages::seat::{Bits, lie_down, rouse};

/// The size in bytes of a record and of the ring. Each record overwrites the previous one.
const SIZE: u64 = 16;

/// A ring for one record, which consists of two copies of the record's number.
struct Ring<const BEFORE: bool, const AFTER: bool> {
    tail: Counter<BEFORE, AFTER>,
    announced: Counter<BEFORE, AFTER>,
    halves: [AtomicU64; 2],
}

impl<const BEFORE: bool, const AFTER: bool> Ring<BEFORE, AFTER> {
    fn new() -> Self {
        Ring {
            tail: Counter(AtomicU64::new(0)),
            announced: Counter(AtomicU64::new(0)),
            halves: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    /// Appends a record under the lock, in the same order as `write_records`.
    fn append(&self, number: u64, broken: Broken) {
        let end = number * SIZE;
        if broken != Broken::AnnouncesLate {
            announce(&self.announced, end);
        }
        for half in &self.halves {
            half.store(number, Ordering::Relaxed);
        }
        if broken == Broken::AnnouncesLate {
            announce(&self.announced, end);
        }
        move_tail(&self.tail, end);
    }

    /// Copies a record in the same order as `RingReader`. Returns `None` if the reader was lapped.
    fn copy(&self, position: u64) -> Option<[u64; 2]> {
        let halves = [&self.halves[0], &self.halves[1]];
        let pair = halves.map(|half| half.load(Ordering::Relaxed));
        still_there(&self.announced, position, SIZE).then_some(pair)
    }
}

/// A writer wraps around the ring, and a reader follows. Each record that the reader receives is
/// complete and belongs to the requested position.
fn lapped<const BEFORE: bool, const AFTER: bool>(broken: Broken) {
    const RECORDS: u64 = 3;
    let ring = Arc::new(Ring::<BEFORE, AFTER>::new());
    let writer = {
        let ring = ring.clone();
        thread::spawn(move || (1..=RECORDS).for_each(|number| ring.append(number, broken)))
    };
    let mut position = 0;
    for _ in 0..2 {
        let tail = published(&ring.tail);
        if position == tail {
            continue;
        }
        match ring.copy(position) {
            Some(pair) => {
                assert_eq!(pair, [position / SIZE + 1; 2], "a torn record");
                position += SIZE;
            }
            None => position = tail,
        }
    }
    writer.join().expect("no panic");
    let last = (RECORDS - 1) * SIZE;
    assert_eq!(ring.copy(last), Some([RECORDS; 2]), "a torn record");
}

#[test]
fn a_reader_that_is_lapped_gets_no_torn_record() {
    let model = |broken| match broken {
        Broken::NoFenceBeforeChanges => lapped::<false, true>(broken),
        Broken::NoFenceAfterReading => lapped::<true, false>(broken),
        _ => lapped::<true, true>(broken),
    };
    explore_with_canaries(
        "messages::a_reader_that_is_lapped_gets_no_torn_record",
        model,
        &[
            Broken::NoFenceBeforeChanges,
            Broken::NoFenceAfterReading,
            Broken::AnnouncesLate,
        ],
    );
}

/// A seat's futex word, with the kernel's queue of the threads that sleep on it.
struct Seat<const FENCED: bool>(Futex);

impl<const FENCED: bool> Bits for Seat<FENCED> {
    fn seen(&self) -> u32 {
        self.0.word.load(Ordering::Relaxed)
    }

    fn set(&self, bits: u32) -> u32 {
        self.0.word.fetch_or(bits, Ordering::SeqCst)
    }

    fn replace(&self, old: u32, new: u32) -> Result<(), u32> {
        let replaced = self
            .0
            .word
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed);
        replaced.map(drop)
    }

    fn fence() {
        if FENCED {
            fence(Ordering::SeqCst);
        }
    }
}

/// Two publishers send one message each, and a subscriber that sleeps without a timeout receives
/// both. A lost wake would cause a deadlock.
fn awaited<const FENCED: bool>(broken: Broken) {
    const PUBLISHERS: u64 = 2;
    let seat = Arc::new(Seat::<FENCED>(Futex::new(0, broken)));
    let tail = Arc::new(AtomicU64::new(0));
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|_| {
            let (seat, tail) = (seat.clone(), tail.clone());
            thread::spawn(move || {
                // The atomic addition stands in for the ring's lock, which serializes publishers.
                tail.fetch_add(1, Ordering::Release);
                Seat::<FENCED>::fence();
                if rouse(&*seat) != 0 {
                    seat.0.wake_all();
                }
            })
        })
        .collect();
    let mut received = 0;
    while received < PUBLISHERS {
        let now = tail.load(Ordering::Acquire);
        if now > received {
            received = now;
            continue;
        }
        let value = match broken {
            Broken::SleepsUnseen => seat.seen(),
            _ => lie_down(&*seat),
        };
        let look = || tail.load(Ordering::Acquire) > received;
        if broken == Broken::NoLastLook || !look() {
            seat.0.wait(value);
        }
    }
    for publisher in publishers {
        publisher.join().expect("no panic");
    }
}

#[test]
fn a_subscriber_that_sleeps_is_woken() {
    let model = |broken| match broken {
        Broken::NoFenceBeforeWaking => awaited::<false>(broken),
        _ => awaited::<true>(broken),
    };
    explore_with_canaries(
        "messages::a_subscriber_that_sleeps_is_woken",
        model,
        &[
            Broken::NoFenceBeforeWaking,
            Broken::NoLastLook,
            Broken::SleepsUnseen,
        ],
    );
}
