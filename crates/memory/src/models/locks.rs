//! Loom models of the lock (including its seizure from a dead owner), of slot reuse, and of the
//! version counter (including the fallback to the lock).

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;

use super::parts::{Broken, Counter, Futex, Patient, WAITERS, explore_with_canaries};
use crate::processes::lock::{self, Next, Owner, Surroundings};
use crate::segment::counter;

/// A process table entry: its generation, and whether the kernel's lock on it is held.
struct Slot {
    generation: AtomicU64,
    held: AtomicBool,
}

impl Slot {
    fn new(generation: u64, held: bool) -> Slot {
        Slot {
            generation: AtomicU64::new(generation),
            held: AtomicBool::new(held),
        }
    }

    /// Claims the slot in the same way as `Process::take_slot`.
    fn claim(&self, broken: Broken) -> u64 {
        self.held.store(true, Ordering::Release);
        let next = match broken {
            Broken::NoGenerations => self.generation.load(Ordering::Relaxed),
            _ => self.generation.load(Ordering::Relaxed) + 1,
        };
        self.generation.store(next, Ordering::Release);
        next
    }
}

/// Checks the owner's liveness whenever the lock is held, as `Waiter` does when a check is due.
/// Times out after a few attempts.
struct Probing<'a> {
    me: Owner,
    slots: &'a [Slot],
    patience: u32,
    broken: Broken,
}

impl Surroundings<Futex> for Probing<'_> {
    type Refusal = ();

    fn next(&mut self, seen: u32) -> Next<()> {
        let owner = Owner::of(seen);
        let slot = &self.slots[owner.slot() as usize];
        let superseded = !owner.is_of_generation(slot.generation.load(Ordering::Acquire));
        // Without generations, a process can recognize only former owners of its own slot.
        let former = self.broken == Broken::NoGenerations && owner.slot() == self.me.slot();
        let dead = superseded || former || !slot.held.load(Ordering::Acquire);
        if dead || self.broken == Broken::TakesOverByTime {
            return Next::TakeOver;
        }
        if self.patience == 0 {
            return Next::GiveUp(());
        }
        self.patience -= 1;
        thread::yield_now();
        Next::Spin
    }

    fn sleep(&mut self, _word: &Futex, _value: u32) {}

    fn wake(&mut self, word: &Futex) {
        word.wake_one();
    }
}

/// The data that the lock protects: a number in two halves, and the old value of a half, which
/// serves as an undo log. loom fails if two threads access the data simultaneously.
#[derive(Default)]
struct Guarded {
    halves: [u64; 2],
    log: Option<u64>,
    recoveries: u32,
}

impl Guarded {
    /// Performs half of a transaction, as if the process died in the middle of it.
    fn change_half(&mut self) {
        self.log = Some(self.halves[0]);
        self.halves[0] += 1;
    }

    /// Recovers a dead owner's change (W3), then performs a complete transaction.
    fn change(&mut self, broken: Broken) {
        if broken != Broken::TrustsTheLock
            && let Some(old) = self.log.take()
        {
            self.halves[0] = old;
            self.recoveries += 1;
        }
        assert_eq!(self.halves[0], self.halves[1], "a torn number");
        self.halves = self.halves.map(|half| half + 1);
    }
}

/// Three threads contend for one lock. Each acquires the lock exclusively, and every sleeper is
/// woken.
fn sleepers(broken: Broken) {
    let lock = Arc::new(Futex::new(lock::FREE, broken));
    let guarded = Arc::new(UnsafeCell::new(Guarded::default()));
    let contend = |slot: u64| {
        let (lock, guarded) = (lock.clone(), guarded.clone());
        move || {
            let me = Owner::new(slot, 1);
            if !lock::try_acquire(&*lock, me) {
                assert!(lock::acquire(&*lock, me, &mut Patient).is_ok());
            }
            // SAFETY: this thread holds the lock, and loom checks that no other thread accesses the
            // data.
            guarded.with_mut(|guarded| unsafe { (*guarded).change(broken) });
            lock.release();
        }
    };
    let others = [thread::spawn(contend(0)), thread::spawn(contend(1))];
    contend(2)();
    for other in others {
        other.join().expect("no panic");
    }
    // SAFETY: all other threads have been joined.
    guarded.with(|guarded| unsafe { assert_eq!((*guarded).halves, [3, 3]) });
}

#[test]
fn every_sleeper_is_woken() {
    explore_with_canaries(
        "locks::every_sleeper_is_woken",
        sleepers,
        &[Broken::ForgetsSleepers],
    );
}

/// The owner dies in the middle of a change while two other processes wait for the lock. Exactly
/// one of them recovers the change, and both do their work.
fn takeover(broken: Broken) {
    let slots = Arc::new([0, 1, 2].map(|_| Slot::new(1, true)));
    let dying = Owner::new(0, 1);
    let lock = Arc::new(Futex::new(dying.bits(), broken));
    let guarded = Arc::new(UnsafeCell::new(Guarded::default()));
    let contend = |slot: u64| {
        let (lock, guarded, slots) = (lock.clone(), guarded.clone(), slots.clone());
        move || {
            let me = Owner::new(slot, 1);
            let mut around = Probing {
                me,
                slots: &*slots,
                patience: 2,
                broken,
            };
            let taken = lock::acquire(&*lock, me, &mut around).is_ok();
            if taken {
                // SAFETY: this thread acquired the lock, and loom checks that no other thread
                // accesses the data.
                guarded.with_mut(|guarded| unsafe { (*guarded).change(broken) });
                lock.release();
            }
            u64::from(taken)
        }
    };
    let others = [thread::spawn(contend(1)), thread::spawn(contend(2))];
    // SAFETY: the dying owner still holds the lock, and loom checks that no other thread accesses
    // the data.
    guarded.with_mut(|guarded| unsafe { (*guarded).change_half() });
    // The kernel releases the slot only after the last store of the process's last thread.
    slots[0].held.store(false, Ordering::Release);
    let changes: u64 = others
        .into_iter()
        .map(|other| other.join().expect("no panic"))
        .sum();
    // SAFETY: every other thread has been joined.
    guarded.with(|guarded| unsafe {
        assert_eq!((*guarded).halves[1], changes);
        assert_eq!((*guarded).recoveries, u32::from(changes > 0));
    });
}

