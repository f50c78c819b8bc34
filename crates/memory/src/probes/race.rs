//! Changes the store during a read, so that a test can choose the states that a lock-free read
//! encounters (R1, R2, R8).
//!
//! A test can set a hook on a handle. The hook is called whenever one of the handle's lock-free
//! reads accesses the heap, and after the body of that read has run but before its result is
//! checked. The hook changes the store through another handle, so the check fails as it does when
//! another process changes the store. In a build without the `races` feature, all of this compiles
//! to nothing.

/// Whether the hooks are compiled in.
pub const ENABLED: bool = cfg!(feature = "races");

/// A point in a lock-free read at which the hook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The read is about to access the heap. Data that it read earlier may belong to another state.
    Looking,
    /// The body of an attempt has run, and the check for concurrent changes follows.
    Tried,
}

#[cfg(feature = "races")]
mod hooks {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex, PoisonError};

    use super::Moment;

    /// A callback during reads. It may use any handle except the one on which it is set.
    pub type Hook = Box<dyn FnMut(Moment) + Send>;

    /// The hook of one handle, shared with the overlays through which the handle reads.
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

    /// Calls the hook each time a view accesses the heap. Contains no hook if the shards are
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
