//! The list of all handlers, by the numbers of their commands.

use crate::arguments::CommandError;
use crate::context::{Context, Handler, HandlerEntry, Handlers};
use crate::failure::Outcome;
use crate::handlers;
use crate::reply::Reply;
use crate::table::{self, all, number_of};

const FAMILIES: [&[HandlerEntry]; 41] = [
    handlers::strings::HANDLERS,
    handlers::string_parts::HANDLERS,
    handlers::bits::HANDLERS,
    handlers::bitfield::HANDLERS,
    handlers::hyperloglog::HANDLERS,
    handlers::lists::HANDLERS,
    handlers::hashes::HANDLERS,
    handlers::sets::HANDLERS,
    handlers::sorted::add::HANDLERS,
    handlers::sorted::combine::HANDLERS,
    handlers::sorted::pop::HANDLERS,
    handlers::sorted::range::HANDLERS,
    handlers::sorted::read::HANDLERS,
    handlers::geo::HANDLERS,
    handlers::geo::search::HANDLERS,
    handlers::blocking::HANDLERS,
    handlers::streams::entries::HANDLERS,
    handlers::streams::read::HANDLERS,
    handlers::streams::groups::HANDLERS,
    handlers::streams::claim::HANDLERS,
    handlers::streams::info::HANDLERS,
    handlers::feeds::read::HANDLERS,
    handlers::feeds::write::HANDLERS,
    handlers::keys::HANDLERS,
    handlers::expire::HANDLERS,
    handlers::object::HANDLERS,
    handlers::sort::HANDLERS,
    handlers::connection::HANDLERS,
    handlers::client::HANDLERS,
    handlers::pubsub::HANDLERS,
    handlers::transaction::HANDLERS,
    handlers::scripting::evaluate::HANDLERS,
    handlers::scripting::functions::HANDLERS,
    handlers::server::HANDLERS,
    handlers::command::HANDLERS,
    handlers::latency::HANDLERS,
    handlers::memory::HANDLERS,
    handlers::replication::HANDLERS,
    handlers::absent::HANDLERS,
    handlers::lolwut::HANDLERS,
    handlers::monitor::HANDLERS,
];

/// What runs each command.
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
    let mut handlers: Handlers = [refuse_container; table::COUNT];
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
    handlers
}

/// Stands for containers, whose arity keeps them from being run without a subcommand.
fn refuse_container(_: &mut Context<'_>, arguments: &[&[u8]], _: &mut dyn Reply) -> Outcome {
    Err(CommandError::unknown_command(arguments).into())
}
