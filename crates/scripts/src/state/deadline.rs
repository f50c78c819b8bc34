//! The deadline of compiling a program or loading a library.

use std::time::{Duration, Instant};

use undercroft_engine::thread_time;

/// The deadline of compiling a program or loading a library. Time in which the thread was stopped, or waited for a
/// processor, does not count.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    at: Instant,
    /// Processor time of the thread at that moment.
    worked: Duration,
}

impl Deadline {
    pub(crate) fn after(time: Duration) -> Deadline {
        Deadline {
            at: Instant::now() + time,
            worked: thread_time() + time,
        }
    }

    /// The thread's clock takes a system call, and cannot be ahead of the other.
    pub(crate) fn has_passed(self) -> bool {
        Instant::now() > self.at && thread_time() > self.worked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_a_thread_stands_still_is_not_counted() {
        let deadline = Deadline::after(Duration::from_millis(20));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!deadline.has_passed());
        while thread_time() <= deadline.worked {
            std::hint::spin_loop();
        }
        assert!(deadline.has_passed());
    }
}
