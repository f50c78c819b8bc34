//! Futexes, which put a thread to sleep until a word of the store changes, and wake sleeping
//! threads.

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps as long as the word contains `value`, until woken or for at most `timeout`. Returns true
/// if a signal ended the sleep.
pub(crate) fn wait(word: &AtomicU32, value: u32, timeout: Duration) -> bool {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // SAFETY: the word is mapped and aligned; the kernel only reads the word and `timeout`.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            value,
            &timeout,
        )
    };
    result < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
}

/// Wakes one waiter.
pub(crate) fn wake_one(word: &AtomicU32) {
    // SAFETY: the word is mapped and aligned; the kernel uses only its address.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
}

/// Wakes all waiters.
pub(crate) fn wake_all(word: &AtomicU32) {
    // SAFETY: the word is mapped and aligned; the kernel uses only its address.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE,
            libc::c_int::MAX,
        )
    };
}

/// Moves all waiters on `word` to `other`, a word that has or recently had waiters. Wakes the
/// waiters if the system does not support requeueing.
pub(crate) fn move_all(word: &AtomicU32, other: &AtomicU32) {
    // SAFETY: the words are mapped and aligned; the kernel uses only their addresses.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_REQUEUE,
            0,
            libc::c_int::MAX as libc::c_long,
            other.as_ptr(),
            0,
        )
    };
    if result < 0 {
        wake_all(word);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    use super::*;

    #[test]
    fn moved_waiter_is_woken_through_the_new_word() {
        let words = [const { AtomicU32::new(0) }; 3];
        let awake = [const { AtomicBool::new(false) }; 3];
        let long = Duration::from_secs(60);
        let start = Instant::now();
        std::thread::scope(|scope| {
            for (word, awake) in words.iter().zip(&awake) {
                scope.spawn(move || {
                    wait(word, 0, long);
                    awake.store(true, Ordering::Relaxed);
                });
            }
            while !awake.iter().all(|awake| awake.load(Ordering::Relaxed)) {
                for word in &words[1..] {
                    move_all(word, &words[0]);
                }
                wake_all(&words[0]);
            }
        });
        // A thread that was not woken sleeps for the full timeout and fails this assertion.
        assert!(start.elapsed() < long);
    }
}
