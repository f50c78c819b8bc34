//! The part of a thread's stack that a script may take.

use std::ptr::null_mut;

/// Bounds of the thread's stack, for functions that call one another by way of scripts.
#[derive(Clone, Copy, Default)]
pub(crate) struct StackBounds {
    /// The lowest address that they may use, and the highest one of the stack; 0 if the stack is not known.
    lowest: usize,
    highest: usize,
}

impl StackBounds {
    /// Bytes that are left for commands, and for C.
    const RESERVE: usize = 256 * 1024;

    /// The bounds of this thread.
    pub(crate) fn of_thread() -> StackBounds {
        // SAFETY: the attributes are filled in by the first call, and given back by the last one.
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

    /// Whether there is stack for more at an address, of a script that began at another.
    pub(crate) fn allow(self, here: usize, began: usize) -> bool {
        /// Bytes that a script may take of a stack, and of one that is not known.
        const TAKEN_MAX: usize = 1 << 20;
        const UNKNOWN_MAX: usize = 256 * 1024;
        let taken = began.abs_diff(here);
        if here > self.highest || began > self.highest || self.highest == 0 {
            return taken <= UNKNOWN_MAX;
        }
        here > self.lowest && taken <= TAKEN_MAX
    }
}
