//! The locale in which scripts run: C, whatever the program around them has set.
//!
//! Lua reads and writes numbers, compares strings and classifies characters by the C library, which does all of that by the
//! locale. In a program with German numbers `tostring(1.5)` would be `1,5`, and processes that share a store would compute
//! different results.

use std::marker::PhantomData;

/// This thread has the C locale until this is dropped.
pub(crate) struct CLocale {
    previous: libc::locale_t,
    /// It belongs to its thread.
    thread: PhantomData<*const ()>,
}

impl CLocale {
    /// Some 20 ns.
    pub(crate) fn enter() -> CLocale {
        // SAFETY: the name ends with a zero. The C locale is a constant of the C library: nothing is allocated, and it must
        // not be freed. A thread may change its own locale at any time.
        let previous = unsafe {
            let c = libc::newlocale(libc::LC_ALL_MASK, c"C".as_ptr(), std::ptr::null_mut());
            libc::uselocale(c)
        };
        CLocale {
            previous,
            thread: PhantomData,
        }
    }
}

impl Drop for CLocale {
    fn drop(&mut self) {
        // SAFETY: it is what this thread had before.
        unsafe { libc::uselocale(self.previous) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_its_own_locale_again_afterwards() {
        // SAFETY: asks only.
        let current = || unsafe { libc::uselocale(std::ptr::null_mut()) };
        let previous = current();
        let locale = CLocale::enter();
        assert_ne!(current(), previous);
        drop(locale);
        assert_eq!(current(), previous);
    }
}
