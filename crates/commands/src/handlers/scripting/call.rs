//! Stores the keys and arguments of a script call.

use crate::arguments::{CommandError, integer};
use crate::scripts::ScriptArguments;

/// The keys and arguments with which a script is called.
pub(super) struct Call<'a> {
    keys: &'a [&'a [u8]],
    arguments: &'a [&'a [u8]],
}

impl<'a> Call<'a> {
    pub(super) fn parse(arguments: &'a [&'a [u8]]) -> Result<Call<'a>, CommandError> {
        let (count, rest) = (integer(arguments[2])?, &arguments[3..]);
        if count > rest.len() as i64 {
            return Err(CommandError::fixed(
                "ERR Number of keys can't be greater than number of args",
            ));
        }
        let count = usize::try_from(count)
            .map_err(|_| CommandError::fixed("ERR Number of keys can't be negative"))?;
        let (keys, arguments) = rest.split_at(count);
        Ok(Call { keys, arguments })
    }

    pub(super) fn called(&self) -> ScriptArguments<'a> {
        ScriptArguments {
            keys: self.keys,
            arguments: self.arguments,
            function: None,
            words: &[],
        }
    }

    /// Returns `KEYS[number]`. As in Lua, numbering starts at 1.
    pub(super) fn key(&self, number: usize) -> Option<&'a [u8]> {
        self.keys.get(number - 1).copied()
    }

    /// Returns `ARGV[number]`. As in Lua, numbering starts at 1.
    pub(super) fn argument(&self, number: usize) -> Option<&'a [u8]> {
        self.arguments.get(number - 1).copied()
    }
}
