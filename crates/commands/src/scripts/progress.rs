//! Tracks the state of a running script: its permissions, progress and running time.

use std::time::{Duration, Instant};

use undercroft_engine::thread_time;

use super::call::{ScriptArguments, ScriptLimits};
use crate::arguments::CommandError;
use crate::failure::Failure;

/// The conditions that restrict a script.
#[derive(Clone)]
pub(crate) struct Permissions {
    pub(crate) is_full: bool,
    /// The error for commands that change keys, if none may.
    pub(crate) write_refusal: Option<CommandError>,
    pub(crate) is_read_only: bool,
    pub(crate) is_function: bool,
}

/// The state of a running script.
pub(crate) struct ScriptRun<'c> {
    pub(crate) called: &'c ScriptArguments<'c>,
    pub(crate) limits: ScriptLimits,
    pub(crate) permissions: Permissions,
    pub(crate) has_written: bool,
    /// The time when the run began, according to the coarse clock.
    pub(crate) began: u64,
    /// The time when the interpreter first checked whether the script may continue, which is some
    /// instructions after the start. Short scripts finish before that.
    pub(crate) started: Option<Instant>,
    pub(crate) clock: RunClock,
    /// The time limit for the script on this thread.
    pub(crate) thread_limit: Option<Duration>,
    /// The running time at which the script is next reported as slow.
    pub(crate) next_report: Duration,
    /// Whether the script has been reported as slow.
    pub(crate) is_reported: bool,
    /// The function's number in the list of running functions, if it is in that list.
    pub(crate) running: Option<u64>,
    /// The number of kill requests that had been made when the command that runs this script began.
    pub(crate) killed: u64,
    /// The reason why the script was stopped.
    pub(crate) stopped: Option<Failure>,
    /// Whether the error that ends the script has been counted.
    pub(crate) is_counted: bool,
}

/// Measures the running time of a script over all runs of its command. Time during which the
/// process was stopped or waited for a processor does not count.
#[derive(Default)]
pub(crate) struct RunClock {
    time: Duration,
    /// The time when the clock was last read.
    looked: Option<Instant>,
    /// The processor time that the thread had used when the script began.
    base: Option<Duration>,
}

impl RunClock {
    /// Returns a clock for rerunning a script whose earlier runs took `time` in total.
    pub(crate) fn after(time: Duration) -> RunClock {
        RunClock {
            time,
            ..RunClock::default()
        }
    }

    /// The longest interval between two clock readings that counts entirely as running time. A
    /// longer interval may include time in which the thread waited for a processor.
    const GAP: Duration = Duration::from_millis(5);
    /// The running time after which the clock also reads the thread's processor time.
    const LONG: Duration = Duration::from_millis(1);

    /// Returns the script's running time up to `now`.
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
            // The processor time is not known yet, because reading it takes a system call, which
            // short scripts avoid.
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
        // The thread used one second of processor time before the script began.
        let looks = |clock: &mut RunClock, at: u64, worked: u64| {
            clock.until_with(started, started + milliseconds(at), || {
                milliseconds(1000 + worked)
            })
        };
        assert_eq!(looks(&mut clock, 1, 1), milliseconds(1));
        assert_eq!(looks(&mut clock, 4, 4), milliseconds(4));
        // The process is stopped for almost six seconds.
        assert_eq!(looks(&mut clock, 6004, 14), milliseconds(14));
        // A single call uses the processor for two seconds.
        assert_eq!(looks(&mut clock, 8004, 2014), milliseconds(2014));
        // Two other processes share the processor with this thread.
        assert_eq!(looks(&mut clock, 11_004, 3014), milliseconds(3014));
        assert_eq!(looks(&mut clock, 11_009, 3016), milliseconds(3019));
        assert_eq!(looks(&mut clock, 11_109, 3020), milliseconds(3020));
        // Other processes occupy the processor before the clock is first read.
        let mut clock = RunClock::default();
        assert_eq!(looks(&mut clock, 50, 3), milliseconds(5));
        assert_eq!(looks(&mut clock, 60, 13), milliseconds(15));
    }
}
