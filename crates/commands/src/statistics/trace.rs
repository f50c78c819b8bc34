//! Records the commands of one script. MONITOR shows all of them, and the slow log shows only the
//! slow ones.
//!
//! The record is retained until the script's transaction commits, because the script can be rolled
//! back and rerun before the commit.

use std::time::Duration;

use crate::table::Command;

/// The maximum number of bytes to record for the commands of one script. Commands beyond this limit
/// are dropped.
const BYTES_MAX: usize = 16 << 20;

/// The commands of one script, in execution order.
#[derive(Default)]
pub(crate) struct Trace {
    pub(crate) commands: Vec<TracedCommand>,
    bytes: usize,
}

/// A command that a script ran.
pub(crate) struct TracedCommand {
    pub(crate) command: &'static Command,
    words: Vec<Vec<u8>>,
    /// The database that is selected after the command.
    pub(crate) database: u32,
    /// The running time of the command, or `None` if it was not slow.
    pub(crate) time: Option<Duration>,
}

impl Trace {
    /// Records a command, unless the trace is full.
    pub(crate) fn keep(
        &mut self,
        command: &'static Command,
        words: &[&[u8]],
        database: u32,
        time: Option<Duration>,
    ) {
        let bytes: usize = words
            .iter()
            .map(|word| word.len() + size_of::<Vec<u8>>())
            .sum();
        let bytes = self.bytes + bytes + size_of::<TracedCommand>();
        if bytes <= BYTES_MAX {
            self.bytes = bytes;
            self.commands.push(TracedCommand {
                command,
                words: words.iter().map(|word| word.to_vec()).collect(),
                database,
                time,
            });
        }
    }
}

impl TracedCommand {
    /// Returns the command's name and arguments.
    pub(crate) fn words(&self) -> Vec<&[u8]> {
        self.words.iter().map(Vec::as_slice).collect()
    }
}
