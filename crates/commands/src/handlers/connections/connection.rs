//! Implements the commands that act on the connection itself, such as PING, SELECT, HELLO, AUTH and
//! MONITOR.

use undercroft_numbers::parse_integer;

use crate::arguments::{CommandError, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Blocked, Failure, Outcome};
use crate::handlers::connections::pubsub::unsubscribe_all;
use crate::handlers::keys::keyspace::database_number;
use crate::protocol::Protocol;
use crate::reply::Reply;
use crate::scripts::busy;
use crate::session::{Session, check_name};
use crate::table::{Command, Flag, REDIS_VERSION};
use crate::users::Reason;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("ping", ping),
    ("echo", echo),
    ("select", select),
    ("hello", hello),
    ("auth", auth),
    ("quit", quit),
    ("reset", reset),
    ("time", time),
    ("monitor", monitor),
];

const WRONG_PASSWORD: CommandError =
    CommandError::fixed("WRONGPASS invalid username-password pair or user is disabled.");

/// Handles PING.
fn ping(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    // As in Redis, PING fails while a slow script is running, so that health checks detect the
    // script.
    if !context.scripted
        && let Some(script) = context.store.store().running_script()
    {
        return Err(busy(script.is_function).into());
    }
    let session = &context.session;
    let among_messages = !session.subscriptions.is_empty() && session.protocol == Protocol::Resp2;
    match arguments {
        [_] | [_, _] if among_messages => {
            reply.array(2);
            reply.bulk(b"pong");
            reply.bulk(arguments.get(1).copied().unwrap_or_default());
        }
        [_] => reply.simple("PONG"),
        [_, message] => reply.bulk(message),
        _ => return Err(CommandError::wrong_arity("ping").into()),
    }
    Ok(())
}

/// Handles ECHO.
fn echo(_: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    reply.bulk(arguments[1]);
    Ok(())
}

/// Handles SELECT.
fn select(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    context.session.database = database_number(arguments[1])? as u32;
    reply.ok();
    Ok(())
}

/// Logs the connection in as `name`. Returns an error if the password is wrong.
fn log_in(
    context: &mut Context<'_>,
    (name, password): (&[u8], &[u8]),
    arguments: &[&[u8]],
) -> Result<(), Failure> {
    if context.session.login.is_trusted() {
        // A process that embeds the store needs no password.
        return match name {
            b"default" => Ok(()),
            _ => Err(WRONG_PASSWORD.into()),
        };
    }
    if let Some(delay) = context.host.connections.login_delay(context.session) {
        return Err(Failure::Blocked(Blocked::Delayed(delay)));
    }
    let (_, users) = context.host.process.users.now(context.store)?;
    // Check the password even if the user does not exist, so that the time does not reveal this.
    let user = users.find(name);
    let is_right = user.unwrap_or(users.default_user()).accepts(password);
    match user.filter(|_| is_right) {
        Some(user) => {
            context.note_login(name, arguments)?;
            context.session.login.log_in(user);
            context.choose_way();
            Ok(())
        }
        None => {
            context.host.connections.fail_login(context.session);
            let call = context.denied(Reason::Auth, arguments[0], name, arguments);
            context.note_denied(call);
            Err(WRONG_PASSWORD.into())
        }
    }
}

/// Handles AUTH.
fn auth(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (user, password) = match arguments {
        [_, password] => {
            let (_, users) = context.host.process.users.now(context.store)?;
            if context.session.login.is_trusted() || users.default_user().has_no_password() {
                return Err(CommandError::fixed(
                    "ERR AUTH <password> called without any password configured for the default user. Are you sure \
                     your configuration is correct?",
                )
                .into());
            }
            (&b"default"[..], *password)
        }
        [_, user, password] => (*user, *password),
        _ => return Err(CommandError::SYNTAX.into()),
    };
    log_in(context, (user, password), arguments)?;
    reply.ok();
    Ok(())
}

