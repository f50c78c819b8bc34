//! Reports logins, refusals and security-relevant commands to the audit log.
//!
//! Commands are reported by the gate, through which every command runs, and logins by the code that
//! checks passwords, so no handler can forget a report. A command inside a transaction is reported
//! after the commit, because a write to a file must not delay a process that waits for the locks (W9).

use super::Context;
use super::redaction::audited;
use crate::arguments::CommandError;
use crate::audit::{AuditEvent, AuditResult};
use crate::failure::{Failure, Outcome};
use crate::table::{self, Command, number_of};
use crate::users::Reason;

/// The commands that are reported, each with the name of its event.
const COMMANDS: &[(&str, &str)] = &[
    ("acl|setuser", "acl"),
    ("acl|deluser", "acl"),
    ("acl|load", "acl"),
    ("acl|save", "acl"),
    ("config|set", "config"),
    ("config|rewrite", "config"),
    ("debug", "debug"),
    ("flushall", "flush"),
    ("flushdb", "flush"),
    ("function|delete", "function"),
    ("function|flush", "function"),
    ("function|load", "function"),
    ("function|restore", "function"),
    ("module|load", "module"),
    ("module|loadex", "module"),
    ("module|unload", "module"),
    ("replicaof", "replication"),
    ("slaveof", "replication"),
    ("shutdown", "shutdown"),
];

/// The event of each command and subcommand, by command number.
static EVENTS: [Option<&str>; table::COUNT] = {
    let mut events = [None; table::COUNT];
    let mut at = 0;
    while at < COMMANDS.len() {
        let (name, event) = COMMANDS[at];
        events[number_of(name)] = Some(event);
        at += 1;
    }
    events
};

/// How a client without a password has logged in.
const BY_CERTIFICATE: &str = "by the client's certificate";
/// Why a client's certificate has not logged it in.
const NO_USER_OF_CERTIFICATE: &str = "no enabled user has the name in the certificate";

/// The error of a command or a login, for the log.
type Reported<'e> = Result<(), &'e str>;

