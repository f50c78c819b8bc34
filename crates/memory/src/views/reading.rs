//! Reading without a lock: a body is tried until nothing changed meanwhile (R1 to R5), and no try leaves anything to the
//! next one (R8).
//!
//! A try that is thrown away may have seen anything: halves of two values, a length of one and the bytes of another. So a
//! body is [`Fn`] and [`Sync`]: what it captures it can change neither through `&mut` nor through a cell. What it
//! finds leaves it by value, and is dropped with its try, or in a [`Scratch`], which is empty when a try begins.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::error::{Error, Holder};
use crate::handle::{Marks, Segment, Unlock};
use crate::mapped::layout::{SHARDS_MAX, shard};
use crate::probes::race::Moment;
use crate::processes::lock::{self, Owner};
use crate::processes::wait;
use crate::views::counter;
use crate::views::shards::ShardSet;
use crate::views::view::{Notes, View};

/// Attempts of an optimistic read before it takes the lock (R1).
const READ_ATTEMPTS: u32 = 64;
/// Looks at an odd counter before it counts as a failed attempt.
const ODD_SPINS: u32 = 32;

/// Memory of the caller's that a read fills. [`Segment::read_into`] empties it before every try, and where it ends in
/// an error, so that what is in it afterwards is of one try: the one that counts.
pub trait Scratch {
    /// Forgets what was put in, all of it; memory may be kept.
    fn clear(&mut self);
}

impl Scratch for () {
    #[inline(always)]
    fn clear(&mut self) {}
}

impl<T> Scratch for Vec<T> {
    #[inline(always)]
    fn clear(&mut self) {
        Vec::clear(self);
    }
}

impl<A: Scratch, B: Scratch> Scratch for (A, B) {
    #[inline(always)]
    fn clear(&mut self) {
        self.0.clear();
        self.1.clear();
    }
}

impl<S: Scratch + ?Sized> Scratch for &mut S {
    #[inline(always)]
    fn clear(&mut self) {
        (**self).clear();
    }
}

