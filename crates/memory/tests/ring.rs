//! Compares the message ring with a naive list: which messages readers receive, what they learn
//! after being lapped, and what a dying writer leaves.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use undercroft_memory::fault::{die_after, steps_taken};
use undercroft_memory::layout::record;
use undercroft_memory::{
    Error, Initially, Look, Options, Patience, Polling, RingReader, Segment, counter_of,
};

const RING: u64 = 64 << 10;

fn segment(path: &Path) -> Segment {
    let options = Options {
        capacity: Some(4 << 20),
        shards: Some(1),
        ring: Some(RING),
    };
    Segment::open_or_create(path, &options, Initially::default()).expect("a store")
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory")
}

fn seed() -> u64 {
    let given = std::env::var("UNDERCROFT_SEED").ok();
    let seed = given.map_or_else(
        || std::process::id().into(),
        |seed| seed.parse().expect("UNDERCROFT_SEED is a number"),
    );
    println!("seed {seed}");
    seed
}

/// A xorshift generator. The same seed always yields the same numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// A message as it was appended: its kind, hash, name and body.
type Message = (u8, u64, Vec<u8>, Vec<u8>);

/// A reader, with its position in the list of all appended messages.
#[derive(Default)]
struct Reader {
    ring: RingReader,
    /// The number of messages before the reader's position, in total and per counter.
    behind: u64,
    counts: HashMap<usize, u64>,
}

/// The result of one step of a reader.
enum Met {
    End,
    Message(Message),
    Lapped,
}

impl Reader {
    fn step(&mut self, segment: &Segment) -> Met {
        let found = match self.ring.look(segment).expect("a sound ring") {
            Look::End => return Met::End,
            Look::Lapped => return Met::Lapped,
            Look::Record(found) => found,
        };
        if !self.ring.take(segment, &found).expect("a sound ring") {
            return Met::Lapped;
        }
        let (name, body) = (self.ring.name().to_vec(), self.ring.body().to_vec());
        self.behind += 1;
        assert_eq!(found.number, self.behind);
        let count = self.counts.entry(counter_of(found.hash)).or_default();
        *count += 1;
        assert_eq!(found.count, *count, "of counter {}", counter_of(found.hash));
        Met::Message((found.kind, found.hash, name, body))
    }

    /// Skips to the newest message. Returns the number of messages missed.
    fn skip(&mut self, segment: &Segment, hashes: &[u64]) -> u64 {
        let counts = segment.ring_counts(|counts| {
            let each: Vec<u64> = hashes.iter().map(|&hash| counts.count(hash)).collect();
            (counts.tail, counts.records, each)
        });
        let (tail, records, each) = counts.expect("a sound ring");
        let missed = records - self.behind;
        self.ring.go_to(tail);
        self.behind = records;
        for (&hash, count) in hashes.iter().zip(each) {
            self.counts.insert(counter_of(hash), count);
        }
        missed
    }
}

fn sound(segment: &Segment) {
    let report = segment.check(|_, _, _, _| ()).expect("a check");
    assert_eq!(report.problems, Vec::<String>::new());
}

#[test]
fn readers_get_every_message_or_learn_how_many_they_missed() {
    let mut random = Random(seed() | 1);
    let directory = directory();
    let segment = segment(&directory.path().join("store"));
    // The last two hashes select the same counter.
    let hashes = [1, 2, 3, 3 + (1 << 12)];
    let mut all: Vec<Message> = Vec::new();
    let mut readers: Vec<Reader> = (0..4).map(|_| Reader::default()).collect();
    let (mut missed, mut lapped) = (0, 0);
    for _ in 0..20_000 {
        if random.below(3) > 0 {
            let hash = hashes[random.below(4) as usize];
            let length = match random.below(50) {
                0 => random.below(segment.record_max() - 100),
                1..10 => 0,
                _ => random.below(300),
            };
            let name = vec![hash as u8; random.below(20) as usize];
            let body = vec![all.len() as u8; length as usize];
            let kind = random.below(256) as u8;
            segment.append(kind, hash, &name, &body).expect("room");
            all.push((kind, hash, name, body));
            continue;
        }
        let which = random.below(4) as usize;
        for _ in 0..random.below(1 << (which * 3)) {
            let reader = &mut readers[which];
            let expected = all.get(reader.behind as usize);
            match reader.step(&segment) {
                Met::End => {
                    assert!(expected.is_none(), "{} of {}", reader.behind, all.len());
                    break;
                }
                Met::Message(message) => assert_eq!(Some(&message), expected),
                Met::Lapped => {
                    let left = &all[reader.behind as usize..];
                    let bytes = left.iter().map(|(.., name, body)| {
                        record::NAME as usize
                            + name.len().next_multiple_of(8)
                            + body.len().next_multiple_of(8)
                    });
                    assert!(bytes.sum::<usize>() as u64 > RING, "not a ring behind");
                    assert_eq!(reader.skip(&segment, &hashes), left.len() as u64);
                    missed += left.len();
                    lapped += 1;
                }
            }
        }
    }
    assert!(
        lapped > 3 && missed > 100,
        "{lapped} times, {missed} messages"
    );
    sound(&segment);
}

