//! A handle on a mapped store: the way in for reading and writing.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::mapped::fork_mutex::ForkMutex;
use crate::mapped::layout::control;
use crate::mapped::mapping::Mapping;
use crate::mapped::shard_set::ShardSet;
use crate::mapped::shard_words::ShardWords;
use crate::mapped::{futex, platform};
use crate::messages::seat::Lively;
use crate::probes::fault;
use crate::probes::work;
use crate::processes::lock::{self, Owner};
use crate::processes::process::{PathState, Process};
use crate::processes::wait::{
    Suspicion, WaitHook, Waiter, Which, are_signals_deferred, is_interrupted, time_left,
};
use crate::views::through_log::Kept;
use crate::writing::log::Log;
use crate::writing::recovery::is_settled;
use crate::writing::room::{Runs, Used};
use crate::writing::transaction::{Rest, Transaction};

/// How long locks are held at most while another one is waited for, by who wants all of them for a moment.
const HELD_WHILE_WAITING: Duration = Duration::from_micros(200);
/// How long locks are held at most while another one is waited for, by a call that wants several of them: the moment
/// it starts with, and the longest it grows to. Other calls wait for as long, and an interrupt of this one.
const MOMENTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_millis(500);
/// Default for [`Segment::set_patience`].
const PATIENCE: Duration = Duration::from_secs(5);

/// What the mark of a shard means to who comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// Somebody has to look after the shard first: [`Error::Marked`].
    Respected,
    /// Nothing, as for who does look after it.
    Ignored,
}

/// A store file mapped into this process. Shared freely between threads;
/// survives `fork` (the child joins as a process of its own).
pub struct Segment {
    pub(crate) mapping: Mapping,
    pub(crate) process: Process,
    hash_key: [u64; 2],
    patience: AtomicU64,
    hook: Option<Box<dyn WaitHook>>,
    suspicions: Vec<Suspicion>,
    /// How much of its hint table this process has copied behind it, for each
    /// shard: bytes, and above them the table's length.
    pub(crate) hints_copied: Vec<AtomicU64>,
    place_checked: AtomicU64,
    /// The coarse clock when a reader last asked whether the writer lives whose change it met.
    pub(crate) writer_probed: AtomicU64,
    /// The coarse clock at the last write.
    written: AtomicU64,
    removed: AtomicBool,
    /// The boot that the header names while the store is being changed.
    boot: u64,
    /// Owners of seats that were just found alive.
    pub(crate) lively: Lively,
    /// When somebody looked after each shard, by the coarse clock.
    pub(crate) looked_after: Vec<AtomicU64>,
    /// The extent that the next search for a run of several pages goes on with, below the lowest ones.
    pub(crate) search_from: AtomicU64,
    /// When this process last found the store full, in milliseconds of a clock since the machine's start.
    pub(crate) full_at: AtomicU64,
    /// What the logs of changes that take long have laid over each shard, for readers.
    pub(crate) looked_back: Vec<ForkMutex<Option<Kept>>>,
    /// As whom this process is copying the store now; 0 where it does not. A forked child is somebody else.
    pub(crate) copying_as: AtomicU32,
    /// Whether nobody else sees what is written: the file is mapped privately.
    pub(crate) is_alone: bool,
}

impl Segment {
    pub(crate) fn new(
        mapping: Mapping,
        process: Process,
        hash_key: [u64; 2],
        boot: u64,
    ) -> Segment {
        let shards = 0..mapping.layout().shards;
        let hints_copied = shards.clone().map(|_| AtomicU64::new(0)).collect();
        let looked_after = shards.clone().map(|_| AtomicU64::new(0)).collect();
        let looked_back = shards.map(|_| ForkMutex::default()).collect();
        let suspicions = (0..mapping.layout().shards + 2)
            .map(|_| Suspicion::default())
            .collect();
        Segment {
            hints_copied,
            mapping,
            process,
            hash_key,
            patience: AtomicU64::new(PATIENCE.as_millis() as u64),
            hook: None,
            suspicions,
            place_checked: AtomicU64::new(0),
            writer_probed: AtomicU64::new(0),
            written: AtomicU64::new(0),
            removed: AtomicBool::new(false),
            boot,
            lively: Lively::default(),
            looked_after,
            looked_back,
            search_from: AtomicU64::new(0),
            full_at: AtomicU64::new(u64::MAX / 2),
            copying_as: AtomicU32::new(0),
            is_alone: false,
        }
    }

    pub(crate) fn boot(&self) -> u64 {
        self.boot
    }

    /// The path by which the store was opened, made absolute.
    pub fn path(&self) -> &Path {
        self.process.path()
    }

