//! Defines the table of all command handlers, indexed by command number.

use crate::arguments::CommandError;
use crate::context::{Context, Handler, HandlerEntry, Handlers};
use crate::failure::Outcome;
use crate::handlers::{collections, connections, feeds, keys, scripting, server, streams, strings};
use crate::reply::Reply;
use crate::table::{self, all, number_of};

const FAMILIES: [&[HandlerEntry]; 46] = [
    strings::values::HANDLERS,
    strings::substrings::HANDLERS,
    strings::bits::HANDLERS,
    strings::bitfield::HANDLERS,
    strings::hyperloglog::HANDLERS,
    collections::lists::HANDLERS,
    collections::hashes::HANDLERS,
    collections::sets::HANDLERS,
    collections::sorted::add::HANDLERS,
    collections::sorted::combine::HANDLERS,
    collections::sorted::pop::HANDLERS,
    collections::sorted::range::HANDLERS,
    collections::sorted::read::HANDLERS,
    collections::geo::HANDLERS,
    collections::geo::search::HANDLERS,
    collections::blocking::HANDLERS,
    streams::entries::HANDLERS,
    streams::read::HANDLERS,
    streams::groups::HANDLERS,
    streams::claim::HANDLERS,
    streams::info::HANDLERS,
    feeds::read::HANDLERS,
    feeds::write::HANDLERS,
    keys::keyspace::HANDLERS,
    keys::expiry::HANDLERS,
    keys::object::HANDLERS,
    keys::sort::HANDLERS,
    connections::acl::HANDLERS,
    connections::connection::HANDLERS,
    connections::client::HANDLERS,
    connections::pubsub::HANDLERS,
    connections::tracking::HANDLERS,
    connections::transaction::HANDLERS,
    scripting::evaluate::HANDLERS,
    scripting::functions::HANDLERS,
    server::administration::HANDLERS,
    server::command::HANDLERS,
    server::latency::HANDLERS,
    server::memory::HANDLERS,
    server::persistence::HANDLERS,
    server::replica::HANDLERS,
    server::replication::HANDLERS,
    server::migrate::HANDLERS,
    server::replicas::HANDLERS,
    server::unsupported::HANDLERS,
    server::lolwut::HANDLERS,
];

/// The handlers of all commands, indexed by command number.
pub(super) static HANDLERS: Handlers = by_number();

const fn by_number() -> Handlers {
    let mut found: [Option<Handler>; table::COUNT] = [None; table::COUNT];
    let mut family = 0;
    while family < FAMILIES.len() {
        let mut index = 0;
        while index < FAMILIES[family].len() {
            let (name, handler) = FAMILIES[family][index];
            let number = number_of(name);
            assert!(found[number].is_none(), "a command with two handlers");
            found[number] = Some(handler);
            index += 1;
        }
        family += 1;
    }
    let commands = all();
    let mut handlers: [Handler; table::COUNT] = [refuse_container; table::COUNT];
    let mut index = 0;
    while index < commands.len() {
        let command = &commands[index];
        let own = found[command.number as usize];
        match own {
            Some(handler) => handlers[command.number as usize] = handler,
            None => assert!(!command.is_callable(), "a command without a handler"),
        }
        let mut place = 0;
        while place < command.subcommands.len() {
            let number = command.subcommands[place].number as usize;
            handlers[number] = match (found[number], own) {
                (Some(handler), _) | (None, Some(handler)) => handler,
                (None, None) => panic!("a subcommand without a handler"),
            };
            place += 1;
        }
        index += 1;
    }
    Handlers::new(handlers)
}

/// The handler of container commands. It never runs, because the arity of a container requires a
/// subcommand.
fn refuse_container(_: &mut Context<'_>, arguments: &[&[u8]], _: &mut dyn Reply) -> Outcome {
    Err(CommandError::unknown_command(arguments).into())
}
