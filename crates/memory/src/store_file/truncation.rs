//! How a program of its own ends where its store's file is cut short.
//!
//! The kernel answers access to a page that is not there any more with SIGBUS,
//! which ends the process. A library must leave that as it is: handlers of
//! signals belong to the program, and nothing could go on in the midst of a
//! change anyway. A program that does nothing but serve a store may at least say
//! which one it was.

use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::segment::Segment;

/// The store that was opened last: where it is mapped, and what is said of it.
static START: AtomicUsize = AtomicUsize::new(0);
static LENGTH: AtomicUsize = AtomicUsize::new(0);
static TEXT: AtomicPtr<Vec<u8>> = AtomicPtr::new(ptr::null_mut());
/// What was done at SIGBUS before.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());

/// Exit status of a process that lost its store.
const STATUS: libc::c_int = 1;

extern "C" fn handle(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel hands out a valid `siginfo_t`, of a fault by `SA_SIGINFO`.
    let at = unsafe { (*info).si_addr() } as usize;
    let text = TEXT.load(Ordering::Acquire);
    let ours = at.wrapping_sub(START.load(Ordering::Relaxed)) < LENGTH.load(Ordering::Relaxed);
    if ours && !text.is_null() {
        // SAFETY: the text was leaked, so that it lives for ever; both calls may
        // be made in a signal handler.
        unsafe {
            libc::write(2, (*text).as_ptr().cast(), (*text).len());
            libc::_exit(STATUS);
        }
    }
    // Somebody else's: the fault comes again, and whoever was there before has it.
    let before = BEFORE.load(Ordering::Acquire);
    if !before.is_null() {
        // SAFETY: an action that the kernel gave out, in memory that was leaked; no memory is written.
        unsafe { libc::sigaction(libc::SIGBUS, before, ptr::null_mut()) };
    }
}

impl Segment {
    /// From now on this process ends with a line on standard error and exit
    /// status 1 where the store's file is cut short under it, or its disk fails,
    /// instead of being killed by SIGBUS. For programs that use one store at a
    /// time and own their process, not for libraries.
    pub fn tell_when_lost(&self) {
        let mut text = b"undercroft: the store ".to_vec();
        text.extend(self.path().as_os_str().as_bytes());
        text.extend(b" is lost: its file was cut short while it was in use, or its disk failed\n");
        let (start, length) = self.mapping.addresses();
        LENGTH.store(0, Ordering::Relaxed);
        START.store(start, Ordering::Relaxed);
        TEXT.store(Box::into_raw(Box::new(text)), Ordering::Release);
        LENGTH.store(length, Ordering::Release);
        // SAFETY: `sigaction` is plain data, for which all bytes zero is a value.
        let [mut action, mut before]: [libc::sigaction; 2] = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: both are valid, and the handler does only what a handler may.
        let result = unsafe { libc::sigaction(libc::SIGBUS, &action, &mut before) };
        assert_eq!(result, 0, "sigaction");
        if before.sa_sigaction != action.sa_sigaction {
            BEFORE.store(Box::into_raw(Box::new(before)), Ordering::Release);
        }
    }
}
