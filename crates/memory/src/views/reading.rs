//! Reading without a lock: a body is tried until nothing changed meanwhile (R1 to R5), and no try leaves anything to the
//! next one (R8).
//!
//! A try that is thrown away may have seen anything: halves of two values, a length of one and the bytes of another. So a
//! body is [`Fn`] and [`Sync`]: what it captures it can change neither through `&mut` nor through a cell. What it
//! finds leaves it by value, and is dropped with its try, or in a [`Scratch`], which is empty when a try begins.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::error::{Error, Holder};
use crate::handle::Unlock;
use crate::mapped::layout::{SHARDS_MAX, shard};
use crate::mapped::shard_set::ShardSet;
use crate::mapped::{counter, platform};
use crate::probes::race::Moment;
use crate::processes::lock::{self, Owner};
use crate::processes::patience::{self, limit_patience};
use crate::segment::marks::{self, Marks};
use crate::segment::waiting::{Waiter, Which};
use crate::segment::{Segment, membership, place};
use crate::views::through_log::{LookBack, Meanwhile};
use crate::views::view::{Notes, View};

/// Attempts of an optimistic read before it takes the lock (R1).
const READ_ATTEMPTS: u32 = 64;
/// Looks at an odd counter before the shard is read through its log (R9). A short change is over before.
const ODD_SPINS: u32 = 64;
/// Bytes of a try that is long, of which so many may be thrown away before the read takes the lock (R10);
const LONG_TRY: u64 = 1 << 20;
const LONG_TRIES: u32 = 2;
/// and bytes of all tries together.
const WASTE_MOST: u64 = 8 << 20;
/// How long a reader waits for a lock before it tries again without.
const LOCK_WAIT: Duration = Duration::from_millis(10);
/// Milliseconds after which the readers of this process ask again whether a writer is alive, which is a system call.
const WRITER_PROBE: u64 = 10;

/// What tries came to that were thrown away (R10).
#[derive(Default)]
struct Wasted {
    bytes: u64,
    long: u32,
}

impl Wasted {
    /// Whether a try of so many bytes is one too many.
    #[cold]
    fn is_much(&mut self, bytes: u64) -> bool {
        self.bytes += bytes;
        self.long += u32::from(bytes > LONG_TRY);
        self.long >= LONG_TRIES || self.bytes > WASTE_MOST
    }
}

/// How shards may be read whose counters were noted.
enum Noted {
    /// At once.
    Plain,
    /// Somebody has to look after one of them first.
    Marked,
    /// One was being changed, and is in another state by now.
    Changing,
    /// This one is in the midst of a change that takes longer.
    Unfinished(usize),
}

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

/// The body of a read whose code is to be inlined into its caller. Rust can demand that of a method, but not of a closure.
/// As for a closure (R8), nothing is kept from one run to the next.
pub trait Body<S>: Sync {
    /// The result of a run.
    type Found;
    /// Its errors.
    type Error;

    /// Runs it.
    ///
    /// # Errors
    /// Its own.
    fn run(&self, view: &View<'_>, scratch: &mut S) -> Result<Self::Found, Self::Error>;
}

/// A closure as a [`Body`].
struct Closure<'c, F>(&'c F);

