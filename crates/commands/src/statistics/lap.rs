//! How commands are timed as they run.
//!
//! Looking at the clock costs a tenth of a fast command. So the fast ones of a batch are timed together: the clock is
//! read before the first of them and behind the last, or before a slow one, which is timed by itself. The sum is exact;
//! of one batch, all fast commands are said to have taken the same time. Outside of a batch, as where a process calls the
//! store it maps, one of sixteen is timed.
//!
//! For the same reason the fast ones between two slow ones go by one time, as those of a transaction do.

use std::time::{Duration, Instant};

use smallvec::SmallVec;
use undercroft_engine::Frozen;

use crate::arguments::CommandError;
use crate::config::Parameter;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::script::Seen;
use crate::statistics::error_code;
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

/// The calls of one command.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) command: &'static Command,
    pub(super) calls: u64,
    pub(super) failed: u64,
    /// Calls that a script made and that were refused before they were run.
    pub(super) rejected: u64,
}

impl Run {
    pub(super) fn once(command: &'static Command, failed: bool) -> Run {
        Run {
            command,
            calls: 1,
            failed: failed.into(),
            rejected: 0,
        }
    }
}

/// The fast commands that are being timed together, or those that a script has run.
#[derive(Default)]
pub(crate) struct Lap {
    /// Since when; None outside of a batch.
    since: Option<Instant>,
    /// In a batch: the fast commands go by one time.
    frozen: Option<Frozen>,
    runs: SmallVec<[Run; 4]>,
    /// How often a script's commands answered errors of each code.
    errors: Vec<(Box<str>, u64)>,
    /// What others get to see of a script's commands.
    pub(crate) seen: Seen,
}

impl Lap {
    #[inline(always)]
    pub(crate) fn add(&mut self, command: &'static Command, failed: bool) {
        // A batch has few commands, and fewer kinds of them.
        let mut runs = self.runs.iter_mut();
        if let Some(run) = runs.find(|run| std::ptr::eq(run.command, command)) {
            run.calls += 1;
            run.failed += u64::from(failed);
        } else {
            self.runs.push(Run::once(command, failed));
        }
    }

    /// Adds a command of a script that was refused before it was run.
    #[cold]
    pub(crate) fn add_rejected(&mut self, command: &'static Command) {
        let mut runs = self.runs.iter_mut();
        match runs.find(|run| std::ptr::eq(run.command, command)) {
            Some(run) => run.rejected += 1,
            None => self.runs.push(Run {
                calls: 0,
                rejected: 1,
                ..Run::once(command, false)
            }),
        }
    }

    /// Adds an error that a command of a script answered, or the script.
    #[cold]
    pub(crate) fn add_error(&mut self, text: &str) {
        let code = error_code(text);
        match self.errors.iter_mut().find(|(known, _)| **known == *code) {
            Some((_, count)) => *count += 1,
            None => self.errors.push((code.into(), 1)),
        }
    }

    /// Takes one such error back, which is counted elsewhere.
    #[cold]
    pub(crate) fn forget_error(&mut self, text: &str) {
        let code = error_code(text);
        let known = self.errors.iter_mut().find(|(known, _)| **known == *code);
        if let Some((_, count)) = known {
            *count = count.saturating_sub(1);
        }
    }
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
            && !self.lap.runs.is_empty()
        {
            self.count(&self.lap.runs, now.duration_since(since));
            self.lap.runs.clear();
        }
        now
    }

    /// To be called before a fast command. The clock is read outside of a batch only.
    #[inline(always)]
    pub(crate) fn start_fast(&self) -> Timing {
        match self.lap.since {
            Some(_) => Timing::Together,
            None if self.session.counters.commands.is_multiple_of(TIMED) => {
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
                let (statistics, thread) = (self.host.statistics(), self.session.route.0);
                statistics.count_untimed(thread, &[Run::once(command, outcome.is_err())]);
            }
        }
    }

    /// To be called before a command that is timed by itself. The clock is read unless this is the first of a batch, or
    /// comes right behind another such command: then it is when that began, or ended.
    #[inline]
    pub(crate) fn start_slow(&mut self) -> Instant {
        self.lap.frozen = None;
        match self.lap.since {
            Some(since) if self.lap.runs.is_empty() => since,
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
        self.count(&[Run::once(command, failed)], time);
    }

    /// Counts what a script has run, in a transaction that is committed. Its commands' times are part of the script's.
    pub(crate) fn count_ran(&mut self, lap: &Lap) {
        let (statistics, thread) = (self.host.statistics(), self.session.route.0);
        statistics.count_untimed(thread, &lap.runs);
        self.session.counters.commands += lap.runs.iter().map(|run| run.calls).sum::<u64>();
        for (code, count) in &lap.errors {
            statistics.count_errors(thread, code, *count);
            self.session.counters.errors += count;
        }
    }

    fn count(&self, runs: &[Run], time: Duration) {
        const TRACKING: usize = Parameter::place("latency-tracking");
        let tracks = self.host.config().number_at(TRACKING) != 0;
        let statistics = self.host.statistics();
        let nanoseconds = time.as_secs() * 1_000_000_000 + u64::from(time.subsec_nanos());
        statistics.count(self.session.route.0, runs, nanoseconds, tracks);
    }

    /// Counts a command that was refused before it was run.
    #[cold]
    pub(crate) fn count_rejected(&self, command: &'static Command) {
        let statistics = self.host.statistics();
        statistics.count_rejected(self.session.route.0, command);
    }

    /// Counts an error reply.
    #[cold]
    pub(crate) fn count_error(&mut self, text: &str) {
        self.session.counters.errors += 1;
        self.host
            .statistics()
            .count_error(self.session.route.0, text);
    }
}
