//! What other servers have and this one has not: a cluster, a master to follow, modules.

use crate::arguments::{CommandError, is_keyword, parse_integer};
use crate::handler::{Context, Outcome};
use crate::reply::Reply;

/// CLUSTER, READONLY and their like.
pub(crate) fn cluster(_: &mut Context<'_>, _: &[&[u8]], _: &mut dyn Reply) -> Outcome {
    Err(CommandError::fixed("ERR This instance has cluster support disabled").into())
}

/// REPLICAOF and SLAVEOF: NO ONE is what is so already.
pub(crate) fn follow(_: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    if is_keyword(arguments[1], "NO") && is_keyword(arguments[2], "ONE") {
        reply.ok();
        return Ok(());
    }
    let port = parse_integer(arguments[2]).filter(|port| u16::try_from(*port).is_ok());
    if port.is_none() {
        return Err(CommandError::fixed("ERR Invalid master port").into());
    }
    Err(CommandError::fixed(
        "ERR this server follows no other one: processes share its store by mapping it, and 'undercroft export' and \
         'undercroft import' copy it to another machine; nothing was changed",
    )
    .into())
}

/// PSYNC and SYNC. A replica of Redis or Valkey that receives this error code to PSYNC connects again with its next
/// cron, once a second; any other error makes it connect again at once, hundreds of times a second.
pub(crate) fn copy(_: &mut Context<'_>, _: &[&[u8]], _: &mut dyn Reply) -> Outcome {
    Err(CommandError::fixed(
        "NOMASTERLINK this server sends its data to no replica: 'undercroft export' and 'undercroft import' copy it to \
         another machine",
    )
    .into())
}

/// REPLCONF: pairs of an option and its value, which mean nothing here.
pub(crate) fn replica_configuration(
    _: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    if arguments.len().is_multiple_of(2) {
        return Err(CommandError::SYNTAX.into());
    }
    reply.ok();
    Ok(())
}

/// MODULE LIST.
pub(crate) fn modules(_: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    reply.array(0);
    Ok(())
}

/// MODULE LOAD and its like: what a Redis answers that was not configured to load modules.
pub(crate) fn change_modules(_: &mut Context<'_>, _: &[&[u8]], _: &mut dyn Reply) -> Outcome {
    Err(CommandError::fixed(
        "ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", you can run it from \
         a local connection, otherwise you need to set this option in the configuration file, and then restart the \
         server.",
    )
    .into())
}
