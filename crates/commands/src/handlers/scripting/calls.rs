//! Runs the commands that a script calls, and checks the conditions that stop the script.
//!
//! All commands of a script run in a single transaction. As in Redis, a script that fails keeps its
//! earlier changes: its error is a normal reply, and the transaction commits. A command that fails
//! changes nothing. A script is stopped if its transaction must restart, or if it runs too long.
//! Its changes are then rolled back.

use std::time::{Duration, Instant};

use undercroft_engine::scripts::RunningScript;
use undercroft_engine::{coarse_milliseconds, is_patience_limited, removing};

use crate::arguments::CommandError;
use crate::config::Parameter;
use crate::context::reporting::{is_quick, is_slow, note_latency};
use crate::context::{Calls, Context, Permit};
use crate::failure::{Blocked, Failure};
use crate::protocol::Protocol;
use crate::reply::Reply;
use crate::scripts::{CallError, Permissions, RunClock, ScriptArguments, ScriptLimits, ScriptRun};
use crate::table::{Command, Flag, find, resolve_name};

/// Determines when a script with a time limit is first reported to other processes as running:
/// after `1 / PARTS` of the limit.
const PARTS: u32 = 5;
/// The interval between consecutive reports that a script is still running.
const SAYS: Duration = Duration::from_millis(200);

impl<'c, 'a> Calls<'c, 'a> {
    /// Starts a script run in `context`, which must belong to a running transaction.
    pub(crate) fn new(
        context: &'c mut Context<'a>,
        limits: ScriptLimits,
        permissions: Permissions,
        called: &'c ScriptArguments<'c>,
    ) -> Calls<'c, 'a> {
        const THRESHOLD: usize = Parameter::place("busy-reply-threshold");
        context.scripted = true;
        let store = context.store.store();
        let threshold = context.host.config().number_at(THRESHOLD);
        let threshold = match u64::try_from(threshold) {
            Ok(0) | Err(_) => Duration::MAX,
            Ok(milliseconds) => Duration::from_millis(milliseconds),
        };
        // Report the script to other processes early enough that they can kill it before it reaches
        // its time limit.
        let next_report = limits
            .time
            .map_or(threshold, |time| threshold.min(time / PARTS));
        let run = ScriptRun {
            called,
            limits,
            permissions,
            has_written: false,
            began: coarse_milliseconds(),
            started: None,
            clock: RunClock::after(context.session.scripts.time),
            thread_limit: match limits.impatient_time {
                Some(time) if is_patience_limited() => Some(time),
                _ => limits
                    .shared_thread_time
                    .filter(|_| !context.session.scripts.has_own_thread),
            },
            next_report,
            is_reported: false,
            running: None,
            killed: context
                .session
                .scripts
                .killed
                .unwrap_or_else(|| store.killed_scripts()),
            stopped: None,
            is_counted: false,
        };
        Calls { context, run }
    }

    /// Runs a command and writes its reply. If the command fails, rolls back its changes.
    ///
    /// # Errors
    /// Returns the reason why the command was rejected, or the command's error reply. Returns
    /// [`CallError::Stopped`] if the script must stop.
    pub fn call(&mut self, arguments: &[&[u8]], reply: &mut dyn Reply) -> Result<(), CallError> {
        const UNKNOWN: CommandError =
            CommandError::fixed("ERR Unknown Redis command called from script");
        let arguments = &*self.context.true_words(arguments);
        let Some(command) = command_of(arguments) else {
            return Err(self.refuse(UNKNOWN));
        };
        let permit = match self.admit(command, arguments) {
            Ok(permit) => permit,
            Err(error) => {
                self.context.lap.add_rejected(command);
                return Err(self.refuse(error));
            }
        };
        let writes = command.flags.has(Flag::Write);
        self.run.has_written |= writes;
        if command.flags.has(Flag::ReadOnly) {
            self.context
                .remember(&mut self.run.called.keys.iter().copied());
        }
        let store = self.context.store;
        let is_timed = self.context.timed || !is_quick(command, arguments);
        let start = is_timed.then(Instant::now);
        let outcome = if writes {
            // If the changes of a failed command cannot be rolled back, the entire transaction
            // fails, even if the script catches the error.
            let _removing = command.removes().then(removing);
            match store.attempt(|| self.context.run(&permit, reply)) {
                Ok(outcome) => outcome,
                Err(error) => return Err(self.stop(error.into())),
            }
        } else {
            self.context.run(&permit, reply)
        };
        if store.starts_again() {
            return Err(self.stop(CommandError::OUT_OF_MEMORY.into()));
        }
        if let Err(failure @ Failure::Blocked(_)) = outcome {
            return Err(self.stop(failure));
        }
        self.context.lap.add(command, outcome.is_err());
        if start.is_some() || self.context.shows {
            self.show(command, arguments, start);
        }
        if let Err(failure) = outcome {
            return Err(self.refuse(failure.into_error()));
        }
        if undercroft_engine::Store::met_expired() {
            if let Err(error) = store.remove_met() {
                return Err(self.stop(error.into()));
            }
            if store.starts_again() {
                return Err(self.stop(CommandError::OUT_OF_MEMORY.into()));
            }
        }
        Ok(())
    }

