//! Stores the commands that a connection queues between MULTI and EXEC.

use smallvec::SmallVec;
use undercroft_engine::{Load, ShardSet};

use crate::table::Command;

/// The maximum number of queued commands for which the transaction allocates memory as it runs,
/// instead of reserving memory first.
const FEW: usize = 64;
/// The number of extra keys by which each queued command increases the estimated load.
const KEYS_OF_COMMAND: u64 = 2;

/// The commands queued since MULTI.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandQueue {
    pub(crate) commands: Vec<QueuedCommand>,
    /// Whether a command was refused while queueing, which makes EXEC abort.
    pub(crate) failed: bool,
    /// The shards of all keys that the arguments of the queued commands reveal.
    pub(crate) shards: ShardSet,
    /// Whether any queued command may need memory.
    pub(crate) may_need_memory: bool,
    /// Whether any queued command writes.
    pub(crate) writes: bool,
    /// Whether any queued command runs a script.
    pub(crate) runs_scripts: bool,
    /// The concatenated arguments of all commands. `ends` contains the offset at which each
    /// argument ends.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// The memory that the queue uses, in bytes.
    pub(crate) memory: usize,
    /// Whether any queued command changes the connection's subscriptions.
    pub(crate) subscribes: bool,
}

/// A command queued between MULTI and EXEC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuedCommand {
    pub(crate) command: &'static Command,
    /// Whether the command runs within the transaction. Otherwise it runs after the commit.
    pub(crate) inside: bool,
    /// The index of the command's first argument, and the number of its arguments.
    arguments: (usize, usize),
}

/// The arguments of a queued command.
pub(crate) type Arguments<'m> = SmallVec<[&'m [u8]; 8]>;

impl CommandQueue {
    /// Returns a queue for which EXEC returns an error.
    pub(crate) fn refused() -> CommandQueue {
        CommandQueue {
            failed: true,
            ..CommandQueue::default()
        }
    }

    /// Returns the arguments of a queued command, starting with its name.
    pub(crate) fn arguments(&self, queued: &QueuedCommand) -> Arguments<'_> {
        let (first, count) = queued.arguments;
        let mut start = first.checked_sub(1).map_or(0, |before| self.ends[before]);
        let cut = |end: &usize| {
            let argument = &self.bytes[start..*end];
            start = *end;
            argument
        };
        self.ends[first..first + count].iter().map(cut).collect()
    }

    /// Returns the total size of all arguments in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a command whose arity has been checked. `inside` specifies whether the command runs
    /// within the transaction or after the commit.
    pub(crate) fn push(&mut self, command: &'static Command, arguments: &[&[u8]], inside: bool) {
        self.commands.push(QueuedCommand {
            command,
            inside,
            arguments: (self.ends.len(), arguments.len()),
        });
        let before = self.bytes.len();
        for argument in arguments {
            self.bytes.extend_from_slice(argument);
            self.ends.push(self.bytes.len());
        }
        self.memory +=
            self.bytes.len() - before + size_of::<QueuedCommand>() + size_of_val(arguments);
    }

    /// Returns the load that all commands are expected to place on the store, estimated from their
    /// arguments.
    pub(crate) fn load(&self) -> Load {
        let mut all = Load::default();
        if self.commands.len() <= FEW && self.bytes() <= FEW * FEW {
            return all;
        }
        for queued in &self.commands {
            let load = queued.command.load(&self.arguments(queued));
            all.keys += load.keys + KEYS_OF_COMMAND;
        }
        all.bytes = self.bytes() as u64;
        all
    }
}
