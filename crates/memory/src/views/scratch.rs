//! What a read hands to its caller, and by which code: memory that is empty when a try begins, and bodies (R8).

use crate::views::view::View;

/// Memory of the caller's that a read fills. [`Segment::read_into`](crate::Segment::read_into) empties it before every try, and where it ends in
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
