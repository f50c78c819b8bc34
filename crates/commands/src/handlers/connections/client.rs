//! Implements CLIENT, which manages the connections of this process and the processes that map the
//! store.

use std::fs;

use undercroft_numbers::parse_integer;

use crate::arguments::{CommandError, integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::reply::Reply;
use crate::session::{ClientInfo, ClientKind, KillFilter, Login, ReplyMode, Session};

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("client|id", id),
    ("client|getname", getname),
    ("client|setname", setname),
    ("client|setinfo", setinfo),
    ("client|info", info),
    ("client|list", list),
    ("client|kill", kill),
    ("client|no-evict", no_evict),
    ("client|no-touch", no_touch),
    ("client|pause", pause),
    ("client|unpause", unpause),
    ("client|unblock", unblock),
    ("client|reply", reply_mode),
];

/// Handles CLIENT ID.
fn id(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    reply.integer(context.session.id as i64);
    Ok(())
}

/// Handles CLIENT GETNAME.
fn getname(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let name = &context.session.name;
    reply.bulk_or_null((!name.is_empty()).then_some(name));
    Ok(())
}

/// Handles CLIENT SETNAME.
fn setname(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    context.session.set_name(arguments[2])?;
    reply.ok();
    Ok(())
}

/// Handles CLIENT SETINFO, which Redis 7.2 introduced. Client libraries send it when they connect.
fn setinfo(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    context.session.set_library(arguments[2], arguments[3])?;
    reply.ok();
    Ok(())
}

/// Returns all connections of this process. `arguments` are reported as the current command of the
/// calling connection. All other connections are described as their threads last reported them.
pub(crate) fn connections(context: &Context<'_>, arguments: &[&[u8]]) -> Vec<ClientInfo> {
    let mut clients = context.host.connections.clients();
    let own = own_info(context, arguments);
    match clients.iter_mut().find(|client| client.id == own.id) {
        None => clients.push(own),
        Some(listed) => *listed = own,
    }
    clients
}

fn own_info(context: &Context<'_>, arguments: &[&[u8]]) -> ClientInfo {
    let now = context.host.now_microseconds() / 1000;
    let mut info = context.session.info(now);
    info.arguments = arguments.iter().map(|argument| argument.len()).sum();
    // If the store cannot determine whether a watched key has changed, assume that it has not. EXEC
    // checks the key again.
    let changed = |watch| !context.store.is_unchanged(watch).unwrap_or(true);
    info.dirty = context.session.transaction.watches.iter().any(changed);
    info
}

/// The offset of the client IDs that represent processes. It prevents collisions with connection
/// IDs.
const IDS: u64 = 1 << 40;

/// Returns an entry for each other process that has the store open. The connections of this process
/// are listed separately. The address in an entry consists of the store's path and the process ID,
/// and the name is the program's name. Returns no entries if the store cannot list its processes at
/// the moment.
fn processes(context: &Context<'_>) -> Vec<ClientInfo> {
    let now = context.host.now_microseconds() / 1000;
    let shown = |letter: char| {
        if letter.is_ascii_graphic() {
            letter
        } else {
            '?'
        }
    };
    let path: String = context
        .store
        .path()
        .to_string_lossy()
        .chars()
        .map(shown)
        .collect();
    let users = context.store.users().unwrap_or_default();
    let lines = users.iter().map(|user| {
        let joined = user.member.as_ref().map(|member| member.joined as i64);
        let mut session = Session::new(
            IDS + u64::from(user.pid),
            Login::trusted(),
            joined.unwrap_or(now),
        );
        session.activity.last_command_at = now;
        session.peer.address = format!("{path}:{}", user.pid);
        session.peer.local_address = format!("{path}:0");
        if let Some(name) = user.here.then(|| program(user.pid)).flatten() {
            // Ignore the error: if CLIENT LIST cannot show the name, it remains empty.
            let _ = session.set_name(name.trim().as_bytes());
        }
        session.info(now)
    });
    lines.collect()
}

/// Returns the name of the program that a process runs, from `/proc`.
fn program(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/comm")).ok()
}

fn write_lines(clients: &[ClientInfo], reply: &mut dyn Reply) {
    let text: String = clients.iter().map(|client| format!("{client}\n")).collect();
    reply.verbatim("txt", text.as_bytes());
}

/// Handles CLIENT INFO.
fn info(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    write_lines(&[own_info(context, arguments)], reply);
    Ok(())
}

fn kind(name: &[u8]) -> Result<ClientKind, CommandError> {
    Ok(match name.to_ascii_lowercase().as_slice() {
        b"normal" => ClientKind::Normal,
        b"master" => ClientKind::Master,
        b"slave" | b"replica" => ClientKind::Replica,
        b"pubsub" => ClientKind::Pubsub,
        _ => {
            return Err(CommandError::quoting("ERR Unknown client type ", name, ""));
        }
    })
}

/// Handles CLIENT LIST.
fn list(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (mut wanted_kind, mut wanted_ids) = (None, None);
    match &arguments[2..] {
        [] => {}
        [option, name] if is_keyword(option, "TYPE") => wanted_kind = Some(kind(name)?),
        [option, ids @ ..] if is_keyword(option, "ID") && !ids.is_empty() => {
            let ids: Option<Vec<i64>> = ids.iter().map(|id| parse_integer(id)).collect();
            wanted_ids = Some(ids.ok_or(CommandError::fixed("ERR Invalid client ID"))?);
        }
        _ => return Err(CommandError::SYNTAX.into()),
    }
    let mut clients = connections(context, arguments);
    clients.extend(processes(context));
    clients.retain(|client| {
        wanted_kind.is_none_or(|kind| kind == client.kind())
            && wanted_ids
                .as_ref()
                .is_none_or(|ids| ids.contains(&(client.id as i64)))
    });
    write_lines(&clients, reply);
    Ok(())
}