impl<S, R, E, F> Body<S> for Closure<'_, F>
where
    F: Fn(&View<'_>, &mut S) -> Result<R, E> + Sync,
{
    type Found = R;
    type Error = E;

    #[inline(always)]
    fn run(&self, view: &View<'_>, scratch: &mut S) -> Result<R, E> {
        (self.0)(view, scratch)
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

    /// The first try of [`read_into`](Self::read_into) alone, for the reads that programs make most. None where that try
    /// does not count, or fails: the caller reads in the usual way then.
    #[inline(always)]
    pub fn read_at_once<S: Scratch, B: Body<S>>(
        &self,
        index: usize,
        scratch: &mut S,
        body: &B,
    ) -> Option<B::Found> {
        let first = self.first_try(index, scratch, body, &mut Wasted::default());
        first.and_then(Result::ok)
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
            None => self.read_slowly(shards, Marks::Ignored, &mut (), &body),
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
        body(&View::new(&self.mapping, Notes::Locked));
    }

    #[inline(always)]
    fn try_until_unchanged<S: Scratch, R, E: From<Error>>(
        &self,
        shards: ShardSet,
        scratch: &mut S,
        body: impl Fn(&View<'_>, &mut S) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        let Some(index) = shards.single() else {
            return match self.read_many(shards, Marks::Respected, scratch, &body) {
                Some(result) => result,
                None => self.read_slowly(shards, Marks::Respected, scratch, &body),
            };
        };
        let mut wasted = Wasted::default();
        let first = self.first_try(index, scratch, &Closure(&body), &mut wasted);
        first.unwrap_or_else(|| self.try_again(index, scratch, &body, wasted))
    }

    /// One try of a shard; none where it has to be made again.
    #[inline(always)]
    fn first_try<S: Scratch, B: Body<S>>(
        &self,
        index: usize,
        scratch: &mut S,
        body: &B,
        wasted: &mut Wasted,
    ) -> Option<Result<B::Found, B::Error>> {
        let at = self.mapping.layout().shard(index) + shard::COUNTER;
        let noted = counter::note(self.mapping.word(at));
        if !counter::is_plain(noted) {
            return None;
        }
        let view = View::new(&self.mapping, Notes::One(at, noted));
        scratch.clear();
        let result = body.run(&view, scratch);
        self.mapping.race().at(Moment::Tried);
        if !view.unchanged() {
            wasted.is_much(view.done());
            return None;
        }
        Some(result)
    }

    /// All tries of one shard after the first, which is the last one of nearly all reads: in a function of their own, so
    /// that they do not keep the compiler from making the first a part of the caller.
    #[cold]
    #[inline(never)]
    fn try_again<S: Scratch, R, E: From<Error>>(
        &self,
        index: usize,
        scratch: &mut S,
        body: &impl Fn(&View<'_>, &mut S) -> Result<R, E>,
        mut wasted: Wasted,
    ) -> Result<R, E> {
        let shards = ShardSet::one(index);
        let at = self.mapping.layout().shard(index) + shard::COUNTER;
        let counter = self.mapping.word(at);
        for _ in 1..READ_ATTEMPTS {
            let noted = counter::note(counter);
            if counter::is_plain(noted) {
                let view = View::new(&self.mapping, Notes::One(at, noted));
                scratch.clear();
                let result = body(&view, scratch);
                self.mapping.race().at(Moment::Tried);
                if view.unchanged() {
                    return result;
                }
                if wasted.is_much(view.done()) {
                    break;
                }
            } else if self.pass_by(index, noted)? {
                break;
            }
        }
        // A shard with a mark that was looked after, or one whose change takes long.
        if !counter::is_plain(self.mapping.load(at))
            && let Some(result) = self.read_many(shards, Marks::Respected, scratch, body)
        {
            return result;
        }
        self.read_slowly(shards, Marks::Respected, scratch, body)
    }

    /// A shard that cannot be read at once: a moment's wait where it is being changed; true where that takes longer, or
    /// where it has a mark and was looked after.
    #[cold]
    fn pass_by(&self, index: usize, noted: u64) -> Result<bool, Error> {
        if noted & counter::ODD != 0 {
            return Ok(!self.has_changed_soon(index, noted));
        }
        match marks::was_looked_after(self, index) {
            true => Ok(true),
            false => Err(Error::Marked),
        }
    }

    /// Whether the counter of a shard that is being changed has another value within a moment.
    #[cold]
    fn has_changed_soon(&self, index: usize, noted: u64) -> bool {
        let at = self.mapping.layout().shard(index) + shard::COUNTER;
        (0..ODD_SPINS).any(|_| {
            std::hint::spin_loop();
            self.mapping.load(at) != noted
        })
    }

    fn read_many<S: Scratch, R, E: From<Error>>(
        &self,
        shards: ShardSet,
        marks: Marks,
        scratch: &mut S,
        body: &impl Fn(&View<'_>, &mut S) -> Result<R, E>,
    ) -> Option<Result<R, E>> {
        let mut counters = [0; SHARDS_MAX];
        let counters = &mut counters[..shards.len()];
        let mut back: Option<LookBack<'_>> = None;
        let mut wasted = Wasted::default();
        for _ in 0..READ_ATTEMPTS {
            if back.is_none() {
                match self.note_all(shards, marks, counters) {
                    Noted::Plain => {}
                    Noted::Marked => return Some(Err(Error::Marked.into())),
                    // Who looks after marks writes next, for which it waits anyway.
                    Noted::Unfinished(index) if marks == Marks::Respected => {
                        if self.has_recovered(index) {
                            continue;
                        }
                        back = LookBack::new(self, shards, counters);
                        if back.is_none() {
                            continue;
                        }
                    }
                    Noted::Unfinished(_) | Noted::Changing => continue,
                }
            }
            let view = match &back {
                None => View::new(&self.mapping, Notes::Many(shards, counters)),
                Some(back) => {
                    back.begin();
                    View::new(&back.before, Notes::Back(back))
                }
            };
            if back.is_some() && self.is_kept_out(&view, shards) {
                return Some(Err(Error::Marked.into()));
            }
            scratch.clear();
            let result = body(&view, scratch);
            self.mapping.race().at(Moment::Tried);
            let meanwhile = match &back {
                Some(back) => back.meanwhile(),
                None if view.unchanged() => Meanwhile::Nothing,
                None => Meanwhile::Ended,
            };
            match meanwhile {
                Meanwhile::Nothing => return Some(result),
                Meanwhile::Torn => {}
                Meanwhile::Ended => {
                    let done = view.done();
                    back = None;
                    if wasted.is_much(done) {
                        break;
                    }
                }
            }
        }
        None
    }

    /// Notes the counters of shards, and says how they may be read.
    fn note_all(&self, shards: ShardSet, marks: Marks, counters: &mut [u64]) -> Noted {
        let (mut odd, mut marked) = (None, false);
        for (place, index) in counters.iter_mut().zip(shards.iter()) {
            let at = self.mapping.layout().shard(index) + shard::COUNTER;
            *place = counter::note(self.mapping.word(at));
            if !counter::is_plain(*place) {
                marked |= *place & counter::MARK != 0
                    && marks == Marks::Respected
                    && !marks::was_looked_after(self, index);
                odd = (*place & counter::ODD != 0)
                    .then_some((index, *place))
                    .or(odd);
            }
        }
        match odd {
            Some((index, noted)) if self.has_changed_soon(index, noted) => Noted::Changing,
            Some((index, _)) => Noted::Unfinished(index),
            None if marked => Noted::Marked,
            None => Noted::Plain,
        }
    }

    /// Recovers a shard whose writer died in the middle of a change, if this process writes as well: later reads are plain
    /// ones then. It never waits, and leaves alone a shard that cannot be recovered.
    #[cold]
    fn has_recovered(&self, index: usize) -> bool {
        if !self.process.claimed() {
            return false;
        }
        let now = platform::coarse_milliseconds();
        let probed = self.writer_probed.load(Ordering::Relaxed);
        if now.wrapping_sub(probed) < WRITER_PROBE
            || self
                .writer_probed
                .compare_exchange(probed, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_err()
        {
            return false;
        }
        let word = self.mapping.shard_words(index).lock();
        let mut waiter = Waiter::new(self, Which::Shard(index), Duration::ZERO).probe_first();
        if lock::acquire(word, self.process.owner(), &mut waiter).is_err() {
            return false;
        }
        let _unlock = Unlock {
            segment: self,
            shards: ShardSet::one(index),
        };
        self.settle(index, Marks::Ignored).is_ok()
    }

    /// Whether a shard had a mark, before the changes that are read back, which keeps the reader out (L5).
    #[cold]
    fn is_kept_out(&self, view: &View<'_>, shards: ShardSet) -> bool {
        let mut marked = shards.iter().filter(|&index| view.mark(index) != 0);
        marked.any(|index| !marks::was_looked_after(self, index))
    }

    #[cold]
    fn read_slowly<S: Scratch, R, E: From<Error>>(
        &self,
        shards: ShardSet,
        marks: Marks,
        scratch: &mut S,
        body: &impl Fn(&View<'_>, &mut S) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut since = Instant::now();
        let mut seen = 0;
        // Who cannot join (the file was removed, the process table is full) reads
        // on without a lock, as a read-only handle does.
        let locks = self.writable() && membership::join(self).is_ok();
        loop {
            let patience = self.patience();
            let busy = match locks {
                true => {
                    // While the lock is not free the shard may come to be read through its log.
                    let limited = limit_patience(LOCK_WAIT);
                    match self.lock_shards(shards, marks) {
                        Ok(_) => {
                            let _unlock = Unlock {
                                segment: self,
                                shards,
                            };
                            drop(limited);
                            scratch.clear();
                            let view = View::new(&self.mapping, Notes::Locked);
                            return body(&view, scratch);
                        }
                        Err(error @ Error::Busy { .. }) => Some(error),
                        Err(error) => return Err(error.into()),
                    }
                }
                false => None,
            };
            if let Some(result) = self.read_many(shards, marks, scratch, body) {
                return result;
            }
            // R5: the patience is used up, without any progress where locks are waited for.
            let counters = shards.iter().map(|index| {
                let at = self.mapping.layout().shard(index) + shard::COUNTER;
                self.mapping.load(at)
            });
            let now = counters.fold(0_u64, u64::wrapping_add);
            if locks && std::mem::replace(&mut seen, now) != now {
                since = Instant::now();
            }
            if since.elapsed() >= patience {
                return Err(busy.unwrap_or_else(|| self.explain_odd(shards)).into());
            }
            if !locks {
                self.pause()?;
            }
        }
    }

    /// A moment in which others may end what they do.
    fn pause(&self) -> Result<(), Error> {
        let pause = || std::thread::sleep(Duration::from_millis(1));
        let Some(hook) = self.hook() else {
            pause();
            return Ok(());
        };
        hook.blocked(&mut || pause());
        match patience::is_interrupted(hook) {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    }

    /// Reads shards under their locks: `body` runs once, and what it shows
    /// somebody else counts. For what is too long to be tried, or shown once.
    pub fn read_locked<R>(
        &self,
        shards: ShardSet,
        body: impl FnOnce(&View<'_>) -> R,
    ) -> Result<R, Error> {
        place::prepare_to_write(self)?;
        self.lock_shards(shards, Marks::Respected)?;
        let _unlock = Unlock {
            segment: self,
            shards,
        };
        Ok(body(&View::new(&self.mapping, Notes::Locked)))
    }

    /// Whether somebody has to look after a shard before it is read or changed, where a change of the shard that is not finished may have taken its mark away: a read through the log is
    /// kept out by the mark that was there before (R9). One that is recovered or finished meanwhile has none.
    #[cold]
    pub fn needs_look(&self, index: usize) -> bool {
        let at = self.mapping.layout().shard(index) + shard::COUNTER;
        let noted = counter::note(self.mapping.word(at));
        let was_marked = |back: LookBack<'_>| {
            let view = View::new(&back.before, Notes::Back(&back));
            view.mark(index) != 0
        };
        noted & counter::MARK != 0
            || noted & counter::ODD != 0
                && LookBack::new(self, ShardSet::one(index), &[noted]).is_some_and(was_marked)
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