    /// Number of shards.
    #[inline(always)]
    pub fn shards(&self) -> usize {
        self.mapping.layout().shards
    }

    /// The store's secret key for hashing keys of the key space.
    #[inline(always)]
    pub fn hash_key(&self) -> [u64; 2] {
        self.hash_key
    }

    /// Whether this handle may write.
    pub fn writable(&self) -> bool {
        self.mapping.writable()
    }

    /// How long to wait for a lock whose owner makes no progress before
    /// [`Error::Busy`] is returned (default 5 s).
    pub fn set_patience(&self, patience: Duration) {
        let milliseconds = patience.as_millis().min(u128::from(u64::MAX)) as u64;
        self.patience.store(milliseconds, Ordering::Relaxed);
    }

    /// What [`set_patience`](Self::set_patience) has set; less, where the thread's
    /// patience is [limited](crate::limit_patience).
    pub fn patience(&self) -> Duration {
        let set = Duration::from_millis(self.patience.load(Ordering::Relaxed));
        time_left().map_or(set, |left| left.min(set))
    }

    /// Sets what is done while a thread waits for a lock.
    pub fn set_wait_hook(&mut self, hook: Box<dyn WaitHook>) {
        self.hook = Some(hook);
    }

    /// Has a hook called in the midst of this handle's reads, or none any more; see [`race`](crate::probes::race).
    #[cfg(feature = "races")]
    pub fn interrupt_reads(&self, hook: Option<crate::probes::race::Hook>) {
        self.mapping.race().set(hook);
    }

    /// Whether a signal has come that may want to end what this thread does; see [`WaitHook::is_signalled`].
    pub fn is_signalled(&self) -> bool {
        !are_signals_deferred() && self.hook().is_some_and(WaitHook::is_signalled)
    }

    /// Runs a script; see [`WaitHook::script`].
    pub fn run_script(&self, run: &mut dyn FnMut()) {
        match self.hook() {
            Some(hook) => hook.script(run),
            None => run(),
        }
    }

    /// Has signal handlers run, and asks whether one of them ends what this thread does, which holds no lock; see
    /// [`WaitHook::interrupted`].
    pub fn is_interrupted(&self) -> bool {
        self.hook().is_some_and(is_interrupted)
    }

    pub(crate) fn hook(&self) -> Option<&dyn WaitHook> {
        self.hook.as_deref()
    }

    pub(crate) fn suspicion(&self, which: Which) -> &Suspicion {
        match which {
            Which::Shard(index) => &self.suspicions[index],
            Which::Heap => &self.suspicions[self.mapping.layout().shards],
            Which::Ring => &self.suspicions[self.mapping.layout().shards + 1],
        }
    }

