//! Refuses DEBUG and MODULE unless the operator has allowed them.

use crate::arguments::CommandError;
use crate::context::Context;
use crate::table::{self, Command, number_of};

/// The commands that need permission.
const COMMANDS: [&str; 4] = ["debug", "module|load", "module|loadex", "module|unload"];

/// Whether each command and subcommand needs permission, by command number.
static NEEDS_PERMISSION: [bool; table::COUNT] = {
    let mut needs = [false; table::COUNT];
    let mut at = 0;
    while at < COMMANDS.len() {
        needs[number_of(COMMANDS[at])] = true;
        at += 1;
    }
    needs
};

/// Refuses a command that `enable-debug-command` or `enable-module-command` does not allow on this
/// connection, as in Redis. A process that embeds the store may always run DEBUG.
#[inline]
pub(crate) fn admit(context: &Context<'_>, command: &Command) -> Result<(), CommandError> {
    match NEEDS_PERMISSION[usize::from(command.number)] {
        false => Ok(()),
        true => check(context, command),
    }
}

#[cold]
fn check(context: &Context<'_>, command: &Command) -> Result<(), CommandError> {
    let session = &*context.session;
    let (name, parameter) = match command.name {
        "debug" => ("DEBUG", "enable-debug-command"),
        _ => ("MODULE", "enable-module-command"),
    };
    let is_own = name == "DEBUG" && session.is_embedded();
    if is_own || context.host.config().allows(parameter, session.is_local()) {
        return Ok(());
    }
    Err(CommandError::new(format!(
        "ERR {name} command not allowed. If the {parameter} option is set to \"local\", you can run it from a \
         local connection, otherwise you need to set this option in the configuration file, and then restart \
         the server."
    )))
}
