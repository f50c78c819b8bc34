//! Acquires shard locks: a single lock, several in order (W7), or all of them for a moment. Each
//! shard is settled (recovered from a dead writer) after its lock is acquired (W3).

use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::heap::step;
use crate::locking::recovery;
use crate::mapped::futex;
use crate::mapped::layout::shard;
use crate::mapped::shard_words::ShardWords;
use crate::probes::fault;
use crate::processes::lock;
use crate::segment::Segment;
use crate::segment::marks::Marks;
use crate::segment::shard_set::ShardSet;
use crate::segment::waiting::{WaitedLock, Waiter};

/// How long `lock_all_for_a_moment` keeps the locks that it holds while it waits for another one.
const HELD_WHILE_WAITING: Duration = Duration::from_micros(200);
/// How long a call that needs several locks waits for one lock while it holds others: the initial
/// wait and the maximum. Meanwhile, other processes wait for the held locks, and a signal does not
/// end the call.
const MOMENTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_millis(500);

impl Segment {
    /// Returns whether a shard's lock is currently held. If it is not, the caller's later reads see all
    /// changes that were made under the lock.
    pub fn is_locked(&self, index: usize) -> bool {
        let at = self.mapping.layout().shard(index) + shard::LOCK;
        self.mapping.half(at).load(Ordering::Acquire) != lock::FREE
    }
}

/// A guard that unlocks shards when it is dropped.
#[must_use]
pub(crate) struct Unlock<'a> {
    pub(crate) segment: &'a Segment,
    pub(crate) shards: ShardSet,
}

impl Drop for Unlock<'_> {
    fn drop(&mut self) {
        if !fault::abandoned() {
            unlock_all(self.segment, self.shards);
        }
    }
}

/// Acquires the locks in order (W7) and settles each shard (W3). Returns the shard's words if only
/// one shard is given.
#[inline(always)]
pub(crate) fn lock(
    segment: &Segment,
    shards: ShardSet,
    marks: Marks,
) -> Result<Option<ShardWords<'_>>, Error> {
    let Some(index) = shards.single() else {
        lock_several(segment, shards, marks)?;
        return Ok(None);
    };
    let shard = segment.mapping.shard_words(index);
    if !lock::try_acquire(shard.lock(), segment.process.owner()) {
        wait_for(segment, index)?;
    }
    fault::step();
    if !recovery::is_settled(shard) {
        recovery::settle_slowly(segment, index, marks).inspect_err(|_| unlock(shard))?;
    }
    Ok(Some(shard))
}

/// Acquires several locks in order. Releases the locks it holds if another lock does not become
/// free soon.
fn lock_several(segment: &Segment, shards: ShardSet, marks: Marks) -> Result<(), Error> {
    let me = segment.process.owner();
    // How long to wait for a lock while holding other locks.
    let mut moment = *MOMENTS.start();
    'again: loop {
        let mut held = ShardSet::EMPTY;
        for index in shards.iter() {
            let word = segment.mapping.shard_words(index).lock();
            if !lock::try_acquire(word, me) {
                // Wait briefly while holding the earlier locks. If the lock is not released,
                // release all of them and wait for this lock alone: that wait fails if the lock
                // makes no progress. On an overloaded machine all locks may make progress while
                // this call makes none, so the brief waits grow until one is long enough.
                let patience = segment.patience().min(moment);
                let mut waiter = Waiter::new(segment, WaitedLock::Shard(index), patience);
                if lock::acquire(word, me, &mut waiter).is_err() {
                    unlock_all(segment, held);
                    wait_for(segment, index)?;
                    unlock_all(segment, ShardSet::one(index));
                    moment = (moment * 2).min(*MOMENTS.end());
                    continue 'again;
                }
            }
            held.insert(index);
            fault::step();
            recovery::settle(segment, index, marks).inspect_err(|_| unlock_all(segment, held))?;
        }
        return Ok(());
    }
}

/// Acquires the locks of all shards. Releases the locks it holds if another lock does not become
/// free soon. Use it to stop all writers for a moment without delaying them much.
pub(crate) fn lock_all_for_a_moment(segment: &Segment, marks: Marks) -> Result<Unlock<'_>, Error> {
    let me = segment.process.owner();
    let (shards, start) = (ShardSet::first(segment.shards()), Instant::now());
    'again: while start.elapsed() < segment.patience() {
        let mut held = Unlock {
            segment,
            shards: ShardSet::EMPTY,
        };
        let since = Instant::now();
        for index in shards.iter() {
            let word = segment.mapping.shard_words(index).lock();
            while !lock::try_acquire(word, me) {
                if since.elapsed() >= HELD_WHILE_WAITING {
                    drop(held);
                    wait_for(segment, index)?;
                    unlock_all(segment, ShardSet::one(index));
                    continue 'again;
                }
                std::hint::spin_loop();
            }
            held.shards.insert(index);
            fault::step();
            recovery::settle(segment, index, marks)?;
        }
        return Ok(held);
    }
    // The locks were never all free at the same time, so acquire them in the usual way.
    lock(segment, shards, marks)?;
    Ok(Unlock { segment, shards })
}

/// Locks and unlocks every shard and the heap, so that every change that was being made has ended.
pub(crate) fn pass_all(segment: &Segment) -> Result<(), Error> {
    for index in 0..segment.shards() {
        let shards = ShardSet::one(index);
        lock(segment, shards, Marks::Ignored)?;
        unlock_all(segment, shards);
    }
    step::run(segment, |_| Ok(()))
}

/// Waits for a shard's lock and acquires it. The caller must hold no other lock.
#[cold]
fn wait_for(segment: &Segment, index: usize) -> Result<(), Error> {
    let word = segment.mapping.shard_words(index).lock();
    let mut waiter =
        Waiter::new(segment, WaitedLock::Shard(index), segment.patience()).free_of_locks();
    lock::acquire(word, segment.process.owner(), &mut waiter)
        .map_err(|refusal| waiter.explain(refusal))?;
    waiter
        .finish()
        .inspect_err(|_| unlock_all(segment, ShardSet::one(index)))
}

/// Releases the locks of the given shards.
pub(crate) fn unlock_all(segment: &Segment, shards: ShardSet) {
    for index in shards.iter() {
        unlock(segment.mapping.shard_words(index));
    }
}

/// Releases a shard's lock and wakes one waiter.
#[inline(always)]
pub(crate) fn unlock(shard: ShardWords<'_>) {
    if lock::release(shard.lock()) {
        futex::wake_one(shard.lock().word());
    }
    fault::step();
}
