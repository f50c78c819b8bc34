//! What others get to see of a script's commands: MONITOR all of them, the slow log those that took long.
//!
//! They are kept until the script's transaction is committed, as it may run again.

use std::time::Duration;

use crate::context::Context;
use crate::monitor::{self, Sender};
use crate::slow::note_slow;
use crate::table::Command;

/// Bytes that are kept of one script's commands; further ones are not seen.
const BYTES_MAX: usize = 16 << 20;

/// Commands of one script, in their order.
#[derive(Default)]
pub(crate) struct Seen {
    commands: Vec<SeenCommand>,
    bytes: usize,
}

struct SeenCommand {
    command: &'static Command,
    words: Vec<Vec<u8>>,
    /// The database that was chosen behind it.
    database: u32,
    /// How long it took, where that was long.
    time: Option<Duration>,
}

impl Seen {
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
        let bytes = self.bytes + bytes + size_of::<SeenCommand>();
        if bytes <= BYTES_MAX {
            self.bytes = bytes;
            self.commands.push(SeenCommand {
                command,
                words: words.iter().map(|word| word.to_vec()).collect(),
                database,
                time,
            });
        }
    }

    /// Has the slow log take note of those that took long.
    pub(crate) fn note_slow(&self, context: &mut Context<'_>) {
        for seen in &self.commands {
            if let Some(time) = seen.time {
                note_slow(context, seen.command, &seen.words(), time);
            }
        }
    }

    /// Shows all of them to connections that MONITOR.
    pub(crate) fn show(&self, context: &Context<'_>) {
        for seen in &self.commands {
            let (database, command) = (seen.database, seen.command);
            monitor::show(context, Sender::Script, database, command, &seen.words());
        }
    }
}

impl SeenCommand {
    fn words(&self) -> Vec<&[u8]> {
        self.words.iter().map(Vec::as_slice).collect()
    }
}