/// Handles HELLO.
fn hello(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let mut protocol = context.session.protocol;
    let mut rest = &arguments[1..];
    if let [version, behind @ ..] = rest {
        protocol = match parse_integer(version) {
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => {
                return Err(CommandError::fixed("NOPROTO unsupported protocol version").into());
            }
            None => {
                return Err(CommandError::fixed(
                    "ERR Protocol version is not an integer or out of range",
                )
                .into());
            }
        };
        rest = behind;
    }
    while let [option, behind @ ..] = rest {
        match behind {
            [user, password, behind @ ..] if is_keyword(option, "AUTH") => {
                // As in Redis, AUTH and SETNAME take effect immediately, even if a later option is
                // invalid.
                log_in(context, (user, password), arguments)?;
                rest = behind;
            }
            [new_name, behind @ ..] if is_keyword(option, "SETNAME") => {
                check_name(new_name)?;
                context.session.name = new_name.to_vec();
                rest = behind;
            }
            _ => {
                let before = "ERR Syntax error in HELLO option ";
                return Err(CommandError::quoting(before, option, "").into());
            }
        }
    }
    if !context.session.login.is_admitted() {
        return Err(CommandError::fixed(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH \
             <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the \
             same time",
        )
        .into());
    }
    context.session.protocol = protocol;
    reply.protocol(protocol);
    reply.map(7);
    // Some clients check the server's name and expect `redis`.
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(REDIS_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.integer(protocol.version());
    reply.bulk(b"id");
    reply.integer(context.session.id as i64);
    reply.bulk(b"mode");
    reply.bulk(b"standalone");
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    reply.array(0);
    Ok(())
}

/// Handles QUIT.
fn quit(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    // A client that has the reply may publish at once, from a connection of another thread.
    unsubscribe_all(context)?;
    context.session.replies.close_after = true;
    reply.ok();
    Ok(())
}

/// Handles RESET.
fn reset(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    unsubscribe_all(context)?;
    if std::mem::take(&mut context.session.monitors) {
        context.host.connections.end_monitor(context.session);
    }
    context.end_tracking();
    context.session.reset();
    context.look_up_user()?;
    context.store = context.store.leaving_untouched(false);
    context.discard();
    reply.protocol(context.session.protocol);
    reply.simple("RESET");
    Ok(())
}

/// Handles TIME.
fn time(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let now = context.host.now_microseconds();
    reply.array(2);
    reply.bulk((now / 1_000_000).to_string().as_bytes());
    reply.bulk((now % 1_000_000).to_string().as_bytes());
    Ok(())
}

/// Handles MONITOR.
fn monitor(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    if context.session.transaction.queue.is_some() {
        return Err(
            CommandError::fixed("ERR MONITOR isn't allowed for DENY BLOCKING client").into(),
        );
    }
    // As in Redis, MONITOR receives no reply if the connection is already in MONITOR mode.
    if context.session.monitors {
        return Ok(());
    }
    context
        .host
        .connections
        .monitor(context.session)
        .map_err(CommandError::new)?;
    context.session.monitors = true;
    context.choose_way();
    reply.ok();
    Ok(())
}

/// Returns whether a command is rejected because the connection is in MONITOR mode. Redis rejects
/// commands that access data in this mode, because CLIENT PAUSE does not apply to such connections.
pub(crate) fn refuses_to_monitor(session: &Session, command: &Command) -> bool {
    let uses_data =
        |command: &Command| command.may_replicate() || command.flags.has(Flag::ReadOnly);
    session.monitors
        && (uses_data(command) || command.name == "exec" && session.has_queued(uses_data))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Login;
    use crate::table::find;

    #[test]
    fn monitoring_connection_cannot_access_data() {
        let mut session = Session::new(1, Login::trusted(), 0);
        let refused = |session: &Session, name: &str| {
            refuses_to_monitor(session, find(name.as_bytes()).expect("a command"))
        };
        assert!(!refused(&session, "get"));
        session.monitors = true;
        for name in ["get", "set", "publish", "pfcount", "keys"] {
            assert!(refused(&session, name), "{name}");
        }
        for name in ["ping", "subscribe", "exec", "quit", "reset"] {
            assert!(!refused(&session, name), "{name}");
        }
    }
}
