//! Limits the part of a thread's stack that a script can use.

use std::ptr::null_mut;

/// The bounds of a thread's stack. They limit nested native functions, which call each other
/// through scripts.
#[derive(Clone, Copy, Default)]
pub(crate) struct StackBounds {
    /// The lowest address that scripts can use. `highest` is the highest address of the stack. Both
    /// are 0 if the stack is unknown.
    lowest: usize,
    highest: usize,
}

impl StackBounds {
    /// The number of bytes at the end of the stack that are reserved for commands and C code.
    const RESERVE: usize = 256 * 1024;

    /// Returns the bounds of the current thread's stack.
    pub(crate) fn of_thread() -> StackBounds {
        // SAFETY: the first call initializes the attributes, and the last call destroys them.
        unsafe {
            let mut attributes = std::mem::zeroed::<libc::pthread_attr_t>();
            if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
                return StackBounds::default();
            }
            let (mut start, mut size) = (null_mut(), 0);
            let known = libc::pthread_attr_getstack(&attributes, &mut start, &mut size) == 0;
            libc::pthread_attr_destroy(&mut attributes);
            if !known {
                return StackBounds::default();
            }
            StackBounds {
                lowest: start.addr() + StackBounds::RESERVE.min(size),
                highest: start.addr() + size,
            }
        }
    }

    /// Returns whether a script that started at stack address `began` may continue at address
    /// `here`.
    pub(crate) fn allow(self, here: usize, began: usize) -> bool {
        /// The number of stack bytes that a script can use. `UNKNOWN_MAX` applies if the stack is
        /// unknown.
        const TAKEN_MAX: usize = 1 << 20;
        const UNKNOWN_MAX: usize = 256 * 1024;
        let taken = began.abs_diff(here);
        if here > self.highest || began > self.highest || self.highest == 0 {
            return taken <= UNKNOWN_MAX;
        }
        here > self.lowest && taken <= TAKEN_MAX
    }
}
