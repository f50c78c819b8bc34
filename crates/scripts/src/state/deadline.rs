//! Implements the deadline for compiling a program or loading a library.

use std::time::{Duration, Instant};

use undercroft_engine::thread_time;

/// A deadline for compiling a program or loading a library. It passes only when both the wall clock
/// and the thread's CPU clock have reached it, so that a suspended thread does not miss it.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    at: Instant,
    /// The thread's CPU time at the deadline.
    worked: Duration,
}

impl Deadline {
    pub(crate) fn after(time: Duration) -> Deadline {
        Deadline {
            at: Instant::now() + time,
            worked: thread_time() + time,
        }
    }

    /// Returns whether both clocks have passed the deadline. Reads the wall clock first, because
    /// reading the CPU clock takes a system call, and CPU time never advances faster than wall
    /// time.
    pub(crate) fn has_passed(self) -> bool {
        Instant::now() > self.at && thread_time() > self.worked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_asleep_does_not_count_toward_the_deadline() {
        let deadline = Deadline::after(Duration::from_millis(20));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!deadline.has_passed());
        while thread_time() <= deadline.worked {
            std::hint::spin_loop();
        }
        assert!(deadline.has_passed());
    }
}
