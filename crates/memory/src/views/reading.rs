//! Reading without a lock: a body is tried until nothing changed meanwhile (R1 to R5), and no try leaves anything to the
//! next one (R8).
//!
//! A try that is thrown away may have seen anything: halves of two values, a length of one and the bytes of another. So a
//! body is [`Fn`] and [`Sync`]: what it captures it can change neither through `&mut` nor through a cell. What it
//! finds leaves it by value, and is dropped with its try, or in a [`Scratch`], which is empty when a try begins.

use crate::error::Error;
use crate::locking::shard_locks::{self, Unlock};
use crate::mapped::layout::shard;
use crate::probes::race::Moment;
use crate::segment::marks::{self, Marks};
use crate::segment::shard_set::ShardSet;
use crate::segment::{Segment, counter, place};
use crate::views::retries::{self, READ_ATTEMPTS, Wasted};
use crate::views::scratch::{Body, Closure, Scratch};
use crate::views::through_log::LookBack;
use crate::views::view::{Notes, View};

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
        let result = try_until_unchanged(self, shards, scratch, body);
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
        let first = first_try(self, index, scratch, body, &mut Wasted::default());
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
        match retries::read_many(self, shards, Marks::Ignored, &mut (), &body) {
            Some(result) => result,
            None => retries::read_slowly(self, shards, Marks::Ignored, &mut (), &body),
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
        retries::read_many(self, shards, Marks::Ignored, &mut (), &body)
    }

    /// Looks at the shards as they are at this moment, torn or not: only to [prefetch](View::prefetch) what will be
    /// read. Never waits.
    #[inline(always)]
    pub fn glance(&self, body: impl FnOnce(&View<'_>)) {
        // No notes: nothing will be believed, so there is nothing to check.
        body(&View::new(&self.mapping, Notes::Locked));
    }

    /// Whether a shard has to be looked after before it is read or changed, even where a change that is not finished may
    /// have taken its mark away: a read through the log is kept out by the mark that was there before (R9). A shard that
    /// is recovered or finished meanwhile has none.
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

    /// Reads shards under their locks: `body` runs once, and what it shows
    /// somebody else counts. For what is too long to be tried, or shown once.
    pub fn read_locked<R>(
        &self,
        shards: ShardSet,
        body: impl FnOnce(&View<'_>) -> R,
    ) -> Result<R, Error> {
        place::prepare_to_write(self)?;
        shard_locks::lock(self, shards, Marks::Respected)?;
        let _unlock = Unlock {
            segment: self,
            shards,
        };
        Ok(body(&View::new(&self.mapping, Notes::Locked)))
    }
}

/// Reads shards, without a lock at first.
#[inline(always)]
fn try_until_unchanged<S: Scratch, R, E: From<Error>>(
    segment: &Segment,
    shards: ShardSet,
    scratch: &mut S,
    body: impl Fn(&View<'_>, &mut S) -> Result<R, E> + Sync,
) -> Result<R, E> {
    let Some(index) = shards.single() else {
        return match retries::read_many(segment, shards, Marks::Respected, scratch, &body) {
            Some(result) => result,
            None => retries::read_slowly(segment, shards, Marks::Respected, scratch, &body),
        };
    };
    let mut wasted = Wasted::default();
    let first = first_try(segment, index, scratch, &Closure(&body), &mut wasted);
    first.unwrap_or_else(|| try_again(segment, index, scratch, &body, wasted))
}

/// One try of a shard; none where it has to be made again.
#[inline(always)]
fn first_try<S: Scratch, B: Body<S>>(
    segment: &Segment,
    index: usize,
    scratch: &mut S,
    body: &B,
    wasted: &mut Wasted,
) -> Option<Result<B::Found, B::Error>> {
    let at = segment.mapping.layout().shard(index) + shard::COUNTER;
    let noted = counter::note(segment.mapping.word(at));
    if !counter::is_plain(noted) {
        return None;
    }
    let view = View::new(&segment.mapping, Notes::One(at, noted));
    scratch.clear();
    let result = body.run(&view, scratch);
    segment.mapping.race().at(Moment::Tried);
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
    segment: &Segment,
    index: usize,
    scratch: &mut S,
    body: &impl Fn(&View<'_>, &mut S) -> Result<R, E>,
    mut wasted: Wasted,
) -> Result<R, E> {
    let shards = ShardSet::one(index);
    let at = segment.mapping.layout().shard(index) + shard::COUNTER;
    let counter = segment.mapping.word(at);
    for _ in 1..READ_ATTEMPTS {
        let noted = counter::note(counter);
        if counter::is_plain(noted) {
            let view = View::new(&segment.mapping, Notes::One(at, noted));
            scratch.clear();
            let result = body(&view, scratch);
            segment.mapping.race().at(Moment::Tried);
            if view.unchanged() {
                return result;
            }
            if wasted.is_much(view.done()) {
                break;
            }
        } else if pass_by(segment, index, noted)? {
            break;
        }
    }
    // A shard with a mark that was looked after, or one whose change takes long.
    if !counter::is_plain(segment.mapping.load(at))
        && let Some(result) = retries::read_many(segment, shards, Marks::Respected, scratch, body)
    {
        return result;
    }
    retries::read_slowly(segment, shards, Marks::Respected, scratch, body)
}

/// A shard that cannot be read at once: a moment's wait where it is being changed; true where that takes longer, or
/// where it has a mark and was looked after.
#[cold]
fn pass_by(segment: &Segment, index: usize, noted: u64) -> Result<bool, Error> {
    if noted & counter::ODD != 0 {
        return Ok(!retries::has_changed_soon(segment, index, noted));
    }
    match marks::was_looked_after(segment, index) {
        true => Ok(true),
        false => Err(Error::Marked),
    }
}
