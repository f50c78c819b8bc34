//! Reports commands to the slow log, LATENCY and MONITOR, and decides which commands are worth
//! timing for them.

use std::io::Write as _;
use std::time::Duration;

use super::Context;
use super::redaction::redacted;
use crate::reply::quote;
use crate::statistics::Trace;
use crate::statistics::latency::Event;
use crate::table::{Command, DEL, Flag};

/// The number of arguments above which even a fast command may take long.
const QUICK_ARGUMENTS: usize = 64;

/// Whether a command is too fast to be timed for the slow log. This includes DEL, which frees large
/// values later, like UNLINK.
pub(crate) fn is_quick(command: &Command, arguments: &[&[u8]]) -> bool {
    let is_fast = command.flags.has(Flag::Fast) || std::ptr::eq(command, DEL);
    is_fast && arguments.len() <= QUICK_ARGUMENTS
}

/// Whether a command's time is excluded from the slow log, because it may wait for other clients.
pub(crate) fn is_waiting(context: &Context<'_>, command: &Command) -> bool {
    command.flags.has(Flag::Blocking) && !context.store.is_running()
}

fn microseconds(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Whether a command that took this long belongs in the slow log.
pub(crate) fn is_slow(context: &Context<'_>, time: Duration) -> bool {
    // Read the current threshold: this command may be a CONFIG SET that changed it.
    (0..=microseconds(time)).contains(&context.host.slowlog().threshold())
}

/// Reports a command's time to LATENCY.
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

/// The origin of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    Client,
    Script,
}

/// Shows a command to connections in MONITOR mode, with the database selected after it.
/// Administrative commands are not shown.
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

/// Adds the slow commands of a script to the slow log.
pub(crate) fn note_slow_trace(context: &mut Context<'_>, trace: &Trace) {
    for traced in &trace.commands {
        if let Some(time) = traced.time {
            note_slow(context, traced.command, &traced.words(), time);
        }
    }
}

/// Shows all commands of a script to connections in MONITOR mode.
pub(crate) fn show_trace(context: &Context<'_>, trace: &Trace) {
    for traced in &trace.commands {
        let (database, command) = (traced.database, traced.command);
        show_to_monitors(context, Sender::Script, database, command, &traced.words());
    }
}
