//! Waiting for a lock (W2): when to check whether the lock's owner is alive, when to seize the
//! lock, and when to time out.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::mapped::layout::{control, ring};
use crate::mapped::words::Lock;
use crate::mapped::{futex, platform};
use crate::processes::liveness::{FIRST_PROBE, NEXT_PROBE, Suspicion};
use crate::processes::lock::{Next, Owner, Surroundings};
use crate::processes::patience::{are_signals_deferred, is_interrupted, is_out_of_time, time_left};
use crate::segment::Segment;

/// The number of spins before the first sleep. Together they take longer than a typical
/// transaction.
const SPINS: u32 = 200;

/// The lock for which a thread waits.
#[derive(Clone, Copy)]
pub(crate) enum WaitedLock {
    Shard(usize),
    Heap,
    Ring,
    Redo,
}

/// The reason why a wait ended without acquiring the lock.
pub(crate) enum Refusal {
    /// The wait timed out. The given owner is alive, or has not been checked yet.
    Patience(Owner),
    /// A signal arrived.
    Interrupted,
}

/// A thread's wait for a lock.
pub(crate) struct Waiter<'a> {
    segment: &'a Segment,
    which: WaitedLock,
    /// How long the wait lasts if the lock makes no progress.
    patience: Duration,
    /// Whether the thread holds no lock, so that the hook may be called.
    free_of_locks: bool,
    /// Whether to check the owner's liveness immediately.
    probe_first: bool,
    spins: u32,
    progress: Option<(Instant, u32, u32)>,
    interrupted: bool,
}

impl<'a> Waiter<'a> {
    pub(crate) fn new(segment: &'a Segment, which: WaitedLock, patience: Duration) -> Waiter<'a> {
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

    /// Declares that the waiting thread holds no lock, so that the runtime's hook may be called.
    pub(crate) fn free_of_locks(mut self) -> Self {
        self.free_of_locks = true;
        self
    }

    /// Requests that the wait begin with a check of the owner's liveness.
    pub(crate) fn probe_first(mut self) -> Self {
        self.probe_first = true;
        self
    }

    /// Ends a wait that acquired the lock. Returns an error if the hook reported a signal during
    /// the last sleep.
    pub(crate) fn finish(self) -> Result<(), Error> {
        match self.interrupted {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    }

    fn lock(&self) -> &'a Lock {
        let mapping = &self.segment.mapping;
        match self.which {
            WaitedLock::Shard(index) => mapping.shard_words(index).lock(),
            WaitedLock::Heap => mapping.lock(control::HEAP_LOCK),
            WaitedLock::Ring => mapping.lock(mapping.layout().ring + ring::LOCK),
            WaitedLock::Redo => mapping.lock(control::REDO_LOCK),
        }
    }

    fn suspicion(&self) -> &'a Suspicion {
        let shards = self.segment.shards();
        let index = match self.which {
            WaitedLock::Shard(index) => index,
            WaitedLock::Heap => shards,
            WaitedLock::Ring => shards + 1,
            WaitedLock::Redo => shards + 2,
        };
        &self.segment.suspicions[index]
    }

    /// Returns the error that explains why a wait ended without the lock.
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
        // If another process has claimed the owner's process table slot since, the owner is dead,
        // and no further check is needed.
        if self
            .segment
            .process
            .superseded(&self.segment.mapping, owner)
        {
            return Next::TakeOver;
        }
        let now = platform::coarse_milliseconds();
        let turns = self.lock().turns();
        let suspicion = self.suspicion();
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
        // Do not wait for a long-running script, which is recorded in the store.
        if matches!(self.which, WaitedLock::Shard(_))
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
    use crate::processes::lock;
    use crate::processes::patience::defer_signals;
    use crate::segment::membership;
    use crate::store_file::opening::Options;

    fn wait_for(patience: Duration) {
        let since = Instant::now();
        while since.elapsed() <= patience {
            std::hint::spin_loop();
        }
    }

    /// All threads of a process acquire a lock as the same owner. A waiter must not mistake many
    /// short holds for one long hold.
    #[test]
    fn a_lock_that_one_process_takes_repeatedly_makes_progress() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let path = directory.path().join("store");
        let segment = Segment::create(&path, &Options::default()).expect("a new store");
        membership::join(&segment).expect("an entry of the process table");
        let holder = segment.process.owner();
        let patience = Duration::from_millis(2);
        for which in [
            WaitedLock::Shard(0),
            WaitedLock::Heap,
            WaitedLock::Ring,
            WaitedLock::Redo,
        ] {
            let mut waiter = Waiter::new(&segment, which, patience);
            waiter.spins = SPINS;
            let lock = waiter.lock();
            for _ in 0..3 {
                assert!(lock::try_acquire(lock, holder));
                assert!(matches!(waiter.next(holder.bits()), Next::Sleep));
                wait_for(patience);
                assert!(!lock::release(lock));
            }
            // The last hold exceeds the timeout.
            let refused = waiter.next(holder.bits());
            assert!(matches!(refused, Next::GiveUp(Refusal::Patience(_))));
            // With deferred signals, successive waits share one timeout, but they do not mistake
            // short holds for a long hold either.
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
