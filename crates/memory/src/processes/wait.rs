//! Waiting for a lock (W2, M6): how long, and what is asked meanwhile.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::handle::Segment;
use crate::mapped::layout::{control, ring};
use crate::mapped::words::Lock;
use crate::mapped::{futex, platform};
use crate::processes::lock::{Next, Owner, Surroundings};

/// Rounds of spinning before the first sleep; a transaction is shorter.
const SPINS: u32 = 200;
/// A waiter first asks whether the owner lives after this long.
const FIRST_PROBE: Duration = Duration::from_millis(10);
/// And then each time after this long.
const NEXT_PROBE: Duration = Duration::from_millis(100);

/// How a thread waits in a program that has more to do than wait: a language
/// runtime lets its other threads run, and looks for signals.
///
/// Called without any lock of the store held, but for [`is_signalled`](Self::is_signalled) and
/// [`script`](Self::script).
pub trait WaitHook: Send + Sync {
    /// Calls `block`, which sleeps, with the runtime's own locks released.
    fn blocked(&self, block: &mut dyn FnMut());
    /// Whether the wait must end, because a signal handler wants to run. Not
    /// asked while signals are [deferred](defer_signals).
    fn interrupted(&self) -> bool;
    /// Whether a signal has come for which [`interrupted`](Self::interrupted) is to be asked soon. Called in the midst
    /// of a script, with locks held: nothing may run that uses the store.
    fn is_signalled(&self) -> bool {
        false
    }
    /// Calls `run`, which runs a script with locks held, and needs nothing of the runtime: its own locks may be released
    /// meanwhile.
    fn script(&self, run: &mut dyn FnMut()) {
        run();
    }
}

thread_local! {
    /// How many guards of this thread live.
    static DEFERRED: Cell<usize> = const { Cell::new(0) };
    /// How long this thread waits.
    static LIMIT: Limit = const {
        Limit {
            microseconds: Cell::new(0),
            until: Cell::new(None),
        }
    };
}

/// How long a thread waits for locks, beside the patience that is set.
struct Limit {
    /// So long, from its first wait on, and one more; 0 where only patience counts.
    microseconds: Cell<u32>,
    /// Until then, as it has begun to wait.
    until: Cell<Option<Instant>>,
}

/// While it lives, the thread that made it waits for a limited time.
#[derive(Debug)]
#[must_use = "patience is limited only while it lives"]
pub struct PatienceLimited {
    /// Whether it was limited before, and stays so.
    before: bool,
    /// It stays with its thread.
    _thread: PhantomData<*const ()>,
}

/// Limits the patience of this thread until the guard is dropped (M6): from its
/// first wait for a lock on, it waits no longer than this, all waits together and
/// whatever progress is made. Where it is limited already, that stays.
///
/// It costs a few instructions: a look at the clock comes with the first wait.
#[inline(always)]
pub fn limit_patience(longest: Duration) -> PatienceLimited {
    let microseconds = longest.as_micros().min(u128::from(u32::MAX - 1)) as u32 + 1;
    LIMIT.with(|limit| {
        let before = limit.microseconds.get() != 0;
        if !before {
            limit.microseconds.set(microseconds);
        }
        PatienceLimited {
            before,
            _thread: PhantomData,
        }
    })
}

impl Drop for PatienceLimited {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.before {
            LIMIT.with(|limit| {
                limit.microseconds.set(0);
                limit.until.set(None);
            });
        }
    }
}

/// Calls `body` without a limit on this thread's patience: for what is somebody
/// else's.
pub fn unlimited_patience<R>(body: impl FnOnce() -> R) -> R {
    /// Limits it again, where `body` panics, too.
    struct Again(u32, Option<Instant>);
    impl Drop for Again {
        fn drop(&mut self) {
            LIMIT.with(|limit| {
                limit.microseconds.set(self.0);
                limit.until.set(self.1);
            });
        }
    }
    let _again = LIMIT.with(|limit| Again(limit.microseconds.take(), limit.until.take()));
    body()
}

/// Whether the patience of this thread is [limited](limit_patience).
pub fn is_patience_limited() -> bool {
    LIMIT.with(|limit| limit.microseconds.get() != 0)
}

/// How long this thread may still wait, where that is limited; the time runs from
/// the first call on.
pub(crate) fn time_left() -> Option<Duration> {
    LIMIT.with(|limit| {
        let microseconds = limit.microseconds.get().checked_sub(1)?;
        if let Some(end) = limit.until.get() {
            return Some(end.saturating_duration_since(Instant::now()));
        }
        let longest = Duration::from_micros(microseconds.into());
        limit.until.set(Some(Instant::now() + longest));
        Some(longest)
    })
}

/// Whether this thread may wait no longer.
pub(crate) fn is_out_of_time() -> bool {
    time_left().is_some_and(|left| left.is_zero())
}

