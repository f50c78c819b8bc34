//! How a read passes results to its caller: memory that is cleared before each attempt, and the
//! bodies of reads (R8).

use crate::views::view::View;

/// Memory that the caller provides and a read fills.
///
/// [`Segment::read_into`](crate::Segment::read_into) clears it before every attempt and after a
/// failed read. It therefore contains only the results of the successful attempt.
pub trait Scratch {
    /// Removes all contents. The implementation may retain the allocated memory.
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

/// The body of a read whose code must be inlined into its caller. Rust can force inlining of a
/// method, but not of a closure. Like a closure, a body must not keep state from one run to the
/// next (R8).
pub trait Body<S>: Sync {
    /// The result of a run.
    type Found;
    /// The error that a failed run returns.
    type Error;

    /// Runs the body.
    ///
    /// # Errors
    /// Returns any error from the body.
    fn run(&self, view: &View<'_>, scratch: &mut S) -> Result<Self::Found, Self::Error>;
}

/// An adapter that turns a closure into a [`Body`].
pub(crate) struct Closure<'c, F>(pub(crate) &'c F);

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
