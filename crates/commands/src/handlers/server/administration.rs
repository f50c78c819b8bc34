//! Implements the commands that administer the server and its databases: FLUSHALL, INFO, CONFIG,
//! SLOWLOG, DEBUG and SHUTDOWN.

use std::time::Duration;

use undercroft_numbers::parse_integer;

use crate::arguments::{CommandError, is_keyword};
use crate::config::{
    Parameter, Value, is_durable, mode_after, store_value, stored_value, value_in_mode,
};
use crate::context::{Context, HandlerEntry, ShutdownOptions};
use crate::failure::{Failure, Outcome};
use crate::handlers::keys::keyspace::check_database;
use crate::handlers::keys::object;
use crate::handlers::server::{info, persistence};
use crate::reply::Reply;
use crate::users::set_default_password;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("acl|help", help),
    ("client|help", help),
    ("object|help", help),
    ("pubsub|help", help),
    ("script|help", help),
    ("function|help", help),
    ("dbsize", dbsize),
    ("flushdb", flushdb),
    ("flushall", flushall),
    ("swapdb", swapdb),
    ("command|help", help),
    ("info", info),
    ("config|get", config_get),
    ("config|set", config_set),
    ("config|resetstat", config_resetstat),
    ("config|rewrite", config_rewrite),
    ("config|help", help),
    ("slowlog|get", slowlog_get),
    ("slowlog|len", slowlog_len),
    ("slowlog|reset", slowlog_reset),
    ("slowlog|help", help),
    ("debug", debug),
    ("shutdown", shutdown),
    ("xgroup|help", help),
    ("xinfo|help", help),
    ("latency|help", help),
    ("memory|help", help),
    ("module|help", help),
];

/// Handles DBSIZE.
fn dbsize(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let keys = context.store.count_keys(context.database())?;
    reply.integer(keys as i64);
    Ok(())
}

/// Handles FLUSHDB.
fn flushdb(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let wait = flush_waits(context, arguments)?;
    context.store.flush(&[context.database()], wait)?;
    reply.ok();
    Ok(())
}

/// Handles FLUSHALL.
fn flushall(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let wait = flush_waits(context, arguments)?;
    context.store.flush_all(wait)?;
    reply.ok();
    Ok(())
}

/// Returns whether a flush command replies only after all memory has been freed.
fn flush_waits(context: &Context<'_>, arguments: &[&[u8]]) -> Result<bool, CommandError> {
    match &arguments[1..] {
        [] => Ok(!context.host.config().boolean("lazyfree-lazy-user-flush")),
        [mode] if is_keyword(mode, "SYNC") => Ok(true),
        [mode] if is_keyword(mode, "ASYNC") => Ok(false),
        _ => Err(CommandError::SYNTAX),
    }
}

/// Handles SWAPDB.
fn swapdb(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let number = |argument: &[u8], error: &'static str| {
        let number = parse_integer(argument).filter(|number| i32::try_from(*number).is_ok());
        number.ok_or(CommandError::fixed(error))
    };
    let one = number(arguments[1], "ERR invalid first DB index")?;
    let other = number(arguments[2], "ERR invalid second DB index")?;
    let (one, other) = (check_database(one)?, check_database(other)?);
    let store = context.store;
    store.write(store.all_shards(), |writer| {
        Ok::<_, Failure>(writer.swap_databases(one, other)?)
    })?;
    reply.ok();
    Ok(())
}

