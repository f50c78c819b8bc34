//! Measures the running times of commands.
//!
//! Reading the clock takes a tenth as long as a fast command. The fast commands of a batch are
//! therefore timed together: the clock is read before the first command, and again after the last
//! command or before a slow command, which is timed individually. The total is exact, and is
//! divided evenly among the fast commands. Outside a batch, for example when a process calls the
//! store that it maps, one in sixteen fast commands is timed.
//!
//! For the same reason, all fast commands between two slow commands see the same current time, like
//! the commands in a transaction.

use std::time::{Duration, Instant};

use super::Context;
use crate::arguments::CommandError;
use crate::config::Parameter;
use crate::failure::{Failure, Outcome};
use crate::statistics::{CallCount, Lap};
use crate::table::{Command, Flag};

/// The sampling interval outside a batch: one in this many fast commands is timed.
const TIMED: u64 = 16;

/// How a fast command is timed.
#[derive(Clone, Copy)]
pub(crate) enum Timing {
    /// The command is timed together with the other fast commands of its batch.
    Together,
    /// The command is timed individually, starting at this instant.
    Since(Instant),
    /// The command is not timed.
    Not,
}

impl Context<'_> {
    /// Begins a batch. Until [`end_batch`](Self::end_batch), fast commands are timed together. The
    /// commands must run back to back, with no other work in between.
    #[inline]
    pub fn begin_batch(&mut self) {
        self.lap.since = Some(Instant::now());
        self.lap.frozen = Some(self.store.freeze());
    }

    /// Ends a batch, and counts the commands that ran in the batch.
    #[inline]
    pub fn end_batch(&mut self) {
        self.end_lap();
        self.lap.since = None;
        self.lap.frozen = None;
    }

    /// Counts the fast commands of the batch that have not been counted yet. Returns the current
    /// time.
    #[inline]
    fn end_lap(&mut self) -> Instant {
        let now = Instant::now();
        if let Some(since) = self.lap.since
            && !self.lap.calls.is_empty()
        {
            self.count(&self.lap.calls, now.duration_since(since));
            self.lap.calls.clear();
        }
        now
    }

    /// Chooses how to time a fast command that is about to run. Reads the clock only outside a
    /// batch.
    #[inline(always)]
    pub(crate) fn start_fast(&self) -> Timing {
        match self.lap.since {
            Some(_) => Timing::Together,
            None if self
                .session
                .activity
                .counters
                .commands
                .is_multiple_of(TIMED) =>
            {
                Timing::Since(Instant::now())
            }
            None => Timing::Not,
        }
    }

    /// Counts a fast command that has run, and records its time if it was timed individually.
    #[inline(always)]
    pub(crate) fn end_fast(
        &mut self,
        command: &'static Command,
        timing: Timing,
        outcome: &Outcome,
    ) {
        if outcome.is_err() && self.is_no_call(command, outcome) {
            return;
        }
        match timing {
            Timing::Together => self.lap.add(command, outcome.is_err()),
            Timing::Since(start) => self.count_one(command, start.elapsed(), outcome.is_err()),
            Timing::Not => {
                let (statistics, thread) = (self.host.statistics(), self.session.peer.route.0);
                statistics.count_untimed(thread, &[CallCount::one(command, outcome.is_err())]);
            }
        }
    }

    /// Returns the start time of a command that is about to run and is timed individually. If no
    /// fast command has run since the batch began or since the last slow command ended, returns
    /// that earlier time without reading the clock.
    #[inline]
    pub(crate) fn start_slow(&mut self) -> Instant {
        self.lap.frozen = None;
        match self.lap.since {
            Some(since) if self.lap.calls.is_empty() => since,
            _ => self.end_lap(),
        }
    }

    /// Counts a command that was timed individually. Returns its running time.
    #[inline]
    pub(crate) fn end_slow(
        &mut self,
        command: &'static Command,
        start: Instant,
        outcome: &Outcome,
    ) -> Duration {
        let now = Instant::now();
        let time = now.duration_since(start);
        if outcome.is_ok() || !self.is_no_call(command, outcome) {
            self.count_one(command, time, outcome.is_err());
        }
        if let Some(since) = &mut self.lap.since {
            *since = now;
            self.lap.frozen = Some(self.store.freeze());
        }
        time
    }

    /// Returns whether a failed command is excluded from the count of calls.
    #[cold]
    fn is_no_call(&self, command: &'static Command, outcome: &Outcome) -> bool {
        let error = match outcome {
            // Do not count a blocked command, because its retry is counted.
            Err(Failure::Blocked(_)) => return true,
            Err(Failure::Reply(error)) => error.text(),
            Ok(()) => return false,
        };
        // Redis refuses a command for lack of memory before running it. If a script fails for lack
        // of memory while running, its error also contains a position, so it differs from the plain
        // text.
        let is_refused = match command.flags.has(Flag::DenyOom) {
            true => error.starts_with("OOM "),
            false => error == CommandError::OUT_OF_MEMORY.text(),
        };
        if is_refused {
            self.count_rejected(command);
        }
        is_refused
    }

    /// Counts a single command.
    pub(crate) fn count_one(&self, command: &'static Command, time: Duration, failed: bool) {
        self.count(&[CallCount::one(command, failed)], time);
    }

    /// Counts the commands of a script whose transaction committed. They are not timed, because the
    /// script's time includes the time of its commands.
    pub(crate) fn count_ran(&mut self, lap: &Lap) {
        let (statistics, thread) = (self.host.statistics(), self.session.peer.route.0);
        statistics.count_untimed(thread, &lap.calls);
        self.session.activity.counters.commands +=
            lap.calls.iter().map(|count| count.calls).sum::<u64>();
        for (code, count) in &lap.errors {
            statistics.count_errors(thread, code, *count);
            self.session.activity.counters.errors += count;
        }
        for call in &lap.denied {
            self.log_denied(call.clone());
        }
        for event in &lap.audited {
            self.record(event);
        }
    }

    fn count(&self, calls: &[CallCount], time: Duration) {
        const TRACKING: usize = Parameter::place("latency-tracking");
        let tracks = self.host.config().number_at(TRACKING) != 0;
        let statistics = self.host.statistics();
        let nanoseconds = time.as_secs() * 1_000_000_000 + u64::from(time.subsec_nanos());
        statistics.count(self.session.peer.route.0, calls, nanoseconds, tracks);
    }

    /// Counts a command that was refused before it could run.
    #[cold]
    pub(crate) fn count_rejected(&self, command: &'static Command) {
        let statistics = self.host.statistics();
        statistics.count_rejected(self.session.peer.route.0, command);
    }

    /// Counts an error reply.
    #[cold]
    pub(crate) fn count_error(&mut self, text: &str) {
        self.session.activity.counters.errors += 1;
        self.host
            .statistics()
            .count_error(self.session.peer.route.0, text);
    }
}
