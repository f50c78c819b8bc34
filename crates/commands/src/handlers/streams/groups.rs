//! Implements XGROUP, which manages consumer groups and their consumers.

use undercroft_engine::Writer;
use undercroft_engine::streams::StreamId;

use super::parse::{any_id, last_or_id};
use crate::arguments::{CommandError, integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("xgroup|create", xgroup_create),
    ("xgroup|setid", xgroup_setid),
    ("xgroup|destroy", xgroup_destroy),
    ("xgroup|createconsumer", xgroup_createconsumer),
    ("xgroup|delconsumer", xgroup_delconsumer),
];

const NO_KEY: CommandError = CommandError::fixed(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM \
     option to create an empty stream automatically.",
);

/// Returns the error for a group that does not exist in a stream.
fn no_group(arguments: &[&[u8]]) -> Failure {
    let [_, _, key, group, ..] = arguments else {
        return CommandError::SYNTAX.into();
    };
    let text = |bytes: &[u8]| {
        bytes
            .split(|byte| *byte == 0)
            .next()
            .unwrap_or_default()
            .to_vec()
    };
    let parts: [&[u8]; 5] = [
        b"NOGROUP No such consumer group '",
        &text(group),
        b"' for key name '",
        &text(key),
        b"'",
    ];
    CommandError::from_parts(&parts).into()
}

/// Parses the options that follow the ID. Returns whether MKSTREAM is set, and the value of
/// ENTRIESREAD or -1.
fn options(arguments: &[&[u8]], creates: bool) -> Result<(bool, i64), CommandError> {
    let (mut create, mut read) = (false, -1);
    let mut options = arguments[5..].iter();
    while let Some(option) = options.next() {
        if creates && is_keyword(option, "MKSTREAM") {
            create = true;
        } else if is_keyword(option, "ENTRIESREAD")
            && let Some(number) = options.next()
        {
            read = integer(number)?;
            if read < -1 {
                return Err(CommandError::fixed(
                    "ERR value for ENTRIESREAD must be positive or -1",
                ));
            }
        } else {
            return Err(CommandError::subcommand_syntax("xgroup", arguments[1]));
        }
    }
    Ok((create, read))
}

/// Runs `body` in a write transaction on the stream's key.
fn change<R>(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    body: impl Fn(&mut Writer<'_, '_>, usize, &undercroft_engine::Key<'_>) -> Result<R, Failure> + Sync,
) -> Result<R, Failure> {
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[2]);
    store.write(store.shards_of([&key]), |writer| {
        body(writer, database, &key)
    })
}

/// Handles XGROUP CREATE.
fn xgroup_create(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (create, read) = options(arguments, true)?;
    let made = change(context, arguments, |writer, database, key| {
        let there = writer.stream(database, key)?.is_some();
        if !there && !create {
            return Err(NO_KEY.into());
        }
        if arguments.len() > 8 {
            return Err(CommandError::subcommand_syntax("xgroup", arguments[1]).into());
        }
        let last = match last_or_id(arguments[4])? {
            None if !there => Some(StreamId::MIN),
            last => last,
        };
        Ok(writer.stream_create_group(database, key, arguments[3], (last, read), create)?)
    })?;
    match made {
        Some(true) => reply.ok(),
        Some(false) => {
            let error = "BUSYGROUP Consumer Group name already exists";
            return Err(CommandError::fixed(error).into());
        }
        None => return Err(NO_KEY.into()),
    }
    Ok(())
}

/// Handles XGROUP SETID.
fn xgroup_setid(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (_, read) = options(arguments, false)?;
    change(context, arguments, |writer, database, key| {
        let Some(stream) = writer.stream(database, key)? else {
            return Err(NO_KEY.into());
        };
        if !stream.has_group(writer.view(), arguments[3])? {
            return Err(no_group(arguments));
        }
        if !matches!(arguments.len(), 5 | 7) {
            return Err(CommandError::subcommand_syntax("xgroup", arguments[1]).into());
        }
        let last = match arguments[4] {
            b"$" => None,
            text => Some(any_id(text)?),
        };
        writer.stream_set_group(database, key, arguments[3], (last, read))?;
        Ok(())
    })?;
    reply.ok();
    Ok(())
}

/// Handles XGROUP DESTROY.
fn xgroup_destroy(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    let destroyed = change(context, arguments, |writer, database, key| {
        Ok(writer.stream_destroy_group(database, key, arguments[3])?)
    })?;
    reply.integer(destroyed.ok_or(NO_KEY)?.into());
    Ok(())
}

/// Runs `body` on a consumer. Returns an error if the stream does not exist, or if `body` returns
/// `None` because the group does not exist.
fn of_consumer<R>(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    body: impl Fn(&mut Writer<'_, '_>, usize, &undercroft_engine::Key<'_>) -> Result<Option<R>, Failure>
    + Sync,
) -> Result<R, Failure> {
    change(context, arguments, |writer, database, key| {
        if writer.stream(database, key)?.is_none() {
            return Err(NO_KEY.into());
        }
        body(writer, database, key)?.ok_or_else(|| no_group(arguments))
    })
}

/// Handles XGROUP CREATECONSUMER.
fn xgroup_createconsumer(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    let names = (arguments[3], arguments[4]);
    let made = of_consumer(context, arguments, |writer, database, key| {
        Ok(writer.stream_create_consumer(database, key, names)?)
    })?;
    reply.integer(made.into());
    Ok(())
}

/// Handles XGROUP DELCONSUMER.
fn xgroup_delconsumer(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    let names = (arguments[3], arguments[4]);
    let pending = of_consumer(context, arguments, |writer, database, key| {
        Ok(writer.stream_delete_consumer(database, key, names)?)
    })?;
    reply.integer(pending as i64);
    Ok(())
}