/// Handles INFO.
fn info(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let text = info::text(context, &arguments[1..])?;
    reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// Handles CONFIG GET.
fn config_get(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let mut found = context.host.config().get(&arguments[2..]);
    for (name, value) in &mut found {
        // Another process may have changed the parameters that are kept in the store, so read them
        // from there.
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let stored = stored_value(&context.store, &name).or_else(|| {
            let mode = context.store.store().durability();
            value_in_mode(mode, &name).map(str::to_owned)
        });
        if let Some(stored) = stored {
            *value = stored.into_bytes();
        }
    }
    reply.map(found.len());
    for (name, value) in &found {
        reply.bulk(name);
        reply.bulk(value);
    }
    Ok(())
}

/// Handles CONFIG SET.
fn config_set(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let pairs = &arguments[2..];
    if !pairs.len().is_multiple_of(2) {
        return Err(CommandError::SYNTAX.into());
    }
    let pairs: Vec<(&[u8], &[u8])> = pairs.chunks(2).map(|pair| (pair[0], pair[1])).collect();
    let (host, store) = (context.host, context.store);
    // To begin a journal takes long, and other changes wait in the meantime.
    if pairs.iter().any(|(name, _)| is_durable(name)) || host.config().is_changing() {
        persistence::take_own_thread(context)?;
    }
    let is_local = context.session.is_local();
    host.config().set(&pairs, is_local, |changes| {
        refuse_terms_of_others(context, changes)?;
        let mode = mode_after(store.store().durability(), host.config(), changes)?;
        host.control.apply(changes)?;
        for (parameter, value) in changes {
            store_value(&store, parameter.name, value)
                .map_err(|error| (*parameter, error.to_string()))?;
            if parameter.name == "requirepass" {
                let password = value.text();
                let password = (!password.is_empty()).then_some(&password[..]);
                set_default_password((&host.process.users, store), password)
                    .map_err(|error| (*parameter, error))?;
            }
        }
        // The change of the mode is the last step, because it can fail and takes long.
        let of_mode = |parameter: &&Parameter| is_durable(parameter.name.as_bytes());
        let parameter = changes
            .iter()
            .map(|(parameter, _)| *parameter)
            .find(of_mode);
        match (mode, parameter) {
            (Some(mode), Some(parameter)) => persistence::change_mode(context, mode)
                .map_err(|error| (parameter, error.to_string())),
            _ => Ok(()),
        }
    })?;
    let of_replicas = |(name, _): &(&[u8], &[u8])| {
        name.get(..4)
            .is_some_and(|start| start.eq_ignore_ascii_case(b"min-"))
    };
    if pairs.iter().any(of_replicas) && !host.config().requires_replicas() {
        // A server that requires replicas says so again.
        store.store().require_replicas_after(None)?;
    }
    host.slowlog().configure(host.config());
    host.latency().configure(host.config());
    context.choose_way();
    reply.ok();
    Ok(())
}

/// Refuses to change how many replicas writes require if another process sends the changes of the
/// store, because that process decides.
fn refuse_terms_of_others(
    context: &Context<'_>,
    changes: &[(&'static Parameter, Value)],
) -> Result<(), (&'static Parameter, String)> {
    let of_replicas =
        |(parameter, _): &&(&Parameter, Value)| parameter.name.starts_with("min-replicas-");
    let Some((parameter, _)) = changes.iter().find(of_replicas) else {
        return Ok(());
    };
    let replicas = context.host.control.replicas();
    let is_ours = replicas.is_some_and(|replicas| replicas.is_sending());
    match is_ours || !matches!(context.store.store().has_sender(), Ok(true)) {
        true => Ok(()),
        false => Err((
            parameter,
            "another process sends the changes of this store to its replicas; set it there".into(),
        )),
    }
}

/// Handles CONFIG RESETSTAT.
fn config_resetstat(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    context.session.activity.counters = Default::default();
    context.store.reset_counted_keys();
    context.host.statistics().reset();
    context.host.control.reset_statistics();
    context.host.process.acl_log.reset_counts();
    reply.ok();
    Ok(())
}

/// Handles CONFIG REWRITE.
fn config_rewrite(context: &mut Context<'_>, _: &[&[u8]], _: &mut dyn Reply) -> Outcome {
    let file = context.host.control.facts().config_file;
    Err(if file.is_empty() {
        CommandError::fixed("ERR The server is running without a config file")
    } else {
        CommandError::new(format!(
            "ERR Rewriting config file: the server does not write {file}; edit it by hand"
        ))
    }
    .into())
}

/// Handles SLOWLOG GET.
fn slowlog_get(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let count =
        match &arguments[2..] {
            [] => 10,
            [count] => match parse_integer(count) {
                Some(-1) => usize::MAX,
                count => count.and_then(|count| usize::try_from(count).ok()).ok_or(
                    CommandError::fixed("ERR count should be greater than or equal to -1"),
                )?,
            },
            _ => return Err(CommandError::subcommand_syntax("slowlog", arguments[1]).into()),
        };
    let entries = context.host.slowlog().newest(count);
    reply.array(entries.len());
    for entry in entries {
        reply.array(6);
        reply.integer(entry.id);
        reply.integer(entry.time);
        reply.integer(entry.microseconds);
        reply.array(entry.arguments.len());
        for argument in &entry.arguments {
            reply.bulk(argument);
        }
        reply.bulk(entry.address.as_bytes());
        reply.bulk(&entry.name);
    }
    Ok(())
}

/// Handles SLOWLOG LEN.
fn slowlog_len(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    reply.integer(context.host.slowlog().len() as i64);
    Ok(())
}

/// Handles SLOWLOG RESET.
fn slowlog_reset(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    context.host.slowlog().reset();
    reply.ok();
    Ok(())
}

/// Handles DEBUG SLEEP, OBJECT and HELP, and refuses DEBUG RELOAD and LOADAOF.
fn debug(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    match &arguments[1..] {
        [what, seconds] if is_keyword(what, "SLEEP") => {
            // As with C's `strtod`, text that is not a number counts as zero.
            let seconds = std::str::from_utf8(seconds).ok();
            let seconds = seconds.and_then(|text| text.parse().ok()).unwrap_or(0.0);
            let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            context.host.control.sleep(time);
            reply.ok();
            Ok(())
        }
        [what, key] if is_keyword(what, "OBJECT") => object::debug(context, key, reply),
        [what, ..] if is_keyword(what, "RELOAD") || is_keyword(what, "LOADAOF") => {
            Err(CommandError::fixed(
                "ERR the store cannot be loaded again while processes have it open: to test its \
                 journal, run undercroft journal verify",
            )
            .into())
        }
        [what] if is_keyword(what, "HELP") => {
            let lines = [
                "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
                "OBJECT <key>",
                "    Shows how a key's value is stored.",
                "SLEEP <seconds>",
                "    Blocks this server thread for the given time.",
                "HELP",
                "    Prints this help.",
            ];
            reply.array(lines.len());
            lines.iter().for_each(|line| reply.simple(line));
            Ok(())
        }
        _ => Err(CommandError::subcommand_syntax("debug", arguments[1]).into()),
    }
}

/// Handles SHUTDOWN. If it succeeds, the connection is closed without a reply.
fn shutdown(context: &mut Context<'_>, arguments: &[&[u8]], _: &mut dyn Reply) -> Outcome {
    let mut options = ShutdownOptions::default();
    for option in &arguments[1..] {
        match option.to_ascii_uppercase().as_slice() {
            b"SAVE" if options.save != Some(false) => options.save = Some(true),
            b"NOSAVE" if options.save != Some(true) => options.save = Some(false),
            b"NOW" => options.now = true,
            b"FORCE" => options.force = true,
            b"ABORT" => options.abort = true,
            _ => return Err(CommandError::SYNTAX.into()),
        }
    }
    if options.abort && arguments.len() > 2 {
        return Err(CommandError::SYNTAX.into());
    }
    Ok(context
        .host
        .control
        .shutdown(options)
        .map_err(CommandError::new)?)
}

/// Handles the HELP subcommand of all container commands. The text is generated from the command
/// table.
fn help(_: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let Some(container) = crate::table::find(arguments[0]) else {
        return Err(CommandError::unknown_command(arguments).into());
    };
    let name = container.name.to_ascii_uppercase();
    let mut lines = vec![format!(
        "{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    )];
    for command in container.subcommands {
        let short = command.short_name().to_ascii_uppercase();
        lines.push(format!("{short} {}", command.syntax).trim_end().to_owned());
        lines.push(format!("    {}", command.summary));
    }
    reply.array(lines.len());
    lines.iter().for_each(|line| reply.simple(line));
    Ok(())
}
