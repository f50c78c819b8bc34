//! The mutex of everything that a process keeps for itself (L3).
//!
//! `fork` copies locks as they are, and of the threads only the one that calls it: a lock that another thread holds at that
//! moment stays locked in the child for ever. The one here notes by which process it is locked. A child that finds it locked
//! by the process that it was forked from takes it over, and puts a new value into it: the old one may be half changed.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

use crate::mapped::futex;
use crate::mapped::map::Map;

/// In a lock's word: it is locked,
const LOCKED: u32 = 1;
/// and some thread waits for it.
const AWAITED: u32 = 2;
/// Above them: the generation that locked it.
const GENERATION_SHIFT: u32 = 2;
/// Generations are counted round, without 0.
const GENERATIONS: u32 = (1 << 30) - 1;
/// Looks at a lock before its thread sleeps.
const LOOKS: u32 = 100;
/// A sleep ends after this time at the latest, to look again.
const SLEEP: Duration = Duration::from_secs(1);

/// A mutex that a forked child finds open.
///
/// A panic while it is locked opens it: what it guards must be whole between any two statements, or not matter.
pub struct ForkMutex<T> {
    word: AtomicU32,
    /// What a child gets in place of a value that may be half changed. The old one is not dropped, for the same reason.
    fresh: fn() -> T,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time has the value, by the word.
unsafe impl<T: Send> Sync for ForkMutex<T> {}
// SAFETY: it is a value and plain words.
unsafe impl<T: Send> Send for ForkMutex<T> {}

/// The value of a [`ForkMutex`], which is locked as long as this lives.
#[must_use]
pub struct ForkGuard<'a, T> {
    mutex: &'a ForkMutex<T>,
    /// It belongs to its thread.
    thread: PhantomData<*const ()>,
}

impl<T> ForkMutex<T> {
    /// An open lock of a value, and what makes another one for a child that finds it locked.
    pub const fn new(value: T, fresh: fn() -> T) -> ForkMutex<T> {
        ForkMutex {
            word: AtomicU32::new(0),
            fresh,
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> ForkGuard<'_, T> {
        let mine = generation() << GENERATION_SHIFT | LOCKED;
        if self.change(0, mine).is_err() {
            self.wait(mine);
        }
        self.guard()
    }

    /// The lock, unless a thread of this process has it.
    #[inline]
    pub fn try_lock(&self) -> Option<ForkGuard<'_, T>> {
        let mine = generation() << GENERATION_SHIFT | LOCKED;
        match self.change(0, mine) {
            Ok(_) => Some(self.guard()),
            Err(found) => self.take_over(found, mine).then(|| self.guard()),
        }
    }

    /// The value, where no other thread can have it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    fn guard(&self) -> ForkGuard<'_, T> {
        ForkGuard {
            mutex: self,
            thread: PhantomData,
        }
    }

    #[inline]
    fn change(&self, from: u32, to: u32) -> Result<u32, u32> {
        let word = &self.word;
        word.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed)
    }

    /// Locks what a process has locked that this one was forked from. Returns whether it was that.
    #[cold]
    fn take_over(&self, found: u32, mine: u32) -> bool {
        let is_foreign = found != 0 && found >> GENERATION_SHIFT != mine >> GENERATION_SHIFT;
        if !is_foreign || self.change(found, mine).is_err() {
            return false;
        }
        // SAFETY: this thread has the lock. The old value is overwritten as it is: of a half changed one nothing may be
        // looked at.
        unsafe { ptr::write(self.value.get(), (self.fresh)()) };
        true
    }

    #[cold]
    fn wait(&self, mine: u32) {
        let mut looks = 0;
        loop {
            let found = self.word.load(Ordering::Relaxed);
            if found == 0 {
                // Whether others wait as well is not known after a sleep.
                let awaited = if looks > LOOKS { AWAITED } else { 0 };
                if self.change(0, mine | awaited).is_ok() {
                    return;
                }
            } else if self.take_over(found, mine) {
                return;
            } else if looks < LOOKS {
                looks += 1;
                std::hint::spin_loop();
            } else if found & AWAITED != 0 || self.mark_awaited(found) {
                looks = LOOKS + 1;
                futex::wait(&self.word, found | AWAITED, SLEEP);
            }
        }
    }

    fn mark_awaited(&self, found: u32) -> bool {
        self.word
            .compare_exchange(found, found | AWAITED, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}

impl<T: Default> Default for ForkMutex<T> {
    fn default() -> ForkMutex<T> {
        ForkMutex::new(T::default(), T::default)
    }
}

impl<T> fmt::Debug for ForkMutex<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ForkMutex").finish_non_exhaustive()
    }
}

impl<T> Deref for ForkGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread has the lock as long as this lives.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for ForkGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and this is borrowed for it alone.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for ForkGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.mutex.word.swap(0, Ordering::Release) & AWAITED != 0 {
            futex::wake_one(&self.mutex.word);
        }
    }
}

/// What tells a process from those that it was forked from and forks: a number that is 0 in a child at first, as the kernel
/// wipes its page there. No handler of `fork` has to be registered for that, and nothing be initialised once, which other
/// threads would wait for.
#[inline]
fn generation() -> u32 {
    let page = PAGE.load(Ordering::Acquire);
    if !page.is_null() {
        // SAFETY: it is the first word of a page that stays mapped.
        let generation = unsafe { &*page }.load(Ordering::Relaxed);
        if generation != 0 {
            return generation;
        }
    }
    new_generation()
}

static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
/// The generation of this process, or of the one that it was forked from.
static LAST: AtomicU32 = AtomicU32::new(0);

#[cold]
fn new_generation() -> u32 {
    let mut page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        let map = Map::fork_guard().expect("a page of memory");
        let mapped = ptr::from_ref(map.first_word()).cast_mut();
        match PAGE.compare_exchange(page, mapped, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                std::mem::forget(map);
                page = mapped;
            }
            Err(other) => page = other,
        }
    }
    // SAFETY: as in `generation`.
    let word = unsafe { &*page };
    let next = LAST.load(Ordering::Relaxed) % GENERATIONS + 1;
    // Before the word: a child that is forked in between must not count it again.
    LAST.store(next, Ordering::SeqCst);
    let changed = word.compare_exchange(0, next, Ordering::SeqCst, Ordering::Acquire);
    // Otherwise another thread of this process was faster.
    changed.map_or_else(|known| known, |_| next)
}
