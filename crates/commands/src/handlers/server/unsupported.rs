//! Replies to commands for features that Undercroft does not have: clustering and modules.

use crate::arguments::{CommandError, integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::Outcome;
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("cluster", cluster),
    ("module", change_modules),
    ("asking", cluster),
    ("readonly", cluster),
    ("readwrite", cluster),
    ("module|list", modules),
    ("migrate", migrate),
];

/// Handles CLUSTER, ASKING, READONLY and READWRITE.
fn cluster(_: &mut Context<'_>, _: &[&[u8]], _: &mut dyn Reply) -> Outcome {
    Err(CommandError::fixed("ERR This instance has cluster support disabled").into())
}

/// Handles MODULE LIST.
fn modules(_: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    reply.array(0);
    Ok(())
}

/// Handles MODULE LOAD and the other commands that change modules. The error is the same as in a
/// Redis server that is not configured to load modules.
fn change_modules(_: &mut Context<'_>, _: &[&[u8]], _: &mut dyn Reply) -> Outcome {
    Err(CommandError::fixed(
        "ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", you can run it from \
         a local connection, otherwise you need to set this option in the configuration file, and then restart the \
         server.",
    )
    .into())
}

/// Handles MIGRATE. It is implemented only for keys that do not exist.
fn migrate(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let keys = migrated_keys(arguments)?;
    integer(arguments[5])?;
    integer(arguments[4])?;
    if context.store.exists(context.database(), keys)? == 0 {
        reply.simple("NOKEY");
        return Ok(());
    }
    Err(CommandError::fixed(
        "ERR MIGRATE is not supported, nothing was changed: DUMP the keys here and RESTORE them on the other server",
    )
    .into())
}

/// Returns the keys that the arguments of MIGRATE specify.
fn migrated_keys<'a, 'k>(arguments: &'a [&'k [u8]]) -> Result<&'a [&'k [u8]], CommandError> {
    let mut options = &arguments[6..];
    loop {
        options = match options {
            [] => return Ok(&arguments[3..4]),
            [word, rest @ ..] if is_keyword(word, "COPY") || is_keyword(word, "REPLACE") => rest,
            [word, _, rest @ ..] if is_keyword(word, "AUTH") => rest,
            [word, _, _, rest @ ..] if is_keyword(word, "AUTH2") => rest,
            [word, keys @ ..] if is_keyword(word, "KEYS") => {
                return match arguments[3] {
                    [] => Ok(keys),
                    _ => Err(CommandError::fixed(
                        "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
                    )),
                };
            }
            _ => return Err(CommandError::SYNTAX),
        };
    }
}