    pub(crate) fn shard_log(&self, index: usize) -> Log<'_> {
        self.mapping.shard_log(index)
    }

    /// Changes shards as one transaction: all or nothing, whatever happens to
    /// this process. An error from `body` rolls back. `body` may run several
    /// times where memory had to be reserved in between (H2).
    ///
    /// # Errors
    /// [`Error::Marked`] where somebody has to look after one of the shards
    /// first, and say so with [`looked_after`](Self::looked_after). Those of
    /// `body`.
    #[inline]
    pub fn write<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        body: impl FnMut(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.write_where(shards, Marks::Respected, body)
    }

    /// [`write`](Self::write) that can do without its respect for marks: for who
    /// looks after the shards.
    #[inline(always)]
    pub fn write_where<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        marks: Marks,
        mut body: impl FnMut(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.prepare_to_write()?;
        let mut runs = Runs::default();
        work::transaction();
        if fault::reruns() {
            self.run_in_vain(shards, marks, &mut body)?;
        }
        loop {
            match self.run_once(shards, marks, runs.in_parts, &mut body)? {
                Ran::Whole(value, None) => return Ok(value),
                Ran::Whole(value, Some(rest)) => {
                    self.make_ready(&rest.ahead);
                    if rest.saved.is_some() {
                        self.shrink_behind(shards);
                    }
                    return Ok(value);
                }
                Ran::Short(used) => self.make_room(&used, &mut runs)?,
            }
        }
    }

    /// Runs a body once, as a transaction, or [in parts](crate::removing). The transaction ends here, where it was built: it is too long to be handed on.
    #[inline(always)]
    pub(crate) fn run_once<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        marks: Marks,
        in_parts: bool,
        body: &mut impl FnMut(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<Ran<R>, E> {
        work::run();
        let locked = Transaction::lock(self, shards, marks)?;
        let mut transaction = Transaction::new(self, shards, locked);
        transaction.in_parts = in_parts;
        let result = body(&mut transaction);
        let shortage = match (result, transaction.shortage) {
            (Ok(value), None) => match transaction.commit()? {
                None => return Ok(Ran::Whole(value, transaction.rest.take())),
                Some(shortage) => shortage,
            },
            (Err(error), None) => return Err(error),
            (_, Some(shortage)) => shortage,
        };
        if transaction.parted {
            return Err(Error::OutOfMemory.into());
        }
        Ok(Ran::Short(transaction.used(shortage)))
    }

    /// Runs a body and rolls it back, to show whether it leaves anything to its next run.
    #[cold]
    fn run_in_vain<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        marks: Marks,
        body: &mut impl FnMut(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<(), E> {
        work::run();
        let locked = Transaction::lock(self, shards, marks)?;
        let _ = body(&mut Transaction::new(self, shards, locked));
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn prepare_to_write(&self) -> Result<(), Error> {
        if !self.process.claimed() {
            self.join()?;
        }
        let now = platform::coarse_milliseconds();
        self.written.store(now, Ordering::Relaxed);
        if now.wrapping_sub(self.place_checked.load(Ordering::Relaxed)) >= 1000 {
            self.place_checked.store(now, Ordering::Relaxed);
            self.check_place();
            self.end_counting(now);
        }
        if self.removed.load(Ordering::Relaxed) {
            return Err(Error::Removed {
                path: self.path().into(),
            });
        }
        Ok(())
    }

    /// When this process last began to write: milliseconds since boot, as
    /// [`coarse_milliseconds`](crate::coarse_milliseconds). Spares a writer a
    /// second look at the clock.
    #[inline]
    pub fn last_written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    #[cold]
    pub(crate) fn check_place(&self) {
        if self.process.place(&self.mapping) == PathState::Gone {
            self.removed.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the owner of a lock, or of a task, lives.
    pub(crate) fn owner_lives(&self, owner: Owner) -> bool {
        self.process.alive(&self.mapping, owner)
    }

    /// An error where the path no longer names the mapped file, which is looked
    /// at once a second at most: for who waits, and does nothing else (M7).
    pub fn in_place(&self) -> Result<(), Error> {
        let now = platform::coarse_milliseconds();
        if now.wrapping_sub(self.place_checked.load(Ordering::Relaxed)) >= 1000 {
            self.place_checked.store(now, Ordering::Relaxed);
            self.check_place();
            if self.writable() {
                self.end_counting(now);
            }
        }
        match self.removed.load(Ordering::Relaxed) {
            true => Err(Error::Removed {
                path: self.path().into(),
            }),
            false => Ok(()),
        }
    }

    /// Looks whether the path still names the mapped file, where the last look was a second ago or longer: for a process
    /// that only reads. `now` is the time of [`coarse_milliseconds`](crate::coarse_milliseconds).
    #[inline]
    pub fn look_for_file(&self, now: u64) {
        if now.wrapping_sub(self.place_checked.load(Ordering::Relaxed)) >= 1000 {
            self.place_checked.store(now, Ordering::Relaxed);
            self.check_place();
        }
    }

    /// Whether a look at the path has found that it names the mapped file no longer. Makes no look itself.
    #[inline(always)]
    pub fn is_lost(&self) -> bool {
        self.removed.load(Ordering::Relaxed)
    }

    /// Whether the path is known to name the mapped file no longer. A process
    /// that may not look, as it has dropped its privileges, goes on.
    pub fn removed(&self) -> bool {
        self.check_place();
        self.removed.load(Ordering::Relaxed)
    }

    /// Makes sure that this process has a slot of its own (L3).
    #[inline]
    pub(crate) fn join(&self) -> Result<(), Error> {
        if self.process.claimed() {
            return Ok(());
        }
        if !self.writable() {
            return Err(Error::ReadOnly);
        }
        let claimed = self
            .process
            .claim(&self.mapping, |index| self.recover_slot(index));
        if let Err(Error::Removed { .. }) = claimed {
            self.removed.store(true, Ordering::Relaxed);
        }
        claimed
    }

    /// Has memory ready for the entry of the next process that joins, as much as can be had (H6). Returns whether there is
    /// some. One look at a word, mostly; no lock may be held.
    pub fn keep_spare_slots(&self) -> bool {
        self.process.keep_spare_slots(&self.mapping)
    }

    /// Lets go of this process' slot as if the process had been killed; for
    /// tests of recovery.
    pub fn abandon(&self) {
        self.process.abandon(&self.mapping);
    }

    /// Takes the locks in order (W7) and settles each shard (W3). Returns the
    /// words of the shard, where it is only one.
    #[inline(always)]
    pub(crate) fn lock_shards(
        &self,
        shards: ShardSet,
        marks: Marks,
    ) -> Result<Option<ShardWords<'_>>, Error> {
        let Some(index) = shards.single() else {
            self.lock_several(shards, marks)?;
            return Ok(None);
        };
        let shard = self.mapping.shard_words(index);
        if !lock::try_acquire(shard.lock(), self.process.owner()) {
            self.wait_for_shard(index)?;
        }
        fault::step();
        if !is_settled(shard) {
            self.settle_slowly(index, marks)
                .inspect_err(|_| self.unlock(shard))?;
        }
        Ok(Some(shard))
    }

    fn lock_several(&self, shards: ShardSet, marks: Marks) -> Result<(), Error> {
        let me = self.process.owner();
        // How long a lock is waited for while others are held.
        let mut moment = *MOMENTS.start();
        'again: loop {
            let mut held = ShardSet::EMPTY;
            for index in shards.iter() {
                let word = self.mapping.shard_words(index).lock();
                if !lock::try_acquire(word, me) {
                    // Wait a moment in order; if the lock is held for longer, wait for it without holding any other: if
                    // it makes no progress, that wait fails. Where all make progress and this call none, as on a
                    // machine with too much to do, the moments grow until one is long enough.
                    let patience = self.patience().min(moment);
                    let mut waiter = Waiter::new(self, Which::Shard(index), patience);
                    if lock::acquire(word, me, &mut waiter).is_err() {
                        self.unlock_shards(held);
                        self.wait_for_shard(index)?;
                        self.unlock_shards(ShardSet::one(index));
                        moment = (moment * 2).min(*MOMENTS.end());
                        continue 'again;
                    }
                }
                held.insert(index);
                fault::step();
                self.settle(index, marks)
                    .inspect_err(|_| self.unlock_shards(held))?;
            }
            return Ok(());
        }
    }

    /// Takes the locks of all shards without holding some of them for long while it waits for another one: for who
    /// wants a moment at which nobody writes, while all go on.
    pub(crate) fn lock_all_for_a_moment(&self, marks: Marks) -> Result<Unlock<'_>, Error> {
        let me = self.process.owner();
        let (shards, start) = (ShardSet::first(self.shards()), Instant::now());
        'again: while start.elapsed() < self.patience() {
            let mut held = Unlock {
                segment: self,
                shards: ShardSet::EMPTY,
            };
            let since = Instant::now();
            for index in shards.iter() {
                let word = self.mapping.shard_words(index).lock();
                while !lock::try_acquire(word, me) {
                    if since.elapsed() >= HELD_WHILE_WAITING {
                        drop(held);
                        self.wait_for_shard(index)?;
                        self.unlock_shards(ShardSet::one(index));
                        continue 'again;
                    }
                    std::hint::spin_loop();
                }
                held.shards.insert(index);
                fault::step();
                self.settle(index, marks)?;
            }
            return Ok(held);
        }
        // Some are never free together: then as all others take them.
        self.lock_shards(shards, marks)?;
        Ok(Unlock {
            segment: self,
            shards,
        })
    }

    #[cold]
    fn wait_for_shard(&self, index: usize) -> Result<(), Error> {
        let word = self.mapping.shard_words(index).lock();
        let mut waiter = Waiter::new(self, Which::Shard(index), self.patience()).free_of_locks();
        lock::acquire(word, self.process.owner(), &mut waiter)
            .map_err(|refusal| waiter.explain(refusal))?;
        waiter
            .finish()
            .inspect_err(|_| self.unlock_shards(ShardSet::one(index)))
    }

    pub(crate) fn unlock_shards(&self, shards: ShardSet) {
        for index in shards.iter() {
            self.unlock(self.mapping.shard_words(index));
        }
    }

    #[inline(always)]
    pub(crate) fn unlock(&self, shard: ShardWords<'_>) {
        if lock::release(shard.lock()) {
            futex::wake_one(shard.lock().word());
        }
        fault::step();
    }

    pub(crate) fn unlock_heap(&self) {
        let lock = self.mapping.lock(control::HEAP_LOCK);
        if lock::release(lock) {
            futex::wake_one(lock.word());
        }
        fault::step();
    }
}

/// What a run of a body came to.
pub(crate) enum Ran<R> {
    /// What it returned, and what few transactions have: it is committed.
    Whole(R, Option<Box<Rest>>),
    /// What it had used when it ran short: it is rolled back.
    Short(Used),
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.process.end(&self.mapping);
    }
}

/// Unlocks shards when it is dropped.
#[must_use]
pub(crate) struct Unlock<'a> {
    pub(crate) segment: &'a Segment,
    pub(crate) shards: ShardSet,
}

impl Drop for Unlock<'_> {
    fn drop(&mut self) {
        if !fault::abandoned() {
            self.segment.unlock_shards(self.shards);
        }
    }
}
