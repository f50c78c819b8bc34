//! The mutex for all process-private state (L3).
//!
//! `fork` copies locks as they are, but only the calling thread survives in the child. An ordinary
//! mutex that another thread holds at that moment stays locked in the child forever. A `ForkMutex`
//! records which process locked it. A child that finds the mutex locked by its parent seizes the
//! lock and replaces the value, which may be half changed.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

use crate::mapped::futex;
use crate::mapped::map::Map;

/// The bit of the lock word that is set while the mutex is locked.
const LOCKED: u32 = 1;
/// The bit of the lock word that is set while a thread is waiting.
const AWAITED: u32 = 2;
/// The position of the generation in the lock word. The generation identifies the process that
/// locked the mutex.
const GENERATION_SHIFT: u32 = 2;
/// The maximum generation, after which the count restarts at 1.
const GENERATIONS: u32 = (1 << 30) - 1;
/// The number of spins before a waiting thread sleeps.
const LOOKS: u32 = 100;
/// The maximum duration of one sleep, after which a waiting thread checks the lock again.
const SLEEP: Duration = Duration::from_secs(1);

/// A mutex that never stays locked in a forked child.
///
/// A panic while the mutex is locked unlocks it without poisoning. The guarded value must therefore
/// be consistent after every statement, unless its consistency does not matter.
pub struct ForkMutex<T> {
    word: AtomicU32,
    /// Creates the replacement for a value that may be half changed in a child. The old value is
    /// not dropped, because it may be inconsistent.
    fresh: fn() -> T,
    value: UnsafeCell<T>,
}

// SAFETY: the lock word admits at most one thread to the value at any time.
unsafe impl<T: Send> Sync for ForkMutex<T> {}
// SAFETY: the mutex consists of plain words and the value, which is `Send`.
unsafe impl<T: Send> Send for ForkMutex<T> {}

/// Access to the value of a [`ForkMutex`], which stays locked until the guard is dropped.
#[must_use]
pub struct ForkGuard<'a, T> {
    mutex: &'a ForkMutex<T>,
    /// Makes the guard `!Send`, so that it stays on its thread.
    thread: PhantomData<*const ()>,
}

impl<T> ForkMutex<T> {
    /// Creates an unlocked mutex. `fresh` creates the replacement value for a child that finds the
    /// mutex locked.
    pub const fn new(value: T, fresh: fn() -> T) -> ForkMutex<T> {
        ForkMutex {
            word: AtomicU32::new(0),
            fresh,
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the lock and acquires it.
    #[inline]
    pub fn lock(&self) -> ForkGuard<'_, T> {
        let mine = generation() << GENERATION_SHIFT | LOCKED;
        if self.change(0, mine).is_err() {
            self.wait(mine);
        }
        self.guard()
    }

    /// Acquires the lock, or returns `None` if a thread of this process holds it.
    #[inline]
    pub fn try_lock(&self) -> Option<ForkGuard<'_, T>> {
        let mine = generation() << GENERATION_SHIFT | LOCKED;
        match self.change(0, mine) {
            Ok(_) => Some(self.guard()),
            Err(found) => self.take_over(found, mine).then(|| self.guard()),
        }
    }

    /// Returns the value without locking, because `&mut self` rules out other threads.
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

    /// Seizes a lock held by an ancestor of this process. Returns false if no ancestor holds the
    /// lock.
    #[cold]
    fn take_over(&self, found: u32, mine: u32) -> bool {
        let is_foreign = found != 0 && found >> GENERATION_SHIFT != mine >> GENERATION_SHIFT;
        if !is_foreign || self.change(found, mine).is_err() {
            return false;
        }
        // SAFETY: this thread holds the lock. The old value may be half changed, so it is
        // overwritten without being dropped.
        unsafe { ptr::write(self.value.get(), (self.fresh)()) };
        true
    }

    #[cold]
    fn wait(&self, mine: u32) {
        let mut looks = 0;
        loop {
            let found = self.word.load(Ordering::Relaxed);
            if found == 0 {
                // Other threads may have started to wait during a sleep, so the bit stays set.
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
        // SAFETY: this thread holds the lock as long as the guard exists.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for ForkGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the lock as long as the guard exists, and `&mut self` makes the
        // access exclusive.
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

/// Returns a number that distinguishes this process from its parent and its children.
///
/// The number is stored in a page that the kernel zeroes in a forked child, so 0 means that the
/// child needs a new number. This approach requires neither a `fork` handler nor one-time
/// initialization on which other threads would block.
#[inline]
fn generation() -> u32 {
    let page = PAGE.load(Ordering::Acquire);
    if !page.is_null() {
        // SAFETY: the pointer refers to the first word of a page that is never unmapped.
        let generation = unsafe { &*page }.load(Ordering::Relaxed);
        if generation != 0 {
            return generation;
        }
    }
    new_generation()
}

static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
/// The last generation assigned in this process or, in a new child, in its parent.
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
    // SAFETY: the pointer refers to the first word of a page that is never unmapped.
    let word = unsafe { &*page };
    let next = LAST.load(Ordering::Relaxed) % GENERATIONS + 1;
    // Update `LAST` before the word, so that a child forked in between does not reuse the number.
    LAST.store(next, Ordering::SeqCst);
    let changed = word.compare_exchange(0, next, Ordering::SeqCst, Ordering::Acquire);
    // On failure, another thread of this process has set the generation.
    changed.map_or_else(|known| known, |_| next)
}
