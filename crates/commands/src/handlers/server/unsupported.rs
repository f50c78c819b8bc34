//! Replies to commands for features that Undercroft does not have: clustering and modules.

use crate::arguments::CommandError;
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
