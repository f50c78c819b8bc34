//! Futexes: sleeping until a word of the store changes, and waking who does.

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Waits until woken, for at most `timeout`, while the word holds `value`.
/// Returns true where a signal ended the wait.
pub(crate) fn wait(word: &AtomicU32, value: u32, timeout: Duration) -> bool {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // SAFETY: the word is mapped and aligned; the kernel reads it and `timeout`.
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
    // SAFETY: the word is mapped and aligned; the kernel uses its address only.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
}

/// Wakes all waiters.
pub(crate) fn wake_all(word: &AtomicU32) {
    // SAFETY: the word is mapped and aligned; the kernel uses its address only.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE,
            libc::c_int::MAX,
        )
    };
}

/// Has all waiters of a word wait at another one, which has waiters or had some a moment ago; wakes them where the system
/// has no such call.
pub(crate) fn move_all(word: &AtomicU32, other: &AtomicU32) {
    // SAFETY: the words are mapped and aligned; the kernel uses their addresses only.
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
    fn who_was_moved_to_another_word_is_woken_there() {
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
        // A thread that nobody wakes sleeps until its time is up.
        assert!(start.elapsed() < long);
    }
}
