//! Waiters (M4): reserving a seat (a futex word in the process table), sleeping at it, and waking
//! waiters at other seats.

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

/// The maximum duration of a sleep. A waiter that is not woken then checks again (M4).
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// The limits on a thread's wait at a seat: how long it waits, and how long it polls first.
#[derive(Clone, Copy, Debug)]
pub struct Patience<'a> {
    /// The total time to wait. `None` waits forever.
    pub timeout: Option<Duration>,
    /// How long the thread polls before it sleeps.
    pub polling: &'a Polling,
    /// The number of awaited items received so far.
    pub progress: u64,
}

impl Segment {
    /// Reserves a seat for a waiter of this process.
    ///
    /// # Errors
    /// Returns [`Error::TooManyWaiters`] if all 512 seats are in use.
    pub fn take_seat(&self) -> Result<Seat, Error> {
        membership::join(self)?;
        let seat = self.process.take_seat().ok_or(Error::TooManyWaiters)?;
        let slot_index = self.process.slot();
        let at = self.mapping.layout().slot(slot_index) + slot::GENERATION;
        let name = SeatName::new(slot_index, seat, self.mapping.load(at));
        // The seat's previous owner may have left the waiter bits set.
        word(self, name).fetch_and(!BITS, Ordering::Relaxed);
        Ok(Seat { name })
    }

    /// Returns whether the seat belongs to this process. A seat that was inherited by fork does
    /// not, nor does a seat in a process table slot that has been released.
    #[inline]
    pub fn is_seated(&self, seat: &Seat) -> bool {
        self.is_seat_here(seat.name)
    }

    /// Releases a seat, if it belongs to this process.
    pub fn leave_seat(&self, seat: &Seat) {
        if self.is_seated(seat) {
            self.process.put_seat(seat.name.seat());
        }
    }

    /// Returns the name of one of this process's seats, whether or not that seat is in use. The
    /// name lets other processes check whether this process is alive, and sleep at the seat until
    /// this process [wakes](Self::wake_seat) them. As a consequence, the owner of the seat may be
    /// woken needlessly. A new owner clears the waiter bits, so a sleeping process may miss a wake
    /// (M4).
    ///
    /// # Errors
    /// Fails if the store is read-only.
    pub fn seat_here(&self, number: u64) -> Result<SeatName, Error> {
        membership::join(self)?;
        let slot_index = self.process.slot();
        let at = self.mapping.layout().slot(slot_index) + slot::GENERATION;
        let seat = number % slot::SEAT_COUNT;
        Ok(SeatName::new(slot_index, seat, self.mapping.load(at)))
    }

    /// Returns whether a seat belongs to this process and was not inherited by fork.
    pub fn is_seat_here(&self, name: SeatName) -> bool {
        self.process.claimed() && self.process.slot() == name.slot() && !self.seat_is_stale(name)
    }

    /// Returns whether another process has claimed the seat's process table slot, which proves that
    /// the seat's owner is dead. Reads one word. The owner of a seat that is not stale may also be
    /// dead.
    #[inline]
    pub fn seat_is_stale(&self, name: SeatName) -> bool {
        generation(self, name) != Some(name.generation())
    }

    /// Returns whether the process that owns the seat is alive. An owner that was found alive is
    /// assumed to be alive for 10 milliseconds, so that frequent checks are cheap.
    #[inline]
    pub fn seat_lives(&self, name: SeatName) -> bool {
        self.seat_lives_at(name, platform::coarse_milliseconds())
    }

    /// Like [`seat_lives`](Self::seat_lives), for a caller that has already called
    /// [`coarse_milliseconds`](crate::coarse_milliseconds).
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

    /// Like [`seat_lives`](Self::seat_lives), but always asks the kernel instead of using cached
    /// answers.
    pub fn seat_lives_now(&self, name: SeatName) -> bool {
        let mine = || self.process.claimed() && self.process.slot() == name.slot();
        !self.seat_is_stale(name)
            && (mine() || ask_for_life(self, name, platform::coarse_milliseconds()))
    }

    /// Makes [`seat_lives`](Self::seat_lives) ask the kernel again about every owner. For a caller
    /// that knows that processes have died.
    pub fn forget_who_lives(&self) {
        self.found_alive.clear();
    }

    /// Wakes the waiters at a seat. Call it after the change that they await. If the seat has no
    /// waiters, the call costs a fence and a load.
    #[inline]
    pub fn wake_seat(&self, name: SeatName) {
        self.wake_seats(std::iter::once(name));
    }

    /// Wakes the waiters at several seats, with one fence, and wakes all sleeping threads in one
    /// operation. If the threads were woken one by one, the first could displace the waker from its
    /// core.
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

    /// Arms the seat: the next wake makes its descriptor readable. The caller must then check once
    /// more for the event it waits for.
    pub fn arm_seat(&self, seat: &Seat) {
        word(self, seat.name).set(DESCRIPTOR);
        AtomicU32::fence();
    }

    /// Disarms the seat: until the seat is armed again, wakes do not make its descriptor readable,
    /// because its owner is awake.
    pub fn disarm_seat(&self, seat: &Seat) {
        word(self, seat.name).fetch_and(!DESCRIPTOR, Ordering::Relaxed);
    }

    /// Returns whether the next wake of the seat makes its descriptor readable.
    pub fn is_armed(&self, seat: &Seat) -> bool {
        word(self, seat.name).load(Ordering::Relaxed) & DESCRIPTOR != 0
    }

    /// Waits at a seat until `is_there` returns true. Returns whether it did so before the timeout.
    /// The runtime's own lock is released during the wait (see [`WaitHook`](crate::WaitHook)), so
    /// `is_there` must not need that lock.
    ///
    /// # Errors
    /// Returns [`Error::Interrupted`] if a signal handler is pending. Returns [`Error::Removed`]
    /// within two seconds after the mapped file is no longer at its path (M7).
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

/// Returns the current generation of a seat's slot, or `None` if the seat does not exist.
fn generation(segment: &Segment, name: SeatName) -> Option<u64> {
    let known = SLOTS.min(segment.mapping.load(control::SLOTS_USED));
    let at = segment.mapping.layout().slot(name.slot().min(SLOTS - 1)) + slot::GENERATION;
    let sound = name.slot() < known && name.seat() < slot::SEAT_COUNT;
    sound.then(|| segment.mapping.word(at).load(Ordering::Acquire) & 0xffff_ffff)
}

/// Returns the futex word of a seat.
fn word(segment: &Segment, name: SeatName) -> &AtomicU32 {
    let at = segment.mapping.layout().seat(name.slot(), name.seat());
    segment.mapping.half(at)
}

/// Asks the kernel whether the process that owns a seat is alive, and caches a positive answer.
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

/// Moves the threads that sleep at a seat to the word where all threads to be woken are gathered.
/// If this process is killed before it wakes them, they still check again within 100 ms.
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

/// Sleeps once. Returns whether the awaited event has happened.
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
