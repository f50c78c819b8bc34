//! How a standalone program exits if its store's file is truncated.
//!
//! If a process accesses a missing page, the kernel sends SIGBUS, which kills the process. A
//! library must not change that behavior: signal handlers belong to the program, and a change
//! cannot continue halfway. A program that only serves a store can at least report which store was
//! lost.

use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::segment::Segment;

/// The most recently opened store: the address and length of its mapping, and the message to print.
static START: AtomicUsize = AtomicUsize::new(0);
static LENGTH: AtomicUsize = AtomicUsize::new(0);
static TEXT: AtomicPtr<Vec<u8>> = AtomicPtr::new(ptr::null_mut());
/// The previous action for SIGBUS.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());

/// The exit status of a process that lost its store.
const STATUS: libc::c_int = 1;

extern "C" fn handle(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: with `SA_SIGINFO`, the kernel passes a valid `siginfo_t` that describes a fault.
    let at = unsafe { (*info).si_addr() } as usize;
    let text = TEXT.load(Ordering::Acquire);
    let ours = at.wrapping_sub(START.load(Ordering::Relaxed)) < LENGTH.load(Ordering::Relaxed);
    if ours && !text.is_null() {
        // SAFETY: the text was leaked, so it lives forever; both calls are async-signal-safe.
        unsafe {
            libc::write(2, (*text).as_ptr().cast(), (*text).len());
            libc::_exit(STATUS);
        }
    }
    // The fault is in other memory: restore the previous action, which handles the fault when it
    // recurs.
    let before = BEFORE.load(Ordering::Acquire);
    if !before.is_null() {
        // SAFETY: the action was returned by the kernel and is in leaked memory. The call writes no
        // memory.
        unsafe { libc::sigaction(libc::SIGBUS, before, ptr::null_mut()) };
    }
}

impl Segment {
    /// Makes this process print a line on standard error and exit with status 1, instead of being
    /// killed by SIGBUS, if the store's file is truncated or its disk fails. For programs that use
    /// one store at a time and control their process, not for libraries.
    pub fn tell_when_lost(&self) {
        let mut text = b"undercroft: the store ".to_vec();
        text.extend(self.path().as_os_str().as_bytes());
        text.extend(b" is lost: its file was truncated while in use, or its disk failed\n");
        let (start, length) = self.mapping.addresses();
        LENGTH.store(0, Ordering::Relaxed);
        START.store(start, Ordering::Relaxed);
        TEXT.store(Box::into_raw(Box::new(text)), Ordering::Release);
        LENGTH.store(length, Ordering::Release);
        // SAFETY: `sigaction` is plain data, and all zeros is a valid value for it.
        let [mut action, mut before]: [libc::sigaction; 2] = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: both arguments are valid, and the handler makes only async-signal-safe calls.
        let result = unsafe { libc::sigaction(libc::SIGBUS, &action, &mut before) };
        assert_eq!(result, 0, "sigaction");
        if before.sa_sigaction != action.sa_sigaction {
            BEFORE.store(Box::into_raw(Box::new(before)), Ordering::Release);
        }
    }
}
