//! Waiting for messages (M4): a seat is a word in the waiter's process entry
//! that whoever has something for the waiter looks at.
//!
//! ```text
//!  31 .. 2              1          0
//! +--------------------+----------+----------+
//! | counts the wakes   | descriptor| threads |
//! +--------------------+----------+----------+
//! ```
//!
//! A waiter sets its bit, looks once more for what it waits for, and sleeps; a
//! waker makes its change, then looks at the word, and pays for a system call
//! only where a bit is set. As a waker can die between the two, nobody sleeps
//! for longer than [`LONGEST_SLEEP`] without looking again.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::mapped::layout::{SLOTS, control, slot};
use crate::mapped::{futex, platform};
use crate::messages::bell;
use crate::messages::polling::Polling;
use crate::processes::lock::Owner;
use crate::processes::patience::is_interrupted;
use crate::segment::{Segment, membership};

/// Some thread sleeps on the word.
const THREADS: u32 = 1;
/// Somebody waits for the seat's descriptor.
const DESCRIPTOR: u32 = 2;
const BITS: u32 = THREADS | DESCRIPTOR;
const ONE_WAKE: u32 = 4;

/// A waiter looks again after this long, woken or not (M4).
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// A seat's word.
pub(crate) trait Bits {
    /// The word, without any order.
    fn seen(&self) -> u32;
    /// Sets bits. Returns what was there.
    fn set(&self, bits: u32) -> u32;
    /// Puts `new` where `old` is; otherwise returns what is there.
    fn replace(&self, old: u32, new: u32) -> Result<(), u32>;
    /// The fence between a change and the look at what the other side changed.
    fn fence();
}

impl Bits for AtomicU32 {
    #[inline(always)]
    fn seen(&self) -> u32 {
        self.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn set(&self, bits: u32) -> u32 {
        self.fetch_or(bits, Ordering::SeqCst)
    }

    #[inline(always)]
    fn replace(&self, old: u32, new: u32) -> Result<(), u32> {
        self.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed)
            .map(drop)
    }

    #[inline(always)]
    fn fence() {
        fence(Ordering::SeqCst);
    }
}

/// A thread is going to sleep. It must look once more for what it waits for, and
/// then sleep only as long as the word is what this returns.
pub(crate) fn lie_down<W: Bits>(word: &W) -> u32 {
    let value = word.set(THREADS) | THREADS;
    W::fence();
    value
}

/// Takes the bits of those who wait, behind a fence behind the change that they
/// wait for. Returns them: who they stand for is to be woken.
pub(crate) fn rouse<W: Bits>(word: &W) -> u32 {
    let mut seen = word.seen();
    while seen & BITS != 0 {
        match word.replace(seen, (seen & !BITS).wrapping_add(ONE_WAKE)) {
            Ok(()) => break,
            Err(now) => seen = now,
        }
    }
    seen & BITS
}

/// How long a thread waits.
#[derive(Clone, Copy, Debug)]
pub struct Patience<'a> {
    /// For how long in all; none is for ever.
    pub timeout: Option<Duration>,
    /// For how long of that it looks again and again before it sleeps.
    pub polling: &'a Polling,
    /// How many of what is waited for were received so far.
    pub progress: u64,
}

/// A seat of some process, as other processes know it: in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeatName(u64);

impl SeatName {
    /// That of nobody, in a slot that there is not: never alive.
    pub const NOBODY: SeatName = SeatName(u64::MAX);

    fn new(slot_index: u64, seat: u64, generation: u64) -> SeatName {
        SeatName(slot_index | seat << 16 | (generation & 0xffff_ffff) << 32)
    }

    /// The name as it is stored.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The name that was stored.
    pub fn from_bits(bits: u64) -> SeatName {
        SeatName(bits)
    }

    pub(crate) fn slot(self) -> u64 {
        self.0 & 0xffff
    }

    pub(crate) fn seat(self) -> u64 {
        self.0 >> 16 & 0xffff
    }

    pub(crate) fn generation(self) -> u64 {
        self.0 >> 32
    }
}

/// A seat of this process. Given back by [`Segment::leave_seat`]; a forked
/// child's copy is none of the child's.
#[derive(Debug)]
pub struct Seat {
    name: SeatName,
}

impl Seat {
    /// How other processes know it.
    pub fn name(&self) -> SeatName {
        self.name
    }
}

