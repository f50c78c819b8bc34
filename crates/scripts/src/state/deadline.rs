//! The deadline for compiling a program or loading a library.

use std::time::{Duration, Instant};

use undercroft_engine::thread_time;

/// A deadline for compiling a program or loading a library. Time in which the thread is stopped or
/// waits for a CPU does not count.
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
    /// the CPU clock takes a system call and is never ahead.
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
