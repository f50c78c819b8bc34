//! Counts the calls of commands that are timed together.

use std::time::Instant;

use smallvec::SmallVec;
use undercroft_engine::Frozen;

use super::trace::Trace;
use crate::audit::AuditEvent;
use crate::table::Command;
use crate::users::DeniedCall;

/// Returns the code of an error, which is its first word.
pub(super) fn error_code(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}

/// The number of calls of a single command.
#[derive(Clone, Copy)]
pub(crate) struct CallCount {
    pub(crate) command: &'static Command,
    pub(crate) calls: u64,
    pub(crate) failed: u64,
    /// The number of calls by a script that were refused before they ran.
    pub(crate) rejected: u64,
}

impl CallCount {
    pub(crate) fn one(command: &'static Command, failed: bool) -> CallCount {
        CallCount {
            command,
            calls: 1,
            failed: failed.into(),
            rejected: 0,
        }
    }
}

/// The fast commands that are being timed together, or the commands that a script has run.
#[derive(Default)]
pub(crate) struct Lap {
    /// The time when timing began, or `None` outside a batch.
    pub(crate) since: Option<Instant>,
    /// The current time as seen by all fast commands of a batch.
    pub(crate) frozen: Option<Frozen>,
    pub(crate) calls: SmallVec<[CallCount; 4]>,
    /// The error codes of replies to a script's commands, with the number of occurrences of each
    /// code.
    pub(crate) errors: Vec<(Box<str>, u64)>,
    /// The script's commands that will be reported to MONITOR and the slow log.
    pub(crate) trace: Trace,
    /// The calls within a transaction that were denied, to be logged after the commit.
    pub(crate) denied: Vec<DeniedCall>,
    /// The audited commands within a transaction, to be reported after the commit.
    pub(crate) audited: Vec<AuditEvent>,
}

impl Lap {
    #[inline(always)]
    pub(crate) fn add(&mut self, command: &'static Command, failed: bool) {
        // A linear search is sufficient, because a batch contains few distinct commands.
        let mut counts = self.calls.iter_mut();
        if let Some(count) = counts.find(|count| std::ptr::eq(count.command, command)) {
            count.calls += 1;
            count.failed += u64::from(failed);
        } else {
            self.calls.push(CallCount::one(command, failed));
        }
    }

    /// Counts a command that a script called and that was refused before it ran.
    #[cold]
    pub(crate) fn add_rejected(&mut self, command: &'static Command) {
        let mut counts = self.calls.iter_mut();
        match counts.find(|count| std::ptr::eq(count.command, command)) {
            Some(count) => count.rejected += 1,
            None => self.calls.push(CallCount {
                calls: 0,
                rejected: 1,
                ..CallCount::one(command, false)
            }),
        }
    }

    /// Counts an error of a script, or of a command that the script called.
    #[cold]
    pub(crate) fn add_error(&mut self, text: &str) {
        let code = error_code(text);
        match self.errors.iter_mut().find(|(known, _)| **known == *code) {
            Some((_, count)) => *count += 1,
            None => self.errors.push((code.into(), 1)),
        }
    }

    /// Subtracts an error that is counted elsewhere.
    #[cold]
    pub(crate) fn forget_error(&mut self, text: &str) {
        let code = error_code(text);
        let known = self.errors.iter_mut().find(|(known, _)| **known == *code);
        if let Some((_, count)) = known {
            *count = count.saturating_sub(1);
        }
    }
}
