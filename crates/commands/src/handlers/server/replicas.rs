//! Implements the commands that replicas send, and WAIT.

use std::time::Duration;

use undercroft_numbers::parse_integer;

use crate::arguments::{CommandError, integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::Outcome;
use crate::reply::Reply;
use crate::session::retried::RetriedWait;
use crate::session::{ReplicaOptions, ReplicaRequest};

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("sync", synchronize),
    ("psync", synchronize),
    ("replconf", configure),
    ("wait", wait),
];

/// Handles PSYNC and SYNC, which make the connection a replica. Its host sends the reply.
fn synchronize(context: &mut Context<'_>, arguments: &[&[u8]], _: &mut dyn Reply) -> Outcome {
    // A Redis or Valkey replica that receives this error code reconnects once per second. After any
    // other error, the replica reconnects immediately, hundreds of times per second.
    if context.host.control.replicas().is_none() {
        return Err(CommandError::fixed(
            "NOMASTERLINK this process has no replicas: the store is embedded in it; replicas \
             connect to 'undercroft serve'",
        )
        .into());
    }
    if context.store.store().is_replica() {
        let link = context.store.store().source_link().ok().flatten();
        let is_up = link.is_some_and(|link| link.status == undercroft_engine::LinkStatus::Up);
        if !is_up {
            let text = "NOMASTERLINK Can't SYNC while not connected with my master";
            return Err(CommandError::fixed(text).into());
        }
    }
    let request = match arguments {
        [_, id, offset, ..] => ReplicaRequest::From {
            id: id.to_vec(),
            // The replica names the first byte that it does not have, or -1.
            offset: match parse_integer(offset) {
                Some(first @ 1..) => first as u64 - 1,
                Some(_) => 0,
                None => {
                    let text = "ERR value is not an integer or out of range";
                    return Err(CommandError::fixed(text).into());
                }
            },
        },
        _ => ReplicaRequest::Everything,
    };
    // The host of the connection sends the reply.
    let options = context.session.replica.get_or_insert_default();
    options.request = Some(request);
    Ok(())
}

/// Handles REPLCONF.
fn configure(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (pairs, []) = arguments[1..].as_chunks::<2>() else {
        return Err(CommandError::SYNTAX.into());
    };
    let mut options = context.session.replica.take().unwrap_or_default();
    let result = pairs
        .iter()
        .try_for_each(|[name, value]| set_option(&mut options, name, value));
    // ACK is a message of a replica, which is expected to have no reply.
    let is_silent = pairs.iter().any(|[name, _]| is_keyword(name, "ACK"));
    context.session.replica = Some(options);
    result?;
    if !is_silent {
        reply.ok();
    }
    Ok(())
}

fn set_option(options: &mut ReplicaOptions, name: &[u8], value: &[u8]) -> Result<(), CommandError> {
    let number = || {
        parse_integer(value).ok_or(CommandError::fixed(
            "ERR value is not an integer or out of range",
        ))
    };
    if is_keyword(name, "LISTENING-PORT") {
        options.port = u16::try_from(number()?)
            .map_err(|_| CommandError::fixed("ERR value is out of range"))?;
    } else if is_keyword(name, "IP-ADDRESS") {
        if value.len() > 255 {
            let text = "ERR REPLCONF ip-address provided by replica instance is too long: ";
            return Err(CommandError::new(format!("{text}{} bytes", value.len())));
        }
        options.address = String::from_utf8_lossy(value).into_owned();
    } else if is_keyword(name, "CAPA") {
        options.takes_unknown_length |= is_keyword(value, "EOF");
    } else if is_keyword(name, "RDB-ONLY") {
        options.only_data_set = number()? != 0;
    } else if is_keyword(name, "RDB-FILTER-ONLY") {
        let mut words = value
            .split(|byte| *byte == b' ')
            .filter(|word| !word.is_empty());
        options.no_keys = true;
        options.no_libraries = true;
        words.try_for_each(|word| match is_keyword(word, "FUNCTIONS") {
            true => {
                options.no_libraries = false;
                Ok(())
            }
            false => Err(CommandError::quoting(
                "ERR Unsupported rdb-filter-only option: ",
                word,
                "",
            )),
        })?;
    } else if !["ACK", "GETACK", "VERSION"]
        .iter()
        .any(|word| is_keyword(name, word))
    {
        return Err(CommandError::quoting(
            "ERR Unrecognized REPLCONF option: ",
            name,
            "",
        ));
    }
    Ok(())
}

/// Handles WAIT.
fn wait(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let count = integer(arguments[1])?;
    let timeout = match parse_integer(arguments[2]) {
        None => {
            let text = "ERR timeout is not an integer or out of range";
            return Err(CommandError::fixed(text).into());
        }
        Some(..0) => return Err(CommandError::fixed("ERR timeout is negative").into()),
        Some(0) => None,
        Some(timeout) => Some(Duration::from_millis(timeout as u64)),
    };
    if context.store.store().is_replica() {
        let text = "ERR WAIT cannot be used with replica instances. Please also note that since \
                    Redis 4.0 if a replica is configured to be writable (which is not the default) \
                    writes to replicas are just local and are not propagated.";
        return Err(CommandError::fixed(text).into());
    }
    let Some(replicas) = context.host.control.replicas() else {
        reply.integer(0);
        return Ok(());
    };
    let count = usize::try_from(count).unwrap_or(0);
    let acknowledged = match context.session.transaction.queue.is_some() || count == 0 {
        true => replicas.count_acknowledged(),
        false => {
            let retried = &mut context.session.retried;
            let wait = retried.get_or_insert_with(|| {
                let request = replicas.request_acknowledgements();
                RetriedWait::new(timeout, Some(request))
            });
            if let Some(position) = wait.request.and_then(|r| replicas.requested_position(r)) {
                wait.request = None;
                wait.position = Some(position);
            }
            let position = wait.position;
            let count_at = |position| replicas.count_acknowledged_at(position);
            let acknowledged = position.map_or(0, count_at);
            if acknowledged < count && !context.host.control.is_stopping() {
                wait.rest()?;
            }
            acknowledged
        }
    };
    reply.integer(acknowledged as i64);
    Ok(())
}
