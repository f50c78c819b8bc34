//! Reports commands to the slow log, LATENCY and MONITOR, and decides which commands must be timed
//! for these reports.

use std::io::Write as _;
use std::time::Duration;

use super::Context;
use super::redaction::redacted;
use crate::reply::quote;
use crate::statistics::Trace;
use crate::statistics::latency::Event;
use crate::table::{Command, DEL, Flag};

/// The number of arguments above which even a fast command can take long.
const QUICK_ARGUMENTS: usize = 64;

/// Returns whether a command is too fast to be timed for the slow log. DEL is among these commands
/// because, like UNLINK, it frees large values later.
pub(crate) fn is_quick(command: &Command, arguments: &[&[u8]]) -> bool {
    let is_fast = command.flags.has(Flag::Fast) || std::ptr::eq(command, DEL);
    is_fast && arguments.len() <= QUICK_ARGUMENTS
}

/// Returns whether a command's running time is excluded from the slow log because the command can
/// wait for other clients.
pub(crate) fn is_waiting(context: &Context<'_>, command: &Command) -> bool {
    command.flags.has(Flag::Blocking) && !context.store.is_running()
}

fn microseconds(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Returns whether a command's running time is long enough for the slow log.
pub(crate) fn is_slow(context: &Context<'_>, time: Duration) -> bool {
    // Read the current threshold, because this command can be a CONFIG SET that changed it.
    (0..=microseconds(time)).contains(&context.host.slowlog().threshold())
}

/// Reports a command's running time to LATENCY.
#[inline]
pub(crate) fn note_latency(context: &Context<'_>, command: &Command, time: Duration) {
    let event = match command.flags.has(Flag::Fast) {
        true => Event::FastCommand,
        false => Event::Command,
    };
    let host = &context.host;
    host.latency()
        .note(event, time, || host.now_microseconds() / 1_000_000);
}

/// Adds a command to the slow log if it was slow.
pub(crate) fn note_slow(
    context: &mut Context<'_>,
    command: &'static Command,
    arguments: &[&[u8]],
    time: Duration,
) {
    if is_slow(context, time) && !command.flags.has(Flag::SkipSlowlog) {
        let slowlog = context.host.slowlog();
        let seconds = context.host.now_microseconds() / 1_000_000;
        let session = &context.session;
        slowlog.record(
            &redacted(command, arguments),
            seconds,
            microseconds(time),
            &session.peer.address,
            &session.name,
        );
    }
}

/// The origin of a command: a client or a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    Client,
    Script,
}

/// Sends a command to all connections in MONITOR mode, unless it is an administrative command.
/// `database` is the database that is selected after the command.
#[cold]
pub(crate) fn show_to_monitors(
    context: &Context<'_>,
    sender: Sender,
    database: u32,
    command: &'static Command,
    arguments: &[&[u8]],
) {
    if command.flags.has(Flag::Admin) {
        return;
    }
    let (host, session) = (context.host, &*context.session);
    let now = host.now_microseconds();
    let bytes: usize = arguments.iter().map(|argument| argument.len() + 3).sum();
    let mut line = Vec::with_capacity(64 + bytes);
    let (seconds, rest) = (now / 1_000_000, now % 1_000_000);
    // Writing to a `Vec` cannot fail.
    let _ = write!(line, "+{seconds}.{rest:06} [{database} ");
    match sender {
        Sender::Script => line.extend(b"lua"),
        Sender::Client if session.peer.unix_socket => {
            line.extend(b"unix:");
            line.extend(host.config().value("unixsocket").text());
        }
        Sender::Client => line.extend(session.peer.address.as_bytes()),
    }
    line.push(b']');
    for word in redacted(command, arguments) {
        line.push(b' ');
        quote(word, &mut line);
    }
    line.extend(b"\r\n");
    host.connections.show(session, &line);
}

/// Adds the slow commands that a script ran to the slow log.
pub(crate) fn note_slow_trace(context: &mut Context<'_>, trace: &Trace) {
    for traced in &trace.commands {
        if let Some(time) = traced.time {
            note_slow(context, traced.command, &traced.words(), time);
        }
    }
}

/// Sends all commands that a script ran to the connections in MONITOR mode.
pub(crate) fn show_trace(context: &Context<'_>, trace: &Trace) {
    for traced in &trace.commands {
        let (database, command) = (traced.database, traced.command);
        show_to_monitors(context, Sender::Script, database, command, &traced.words());
    }
}