/// Handles CLIENT KILL.
fn kill(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let own = own_info(context, arguments);
    let (filter, spares_caller) = match arguments {
        [_, _, address] => {
            let address = Some(text(address));
            let filter = KillFilter {
                address,
                ..KillFilter::default()
            };
            (filter, false)
        }
        _ => kill_filter(context, &arguments[2..])?,
    };
    let suicide = !spares_caller && filter.matches(&own);
    let others = KillFilter {
        except: Some(own.id),
        ..filter
    };
    let killed = context.host.connections.kill(&others) + usize::from(suicide);
    if suicide {
        context.session.replies.close_after = true;
    }
    if arguments.len() > 3 {
        reply.integer(killed as i64);
    } else if killed > 0 {
        reply.ok();
    } else {
        return Err(CommandError::fixed("ERR No such client").into());
    }
    Ok(())
}

fn text(argument: &[u8]) -> String {
    String::from_utf8_lossy(argument).into_owned()
}

/// Parses the options of a CLIENT KILL filter and their values. Also returns whether the caller's
/// own connection is spared.
fn kill_filter(context: &Context<'_>, mut rest: &[&[u8]]) -> Result<(KillFilter, bool), Failure> {
    let (mut filter, mut spares_caller) = (KillFilter::default(), true);
    while let [option, value, behind @ ..] = rest {
        rest = behind;
        match option.to_ascii_uppercase().as_slice() {
            b"ID" => {
                let id = parse_integer(value).and_then(|id| u64::try_from(id).ok());
                let id = id.filter(|id| *id > 0);
                filter.id = Some(id.ok_or(CommandError::fixed(
                    "ERR client-id should be greater than 0",
                ))?);
            }
            b"TYPE" => filter.kind = Some(kind(value)?),
            b"ADDR" => filter.address = Some(text(value)),
            b"LADDR" => filter.local_address = Some(text(value)),
            b"USER" => {
                let (_, users) = context.host.process.users.now(context.store)?;
                if users.find(value).is_none() {
                    return Err(CommandError::quoting("ERR No such user ", value, "").into());
                }
                filter.user = Some(text(value));
            }
            b"SKIPME" if is_keyword(value, "yes") => spares_caller = true,
            b"SKIPME" if is_keyword(value, "no") => spares_caller = false,
            _ => return Err(CommandError::SYNTAX.into()),
        }
    }
    if rest.is_empty() {
        Ok((filter, spares_caller))
    } else {
        Err(CommandError::SYNTAX.into())
    }
}

/// Handles CLIENT REPLY. OFF and SKIP receive no reply.
fn reply_mode(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let mode = &mut context.session.replies.mode;
    match arguments[2].to_ascii_uppercase().as_slice() {
        b"ON" => {
            *mode = ReplyMode::On;
            reply.ok();
        }
        b"OFF" => *mode = ReplyMode::Off,
        b"SKIP" if *mode != ReplyMode::Off => *mode = ReplyMode::SkipNext,
        b"SKIP" => {}
        _ => return Err(CommandError::SYNTAX.into()),
    }
    Ok(())
}

/// Handles CLIENT NO-EVICT.
fn no_evict(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    context.session.no_evict = on_or_off(arguments[2])?;
    reply.ok();
    Ok(())
}

/// Handles CLIENT NO-TOUCH, which Redis 7.2 introduced.
fn no_touch(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let untouched = on_or_off(arguments[2])?;
    context.session.no_touch = untouched;
    context.store = context.store.leaving_untouched(untouched);
    reply.ok();
    Ok(())
}

fn on_or_off(argument: &[u8]) -> Result<bool, CommandError> {
    if is_keyword(argument, "ON") {
        Ok(true)
    } else if is_keyword(argument, "OFF") {
        Ok(false)
    } else {
        Err(CommandError::SYNTAX)
    }
}

/// Handles CLIENT PAUSE.
fn pause(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let all = match &arguments[3..] {
        [] => true,
        [mode] if is_keyword(mode, "ALL") => true,
        [mode] if is_keyword(mode, "WRITE") => false,
        [_] => {
            return Err(CommandError::fixed("ERR CLIENT PAUSE mode must be WRITE or ALL").into());
        }
        _ => return Err(CommandError::subcommand_syntax("client", arguments[1]).into()),
    };
    let now = context.host.now_microseconds() / 1000;
    let until = match parse_integer(arguments[2]) {
        None => Err("ERR timeout is not an integer or out of range"),
        Some(..0) => Err("ERR timeout is negative"),
        // As in Redis, a time that overflows 64 bits wraps around to the past.
        Some(time) => Ok(time.wrapping_add(now)),
    };
    let until = until.map_err(CommandError::fixed)?;
    context
        .host
        .connections
        .pause(until, all)
        .map_err(CommandError::new)?;
    reply.ok();
    Ok(())
}

/// Handles CLIENT UNPAUSE.
fn unpause(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    context.host.connections.unpause();
    reply.ok();
    Ok(())
}

/// Handles CLIENT UNBLOCK.
fn unblock(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let with_error = match &arguments[3..] {
        [] => false,
        [reason] if is_keyword(reason, "TIMEOUT") => false,
        [reason] if is_keyword(reason, "ERROR") => true,
        [_] => {
            return Err(CommandError::fixed(
                "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR",
            )
            .into());
        }
        _ => return Err(CommandError::subcommand_syntax("client", arguments[1]).into()),
    };
    let id = u64::try_from(integer(arguments[2])?).unwrap_or(0);
    let unblocked = context.host.inbox.unblock(id, with_error)?;
    reply.integer(unblocked.into());
    Ok(())
}