#[test]
fn one_contender_takes_over_from_the_dead() {
    explore_with_canaries(
        "locks::one_contender_takes_over_from_the_dead",
        takeover,
        &[
            Broken::TakesOverBlindly,
            Broken::TakesOverByTime,
            Broken::TrustsTheLock,
        ],
    );
}

/// A process died while it held the lock. A waiter examines the lock word of the dead owner while
/// another process claims the dead owner's slot and acquires the same lock.
fn reuse(broken: Broken) {
    let slots = Arc::new([Slot::new(1, false), Slot::new(1, true)]);
    let dead = Owner::new(0, 1);
    // The waiters bit is set because a thread slept earlier. The old and new words therefore differ
    // only in the generation.
    let lock = Arc::new(Futex::new(dead.bits() | WAITERS, broken));
    let guarded = Arc::new(UnsafeCell::new(Guarded {
        halves: [1, 0],
        log: Some(0),
        recoveries: 0,
    }));
    let contend = |slot: usize| {
        let (lock, guarded, slots) = (lock.clone(), guarded.clone(), slots.clone());
        move || {
            let generation = match slot {
                0 => slots[0].claim(broken),
                _ => 1,
            };
            let me = Owner::new(slot as u64, generation);
            let mut around = Probing {
                me,
                slots: &*slots,
                patience: 3,
                broken,
            };
            let taken = lock::acquire(&*lock, me, &mut around).is_ok();
            if taken {
                // SAFETY: this thread acquired the lock, and loom checks that no other thread
                // accesses the data.
                guarded.with_mut(|guarded| unsafe { (*guarded).change(broken) });
                lock.release();
            }
            u64::from(taken)
        }
    };
    let claimer = thread::spawn(contend(0));
    let changes = contend(1)() + claimer.join().expect("no panic");
    // SAFETY: the other thread has been joined.
    guarded.with(|guarded| unsafe {
        assert!(changes > 0, "the first process to look takes over");
        assert_eq!((*guarded).halves, [changes; 2]);
        assert_eq!((*guarded).recoveries, 1);
    });
}

#[test]
fn a_stale_waiter_does_not_harm_a_reclaimed_slot() {
    explore_with_canaries(
        "locks::a_stale_waiter_does_not_harm_a_reclaimed_slot",
        reuse,
        &[Broken::NoGenerations, Broken::RelaxedWord],
    );
}

/// A writer runs alongside a reader that makes two attempts and then acquires the lock, as
/// `Segment::read` does. The reader never returns two halves that differ.
fn torn<const BEFORE: bool, const AFTER: bool>(broken: Broken) {
    const ATTEMPTS: u32 = 2;
    let lock = Arc::new(Futex::new(lock::FREE, broken));
    let version = Arc::new(Counter::<BEFORE, AFTER>(AtomicU64::new(0)));
    let halves = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let writer = {
        let (lock, version, halves) = (lock.clone(), version.clone(), halves.clone());
        thread::spawn(move || {
            for value in 1..=2 {
                let me = Owner::new(0, 1);
                assert!(lock::acquire(&*lock, me, &mut Patient).is_ok());
                counter::make_odd(&*version);
                counter::start_of_changes::<Counter<BEFORE, AFTER>>();
                for half in &*halves {
                    half.store(value, Ordering::Relaxed);
                }
                counter::make_even(&*version);
                lock.release();
            }
        })
    };
    let read = || [&halves[0], &halves[1]].map(|half| half.load(Ordering::Relaxed));
    let mut found = None;
    for attempt in 1..=ATTEMPTS {
        let noted = counter::note(&*version);
        let trusted = broken == Broken::NoFallback && attempt == ATTEMPTS;
        if noted % 2 == 0 || trusted {
            let pair = read();
            counter::end_of_reading::<Counter<BEFORE, AFTER>>();
            if counter::unchanged(&*version, noted) || trusted {
                found = Some(pair);
                break;
            }
        }
    }
    let [first, second] = found.unwrap_or_else(|| {
        assert!(lock::acquire(&*lock, Owner::new(1, 1), &mut Patient).is_ok());
        let pair = read();
        lock.release();
        pair
    });
    assert_eq!(first, second, "a torn pair");
    writer.join().expect("no panic");
}

#[test]
fn a_reader_never_returns_a_torn_pair() {
    let model = |broken| match broken {
        Broken::NoFenceBeforeChanges => torn::<false, true>(broken),
        Broken::NoFenceAfterReading => torn::<true, false>(broken),
        _ => torn::<true, true>(broken),
    };
    explore_with_canaries(
        "locks::a_reader_never_returns_a_torn_pair",
        model,
        &[
            Broken::NoFenceBeforeChanges,
            Broken::NoFenceAfterReading,
            Broken::NoFallback,
        ],
    );
}