impl Segment {
    /// Takes a seat for a waiter of this process.
    ///
    /// # Errors
    /// [`Error::TooManyWaiters`] where all 512 are taken.
    pub fn take_seat(&self) -> Result<Seat, Error> {
        membership::join(self)?;
        let seat = self.process.take_seat().ok_or(Error::TooManyWaiters)?;
        let slot_index = self.process.slot();
        let at = self.mapping.layout().slot(slot_index) + slot::GENERATION;
        let name = SeatName::new(slot_index, seat, self.mapping.load(at));
        // Whoever had it before may have left its bits.
        self.seat_word(name).fetch_and(!BITS, Ordering::Relaxed);
        Ok(Seat { name })
    }

    /// Whether the seat is this process': not that of a process that forked
    /// into this one, nor that of a slot that was let go.
    #[inline]
    pub fn is_seated(&self, seat: &Seat) -> bool {
        self.is_seat_here(seat.name)
    }

    /// Gives a seat back, unless it is not this process'.
    pub fn leave_seat(&self, seat: &Seat) {
        if self.is_seated(seat) {
            self.process.put_seat(seat.name.seat());
        }
    }

    /// The name of one of this process' seats, whoever sits there: for who only wants to be known to live, and where
    /// others may sleep until he [wakes](Self::wake_seat) them. Who has the seat may be woken with them for nothing,
    /// and one who sits down there anew may keep a wake from them (M4).
    ///
    /// # Errors
    /// A read-only store.
    pub fn seat_here(&self, number: u64) -> Result<SeatName, Error> {
        membership::join(self)?;
        let slot_index = self.process.slot();
        let at = self.mapping.layout().slot(slot_index) + slot::GENERATION;
        let seat = number % slot::SEAT_COUNT;
        Ok(SeatName::new(slot_index, seat, self.mapping.load(at)))
    }

    /// Whether a seat is one of this process: not of one that forked into this one.
    pub fn is_seat_here(&self, name: SeatName) -> bool {
        self.process.claimed() && self.process.slot() == name.slot() && !self.seat_is_stale(name)
    }

    fn seat_generation(&self, name: SeatName) -> Option<u64> {
        let known = SLOTS.min(self.mapping.load(control::SLOTS_USED));
        let at = self.mapping.layout().slot(name.slot().min(SLOTS - 1)) + slot::GENERATION;
        let sound = name.slot() < known && name.seat() < slot::SEAT_COUNT;
        sound.then(|| self.mapping.word(at).load(Ordering::Acquire) & 0xffff_ffff)
    }

    fn seat_word(&self, name: SeatName) -> &AtomicU32 {
        let at = self.mapping.layout().seat(name.slot(), name.seat());
        self.mapping.half(at)
    }

    /// Whether another process has the seat's slot now: its owner is dead, as
    /// one look at a word tells. One that is not stale may be dead as well.
    #[inline]
    pub fn seat_is_stale(&self, name: SeatName) -> bool {
        self.seat_generation(name) != Some(name.generation())
    }

    /// Whether the process with that seat lives. What was found out is believed
    /// for 10 milliseconds, so that it costs little to ask.
    #[inline]
    pub fn seat_lives(&self, name: SeatName) -> bool {
        self.seat_lives_at(name, platform::coarse_milliseconds())
    }

    /// [`seat_lives`](Self::seat_lives) for who knows what
    /// [`coarse_milliseconds`](crate::coarse_milliseconds) says now.
    #[inline]
    pub fn seat_lives_at(&self, name: SeatName, now: u64) -> bool {
        if self.seat_is_stale(name) {
            return false;
        }
        if self.process.claimed() && self.process.slot() == name.slot() {
            return true;
        }
        self.found_alive.has(name.slot(), name.generation(), now) || self.ask_for_life(name, now)
    }

    /// [`seat_lives`](Self::seat_lives) that asks the kernel, whatever was found
    /// out before.
    pub fn seat_lives_now(&self, name: SeatName) -> bool {
        let mine = || self.process.claimed() && self.process.slot() == name.slot();
        !self.seat_is_stale(name)
            && (mine() || self.ask_for_life(name, platform::coarse_milliseconds()))
    }

    /// Has [`seat_lives`](Self::seat_lives) ask the kernel about every owner, for a caller that knows of deaths just now.
    pub fn forget_who_lives(&self) {
        self.found_alive.clear();
    }

    #[cold]
    fn ask_for_life(&self, name: SeatName, now: u64) -> bool {
        let owner = Owner::new(name.slot(), name.generation());
        let lives = self.process.alive(&self.mapping, owner);
        if lives {
            self.found_alive.note(name.slot(), name.generation(), now);
        }
        lives
    }

    /// Wakes whoever waits at a seat; to be called after the change that is
    /// waited for. Without waiters it costs a fence and a load.
    #[inline]
    pub fn wake_seat(&self, name: SeatName) {
        self.wake_seats(std::iter::once(name));
    }

