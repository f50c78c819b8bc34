//! Waiters (M4): taking a seat, sleeping there, waking those who sleep at others.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::mapped::layout::{SLOTS, control, slot};
use crate::mapped::{futex, platform};
use crate::messages::bell;
use crate::messages::polling::Polling;
use crate::messages::seat::{BITS, Bits, DESCRIPTOR, Seat, SeatName, THREADS, lie_down, rouse};
use crate::processes::lock::Owner;
use crate::processes::patience::is_interrupted;
use crate::segment::{Segment, membership};

/// A waiter looks again after this long, woken or not (M4).
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

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
        word(self, name).fetch_and(!BITS, Ordering::Relaxed);
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

    /// Whether another process has the seat's slot now: its owner is dead, as
    /// one look at a word tells. One that is not stale may be dead as well.
    #[inline]
    pub fn seat_is_stale(&self, name: SeatName) -> bool {
        generation(self, name) != Some(name.generation())
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
        self.found_alive.has(name.slot(), name.generation(), now) || ask_for_life(self, name, now)
    }

    /// [`seat_lives`](Self::seat_lives) that asks the kernel, whatever was found
    /// out before.
    pub fn seat_lives_now(&self, name: SeatName) -> bool {
        let mine = || self.process.claimed() && self.process.slot() == name.slot();
        !self.seat_is_stale(name)
            && (mine() || ask_for_life(self, name, platform::coarse_milliseconds()))
    }

    /// Has [`seat_lives`](Self::seat_lives) ask the kernel about every owner, for a caller that knows of deaths just now.
    pub fn forget_who_lives(&self) {
        self.found_alive.clear();
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
            let word = word(self, name);
            if word.seen() & BITS != 0 {
                rouse_sleepers(self, name, word, &mut gathered);
            }
        }
        if let Some(word) = gathered {
            futex::wake_all(word);
        }
    }

    /// From now on the next wake of the seat makes its descriptor readable. The
    /// caller must look once more for what it waits for.
    pub fn arm_seat(&self, seat: &Seat) {
        word(self, seat.name).set(DESCRIPTOR);
        AtomicU32::fence();
    }

    /// Until the seat is armed again, wakes do not make its descriptor readable:
    /// its owner is awake.
    pub fn disarm_seat(&self, seat: &Seat) {
        word(self, seat.name).fetch_and(!DESCRIPTOR, Ordering::Relaxed);
    }

    /// Whether the next wake of the seat makes its descriptor readable.
    pub fn is_armed(&self, seat: &Seat) -> bool {
        word(self, seat.name).load(Ordering::Relaxed) & DESCRIPTOR != 0
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
                found = looked || sleep_at(self, seat, left(Instant::now()), &mut is_there);
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
}

/// The generation of a seat's slot; none where there is no such seat.
fn generation(segment: &Segment, name: SeatName) -> Option<u64> {
    let known = SLOTS.min(segment.mapping.load(control::SLOTS_USED));
    let at = segment.mapping.layout().slot(name.slot().min(SLOTS - 1)) + slot::GENERATION;
    let sound = name.slot() < known && name.seat() < slot::SEAT_COUNT;
    sound.then(|| segment.mapping.word(at).load(Ordering::Acquire) & 0xffff_ffff)
}

/// The word of a seat.
fn word(segment: &Segment, name: SeatName) -> &AtomicU32 {
    let at = segment.mapping.layout().seat(name.slot(), name.seat());
    segment.mapping.half(at)
}

/// Asks the kernel whether the process with a seat lives, and notes it where it does.
#[cold]
fn ask_for_life(segment: &Segment, name: SeatName, now: u64) -> bool {
    let owner = Owner::new(name.slot(), name.generation());
    let lives = segment.process.alive(&segment.mapping, owner);
    if lives {
        segment
            .found_alive
            .note(name.slot(), name.generation(), now);
    }
    lives
}

/// Has the threads that sleep at a seat sleep at the word where those to be
/// woken are gathered. A process that is killed before it wakes them leaves
/// them as one that was killed before it looked: they look for themselves.
#[cold]
fn rouse_sleepers<'w>(
    segment: &Segment,
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
        bell::ring(segment.path(), name);
    }
}

/// One sleep. Returns whether what is waited for is there.
fn sleep_at(
    segment: &Segment,
    seat: SeatName,
    time: Duration,
    is_there: &mut impl FnMut() -> bool,
) -> bool {
    let word = word(segment, seat);
    let value = lie_down(word);
    if is_there() {
        return true;
    }
    if !time.is_zero() {
        futex::wait(word, value, time);
    }
    is_there()
}