#[test]
fn a_new_ring_is_empty_and_takes_no_memory() {
    let directory = directory();
    let segment = segment(&directory.path().join("store"));
    assert_eq!(segment.ring_reserved(), 0);
    assert!(matches!(RingReader::at(0).look(&segment), Ok(Look::End)));
    let counts = segment.ring_counts(|counts| (counts.tail, counts.records, counts.count(5)));
    assert_eq!(counts.expect("a sound ring"), (0, 0, 0));
    segment.append(0, 0, b"", b"").expect("room");
    assert_eq!(segment.ring_reserved(), RING);
    sound(&segment);
}

#[test]
fn the_longest_message_fits_and_a_longer_one_is_refused() {
    let directory = directory();
    let segment = segment(&directory.path().join("store"));
    let longest = vec![7; segment.record_max() as usize - 3];
    for _ in 0..9 {
        segment.append(1, 2, b"abc", &longest).expect("room");
    }
    let error = segment
        .append(1, 2, b"abcd", &longest)
        .expect_err("too long");
    assert!(matches!(error, Error::MessageTooLong { length, most }
        if length == most + 1 && most == segment.record_max()));
    let mut reader = Reader::default();
    assert!(matches!(reader.step(&segment), Met::Lapped));
    assert_eq!(reader.skip(&segment, &[2]), 9);
    sound(&segment);
}

/// A writer dies at each step of appending one message or a batch of three, in a ring that is new,
/// half full or wrapping around. Afterwards, either all of the messages exist and are counted, or
/// none exists.
#[test]
fn a_writer_that_dies_leaves_all_its_messages_or_none() {
    let mut deaths = 0;
    for (before, batch) in [0, 5, 200, 400]
        .map(|before| [(before, 1), (before, 3)])
        .concat()
    {
        for steps in 0.. {
            let directory = directory();
            let path = directory.path().join("store");
            let victim = segment(&path);
            let heir = segment(&path);
            let append = |segment: &Segment, first: u64, count: u64| {
                let body = |number| vec![number as u8; 150 + (number % 5) as usize * 8];
                let bodies: Vec<Vec<u8>> = (first..first + count).map(body).collect();
                let bodies: Vec<&[u8]> = bodies.iter().map(Vec::as_slice).collect();
                let appended = segment.append_all(3, first % 7, b"name", &bodies);
                appended.expect("room");
            };
            (0..before).for_each(|number| append(&heir, number, 1));
            let start = heir.ring_tail();
            let died = die_after(steps, || append(&victim, before, batch)).is_none();
            if died {
                victim.abandon();
                deaths += 1;
            }
            let there = if heir.ring_tail() > start { batch } else { 0 };
            assert!(died || there == batch);
            // The next message must overwrite an unfinished message.
            append(&heir, before + there, 1);
            let total = before + there + 1;
            let counted = heir.ring_counts(|counts| {
                let each: u64 = (0..7).map(|hash| counts.count(hash)).sum();
                (counts.records, each)
            });
            assert_eq!(counted.expect("a sound ring"), (total, total));
            let mut reader = Reader {
                ring: RingReader::at(start),
                behind: before,
                counts: (0..7)
                    .map(|hash| (hash, (before + 6 - hash as u64) / 7))
                    .collect(),
            };
            let first_of = |number: u64| match number < before + there {
                true => before,
                false => number,
            };
            for number in before..total {
                let Met::Message((3, hash, name, body)) = reader.step(&heir) else {
                    panic!("expected message {number} of {total}, dead after {steps} steps");
                };
                assert_eq!(
                    (hash, &name[..], body[0]),
                    (first_of(number) % 7, &b"name"[..], number as u8)
                );
            }
            assert!(matches!(reader.step(&heir), Met::End));
            sound(&heir);
            if !died {
                break;
            }
        }
    }
    assert!(deaths > 40, "{deaths} deaths");
    assert!(steps_taken() > 0);
}

