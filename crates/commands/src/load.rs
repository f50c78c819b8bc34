//! What a command brings with it, as its arguments tell: known before it takes a lock, so that room is reserved then.

use undercroft_engine::Load;

use crate::multi::Multi;
use crate::table::{Command, Flag};

/// Commands with up to so many arguments find room as they need it.
const FEW: usize = 64;
/// Of so many items that are added to one value or taken out of it, one counts as a key: most of a whole value is made
/// without a log, and the log of a leaf or a bucket serves all of its items.
const ITEMS_OF_KEY: usize = 8;
/// What one more command of a transaction counts as.
const KEYS_OF_COMMAND: u64 = 2;

/// What a command brings, where that is much.
#[inline(always)]
pub(crate) fn of(command: &Command, arguments: &[&[u8]]) -> Load {
    if arguments.len() <= FEW {
        return Load::default();
    }
    of_many(command, arguments)
}

#[cold]
fn of_many(command: &Command, arguments: &[&[u8]]) -> Load {
    if !command.flags.has(Flag::Write) {
        return Load::default();
    }
    let many_keys = command.keys.iter().find(|keys| keys.last < 0);
    let each = many_keys.map_or(ITEMS_OF_KEY, |keys| keys.step);
    Load {
        keys: (arguments.len() / each) as u64,
        bytes: arguments.iter().map(|argument| argument.len() as u64).sum(),
    }
}

/// What all commands of a transaction bring.
pub(crate) fn of_queue(multi: &Multi) -> Load {
    let mut all = Load::default();
    if multi.queue.len() <= FEW && multi.bytes() <= FEW * FEW {
        return all;
    }
    for queued in &multi.queue {
        let load = of(queued.command, &multi.arguments(queued));
        all.keys += load.keys + KEYS_OF_COMMAND;
    }
    all.bytes = multi.bytes() as u64;
    all
}