/// While it lives, waits of the thread that made it are not interrupted.
#[derive(Debug)]
#[must_use = "signals are deferred only while it lives"]
pub struct SignalsDeferred {
    /// It stays with its thread.
    _thread: PhantomData<*const ()>,
}

/// Defers signals: until the guard is dropped this thread does not ask
/// [`WaitHook::interrupted`]. For what is done behind a commit, where the
/// operation cannot fail any more: a runtime that was asked has run its handler,
/// and what that raised must be returned.
///
/// As nothing ends such a wait early, its patience counts over all waits of
/// this process for the same lock: one that was seen without progress for so
/// long is not waited for again.
pub fn defer_signals() -> SignalsDeferred {
    DEFERRED.set(DEFERRED.get() + 1);
    SignalsDeferred {
        _thread: PhantomData,
    }
}

impl Drop for SignalsDeferred {
    fn drop(&mut self) {
        DEFERRED.set(DEFERRED.get() - 1);
    }
}

/// Whether signals are [deferred](defer_signals) in this thread.
pub fn are_signals_deferred() -> bool {
    DEFERRED.get() > 0
}

/// Asks the hook whether the wait must end.
pub(crate) fn is_interrupted(hook: &dyn WaitHook) -> bool {
    !are_signals_deferred() && hook.interrupted()
}

/// Since when a lock has been seen in one state, over all waits of this
/// process: short waits that give up and come back still find out that the
/// owner is dead.
#[derive(Default)]
pub(crate) struct Suspicion {
    word: AtomicU32,
    turns: AtomicU32,
    since: AtomicU64,
    probed: AtomicU64,
}

impl Suspicion {
    /// Milliseconds for which the lock has been seen unchanged.
    fn observe(&self, word: u32, turns: u32, now: u64) -> u64 {
        let same = self.word.load(Ordering::Relaxed) == word
            && self.turns.load(Ordering::Relaxed) == turns;
        if !same {
            self.word.store(word, Ordering::Relaxed);
            self.turns.store(turns, Ordering::Relaxed);
            self.since.store(now, Ordering::Relaxed);
            self.probed.store(0, Ordering::Relaxed);
        }
        now.saturating_sub(self.since.load(Ordering::Relaxed))
    }

    /// Whether it is time to ask for the owner's life, once for all threads.
    fn probe_is_due(&self, unchanged_for: u64, now: u64) -> bool {
        let probed = self.probed.load(Ordering::Relaxed);
        let due = if probed == 0 {
            unchanged_for >= FIRST_PROBE.as_millis() as u64
        } else {
            now.saturating_sub(probed) >= NEXT_PROBE.as_millis() as u64
        };
        due && self
            .probed
            .compare_exchange(probed, now.max(1), Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}

/// Which lock is waited for.
#[derive(Clone, Copy)]
pub(crate) enum Which {
    Shard(usize),
    Heap,
    Ring,
}

/// Why a wait ended without the lock.
pub(crate) enum Refusal {
    /// The patience is used up; this owner lives, or was not yet asked.
    Patience(Owner),
    /// A signal came.
    Interrupted,
}

/// One wait for one lock.
pub(crate) struct Waiter<'a> {
    segment: &'a Segment,
    which: Which,
    /// Without progress of the lock for so long, the wait ends.
    patience: Duration,
    /// Whether the hook may be called: no lock is held.
    free_of_locks: bool,
    /// Ask for the owner's life at once.
    probe_first: bool,
    spins: u32,
    progress: Option<(Instant, u32, u32)>,
    interrupted: bool,
}

impl<'a> Waiter<'a> {
    pub(crate) fn new(segment: &'a Segment, which: Which, patience: Duration) -> Waiter<'a> {
        Waiter {
            segment,
            which,
            patience,
            free_of_locks: false,
            probe_first: false,
            spins: 0,
            progress: None,
            interrupted: false,
        }
    }

    /// The waiting thread holds no lock, so the runtime's hook is used.
    pub(crate) fn free_of_locks(mut self) -> Self {
        self.free_of_locks = true;
        self
    }

    /// Asks for the owner's life before anything else.
    pub(crate) fn probe_first(mut self) -> Self {
        self.probe_first = true;
        self
    }

    /// Ends a wait that has got the lock: where the hook was told of a signal in
    /// the very last sleep, it is an interrupted wait all the same.
    pub(crate) fn finish(self) -> Result<(), Error> {
        match self.interrupted {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    }

    fn lock(&self) -> &'a Lock {
        let mapping = &self.segment.mapping;
        match self.which {
            Which::Shard(index) => mapping.shard_words(index).lock(),
            Which::Heap => mapping.lock(control::HEAP_LOCK),
            Which::Ring => mapping.lock(mapping.layout().ring + ring::LOCK),
        }
    }

    /// The error for a refused wait.
    pub(crate) fn explain(&self, refusal: Refusal) -> Error {
        match refusal {
            Refusal::Interrupted => Error::Interrupted,
            Refusal::Patience(owner) => self.segment.process.describe(&self.segment.mapping, owner),
        }
    }
}

impl Surroundings<Lock> for Waiter<'_> {
    type Refusal = Refusal;

