//! Changes in the middle of a read: a test chooses what a read without a lock encounters (R1, R2,
//! R8).
//!
//! A handle can be given a hook. The hook is called whenever one of the handle's reads without a
//! lock looks at the heap, and when the body of such a read has run but its result is not checked
//! yet. The hook changes the store through another handle, so that the check fails as it does when
//! another process changes the store first. In a build without the `races` feature, all of this
//! compiles to nothing.

/// Whether the hooks are compiled in.
pub const ENABLED: bool = cfg!(feature = "races");

/// The progress of a read without a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The read is about to look at the heap. Its earlier observations may belong to another state.
    Looking,
    /// The body of one try has run, and the check for concurrent changes comes next.
    Tried,
}

#[cfg(feature = "races")]
mod hooks {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex, PoisonError};

    use super::Moment;

    /// A callback in the middle of reads. It may use any handle except its own.
    pub type Hook = Box<dyn FnMut(Moment) + Send>;

    /// The hook of one handle, shared with the overlays that it reads through.
    #[derive(Clone, Default)]
    pub(crate) struct Race(Arc<Place>);

    #[derive(Default)]
    struct Place {
        is_set: AtomicBool,
        hook: Mutex<Option<Hook>>,
    }

    impl Race {
        pub(crate) fn set(&self, hook: Option<Hook>) {
            let mut place = self.0.hook.lock().unwrap_or_else(PoisonError::into_inner);
            self.0.is_set.store(hook.is_some(), Ordering::Relaxed);
            *place = hook;
        }

        pub(crate) fn at(&self, moment: Moment) {
            if !self.0.is_set.load(Ordering::Relaxed) {
                return;
            }
            let mut hook = self.0.hook.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(hook) = &mut *hook {
                hook(moment);
            }
        }
    }

    /// Calls the hook each time a view looks at the heap. Contains no hook if the shards are
    /// locked.
    #[derive(Clone, Copy)]
    pub(crate) struct ReadWatch<'a>(Option<&'a Race>);

    impl<'a> ReadWatch<'a> {
        pub(crate) fn new(race: &'a Race, is_locked: bool) -> ReadWatch<'a> {
            ReadWatch((!is_locked).then_some(race))
        }

        pub(crate) fn looking(self) {
            if let Some(race) = self.0 {
                race.at(Moment::Looking);
            }
        }
    }
}

#[cfg(not(feature = "races"))]
mod hooks {
    use std::marker::PhantomData;

    use super::Moment;

    #[derive(Clone, Default)]
    pub(crate) struct Race {}

    impl Race {
        #[inline(always)]
        pub(crate) fn at(&self, _: Moment) {}
    }

    #[derive(Clone, Copy)]
    pub(crate) struct ReadWatch<'a>(PhantomData<&'a Race>);

    impl<'a> ReadWatch<'a> {
        #[inline(always)]
        pub(crate) fn new(_: &'a Race, _is_locked: bool) -> ReadWatch<'a> {
            ReadWatch(PhantomData)
        }

        #[inline(always)]
        pub(crate) fn looking(self) {}
    }
}

#[cfg(feature = "races")]
pub use hooks::Hook;
pub(crate) use hooks::{Race, ReadWatch};