    /// Wakes whoever waits at one of the seats: one fence for all, and all who
    /// sleep at once. Woken one by one, the first would take the core of who
    /// wakes the others.
    #[inline]
    pub fn wake_seats(&self, names: impl Iterator<Item = SeatName>) {
        AtomicU32::fence();
        let mut gathered = None;
        for name in names {
            if self.seat_is_stale(name) {
                continue;
            }
            let word = self.seat_word(name);
            if word.seen() & BITS != 0 {
                self.rouse_sleepers(name, word, &mut gathered);
            }
        }
        if let Some(word) = gathered {
            futex::wake_all(word);
        }
    }

    /// Has the threads that sleep at a seat sleep at the word where those to be
    /// woken are gathered. A process that is killed before it wakes them leaves
    /// them as one that was killed before it looked: they look for themselves.
    #[cold]
    fn rouse_sleepers<'w>(
        &self,
        name: SeatName,
        word: &'w AtomicU32,
        gathered: &mut Option<&'w AtomicU32>,
    ) {
        let waited = rouse(word);
        if waited & THREADS != 0 {
            match gathered {
                None => *gathered = Some(word),
                Some(other) => futex::move_all(word, other),
            }
        }
        if waited & DESCRIPTOR != 0 {
            bell::ring(self.path(), name);
        }
    }

    /// From now on the next wake of the seat makes its descriptor readable. The
    /// caller must look once more for what it waits for.
    pub fn arm_seat(&self, seat: &Seat) {
        self.seat_word(seat.name).set(DESCRIPTOR);
        AtomicU32::fence();
    }

    /// Until the seat is armed again, wakes do not make its descriptor readable:
    /// its owner is awake.
    pub fn disarm_seat(&self, seat: &Seat) {
        self.seat_word(seat.name)
            .fetch_and(!DESCRIPTOR, Ordering::Relaxed);
    }

    /// Whether the next wake of the seat makes its descriptor readable.
    pub fn is_armed(&self, seat: &Seat) -> bool {
        self.seat_word(seat.name).load(Ordering::Relaxed) & DESCRIPTOR != 0
    }

    /// Waits at a seat until `is_there` returns true, and returns whether it
    /// did within the patience. The runtime's own lock is released meanwhile
    /// (see [`WaitHook`](crate::WaitHook)), so `is_there` must not need it.
    ///
    /// # Errors
    /// [`Error::Interrupted`] where a signal handler wants to run;
    /// [`Error::Removed`], within two seconds, where the store's file is gone
    /// (M7).
    pub fn wait_at(
        &self,
        seat: SeatName,
        patience: Patience,
        mut is_there: impl FnMut() -> bool,
    ) -> Result<bool, Error> {
        let start = Instant::now();
        let left = |now: Instant| match patience.timeout {
            None => LONGEST_SLEEP,
            Some(timeout) => timeout.saturating_sub(now - start).min(LONGEST_SLEEP),
        };
        let polling = patience.polling;
        let mut window = Some(polling.begin(patience.progress));
        loop {
            let mut found = false;
            let mut block = || {
                let looked = window.take().is_some_and(|window| {
                    let most = left(start).as_nanos() as u64;
                    polling.look(window.min(most), &mut is_there)
                });
                found = looked || self.sleep_at(seat, left(Instant::now()), &mut is_there);
            };
            let mut interrupted = false;
            match self.hook() {
                Some(hook) => {
                    hook.blocked(&mut block);
                    interrupted = !found && is_interrupted(hook);
                }
                None => block(),
            }
            if interrupted {
                return Err(Error::Interrupted);
            }
            if !found {
                self.in_place()?;
            }
            if found || left(Instant::now()).is_zero() {
                polling.end(start.elapsed(), found);
                return Ok(found);
            }
        }
    }

    /// One sleep. Returns whether what is waited for is there.
    fn sleep_at(
        &self,
        seat: SeatName,
        time: Duration,
        is_there: &mut impl FnMut() -> bool,
    ) -> bool {
        let word = self.seat_word(seat);
        let value = lie_down(word);
        if is_there() {
            return true;
        }
        if !time.is_zero() {
            futex::wait(word, value, time);
        }
        is_there()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word() {
        let name = SeatName::new(4095, 511, 0x1_2345_6789);
        assert_eq!((name.slot(), name.seat()), (4095, 511));
        assert_eq!(name.generation(), 0x2345_6789);
        assert_eq!(SeatName::from_bits(name.bits()), name);
    }
}
