//! The state of one script run: its permissions, its progress and its running time.

use std::time::{Duration, Instant};

use undercroft_engine::thread_time;

use super::call::{ScriptArguments, ScriptLimits};
use crate::failure::Failure;

/// The restrictions that apply to a script.
#[derive(Clone, Copy)]
pub(crate) struct Permissions {
    pub(crate) is_full: bool,
    pub(crate) lacks_replicas: bool,
    pub(crate) is_read_only: bool,
    pub(crate) is_function: bool,
}

/// The state of one script run.
pub(crate) struct ScriptRun<'c> {
    pub(crate) called: &'c ScriptArguments<'c>,
    pub(crate) limits: ScriptLimits,
    pub(crate) permissions: Permissions,
    pub(crate) has_written: bool,
    /// When the run began, by the coarse clock.
    pub(crate) began: u64,
    /// When the interpreter first asked whether it may continue, some instructions after the start.
    /// Short scripts end before that.
    pub(crate) started: Option<Instant>,
    pub(crate) clock: RunClock,
    /// How long the script may run on this thread.
    pub(crate) thread_limit: Option<Duration>,
    /// The running time at which the script is next reported as slow.
    pub(crate) next_report: Duration,
    /// Whether the script has been reported as slow.
    pub(crate) is_reported: bool,
    /// The function's number in the list of slow functions.
    pub(crate) running: Option<u64>,
    /// The number of kill requests seen when the command that runs this script began.
    pub(crate) killed: u64,
    /// Why the script was stopped.
    pub(crate) stopped: Option<Failure>,
    /// Whether the error that ends the script has been counted.
    pub(crate) is_counted: bool,
}

/// The time that a script has run, over all runs of its command. Time in which the process was
/// stopped or waited for a processor does not count.
#[derive(Default)]
pub(crate) struct RunClock {
    time: Duration,
    /// When the clock was last read.
    looked: Option<Instant>,
    /// The thread's processor time when the script began.
    base: Option<Duration>,
}

impl RunClock {
    /// Returns the clock for a rerun of a script whose earlier runs took `time`.
    pub(crate) fn after(time: Duration) -> RunClock {
        RunClock {
            time,
            ..RunClock::default()
        }
    }

    /// A gap between two readings that is at most this long counts as running time. A thread that
    /// waits for a processor has longer gaps.
    const GAP: Duration = Duration::from_millis(5);
    /// The running time from which on the thread's processor time is read.
    const LONG: Duration = Duration::from_millis(1);

    /// Returns how long the script has run until `now`.
    pub(crate) fn until(&mut self, started: Instant, now: Instant) -> Duration {
        self.until_with(started, now, thread_time)
    }

    fn until_with(
        &mut self,
        started: Instant,
        now: Instant,
        worked: impl Fn() -> Duration,
    ) -> Duration {
        let gap = now.saturating_duration_since(self.looked.unwrap_or(started));
        self.looked = Some(now);
        self.time += match self.base {
            _ if gap <= RunClock::GAP => gap,
            // The processor time is unknown: reading it takes a system call, which short scripts
            // avoid.
            None => RunClock::GAP,
            Some(base) => worked().saturating_sub(base + self.time).min(gap),
        };
        if self.base.is_none() && self.time >= RunClock::LONG {
            self.base = Some(worked().saturating_sub(self.time));
        }
        self.time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn milliseconds(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    #[test]
    fn time_while_the_process_is_stopped_is_not_counted() {
        let started = Instant::now();
        let mut clock = RunClock::default();
        // The thread has used one second of processor time before the script.
        let looks = |clock: &mut RunClock, at: u64, worked: u64| {
            clock.until_with(started, started + milliseconds(at), || {
                milliseconds(1000 + worked)
            })
        };
        assert_eq!(looks(&mut clock, 1, 1), milliseconds(1));
        assert_eq!(looks(&mut clock, 4, 4), milliseconds(4));
        // The process is stopped for six seconds.
        assert_eq!(looks(&mut clock, 6004, 14), milliseconds(14));
        // One call works for two seconds.
        assert_eq!(looks(&mut clock, 8004, 2014), milliseconds(2014));
        // Two other processes share the processor.
        assert_eq!(looks(&mut clock, 11_004, 3014), milliseconds(3014));
        assert_eq!(looks(&mut clock, 11_009, 3016), milliseconds(3019));
        assert_eq!(looks(&mut clock, 11_109, 3020), milliseconds(3020));
        // Other processes occupy the processor before the first reading.
        let mut clock = RunClock::default();
        assert_eq!(looks(&mut clock, 50, 3), milliseconds(5));
        assert_eq!(looks(&mut clock, 60, 13), milliseconds(15));
    }
}
