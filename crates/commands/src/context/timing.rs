//! How commands are timed as they run.
//!
//! Looking at the clock costs a tenth of a fast command. So the fast ones of a batch are timed together: the clock is
//! read before the first of them and behind the last, or before a slow one, which is timed by itself. The sum is exact;
//! of one batch, all fast commands are said to have taken the same time. Outside of a batch, as where a process calls the
//! store it maps, one of sixteen is timed.
//!
//! For the same reason the fast ones between two slow ones go by one time, as those of a transaction do.

use std::time::{Duration, Instant};

use super::Context;
use crate::arguments::CommandError;
use crate::config::Parameter;
use crate::failure::{Failure, Outcome};
use crate::statistics::{CallCount, Lap};
use crate::table::{Command, Flag};

/// Outside of a batch, one of so many fast commands is timed.
const TIMED: u64 = 16;

/// How a fast command is timed.
#[derive(Clone, Copy)]
pub(crate) enum Timing {
    /// With the others of its batch.
    Together,
    /// By itself, since then.
    Since(Instant),
    /// Not at all.
    Not,
}

impl Context<'_> {
    /// Begins a batch: up to [`end_batch`](Self::end_batch), fast commands are timed together. Meant for commands that
    /// are run at once, with nothing between them.
    #[inline]
    pub fn begin_batch(&mut self) {
        self.lap.since = Some(Instant::now());
        self.lap.frozen = Some(self.store.freeze());
    }

    /// Ends a batch, and counts what ran in it.
    #[inline]
    pub fn end_batch(&mut self) {
        self.end_lap();
        self.lap.since = None;
        self.lap.frozen = None;
    }

    /// Counts the fast commands that ran in the batch so far. Returns what the clock says.
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

    /// To be called before a fast command. The clock is read outside of a batch only.
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

    /// To be called behind a fast command.
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

    /// To be called before a command that is timed by itself. The clock is read unless this is the first of a batch, or
    /// comes right behind another such command: then it is when that began, or ended.
    #[inline]
    pub(crate) fn start_slow(&mut self) -> Instant {
        self.lap.frozen = None;
        match self.lap.since {
            Some(since) if self.lap.calls.is_empty() => since,
            _ => self.end_lap(),
        }
    }

    /// To be called behind a command that is timed by itself. Returns how long it took.
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

    /// Whether a command that failed does not count as a call.
    #[cold]
    fn is_no_call(&self, command: &'static Command, outcome: &Outcome) -> bool {
        let error = match outcome {
            // It will run again, and be counted then.
            Err(Failure::Blocked(_)) => return true,
            Err(Failure::Reply(error)) => error.text(),
            Ok(()) => return false,
        };
        // Redis refuses it before it is run. A script that has met such an error has run: it says where.
        let is_refused = match command.flags.has(Flag::DenyOom) {
            true => error.starts_with("OOM "),
            false => error == CommandError::OUT_OF_MEMORY.text(),
        };
        if is_refused {
            self.count_rejected(command);
        }
        is_refused
    }

    /// Counts one command.
    pub(crate) fn count_one(&self, command: &'static Command, time: Duration, failed: bool) {
        self.count(&[CallCount::one(command, failed)], time);
    }

    /// Counts what a script has run, in a transaction that is committed. Its commands' times are part of the script's.
    pub(crate) fn count_ran(&mut self, lap: &Lap) {
        let (statistics, thread) = (self.host.statistics(), self.session.peer.route.0);
        statistics.count_untimed(thread, &lap.calls);
        self.session.activity.counters.commands +=
            lap.calls.iter().map(|count| count.calls).sum::<u64>();
        for (code, count) in &lap.errors {
            statistics.count_errors(thread, code, *count);
            self.session.activity.counters.errors += count;
        }
    }

    fn count(&self, calls: &[CallCount], time: Duration) {
        const TRACKING: usize = Parameter::place("latency-tracking");
        let tracks = self.host.config().number_at(TRACKING) != 0;
        let statistics = self.host.statistics();
        let nanoseconds = time.as_secs() * 1_000_000_000 + u64::from(time.subsec_nanos());
        statistics.count(self.session.peer.route.0, calls, nanoseconds, tracks);
    }

    /// Counts a command that was refused before it was run.
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
