//! The commands of one script, for MONITOR, which shows all of them, and the slow log, which takes those that took long.
//!
//! They are kept until the script's transaction is committed, as it may run again.

use std::time::Duration;

use crate::table::Command;

/// Bytes that are kept of one script's commands; further ones are dropped.
const BYTES_MAX: usize = 16 << 20;

/// Commands of one script, in their order.
#[derive(Default)]
pub(crate) struct Trace {
    pub(crate) commands: Vec<TracedCommand>,
    bytes: usize,
}

/// A command that was run.
pub(crate) struct TracedCommand {
    pub(crate) command: &'static Command,
    words: Vec<Vec<u8>>,
    /// The database that was chosen after it.
    pub(crate) database: u32,
    /// How long it took, where that was long.
    pub(crate) time: Option<Duration>,
}

impl Trace {
    /// Keeps a command that was run.
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
    /// Its name and its arguments.
    pub(crate) fn words(&self) -> Vec<&[u8]> {
        self.words.iter().map(Vec::as_slice).collect()
    }
}
