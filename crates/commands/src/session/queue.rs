//! The commands that a connection queues between MULTI and EXEC.

use smallvec::SmallVec;
use undercroft_engine::{Load, ShardSet};

use crate::table::Command;

/// Queues up to so long find room as they need it.
const FEW: usize = 64;
/// What one more command of a transaction counts as.
const KEYS_OF_COMMAND: u64 = 2;

/// The commands that are queued since MULTI.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandQueue {
    pub(crate) commands: Vec<QueuedCommand>,
    /// A command was refused: EXEC will refuse all.
    pub(crate) failed: bool,
    /// The shards of all their keys, as far as the arguments tell.
    pub(crate) shards: ShardSet,
    /// Some command may need memory.
    pub(crate) may_need_memory: bool,
    /// Some command writes.
    pub(crate) writes: bool,
    /// Some command is a script.
    pub(crate) runs_scripts: bool,
    /// All their arguments, one behind the other, and where each ends.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Bytes of memory that the queue takes.
    pub(crate) memory: usize,
    /// Some command changes what the connection is subscribed to.
    pub(crate) subscribes: bool,
}

/// One command that waits for EXEC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuedCommand {
    pub(crate) command: &'static Command,
    /// Whether it is part of the transaction; otherwise it runs behind the commit.
    pub(crate) inside: bool,
    /// Which of all arguments are its own: the first, and how many.
    arguments: (usize, usize),
}

/// The arguments of a queued command.
pub(crate) type Arguments<'m> = SmallVec<[&'m [u8]; 8]>;

impl CommandQueue {
    /// A queue that EXEC will refuse.
    pub(crate) fn refused() -> CommandQueue {
        CommandQueue {
            failed: true,
            ..CommandQueue::default()
        }
    }

    /// The arguments of a command of the queue, the command's name first.
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

    /// Bytes of all arguments.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a command whose arguments are as many as its arity says, and which is `inside` of the transaction or runs
    /// after its commit.
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

    /// What all commands bring with them, as their arguments tell.
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