/// Writers append at full speed while readers check every byte, so that a torn copy is detected.
#[test]
fn no_reader_sees_a_torn_message() {
    let directory = directory();
    let path = directory.path().join("store");
    let done = AtomicBool::new(false);
    let (seen, laps) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let segment = segment(&path);
                    let mut reader = Reader::default();
                    let mut rounds = 0_u64;
                    let hashes: Vec<u64> = (0..16).collect();
                    loop {
                        let last = done.load(Ordering::Acquire);
                        match reader.step(&segment) {
                            Met::End if last => return,
                            Met::End => std::thread::yield_now(),
                            Met::Message((_, hash, name, body)) => {
                                seen.fetch_add(1, Ordering::Relaxed);
                                assert!(name.iter().chain(&body).all(|&b| u64::from(b) == hash));
                            }
                            Met::Lapped => {
                                laps.fetch_add(1, Ordering::Relaxed);
                                reader.skip(&segment, &hashes);
                            }
                        }
                        rounds += 1;
                        if rounds.is_multiple_of(5000) {
                            // Yield to the readers occasionally: they should be lapped only now and
                            // then.
                            std::thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let writers: Vec<_> = (0..2_u64)
            .map(|writer| {
                let (path, seen) = (&path, &seen);
                scope.spawn(move || {
                    let segment = segment(path);
                    let mut random = Random(writer + 1);
                    for round in 0_u64.. {
                        if round >= 30_000 && seen.load(Ordering::Relaxed) >= 1000 {
                            break;
                        }
                        let hash = random.below(16);
                        let length = random.below(400) as usize;
                        let body = vec![hash as u8; length];
                        segment
                            .append(0, hash, &body[..length / 3], &body)
                            .expect("room");
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().expect("no panic");
        }
        done.store(true, Ordering::Release);
        for reader in readers {
            reader.join().expect("no panic");
        }
    });
    println!("{seen:?} messages seen, lapped {laps:?} times");
    sound(&segment(&path));
}

#[test]
fn a_waiter_is_woken_from_sleep_and_through_its_descriptor() {
    use poll::readable;
    let directory = directory();
    let path = directory.path().join("store");
    let (waiter, waker) = (segment(&path), segment(&path));
    let seat = waiter.take_seat().expect("a seat");
    assert!(waker.seat_lives(seat.name()) && waiter.is_seated(&seat));
    let flag = AtomicBool::new(false);
    let polling = Polling::new(Duration::ZERO);
    let patience = |timeout| Patience {
        timeout,
        polling: &polling,
        progress: 0,
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            flag.store(true, Ordering::Release);
            waker.wake_seat(seat.name());
        });
        let there = || flag.load(Ordering::Acquire);
        assert!(
            waiter
                .wait_at(seat.name(), patience(None), there)
                .expect("no signal")
        );
    });
    let short = Some(Duration::from_millis(1));
    assert!(
        !waiter
            .wait_at(seat.name(), patience(short), || false)
            .expect("no signal")
    );

    let bell = waiter.bell(&seat).expect("a socket");
    bell.clear();
    waker.wake_seat(seat.name());
    waiter.arm_seat(&seat);
    waker.wake_seat(seat.name());
    assert!(readable(&bell), "woken");
    bell.clear();
    // The timer compensates for a lost wake.
    assert!(readable(&bell), "by time");
    bell.remove();
    waiter.leave_seat(&seat);
    let again = waiter.take_seat().expect("a seat");
    assert_eq!(again.name(), seat.name(), "the seat is free again");
    waiter.abandon();
    assert!(!waiter.is_seated(&again));
    // The result of a recent liveness check stays valid for a moment.
    while waker.seat_lives(again.name()) {
        std::thread::yield_now();
    }
}

#[test]
fn bells_work_for_a_store_with_a_long_path() {
    let directory = directory();
    let deep = directory.path().join("d".repeat(120));
    std::fs::create_dir(&deep).expect("a directory");
    let segment = segment(&deep.join("store"));
    let seat = segment.take_seat().expect("a seat");
    let bell = segment.bell(&seat).expect("a socket");
    bell.clear();
    segment.arm_seat(&seat);
    segment.wake_seat(seat.name());
    assert!(poll::readable(&bell));
}

/// Waits for a descriptor with poll(2).
mod poll {
    use std::os::fd::{AsFd, AsRawFd};

    /// Waits until the descriptor is readable, for at most a minute.
    pub(super) fn readable(descriptor: &impl AsFd) -> bool {
        let mut request = libc::pollfd {
            fd: descriptor.as_fd().as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: the argument is one writable request.
        unsafe { libc::poll(&mut request, 1, 60_000) == 1 }
    }
}
