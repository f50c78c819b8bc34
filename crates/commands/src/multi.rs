//! What a connection remembers between MULTI and EXEC.

use smallvec::SmallVec;
use undercroft_engine::{ShardSet, Topic};

use crate::arguments::is_keyword;
use crate::handler::Context;
use crate::handlers::scripting;
use crate::table::{Category, Command, Flag, Group};

/// The commands that are queued since MULTI.
#[derive(Clone, Debug, Default)]
pub(crate) struct Multi {
    pub(crate) queue: Vec<Queued>,
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
pub(crate) struct Queued {
    pub(crate) command: &'static Command,
    /// Whether it is part of the transaction; otherwise it runs behind the commit.
    pub(crate) inside: bool,
    /// Which of all arguments are its own: the first, and how many.
    arguments: (usize, usize),
}

/// The arguments of a queued command.
pub(crate) type Arguments<'m> = SmallVec<[&'m [u8]; 8]>;

impl Multi {
    /// A queue that EXEC will refuse.
    pub(crate) fn refused() -> Multi {
        Multi {
            failed: true,
            ..Multi::default()
        }
    }

    /// The arguments of a command of the queue, the command's name first.
    pub(crate) fn arguments(&self, queued: &Queued) -> Arguments<'_> {
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

    /// Adds a command whose arguments are as many as its arity says.
    pub(crate) fn push(
        &mut self,
        context: &Context<'_>,
        command: &'static Command,
        arguments: &[&[u8]],
    ) {
        let inside = is_inside(command, arguments) && !(publishes(command) && self.subscribes);
        if inside && publishes(command) {
            self.shards = self.shards.union(receivers_shards(context, arguments));
        }
        let touches = command.flags.has(Flag::Write)
            || command.flags.has(Flag::ReadOnly)
            || command.flags.has(Flag::NoMandatoryKeys);
        if inside && touches {
            let keys = command.keys_of(arguments);
            let shards: ShardSet = keys
                .map(|(key, _)| context.store.key(key).shard())
                .collect();
            // Without keys it works on whole databases. Where the arguments do not tell all keys, the transaction
            // finds out that it needs more shards.
            self.shards = self.shards.union(if shards.is_empty() {
                context.store.all_shards()
            } else {
                shards
            });
        }
        let script = scripting::flags(context, command, arguments);
        self.may_need_memory |= command.flags.has(Flag::DenyOom) || script.declares_memory();
        self.runs_scripts |= command.group == Group::Scripting;
        self.writes |= command.flags.has(Flag::Write) || script.declares_writes();
        self.subscribes |= command.name.ends_with("subscribe");
        self.queue.push(Queued {
            command,
            inside,
            arguments: (self.ends.len(), arguments.len()),
        });
        let before = self.bytes.len();
        for argument in arguments {
            self.bytes.extend_from_slice(argument);
            self.ends.push(self.bytes.len());
        }
        self.memory += self.bytes.len() - before + size_of::<Queued>() + size_of_val(arguments);
    }
}

/// Whether a command is run within EXEC's transaction, where it must be free to run again and must not wait: the
/// commands on keys, and those that change nothing but how the connection's next commands are read. All others, which
/// look at the server or change it, run once, behind the commit, in their order.
///
/// PUBLISH is part of it: its message is handed to the store, which sends it once the transaction is committed. One
/// behind a SUBSCRIBE of the same queue is not, as its message is for that subscription, too.
fn is_inside(command: &Command, arguments: &[&[u8]]) -> bool {
    if command.categories.has(Category::Pubsub) {
        return publishes(command);
    }
    match command.group {
        Group::Connection => matches!(command.name, "ping" | "echo" | "select" | "hello" | "auth"),
        Group::Server => match command.name {
            "dbsize" | "flushdb" | "flushall" | "swapdb" | "memory|usage" => true,
            // It sleeps.
            "debug" => arguments
                .get(1)
                .is_some_and(|what| is_keyword(what, "OBJECT")),
            _ => false,
        },
        _ => true,
    }
}

fn publishes(command: &Command) -> bool {
    matches!(command.name, "publish" | "spublish")
}

/// Where the receivers of a message stand, at which PUBLISH looks.
fn receivers_shards(context: &Context<'_>, arguments: &[&[u8]]) -> ShardSet {
    let store = context.store;
    let names = arguments.get(1).map(|name| store.key(name).shard());
    // All patterns are looked through in one place.
    let patterns = (store.topic_count(Topic::Pattern) != 0).then_some(0);
    names.into_iter().chain(patterns).collect()
}
