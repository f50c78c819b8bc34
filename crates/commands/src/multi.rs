//! What a connection remembers between MULTI and EXEC.

use undercroft_engine::{ShardSet, Topic};

use crate::arguments::is_keyword;
use crate::handler::{Context, Handler};
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
    /// Bytes of all their arguments.
    pub(crate) bytes: usize,
    /// Bytes of memory that the queue takes.
    pub(crate) memory: usize,
    /// Some command changes what the connection is subscribed to.
    pub(crate) subscribes: bool,
}

/// One command that waits for EXEC.
#[derive(Clone, Debug)]
pub(crate) struct Queued {
    pub(crate) command: &'static Command,
    pub(crate) handler: Handler,
    /// Whether it is part of the transaction; otherwise it runs behind the commit.
    pub(crate) inside: bool,
    /// All arguments, one behind the other, and where each ends.
    bytes: Box<[u8]>,
    ends: Box<[usize]>,
}

impl Queued {
    /// The arguments, the command's name first.
    pub(crate) fn arguments(&self) -> Vec<&[u8]> {
        let mut start = 0;
        let cut = |end: &usize| {
            let argument = &self.bytes[start..*end];
            start = *end;
            argument
        };
        self.ends.iter().map(cut).collect()
    }
}

impl Multi {
    /// Adds a command whose arguments are as many as its arity says.
    pub(crate) fn push(
        &mut self,
        context: &Context<'_>,
        command: &'static Command,
        handler: Handler,
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
        self.may_need_memory |= command.flags.has(Flag::DenyOom);
        self.subscribes |= command.name.ends_with("subscribe");
        let mut end = 0;
        let ends = arguments.iter().map(|argument| {
            end += argument.len();
            end
        });
        self.queue.push(Queued {
            command,
            handler,
            inside,
            ends: ends.collect(),
            bytes: arguments.concat().into(),
        });
        self.bytes += end;
        self.memory += end + size_of::<Queued>() + size_of_val(arguments);
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
