//! What C holds of ours.
//!
//! The memory of a handle is never given back, so that a call with a closed one finds that out, and touches nothing that
//! is not there any more. It is used again for another handle only once [`KEPT`] others were closed after it.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use undercroft_engine::ForkMutex;

use crate::status::{Outcome, Refused, Status};

/// So many handles of a kind lie closed before the first of them is used again.
const KEPT: usize = 64;

/// The state of a closed handle of any kind.
const CLOSED: u32 = 0;

/// What a handle is for.
pub(crate) trait Kind: Sized + 'static {
    /// What the header calls it.
    const NAME: &'static str;
    /// The state of an open one, that no other kind has; the next number is that of one in use by a thread, the next
    /// but one that of one which a panic has left half done.
    const OPEN: u32;

    /// Its closed handles.
    fn pool() -> &'static Pool<Self>;

    /// Where that part of the value lies which any number of threads may read while no call uses the handle, if it has
    /// such a part.
    fn readable(&self) -> *const c_void {
        ptr::null()
    }
}

/// A handle, as C has its address.
#[repr(C)]
pub(crate) struct Handle<T> {
    /// The first word of every kind, so that one is not taken for the other.
    state: AtomicU32,
    /// [`Kind::readable`], while no call uses the handle.
    readable: AtomicPtr<c_void>,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: threads share the value only by `shared`, which gives out shared references, or have it to themselves, as
// `state` says.
unsafe impl<T: Send + Sync> Sync for Handle<T> {}

/// Closed handles of a kind, the one closed first in front.
pub(crate) struct Pool<T: 'static>(ForkMutex<VecDeque<&'static Handle<T>>>);

impl<T> Pool<T> {
    pub(crate) const fn new() -> Pool<T> {
        Pool(ForkMutex::new(VecDeque::new(), VecDeque::new))
    }

    fn with<R>(&self, body: impl FnOnce(&mut VecDeque<&'static Handle<T>>) -> R) -> R {
        body(&mut self.0.lock())
    }
}

impl<T: Kind> Handle<T> {
    /// A handle for C.
    pub(crate) fn open(value: T) -> *mut Handle<T> {
        let used = T::pool().with(|pool| match pool.len() {
            0..KEPT => None,
            _ => pool.pop_front(),
        });
        let handle = used.unwrap_or_else(|| {
            Box::leak(Box::new(Handle {
                state: AtomicU32::new(CLOSED),
                readable: AtomicPtr::default(),
                value: UnsafeCell::new(None),
            }))
        });
        let readable = value.readable();
        // SAFETY: it is closed, so nobody else touches the value.
        unsafe { *handle.value.get() = Some(value) };
        handle
            .readable
            .store(readable.cast_mut(), Ordering::Relaxed);
        handle.state.store(T::OPEN, Ordering::Release);
        std::ptr::from_ref(handle).cast_mut()
    }

    /// The value, which several threads may use at a time.
    ///
    /// # Safety
    /// The pointer is null or [`open`](Self::open) gave it out, for whichever kind; nobody closes the handle before the
    /// call returns.
    #[inline(always)]
    pub(crate) unsafe fn shared<'a>(handle: *const Handle<T>) -> Outcome<&'a T> {
        // SAFETY: it is null, or the memory of a handle, which stays.
        if let Some(handle) = unsafe { handle.as_ref() }
            && handle.state.load(Ordering::Acquire) == T::OPEN
            // SAFETY: it is open, and stays so; values of this kind are never given out but as shared references.
            && let Some(value) = unsafe { &*handle.value.get() }
        {
            return Ok(value);
        }
        // SAFETY: as above.
        Err(unsafe { Handle::refuse(handle) })
    }

