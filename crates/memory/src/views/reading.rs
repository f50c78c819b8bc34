//! Reads without a lock: a body is retried until the shards do not change during its run (R1 to
//! R5), and no attempt passes anything to the next one (R8).
//!
//! A discarded attempt may have seen arbitrary states, such as halves of two values, or the length
//! of one value and the bytes of another. A body is therefore [`Fn`] and [`Sync`]: it cannot change
//! what it captures, neither through `&mut` nor through a cell. Its result is either returned by
//! value and dropped with a discarded attempt, or stored in a [`Scratch`], which is cleared before
//! each attempt.

use crate::error::Error;
use crate::locking::shard_locks::{self, Unlock};
use crate::mapped::layout::shard;
use crate::probes::race::Moment;
use crate::segment::marks::{self, Marks};
use crate::segment::shard_set::ShardSet;
use crate::segment::{Segment, counter, place};
use crate::views::retries::{self, READ_ATTEMPTS, WastedWork};
use crate::views::scratch::{Body, Closure, Scratch};
use crate::views::through_log::OldStateView;
use crate::views::view::{Notes, View};

impl Segment {
    /// Reads shards without a lock. `body` may run several times, and its result is returned only
    /// if the shards did not change during the run (R1, R2). After a few attempts, the shards are
    /// locked.
    ///
    /// A body that could keep state between its runs does not compile (R8). This body changes a
    /// captured vector:
    ///
    /// ```compile_fail,E0596
    /// # use undercroft_memory::{Error, Segment, ShardSet};
    /// # fn read(segment: &Segment) -> Result<(), Error> {
    /// let mut roots = Vec::new();
    /// segment.read(ShardSet::one(0), |view| Ok::<_, Error>(roots.push(view.root(0, 0))))
    /// # }
    /// ```
    ///
    /// This body changes a captured cell:
    ///
    /// ```compile_fail,E0277
    /// # use undercroft_memory::{Error, Segment, ShardSet};
    /// # fn read(segment: &Segment) -> Result<(), Error> {
    /// let root = std::cell::Cell::new(0);
    /// segment.read(ShardSet::one(0), |view| Ok::<_, Error>(root.set(view.root(0, 0))))
    /// # }
    /// ```
    ///
    /// A body that returns its result compiles:
    ///
    /// ```
    /// # use undercroft_memory::{Error, Segment, ShardSet};
    /// # fn read(segment: &Segment) -> Result<u64, Error> {
    /// segment.read(ShardSet::one(0), |view| Ok::<_, Error>(view.root(0, 0)))
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Marked`] if one of the shards must first be cleaned up and reported with
    /// [`looked_after`](Self::looked_after). Also returns any error from `body`.
    #[inline]
    pub fn read<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        body: impl Fn(&View<'_>) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        self.read_into(shards, &mut (), |view, ()| body(view))
    }

    /// Reads shards like [`read`](Self::read), filling memory that the caller provides. If the read
    /// fails, that memory is cleared.
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

    /// Makes only the first attempt of [`read_into`](Self::read_into), for the most frequent reads.
    /// Returns `None` if the attempt fails or is discarded. The caller must then call
    /// [`read_into`](Self::read_into).
    #[inline(always)]
    pub fn read_at_once<S: Scratch, B: Body<S>>(
        &self,
        index: usize,
        scratch: &mut S,
        body: &B,
    ) -> Option<B::Found> {
        let first = first_try(self, index, scratch, body, &mut WastedWork::default());
        first.and_then(Result::ok)
    }

    /// Reads shards like [`read`](Self::read), but ignores the shards' marks. For callers that
    /// clean up marked shards.
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

    /// Reads a consistent state of the shards, like [`read`](Self::read), but never waits. Returns
    /// `None` if other processes keep changing the shards. Ignores the shards' marks.
    pub fn try_read<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        body: impl Fn(&View<'_>) -> Result<R, E> + Sync,
    ) -> Option<Result<R, E>> {
        let body = |view: &View<'_>, (): &mut ()| body(view);
        retries::read_many(self, shards, Marks::Ignored, &mut (), &body)
    }

    /// Accesses the current state of the shards, which may be torn, only to
    /// [prefetch](View::prefetch) what will be read. Never waits.
    #[inline(always)]
    pub fn glance(&self, body: impl FnOnce(&View<'_>)) {
        // No counters are recorded, because the result is not used and need not be verified.
        body(&View::new(&self.mapping, Notes::Locked));
    }

    /// Returns true if a shard must be cleaned up before it is read or changed.
    ///
    /// This includes a shard whose mark was removed by an unfinished change, because the old mark
    /// still blocks reads through the log (R9). If the change has since been completed or
    /// recovered, the shard has no mark.
    #[cold]
    pub fn needs_look(&self, index: usize) -> bool {
        let at = self.mapping.layout().shard(index) + shard::COUNTER;
        let noted = counter::note(self.mapping.word(at));
        let was_marked = |back: OldStateView<'_>| {
            let view = View::new(&back.before, Notes::Back(&back));
            view.mark(index) != 0
        };
        noted & counter::MARK != 0
            || noted & counter::ODD != 0
                && OldStateView::new(self, ShardSet::one(index), &[noted]).is_some_and(was_marked)
    }

    /// Reads shards under their locks, so that `body` runs exactly once. For reads that take too
    /// long to retry, or whose results become visible to other threads immediately.
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

/// Reads shards, making the first attempts without a lock.
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
    let mut wasted = WastedWork::default();
    let first = first_try(segment, index, scratch, &Closure(&body), &mut wasted);
    first.unwrap_or_else(|| try_again(segment, index, scratch, &body, wasted))
}

/// Makes one attempt to read a shard. Returns `None` if the read must be retried.
#[inline(always)]
fn first_try<S: Scratch, B: Body<S>>(
    segment: &Segment,
    index: usize,
    scratch: &mut S,
    body: &B,
    wasted: &mut WastedWork,
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

/// Makes all attempts after the first to read one shard. Nearly all reads succeed on the first
/// attempt. As a separate function, this code does not prevent the compiler from inlining the first
/// attempt into the caller.
#[cold]
#[inline(never)]
fn try_again<S: Scratch, R, E: From<Error>>(
    segment: &Segment,
    index: usize,
    scratch: &mut S,
    body: &impl Fn(&View<'_>, &mut S) -> Result<R, E>,
    mut wasted: WastedWork,
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
    // The shard is marked but was cleaned up recently, or it is in the middle of a long change.
    if !counter::is_plain(segment.mapping.load(at))
        && let Some(result) = retries::read_many(segment, shards, Marks::Respected, scratch, body)
    {
        return result;
    }
    retries::read_slowly(segment, shards, Marks::Respected, scratch, body)
}

/// Handles a shard that cannot be read directly. Waits briefly if the shard is being changed.
/// Returns true if the change is long, or if the shard is marked but was cleaned up recently.
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
