//! Defines the events of the audit log, and the interface through which commands write them.
//!
//! All folders of this crate can call this module, as can servers, which implement the log.

use crate::arguments::CommandError;

/// How an audited action ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditResult {
    /// The command is about to run. Reported only if the audit log is required.
    Started,
    /// The login or the command succeeded.
    Success,
    /// The login or the command failed.
    Failure,
    /// The command or the connection was refused.
    Refused,
}

impl AuditResult {
    /// Returns the name that the log shows.
    pub fn name(self) -> &'static str {
        match self {
            AuditResult::Started => "started",
            AuditResult::Success => "success",
            AuditResult::Failure => "failure",
            AuditResult::Refused => "refused",
        }
    }
}

/// An audited action. Texts come from clients and can contain any bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// The time of the action, in Unix microseconds.
    pub time: i64,
    /// The kind of the action, such as `auth` or `config`.
    pub event: &'static str,
    /// The user of the connection, or the user as which a login was attempted. Empty for a connection
    /// that was refused.
    pub user: Vec<u8>,
    /// The client's address, as in CLIENT LIST.
    pub address: String,
    /// The client's ID, as in CLIENT LIST, or 0 if the connection was refused before it had one.
    pub client: u64,
    /// The command's full name, such as `config|set`, or an empty string if there is no command.
    pub command: &'static str,
    /// The command's arguments after its name. Passwords are hidden, and long arguments are cut.
    pub arguments: Vec<Vec<u8>>,
    /// How the action ended.
    pub result: AuditResult,
    /// Why the action failed or was refused, or an empty string.
    pub reason: String,
}

/// The number of events that an audit log has written, and of those that it has lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditFacts {
    /// The number of events written.
    pub written: u64,
    /// The number of events that could not be written.
    pub lost: u64,
}

/// An audit log.
pub trait AuditLog: Send + Sync {
    /// Appends an event.
    ///
    /// # Errors
    /// If the event cannot be written and the log is required, returns the error of the command.
    fn record(&self, event: &AuditEvent) -> Result<(), CommandError>;

    /// Returns whether no audited command may run without a record.
    fn is_required(&self) -> bool;

    /// Returns the error of audited commands, if the log is required and the last event could not be
    /// written.
    fn refusal(&self) -> Option<CommandError>;

    /// Returns the numbers of events.
    fn facts(&self) -> AuditFacts;
}