    /// The value, for this thread alone.
    ///
    /// # Safety
    /// The pointer is null or [`open`](Self::open) gave it out, for whichever kind.
    #[inline]
    pub(crate) unsafe fn exclusive<'a>(handle: *const Handle<T>) -> Outcome<InUse<'a, T>> {
        // SAFETY: it is null, or the memory of a handle, which stays.
        if let Some(handle) = unsafe { handle.as_ref() }
            && handle.change(T::OPEN, T::OPEN + 1)
        {
            handle.readable.store(ptr::null_mut(), Ordering::Relaxed);
            return Ok(InUse(handle));
        }
        // SAFETY: as above.
        Err(unsafe { Handle::refuse(handle) })
    }

    /// The part that any thread may read; null where the handle cannot be used.
    ///
    /// # Safety
    /// As for [`exclusive`](Self::exclusive).
    pub(crate) unsafe fn readable(handle: *const Handle<T>) -> *const c_void {
        // SAFETY: it is null, or the memory of a handle, which stays.
        match unsafe { handle.as_ref() } {
            Some(handle) if handle.state.load(Ordering::Acquire) == T::OPEN => {
                handle.readable.load(Ordering::Acquire)
            }
            _ => ptr::null(),
        }
    }

    /// Closes it. Null is closed already.
    ///
    /// # Safety
    /// As for [`exclusive`](Self::exclusive); a thread that has the value of a [`shared`](Self::shared) one is done
    /// with it.
    pub(crate) unsafe fn close(handle: *mut Handle<T>) -> Outcome<Option<T>> {
        // SAFETY: it is null, or the memory of a handle, which stays.
        let Some(known) = (unsafe { handle.as_ref() }) else {
            return Ok(None);
        };
        if !known.change(T::OPEN, T::OPEN + 1) && !known.change(T::OPEN + 2, T::OPEN + 1) {
            // SAFETY: as above.
            return Err(unsafe { Handle::refuse(handle) });
        }
        known.readable.store(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: the state says that it is ours alone.
        let value = unsafe { (*known.value.get()).take() };
        known.state.store(CLOSED, Ordering::Release);
        T::pool().with(|pool| pool.push_back(known));
        Ok(value)
    }

    fn change(&self, from: u32, to: u32) -> bool {
        let changed = self
            .state
            .compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed);
        changed.is_ok()
    }

    /// Why a handle cannot be used.
    ///
    /// # Safety
    /// As for [`exclusive`](Self::exclusive).
    #[cold]
    #[inline(never)]
    unsafe fn refuse(handle: *const Handle<T>) -> Refused {
        // SAFETY: it is null, or the memory of a handle, which stays.
        let state = unsafe { handle.as_ref() }.map(|handle| handle.state.load(Ordering::Relaxed));
        let (status, found) = match state {
            None => (Status::Misuse, "NULL"),
            Some(CLOSED) => (Status::Misuse, "one that is closed"),
            Some(state) if state == T::OPEN || state == T::OPEN + 1 => (
                Status::Misuse,
                "one that another call is using: it belongs to one thread at a time",
            ),
            Some(state) if state == T::OPEN + 2 => (
                Status::Internal,
                "one that a bug in undercroft left half done",
            ),
            Some(_) => (Status::Misuse, "a handle of another kind"),
        };
        Refused::new(status, &format!("expected a {}, got {found}", T::NAME))
    }
}

/// A value that this thread has for itself until this is dropped.
pub(crate) struct InUse<'a, T: Kind>(&'a Handle<T>);

impl<T: Kind> Deref for InUse<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the state says that it is ours alone.
        let value = unsafe { &*self.0.value.get() };
        value.as_ref().expect("an open handle has a value")
    }
}

impl<T: Kind> DerefMut for InUse<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the state says that it is ours alone.
        let value = unsafe { &mut *self.0.value.get() };
        value.as_mut().expect("an open handle has a value")
    }
}

impl<T: Kind> Drop for InUse<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        let state = T::OPEN + if std::thread::panicking() { 2 } else { 0 };
        let readable = self.readable().cast_mut();
        self.0.readable.store(readable, Ordering::Release);
        self.0.state.store(state, Ordering::Release);
    }
}