    fn next(&mut self, seen: u32) -> Next<Refusal> {
        let owner = Owner::of(seen);
        if self.interrupted {
            return Next::GiveUp(Refusal::Interrupted);
        }
        if self.spins < SPINS && !self.probe_first {
            self.spins += 1;
            return Next::Spin;
        }
        // Time has nothing to tell where the slot itself says it.
        if self
            .segment
            .process
            .superseded(&self.segment.mapping, owner)
        {
            return Next::TakeOver;
        }
        let now = platform::coarse_milliseconds();
        let turns = self.lock().turns();
        let suspicion = self.segment.suspicion(self.which);
        let unchanged_for = suspicion.observe(owner.bits(), turns, now);
        let probe =
            std::mem::take(&mut self.probe_first) || suspicion.probe_is_due(unchanged_for, now);
        if probe && !self.segment.process.alive(&self.segment.mapping, owner) {
            return Next::TakeOver;
        }
        let (since, word, noted) =
            *self
                .progress
                .get_or_insert((Instant::now(), owner.bits(), turns));
        let is_stuck =
            are_signals_deferred() && u128::from(unchanged_for) >= self.patience.as_millis();
        if is_out_of_time() {
            return Next::GiveUp(Refusal::Patience(owner));
        }
        // A script that takes long says so: the wait for it would be long, too.
        if matches!(self.which, Which::Shard(_))
            && since.elapsed() >= FIRST_PROBE
            && !are_signals_deferred()
            && self.segment.script_seen().is_some()
        {
            return Next::GiveUp(Refusal::Patience(owner));
        }
        if (word, noted) != (owner.bits(), turns) {
            self.progress = Some((Instant::now(), owner.bits(), turns));
        } else if is_stuck || since.elapsed() >= self.patience {
            return Next::GiveUp(Refusal::Patience(owner));
        }
        Next::Sleep
    }

    fn wake(&mut self, lock: &Lock) {
        futex::wake_one(lock.word());
    }

    fn sleep(&mut self, lock: &Lock, value: u32) {
        let timeout = match self.progress {
            Some((since, ..)) if since.elapsed() < FIRST_PROBE => FIRST_PROBE,
            _ => NEXT_PROBE,
        }
        .min(self.patience);
        let timeout = time_left().map_or(timeout, |left| left.min(timeout));
        let hook = self.segment.hook().filter(|_| self.free_of_locks);
        match hook {
            Some(hook) => {
                hook.blocked(&mut || {
                    futex::wait(lock.word(), value, timeout);
                });
                self.interrupted = is_interrupted(hook);
            }
            None => {
                futex::wait(lock.word(), value, timeout);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::file::Options;
    use crate::processes::lock;

    fn wait_for(patience: Duration) {
        let since = Instant::now();
        while since.elapsed() <= patience {
            std::hint::spin_loop();
        }
    }

    /// The threads of a process take a lock under one owner: a waiter must not mistake many short holds for a long one.
    #[test]
    fn a_lock_that_one_process_takes_again_and_again_makes_progress() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let path = directory.path().join("store");
        let segment = Segment::create(&path, &Options::default()).expect("a new store");
        segment.join().expect("an entry of the process table");
        let holder = segment.process.owner();
        let patience = Duration::from_millis(2);
        for which in [Which::Shard(0), Which::Heap, Which::Ring] {
            let mut waiter = Waiter::new(&segment, which, patience);
            waiter.spins = SPINS;
            let lock = waiter.lock();
            for _ in 0..3 {
                assert!(lock::try_acquire(lock, holder));
                assert!(matches!(waiter.next(holder.bits()), Next::Sleep));
                wait_for(patience);
                assert!(!lock::release(lock));
            }
            // The last of them is held for longer than the patience.
            let refused = waiter.next(holder.bits());
            assert!(matches!(refused, Next::GiveUp(Refusal::Patience(_))));
            // Nor do waits that come one after the other, whose patience counts together.
            let _deferred = defer_signals();
            for _ in 0..3 {
                let mut waiter = Waiter::new(&segment, which, patience);
                waiter.spins = SPINS;
                assert!(lock::try_acquire(lock, holder));
                assert!(matches!(waiter.next(holder.bits()), Next::Sleep));
                wait_for(patience);
                assert!(!lock::release(lock));
            }
        }
    }
}
