//! Manages handles, the objects that C programs refer to by address.
//!
//! A handle's memory is never freed, so a call with a closed handle detects the mistake and never
//! touches freed memory. A closed handle is reused only after [`KEPT`] more handles of the same
//! kind have been closed.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use undercroft_engine::ForkMutex;

use crate::status::{Outcome, Refused, Status};

/// How many closed handles of a kind must exist before the oldest one is reused.
const KEPT: usize = 64;

/// The state of a closed handle of any kind.
const CLOSED: u32 = 0;

/// A kind of handle, such as a store or a session.
pub(crate) trait Kind: Sized + 'static {
    /// The name of the C type in `undercroft.h`.
    const NAME: &'static str;
    /// The state of an open handle, unique to this kind. `OPEN + 1` means that a thread is using
    /// the handle, and `OPEN + 2` that a panic left it inconsistent.
    const OPEN: u32;

    /// Returns the pool of closed handles of this kind.
    fn pool() -> &'static Pool<Self>;

    /// Returns the address of the data that any thread may read while no call uses the handle, or
    /// null if this kind has no such data.
    fn readable(&self) -> *const c_void {
        ptr::null()
    }
}

/// A handle. C programs refer to it by its address.
#[repr(C)]
pub(crate) struct Handle<T> {
    /// The state, which is the first word of every handle and also identifies the handle's kind.
    state: AtomicU32,
    /// The result of [`Kind::readable`], or null while a call uses the handle.
    readable: AtomicPtr<c_void>,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: threads access the value either through shared references from `shared` or exclusively,
// and `state` records exclusive access.
unsafe impl<T: Send + Sync> Sync for Handle<T> {}

/// Closed handles of a kind, oldest first.
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
    /// Creates a handle, reusing the oldest closed handle if [`KEPT`] closed handles exist.
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
        // SAFETY: the handle is closed, so no other code accesses its value.
        unsafe { *handle.value.get() = Some(value) };
        handle
            .readable
            .store(readable.cast_mut(), Ordering::Relaxed);
        handle.state.store(T::OPEN, Ordering::Release);
        std::ptr::from_ref(handle).cast_mut()
    }

    /// Returns a handle's value for use by several threads at the same time.
    ///
    /// # Safety
    /// `handle` must be null or a pointer that [`open`](Self::open) returned for any kind. The
    /// handle must not be closed before the call returns.
    #[inline(always)]
    pub(crate) unsafe fn shared<'a>(handle: *const Handle<T>) -> Outcome<&'a T> {
        // SAFETY: the pointer is null or points to a handle, whose memory is never freed.
        if let Some(handle) = unsafe { handle.as_ref() }
            && handle.state.load(Ordering::Acquire) == T::OPEN
            // SAFETY: the handle is open, and the caller guarantees that it stays open. Values of
            // this kind are only accessed through shared references.
            && let Some(value) = unsafe { &*handle.value.get() }
        {
            return Ok(value);
        }
        // SAFETY: the pointer is null or points to a handle, whose memory is never freed.
        Err(unsafe { Handle::refuse(handle) })
    }

    /// Returns a handle's value for exclusive use by this thread.
    ///
    /// # Safety
    /// `handle` must be null or a pointer that [`open`](Self::open) returned for any kind.
    #[inline]
    pub(crate) unsafe fn exclusive<'a>(handle: *const Handle<T>) -> Outcome<InUse<'a, T>> {
        // SAFETY: the pointer is null or points to a handle, whose memory is never freed.
        if let Some(handle) = unsafe { handle.as_ref() }
            && handle.change(T::OPEN, T::OPEN + 1)
        {
            handle.readable.store(ptr::null_mut(), Ordering::Relaxed);
            return Ok(InUse(handle));
        }
        // SAFETY: the pointer is null or points to a handle, whose memory is never freed.
        Err(unsafe { Handle::refuse(handle) })
    }

    /// Returns the address of the data that any thread may read, or null if the handle is closed,
    /// in use or inconsistent.
    ///
    /// # Safety
    /// `handle` must be null or a pointer that [`open`](Self::open) returned for any kind.
    pub(crate) unsafe fn readable(handle: *const Handle<T>) -> *const c_void {
        // SAFETY: the pointer is null or points to a handle, whose memory is never freed.
        match unsafe { handle.as_ref() } {
            Some(handle) if handle.state.load(Ordering::Acquire) == T::OPEN => {
                handle.readable.load(Ordering::Acquire)
            }
            _ => ptr::null(),
        }
    }

    /// Closes a handle and returns its value. Null is ignored.
    ///
    /// # Safety
    /// `handle` must be null or a pointer that [`open`](Self::open) returned for any kind. No
    /// thread may still use a value from [`shared`](Self::shared).
    pub(crate) unsafe fn close(handle: *mut Handle<T>) -> Outcome<Option<T>> {
        // SAFETY: the pointer is null or points to a handle, whose memory is never freed.
        let Some(known) = (unsafe { handle.as_ref() }) else {
            return Ok(None);
        };
        if !known.change(T::OPEN, T::OPEN + 1) && !known.change(T::OPEN + 2, T::OPEN + 1) {
            // SAFETY: the pointer is null or points to a handle, whose memory is never freed.
            return Err(unsafe { Handle::refuse(handle) });
        }
        known.readable.store(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: the handle's state grants this thread exclusive access to the value.
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

    /// Returns the error for a handle that cannot be used.
    ///
    /// # Safety
    /// `handle` must be null or a pointer that [`open`](Self::open) returned for any kind.
    #[cold]
    #[inline(never)]
    unsafe fn refuse(handle: *const Handle<T>) -> Refused {
        // SAFETY: the pointer is null or points to a handle, whose memory is never freed.
        let state = unsafe { handle.as_ref() }.map(|handle| handle.state.load(Ordering::Relaxed));
        let (status, found) = match state {
            None => (Status::Misuse, "NULL"),
            Some(CLOSED) => (Status::Misuse, "a closed one"),
            Some(state) if state == T::OPEN || state == T::OPEN + 1 => (
                Status::Misuse,
                "one that another call is using; use a handle in one thread at a time",
            ),
            Some(state) if state == T::OPEN + 2 => (
                Status::Internal,
                "one that a bug in Undercroft left inconsistent",
            ),
            Some(_) => (Status::Misuse, "a handle of another kind"),
        };
        Refused::new(status, &format!("expected a {}, got {found}", T::NAME))
    }
}

/// Grants this thread exclusive use of a handle's value until the guard is dropped.
pub(crate) struct InUse<'a, T: Kind>(&'a Handle<T>);

impl<T: Kind> Deref for InUse<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the handle's state grants this thread exclusive access to the value.
        let value = unsafe { &*self.0.value.get() };
        value.as_ref().expect("an open handle has a value")
    }
}

impl<T: Kind> DerefMut for InUse<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the handle's state grants this thread exclusive access to the value.
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
