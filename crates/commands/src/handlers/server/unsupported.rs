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

/// Handles the commands that change modules, which need a permission that no server gives
/// ([`protected`](super::protected)).
fn change_modules(_: &mut Context<'_>, _: &[&[u8]], _: &mut dyn Reply) -> Outcome {
    Err(CommandError::fixed("ERR modules are not supported").into())
}
