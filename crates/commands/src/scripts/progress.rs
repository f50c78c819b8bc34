//! One run of a script: what it may do, how far it has come, and for how long it has run.

use std::time::{Duration, Instant};

use undercroft_engine::thread_time;

use super::call::{ScriptArguments, ScriptLimits};
use crate::failure::Failure;

/// What a script may do.
#[derive(Clone, Copy)]
pub(crate) struct Permissions {
    pub(crate) is_full: bool,
    pub(crate) lacks_replicas: bool,
    pub(crate) is_read_only: bool,
    pub(crate) is_function: bool,
}

/// One run of a script.
pub(crate) struct ScriptRun<'c> {
    pub(crate) called: &'c ScriptArguments<'c>,
    pub(crate) limits: ScriptLimits,
    pub(crate) permissions: Permissions,
    pub(crate) has_written: bool,
    /// When it began, by the coarse clock.
    pub(crate) began: u64,
    /// When it was first asked whether it may go on, some instructions after its start: short scripts end before.
    pub(crate) started: Option<Instant>,
    pub(crate) clock: RunClock,
    /// How long it may run on this thread.
    pub(crate) thread_limit: Option<Duration>,
    /// When it is reported next that the script runs.
    pub(crate) next_report: Duration,
    /// Whether that was reported.
    pub(crate) is_reported: bool,
    /// The number of a function in the list of those that take long.
    pub(crate) running: Option<u64>,
    /// How often scripts had been told to end when the command began that runs this one.
    pub(crate) killed: u64,
    /// Why it was stopped.
    pub(crate) stopped: Option<Failure>,
    /// The error that ends it has been counted.
    pub(crate) is_counted: bool,
}

/// For how long a script has run, in all runs of its command. Time in which its process stood still is not counted: it may
/// have been stopped, or have waited for a processor.
#[derive(Default)]
pub(crate) struct RunClock {
    time: Duration,
    /// When it was looked at last.
    looked: Option<Instant>,
    /// Processor time of the thread when the script began.
    base: Option<Duration>,
}

impl RunClock {
    /// The clock of a run after others of the same command, which ran for so long.
    pub(crate) fn after(time: Duration) -> RunClock {
        RunClock {
            time,
            ..RunClock::default()
        }
    }

    /// Between two looks in less than this a script has run: a thread that waits for a processor waits for longer.
    const GAP: Duration = Duration::from_millis(5);
    /// A script that has run for so long has the thread's clock looked at.
    const LONG: Duration = Duration::from_millis(1);

    /// For how long it has run at a moment, which is now.
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
            // Unknown, as the thread's clock takes a system call that short scripts do without.
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
    fn time_in_which_a_process_stands_still_is_not_counted() {
        let started = Instant::now();
        let mut clock = RunClock::default();
        // The thread has run before the script.
        let looks = |clock: &mut RunClock, at: u64, worked: u64| {
            clock.until_with(started, started + milliseconds(at), || {
                milliseconds(1000 + worked)
            })
        };
        assert_eq!(looks(&mut clock, 1, 1), milliseconds(1));
        assert_eq!(looks(&mut clock, 4, 4), milliseconds(4));
        // Stopped for six seconds.
        assert_eq!(looks(&mut clock, 6004, 14), milliseconds(14));
        // One call of two seconds, in which it worked.
        assert_eq!(looks(&mut clock, 8004, 2014), milliseconds(2014));
        // Two others share its processor.
        assert_eq!(looks(&mut clock, 11_004, 3014), milliseconds(3014));
        assert_eq!(looks(&mut clock, 11_009, 3016), milliseconds(3019));
        assert_eq!(looks(&mut clock, 11_109, 3020), milliseconds(3020));
        // Others have the processor before the first look.
        let mut clock = RunClock::default();
        assert_eq!(looks(&mut clock, 50, 3), milliseconds(5));
        assert_eq!(looks(&mut clock, 60, 13), milliseconds(15));
    }
}
