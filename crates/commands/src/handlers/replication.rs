//! What is asked of a server about copies of it, of which there are none: ROLE, WAIT, LASTSAVE, MIGRATE.

use crate::arguments::{CommandError, integer, is_keyword, parse_integer};
use crate::context::{Context, HandlerEntry};
use crate::failure::Outcome;
use crate::handlers::info;
use crate::reply::Reply;

/// The commands of this file.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("wait", wait),
    ("migrate", migrate),
    ("lastsave", lastsave),
    ("role", role),
];

/// ROLE: a master that nobody follows.
fn role(_: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    reply.array(3);
    reply.bulk(b"master");
    reply.integer(0);
    reply.array(0);
    Ok(())
}

/// WAIT. Nobody will ever have acknowledged anything, so there is nothing to wait for.
fn wait(_: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    integer(arguments[1])?;
    match parse_integer(arguments[2]) {
        None => Err(CommandError::fixed("ERR timeout is not an integer or out of range").into()),
        Some(..0) => Err(CommandError::fixed("ERR timeout is negative").into()),
        Some(0..) => {
            reply.integer(0);
            Ok(())
        }
    }
}

/// LASTSAVE: as in a Redis that has saved nothing since it was started.
fn lastsave(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    reply.integer(info::last_save(context));
    Ok(())
}

/// MIGRATE, of which only the answer for keys that are not there is done.
fn migrate(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let keys = migrated_keys(arguments)?;
    integer(arguments[5])?;
    integer(arguments[4])?;
    if context.store.exists(context.database(), keys)? == 0 {
        reply.simple("NOKEY");
        return Ok(());
    }
    Err(CommandError::fixed(
        "ERR MIGRATE is not done yet: DUMP the keys here and RESTORE them at the other server; nothing was changed",
    )
    .into())
}

/// The keys that MIGRATE names.
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
