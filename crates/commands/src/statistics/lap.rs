//! The commands that are being timed together, and how often each was called.

use std::time::Instant;

use smallvec::SmallVec;
use undercroft_engine::Frozen;

use super::trace::Trace;
use crate::table::Command;

/// The code of an error: its first word.
pub(super) fn error_code(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}

/// The calls of one command.
#[derive(Clone, Copy)]
pub(crate) struct CallCount {
    pub(crate) command: &'static Command,
    pub(crate) calls: u64,
    pub(crate) failed: u64,
    /// Calls that a script made and that were refused before they were run.
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

/// The fast commands that are being timed together, or those that a script has run.
#[derive(Default)]
pub(crate) struct Lap {
    /// Since when; None outside of a batch.
    pub(crate) since: Option<Instant>,
    /// In a batch: the fast commands go by one time.
    pub(crate) frozen: Option<Frozen>,
    pub(crate) calls: SmallVec<[CallCount; 4]>,
    /// How often a script's commands answered errors of each code.
    pub(crate) errors: Vec<(Box<str>, u64)>,
    /// What MONITOR and the slow log are to show of a script's commands.
    pub(crate) trace: Trace,
}

impl Lap {
    #[inline(always)]
    pub(crate) fn add(&mut self, command: &'static Command, failed: bool) {
        // A batch has few commands, and fewer kinds of them.
        let mut counts = self.calls.iter_mut();
        if let Some(count) = counts.find(|count| std::ptr::eq(count.command, command)) {
            count.calls += 1;
            count.failed += u64::from(failed);
        } else {
            self.calls.push(CallCount::one(command, failed));
        }
    }

    /// Adds a command of a script that was refused before it was run.
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