    /// Records a command for MONITOR and SLOWLOG, and its running time for LATENCY.
    #[cold]
    fn show(&mut self, command: &'static Command, arguments: &[&[u8]], start: Option<Instant>) {
        let context = &mut *self.context;
        let time = start.map(|start| start.elapsed());
        if let Some(time) = time {
            note_latency(context, command, time);
        }
        let slow = time.filter(|time| is_slow(context, *time));
        if slow.is_some() || context.shows {
            let database = context.session.database;
            context.lap.trace.keep(command, arguments, database, slow);
        }
    }

    /// Counts a command's error reply, and returns the error for the script.
    #[cold]
    fn refuse(&mut self, error: CommandError) -> CallError {
        self.context.lap.add_error(error.text());
        CallError::Error(error)
    }

    fn admit<'p>(
        &mut self,
        command: &'static Command,
        arguments: &'p [&'p [u8]],
    ) -> Result<Permit<'p>, CommandError> {
        const WRONG_NUMBER: CommandError =
            CommandError::fixed("ERR Wrong number of args calling Redis command from script");
        if !command.accepts(arguments.len()) {
            return Err(WRONG_NUMBER);
        }
        if command.flags.has(Flag::NoScript) {
            return Err(CommandError::fixed(
                "ERR This Redis command is not allowed from script",
            ));
        }
        let permit = match self.context.permit(command, arguments) {
            Ok(permit) => permit,
            Err(refusal) => {
                let error = refusal.error_in_script();
                self.context.note_denied(refusal.call);
                return Err(error);
            }
        };
        let writes = command.flags.has(Flag::Write);
        let is_told = matches!(command.name, "publish" | "spublish" | "pfcount");
        if self.run.permissions.is_read_only && (writes || is_told) {
            return Err(CommandError::fixed(
                "ERR Write commands are not allowed from read-only scripts.",
            ));
        }
        // As in Redis, a script that has already written can continue to write, because its earlier
        // changes cannot be undone.
        if let Some(refusal) = &self.run.permissions.write_refusal
            && !self.run.has_written
            && writes
        {
            return Err(refusal.clone());
        }
        if self.run.permissions.is_full && !self.run.has_written && command.flags.has(Flag::DenyOom)
        {
            return Err(CommandError::OUT_OF_MEMORY);
        }
        Ok(permit)
    }

    /// Records that the error that ends the script came from a command, so it has already been
    /// counted.
    pub fn set_counted(&mut self) {
        self.run.is_counted = true;
    }

    /// Returns whether the user of the script may run a command with these arguments, or `None` if
    /// the command does not exist.
    pub fn allows(&self, arguments: &[&[u8]]) -> Option<bool> {
        let arguments = &*self.context.true_words(arguments);
        let command = command_of(arguments)?;
        Some(self.context.permit(command, arguments).is_ok())
    }

    /// Sets the protocol for the replies to all later commands.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.context.session.protocol = protocol;
    }

    /// Returns the protocol for replies to commands. A script starts with RESP2, regardless of the
    /// client's protocol.
    pub fn protocol(&self) -> Protocol {
        self.context.session.protocol
    }

    /// Returns the Unix time in milliseconds, which does not advance while the script is running.
    pub fn now(&self) -> u64 {
        self.context.store.now()
    }

    /// Writes a line to the process log. Levels range from 0 (debug) to 3 (warning).
    pub fn log(&self, level: u8, text: &[u8]) {
        self.context.host.control.log(level, text);
    }

    /// Returns the limits that apply to this script.
    pub fn limits(&self) -> ScriptLimits {
        self.run.limits
    }

    /// Checks whether the script may continue, and returns its running time. The interpreter calls
    /// this method every few thousand instructions.
    ///
    /// # Errors
    /// Returns the error for the script's caller if the script was killed. Returns
    /// [`CallError::Stopped`] if the script ran too long and must be rolled back.
    pub fn tick(&mut self) -> Result<Duration, CallError> {
        let started = self.started();
        let elapsed = self.run.clock.until(started, Instant::now());
        if self.run.limits.time.is_some_and(|limit| elapsed > limit) {
            let limit = self.run.limits.time.unwrap_or_default().as_millis();
            let text = format!(
                "ERR the script ran longer than its limit of {limit} ms in this process; its \
                 changes were rolled back"
            );
            return Err(self.stop(CommandError::new(text).into()));
        }
        if self.run.thread_limit.is_some_and(|limit| elapsed > limit) {
            return Err(self.stop(Failure::Blocked(Blocked::Long)));
        }
        let store = self.context.store.store();
        // A signal does not interrupt a script that has written. An interruption would roll back
        // the script's changes, even if the signal handler allows the process to continue.
        if !self.run.has_written && store.is_signalled() {
            return Err(self.stop(Failure::Blocked(Blocked::Long)));
        }
        if elapsed < self.run.next_report {
            return Ok(elapsed);
        }
        self.run.next_report = elapsed + SAYS;
        self.run.is_reported = true;
        if self.run.running.is_none()
            && let Some(name) = self.run.called.function
        {
            let running = &self.context.host.process.running;
            self.run.running = Some(running.add(name, self.run.called.words, started));
        }
        // Ignore the error: without the report, other processes merely wait longer.
        let _ = store.see_script(RunningScript {
            has_written: self.run.has_written,
            is_function: self.run.permissions.is_function,
        });
        if !self.run.has_written && store.killed_scripts() != self.run.killed {
            return Err(CallError::Error(CommandError::fixed(
                match self.run.permissions.is_function {
                    true => "ERR Script killed by user with FUNCTION KILL...",
                    false => "ERR Script killed by user with SCRIPT KILL...",
                },
            )));
        }
        Ok(elapsed)
    }

    /// Returns the time when the script started. The first call reads the precise clock, and
    /// adjusts the result if the coarse clock shows that the script began earlier. Reading only the
    /// coarse clock at the start costs a short script almost nothing.
    fn started(&mut self) -> Instant {
        /// The maximum lag of the coarse clock, in milliseconds.
        const GRAIN: u64 = 10;
        let began = self.run.began;
        *self.run.started.get_or_insert_with(|| {
            let now = Instant::now();
            let past = coarse_milliseconds().saturating_sub(began);
            let past = Duration::from_millis(past.saturating_sub(GRAIN));
            now.checked_sub(past).unwrap_or(now)
        })
    }

    fn stop(&mut self, failure: Failure) -> CallError {
        self.run.stopped = Some(failure);
        CallError::Stopped
    }

    /// Returns whether the error that ends the script has already been counted.
    pub(crate) fn is_counted(&self) -> bool {
        self.run.is_counted
    }

    /// Ends the script. Returns the failure that stopped it, or an out-of-memory error if no
    /// failure was recorded.
    pub(crate) fn end(mut self) -> Failure {
        let stopped = self.run.stopped.take();
        stopped.unwrap_or_else(|| CommandError::OUT_OF_MEMORY.into())
    }
}

impl Drop for Calls<'_, '_> {
    fn drop(&mut self) {
        self.context.scripted = false;
        if self.context.store.starts_again() {
            let started = self.started();
            self.context.session.scripts.time = self.run.clock.until(started, Instant::now());
        }
        if let Some(number) = self.run.running {
            self.context.host.process.running.end(number);
        }
        if self.run.is_reported {
            // Ignore the error: the report that the script is running expires within a second.
            let _ = self.context.store.store().end_script();
        }
    }
}

/// Returns the command that `arguments` call. Most commands have no subcommands, so they do not
/// need full name resolution, which builds an error if the name is unknown.
#[inline]
fn command_of(arguments: &[&[u8]]) -> Option<&'static Command> {
    let command = find(arguments.first()?)?;
    match command.subcommands.is_empty() {
        true => Some(command),
        false => resolve_name(arguments).ok(),
    }
}
