//! What a command brings with it, as its arguments tell: known before it takes a lock, so that room is reserved then.

use undercroft_engine::Load;

use super::command::{Command, Flag};

/// Commands with up to so many arguments find room as they need it.
const FEW: usize = 64;
/// Of so many items that are added to one value or taken out of it, one counts as a key: most of a whole value is made
/// without a log, and the log of a leaf or a bucket serves all of its items.
const ITEMS_OF_KEY: usize = 8;

impl Command {
    /// What the command brings, where that is much.
    #[inline(always)]
    pub(crate) fn load(&self, arguments: &[&[u8]]) -> Load {
        if arguments.len() <= FEW {
            return Load::default();
        }
        of_many(self, arguments)
    }
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