impl Segment {
    /// Reads shards without a lock: `body` may run several times, and what it returns counts only if nothing changed
    /// meanwhile (R1, R2). After a few attempts the shards are locked.
    ///
    /// A body that could keep something between its runs does not compile (R8): not one that fills what it captured,
    ///
    /// ```compile_fail,E0596
    /// # use undercroft_memory::{Error, Segment, ShardSet};
    /// # fn read(segment: &Segment) -> Result<(), Error> {
    /// let mut roots = Vec::new();
    /// segment.read(ShardSet::one(0), |view| Ok::<_, Error>(roots.push(view.root(0, 0))))
    /// # }
    /// ```
    ///
    /// nor one that does so through a cell;
    ///
    /// ```compile_fail,E0277
    /// # use undercroft_memory::{Error, Segment, ShardSet};
    /// # fn read(segment: &Segment) -> Result<(), Error> {
    /// let root = std::cell::Cell::new(0);
    /// segment.read(ShardSet::one(0), |view| Ok::<_, Error>(root.set(view.root(0, 0))))
    /// # }
    /// ```
    ///
    /// only one that returns what it found.
    ///
    /// ```
    /// # use undercroft_memory::{Error, Segment, ShardSet};
    /// # fn read(segment: &Segment) -> Result<u64, Error> {
    /// segment.read(ShardSet::one(0), |view| Ok::<_, Error>(view.root(0, 0)))
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Marked`] where somebody has to look after one of the shards first, and say so with
    /// [`looked_after`](Self::looked_after). Those of `body`.
    #[inline]
    pub fn read<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        body: impl Fn(&View<'_>) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        self.read_into(shards, &mut (), |view, ()| body(view))
    }

    /// [`read`](Self::read) that fills memory of the caller's, which is empty where it fails.
    #[inline]
    pub fn read_into<S: Scratch, R, E: From<Error>>(
        &self,
        shards: ShardSet,
        scratch: &mut S,
        body: impl Fn(&View<'_>, &mut S) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        let result = self.try_until_unchanged(shards, scratch, body);
        if result.is_err() {
            scratch.clear();
        }
        result
    }

    /// [`read`](Self::read) that no mark keeps from anything: for who looks after the shards.
    #[cold]
    pub fn read_marked<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        body: impl Fn(&View<'_>) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        let body = |view: &View<'_>, (): &mut ()| body(view);
        match self.read_many(shards, Marks::Ignored, &mut (), &body) {
            Some(result) => result,
            None => self.read_slowly(shards, Marks::Ignored, &mut (), body),
        }
    }

    /// Reads shards as they were at one moment, like [`read`](Self::read), but never waits: none where others keep
    /// changing them. Marks are ignored.
    pub fn try_read<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        body: impl Fn(&View<'_>) -> Result<R, E> + Sync,
    ) -> Option<Result<R, E>> {
        let body = |view: &View<'_>, (): &mut ()| body(view);
        self.read_many(shards, Marks::Ignored, &mut (), &body)
    }

    /// Looks at the shards as they are at this moment, torn or not: only to [prefetch](View::prefetch) what will be
    /// read. Never waits.
    #[inline(always)]
    pub fn glance(&self, body: impl FnOnce(&View<'_>)) {
        // No notes: nothing will be believed, so there is nothing to check.
        body(&View {
            mapping: &self.mapping,
            notes: Notes::Locked,
        });
    }

    #[inline(always)]
    fn try_until_unchanged<S: Scratch, R, E: From<Error>>(
        &self,
        shards: ShardSet,
        scratch: &mut S,
        body: impl Fn(&View<'_>, &mut S) -> Result<R, E>,
    ) -> Result<R, E> {
        if let Some(index) = shards.single() {
            let at = self.mapping.layout().shard(index) + shard::COUNTER;
            let counter = self.mapping.word(at);
            for _ in 0..READ_ATTEMPTS {
                let noted = counter::note(counter);
                if counter::is_plain(noted) {
                    let view = View {
                        mapping: &self.mapping,
                        notes: Notes::One(at, noted),
                    };
                    scratch.clear();
                    let result = body(&view, scratch);
                    self.mapping.race().at(Moment::Tried);
                    if view.unchanged() {
                        return result;
                    }
                } else if self.pass_by(index, noted)? {
                    break;
                }
            }
            // A shard with a mark that was looked after, or one that others keep changing.
            if self.is_marked(index)
                && let Some(result) = self.read_many(shards, Marks::Respected, scratch, &body)
            {
                return result;
            }
        } else if let Some(result) = self.read_many(shards, Marks::Respected, scratch, &body) {
            return result;
        }
        self.read_slowly(shards, Marks::Respected, scratch, body)
    }

    /// A shard that cannot be read at once: a moment's wait where it is being changed; true where it has a mark and was
    /// looked after.
    #[cold]
    fn pass_by(&self, index: usize, noted: u64) -> Result<bool, Error> {
        if noted & counter::ODD != 0 {
            self.spin_while_odd(index);
            return Ok(false);
        }
        match self.was_looked_after(index) {
            true => Ok(true),
            false => Err(Error::Marked),
        }
    }

    #[cold]
    fn spin_while_odd(&self, index: usize) {
        let at = self.mapping.layout().shard(index) + shard::COUNTER;
        for _ in 0..ODD_SPINS {
            if self.mapping.load(at) & counter::ODD == 0 {
                return;
            }
            std::hint::spin_loop();
        }
    }

    fn read_many<S: Scratch, R, E: From<Error>>(
        &self,
        shards: ShardSet,
        marks: Marks,
        scratch: &mut S,
        body: &impl Fn(&View<'_>, &mut S) -> Result<R, E>,
    ) -> Option<Result<R, E>> {
        let mut counters = [0; SHARDS_MAX];
        for _ in 0..READ_ATTEMPTS {
            let (mut odd, mut marked) = (None, false);
            for (place, index) in counters.iter_mut().zip(shards.iter()) {
                let at = self.mapping.layout().shard(index) + shard::COUNTER;
                *place = counter::note(self.mapping.word(at));
                if !counter::is_plain(*place) {
                    marked |= *place & counter::MARK != 0
                        && marks == Marks::Respected
                        && !self.was_looked_after(index);
                    odd = (*place & counter::ODD != 0).then_some(index).or(odd);
                }
            }
            if let Some(index) = odd {
                self.spin_while_odd(index);
                continue;
            }
            if marked {
                return Some(Err(Error::Marked.into()));
            }
            let view = View {
                mapping: &self.mapping,
                notes: Notes::Many(shards, &counters[..shards.len()]),
            };
            scratch.clear();
            let result = body(&view, scratch);
            self.mapping.race().at(Moment::Tried);
            if view.unchanged() {
                return Some(result);
            }
        }
        None
    }

    #[cold]
    fn read_slowly<S: Scratch, R, E: From<Error>>(
        &self,
        shards: ShardSet,
        marks: Marks,
        scratch: &mut S,
        body: impl Fn(&View<'_>, &mut S) -> Result<R, E>,
    ) -> Result<R, E> {
        // Who cannot join (the file was removed, the process table is full) reads
        // on without a lock, as a read-only handle does.
        if self.writable() && self.join().is_ok() {
            self.lock_shards(shards, marks)?;
            let _unlock = Unlock {
                segment: self,
                shards,
            };
            scratch.clear();
            let view = View {
                mapping: &self.mapping,
                notes: Notes::Locked,
            };
            return body(&view, scratch);
        }
        // R5: no lock to take; try until the patience is used up.
        let start = Instant::now();
        loop {
            if let Some(result) = self.read_many(shards, marks, scratch, &body) {
                return result;
            }
            if start.elapsed() >= self.patience() {
                return Err(self.explain_odd(shards).into());
            }
            let pause = || std::thread::sleep(Duration::from_millis(1));
            match self.hook() {
                Some(hook) => {
                    hook.blocked(&mut || pause());
                    if wait::is_interrupted(hook) {
                        return Err(Error::Interrupted.into());
                    }
                }
                None => pause(),
            }
        }
    }

    /// Reads shards under their locks: `body` runs once, and what it shows
    /// somebody else counts. For what is too long to be tried, or shown once.
    pub fn read_locked<R>(
        &self,
        shards: ShardSet,
        body: impl FnOnce(&View<'_>) -> R,
    ) -> Result<R, Error> {
        self.prepare_to_write()?;
        self.lock_shards(shards, Marks::Respected)?;
        let _unlock = Unlock {
            segment: self,
            shards,
        };
        Ok(body(&View {
            mapping: &self.mapping,
            notes: Notes::Locked,
        }))
    }

    /// Who keeps the shards from being read.
    fn explain_odd(&self, shards: ShardSet) -> Error {
        for index in shards.iter() {
            let base = self.mapping.layout().shard(index);
            let word = self
                .mapping
                .half(base + shard::LOCK)
                .load(Ordering::Relaxed);
            if self.mapping.load(base + shard::COUNTER) & counter::ODD != 0 {
                if word == lock::FREE {
                    // Left by a process whose rollback could not be finished.
                    return Error::Busy {
                        holder: Holder::Dead,
                        pid: 0,
                    };
                }
                return self.process.describe(&self.mapping, Owner::of(word));
            }
        }
        Error::Busy {
            holder: Holder::Active,
            pid: 0,
        }
    }
}
