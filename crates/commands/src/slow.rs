//! Which commands are timed, and what the slow log and LATENCY take note of.

use std::time::Duration;

use crate::arguments::is_keyword;
use crate::config::PARAMETERS;
use crate::context::Context;
use crate::latency::Event;
use crate::table::{Command, DEL, Flag};

/// A fast command with more arguments than these may take long all the same.
const QUICK_ARGUMENTS: usize = 64;

/// Whether a command is too fast for the slow log to be worth a look at the clock. DEL is, which frees later what is
/// large, as UNLINK does.
pub(crate) fn is_quick(command: &Command, arguments: &[&[u8]]) -> bool {
    let is_fast = command.flags.has(Flag::Fast) || std::ptr::eq(command, DEL);
    is_fast && arguments.len() <= QUICK_ARGUMENTS
}

/// Whether the time of a command is none of the slow log's: it waits for others.
pub(crate) fn is_waiting(context: &Context<'_>, command: &Command) -> bool {
    command.flags.has(Flag::Blocking) && !context.store.is_running()
}

fn microseconds(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Whether a command that took so long belongs in the slow log.
pub(crate) fn is_slow(context: &Context<'_>, time: Duration) -> bool {
    // The threshold as it is now: CONFIG SET may just have changed it.
    (0..=microseconds(time)).contains(&context.host.slowlog().threshold())
}

/// Has LATENCY take note of a command that took long.
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

/// Has the slow log take note of a command that took long.
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
            &without_secrets(command, arguments),
            seconds,
            microseconds(time),
            &session.address,
            &session.name,
        );
    }
}

/// The arguments as the slow log and MONITOR may show them: no password in them.
pub(crate) fn without_secrets<'a>(
    command: &'static Command,
    arguments: &[&'a [u8]],
) -> Vec<&'a [u8]> {
    const HIDDEN: &[u8] = b"(redacted)";
    let mut shown = arguments.to_vec();
    match command.name {
        "auth" => shown.iter_mut().skip(1).for_each(|word| *word = HIDDEN),
        "hello" => {
            let login = arguments.iter().position(|word| is_keyword(word, "AUTH"));
            let secrets = shown.iter_mut().skip(login.map_or(usize::MAX, |at| at + 1));
            secrets.take(2).for_each(|word| *word = HIDDEN);
        }
        "config|set" => {
            for pair in shown[2..].chunks_mut(2) {
                let secret = PARAMETERS
                    .iter()
                    .any(|parameter| parameter.secret && is_keyword(pair[0], parameter.name));
                if let (true, [_, value]) = (secret, pair) {
                    *value = HIDDEN;
                }
            }
        }
        "migrate" => {
            let mut at = 6;
            while let Some(word) = arguments.get(at) {
                let secrets = match () {
                    () if is_keyword(word, "AUTH") => 1,
                    () if is_keyword(word, "AUTH2") => 2,
                    () if is_keyword(word, "COPY") || is_keyword(word, "REPLACE") => 0,
                    // Keys, or what is no option.
                    () => break,
                };
                let hidden = shown.iter_mut().skip(at + 1).take(secrets);
                hidden.for_each(|word| *word = HIDDEN);
                at += 1 + secrets;
            }
        }
        _ => {}
    }
    shown
}
