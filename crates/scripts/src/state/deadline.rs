//! Until when a program may be compiled, or a library loaded.

use std::time::{Duration, Instant};

use undercroft_engine::thread_time;

/// Until when a program may be compiled, or a library loaded. Time in which the thread stood still, or waited for a
/// processor, is not counted.
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