impl Context<'_> {
    /// Records that an audited command is about to run, if the audit log is required. The retry of a
    /// blocked command is not recorded again.
    ///
    /// # Errors
    /// Returns the error of the command if it must not run, because no record can be written.
    #[cold]
    pub(crate) fn begin_audited(
        &mut self,
        command: &'static Command,
        arguments: &[&[u8]],
    ) -> Result<(), CommandError> {
        let log = self.host.process.audit_log();
        let Some(log) = log.filter(|log| log.is_required()) else {
            return Ok(());
        };
        let Some(event) = EVENTS[usize::from(command.number)] else {
            return Ok(());
        };
        if !self.session.is_audited {
            log.record(&self.event(event, Some((command, arguments)), AuditResult::Started, ""))?;
            self.session.is_audited = true;
        }
        Ok(())
    }

    /// Reports a command that has run, if it is one that is audited.
    #[cold]
    pub(crate) fn note_audited(
        &mut self,
        command: &'static Command,
        arguments: &[&[u8]],
        outcome: Reported<'_>,
    ) {
        let Some(event) = EVENTS[usize::from(command.number)] else {
            return;
        };
        self.session.is_audited = false;
        let (result, reason) = match outcome {
            Ok(()) => (AuditResult::Success, ""),
            Err(reason) => (AuditResult::Failure, reason),
        };
        let event = self.event(event, Some((command, arguments)), result, reason);
        match self.store.is_running() {
            true => self.lap.audited.push(event),
            false => self.record(&event),
        }
    }

    /// Like [`note_audited`](Self::note_audited), for the outcome of a handler. A blocked command is not
    /// reported, because its retry is.
    #[cold]
    pub(crate) fn note_outcome(
        &mut self,
        command: &'static Command,
        arguments: &[&[u8]],
        outcome: &Outcome,
    ) {
        match outcome {
            Ok(()) => self.note_audited(command, arguments, Ok(())),
            Err(Failure::Reply(error)) => {
                self.note_audited(command, arguments, Err(error.text()));
            }
            Err(Failure::Blocked(_)) => {}
        }
    }

    /// Reports a command that the configuration forbids.
    #[cold]
    pub(crate) fn note_forbidden(
        &mut self,
        command: &'static Command,
        arguments: &[&[u8]],
        error: &CommandError,
    ) {
        if self.audits
            && let Some(event) = EVENTS[usize::from(command.number)]
        {
            let refused = AuditResult::Refused;
            let event = self.event(event, Some((command, arguments)), refused, error.text());
            self.record(&event);
        }
    }

    /// Returns the error of a command within a transaction that must not run, because its record would
    /// be lost. The record itself follows the commit.
    pub(super) fn audit_refusal(&self, command: &'static Command) -> Option<CommandError> {
        EVENTS[usize::from(command.number)]?;
        let log = self.host.process.audit_log()?;
        log.refusal().filter(|_| self.store.is_running())
    }

    /// Reports that the connection logs in as a user, by a command, or by its certificate if there are no
    /// arguments.
    ///
    /// # Errors
    /// Returns an error if the login must be refused, because no record can be written.
    pub(crate) fn note_login(
        &mut self,
        user: &[u8],
        arguments: &[&[u8]],
    ) -> Result<(), CommandError> {
        let (true, Some(log)) = (self.audits, self.host.process.audit_log()) else {
            return Ok(());
        };
        let called = table::resolve_name(arguments)
            .ok()
            .map(|command| (command, arguments));
        let means = if called.is_none() { BY_CERTIFICATE } else { "" };
        let event = AuditEvent {
            user: user.to_vec(),
            ..self.event("auth", called, AuditResult::Success, means)
        };
        match self.store.is_running() {
            true => {
                self.lap.audited.push(event);
                log.refusal().map_or(Ok(()), Err)
            }
            false => log.record(&event),
        }
    }

    /// Returns the event of a denied call, if there is an audit log.
    pub(super) fn denied_event(
        &self,
        reason: Reason,
        user: &[u8],
        arguments: &[&[u8]],
    ) -> Option<Box<AuditEvent>> {
        if !self.audits {
            return None;
        }
        let called = table::resolve_name(arguments)
            .ok()
            .map(|command| (command, arguments));
        let (event, result, text) = match reason {
            Reason::Certificate => ("auth", AuditResult::Failure, NO_USER_OF_CERTIFICATE),
            Reason::Auth => ("auth", AuditResult::Failure, "wrong user or password"),
            Reason::Command => ("denied", AuditResult::Refused, "no right to the command"),
            Reason::Key => ("denied", AuditResult::Refused, "no right to a key"),
            Reason::Channel => ("denied", AuditResult::Refused, "no right to a channel"),
        };
        Some(Box::new(AuditEvent {
            user: user.to_vec(),
            ..self.event(event, called, result, text)
        }))
    }

    /// Writes an event. A failure is counted and logged by the log itself.
    pub(super) fn record(&self, event: &AuditEvent) {
        if let Some(log) = self.host.process.audit_log() {
            // The command has run or was refused already, so a failure cannot refuse it.
            let _ = log.record(event);
        }
    }

    fn event(
        &self,
        event: &'static str,
        called: Option<(&'static Command, &[&[u8]])>,
        result: AuditResult,
        reason: &str,
    ) -> AuditEvent {
        let (name, (arguments, reason)) = match called {
            Some((command, arguments)) => (command.name, audited(command, arguments, reason)),
            None => ("", (Vec::new(), reason.to_owned())),
        };
        let session = &*self.session;
        AuditEvent {
            time: self.host.now_microseconds(),
            event,
            user: session.login.name().as_bytes().to_vec(),
            address: session.peer.address.clone(),
            client: session.id,
            command: name,
            arguments,
            result,
            reason,
        }
    }
}
