//! The one way in: runs a command whatever it is.

use std::time::Instant;

use undercroft_engine::Store;

use crate::arguments::{CommandError, is_keyword};
use crate::config::PARAMETERS;
use crate::handler::{Blocked, Context, Failure};
use crate::handlers::strings;
use crate::reply::Reply;
use crate::table::{Command, Flag, GET, SET, resolve};

/// A connection's buffer for values is given back where one value made it larger than this.
const SCRATCH_MAX: usize = 64 * 1024;
/// A fast command with more arguments than these may take long all the same.
const QUICK_ARGUMENTS: usize = 64;

/// Runs one command, its name first, for the connection in `context`, and writes its reply: what it answers, or
/// why it could not.
///
/// Most commands write exactly one reply; CLIENT REPLY OFF and SKIP, and a SHUTDOWN that succeeds, write none.
/// After it [`Session::finish_command`](crate::session::Session::finish_command) says whether the reply is to be
/// sent. A plain GET or SET costs a few nanoseconds more than [`undercroft_engine::Store::get`] and `set`, and
/// allocates nothing; `reply` is a type parameter for their sake, and may be a `&mut dyn Reply`.
///
/// # Errors
/// [`Blocked`] where another process holds a lock for longer than the store's patience. Nothing was written and
/// nothing was changed.
#[inline]
pub fn execute<R: Reply>(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut R,
) -> Result<(), Blocked> {
    if let [[first, second, b't' | b'T'], key, rest @ ..] = arguments
        && context.session.user.is_some()
        && !context.timed
    {
        match ([first | 0x20, second | 0x20], rest) {
            ([b'g', b'e'], []) => {
                context.session.last_command = Some(GET);
                let outcome = strings::plain_get(context, key, reply);
                return finish(context, outcome, reply);
            }
            ([b's', b'e'], [value]) => {
                context.session.last_command = Some(SET);
                let outcome = strings::plain_set(context, key, value, reply);
                return finish(context, outcome, reply);
            }
            _ => {}
        }
    }
    execute_any(context, arguments, reply)
}

fn execute_any(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Result<(), Blocked> {
    let outcome = run(context, arguments, reply);
    finish(context, outcome, reply)
}

fn run(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Result<(), Failure> {
    let command = resolve(arguments)?;
    let Some(handler) = command.handler else {
        return Err(CommandError::wrong_arity(command.name).into());
    };
    if context.session.user.is_none() && !command.flags.has(Flag::NoAuth) {
        return Err(CommandError::fixed("NOAUTH Authentication required.").into());
    }
    context.session.last_command = Some(command);
    if command.flags.has(Flag::DenyOom) {
        context.store.check_memory()?;
    }
    // Reading the clock twice costs as much as a fast command.
    let quick = command.flags.has(Flag::Fast) && arguments.len() <= QUICK_ARGUMENTS;
    if quick && !context.timed {
        return handler(context, arguments, reply);
    }
    let start = Instant::now();
    let outcome = handler(context, arguments, reply);
    if !matches!(outcome, Err(Failure::Blocked(_))) {
        note_if_slow(context, arguments, start);
    }
    outcome
}

fn note_if_slow(context: &mut Context<'_>, arguments: &[&[u8]], start: Instant) {
    let microseconds = i64::try_from(start.elapsed().as_micros()).unwrap_or(i64::MAX);
    let slowlog = context.host.slowlog();
    // The threshold as it is now: CONFIG SET may just have changed it.
    if (0..=microseconds).contains(&slowlog.threshold()) {
        let seconds = context.host.now_microseconds() / 1_000_000;
        let session = &context.session;
        slowlog.record(
            &without_secrets(session.last_command, arguments),
            seconds,
            microseconds,
            &session.address,
            &session.name,
        );
    }
}

/// The arguments as the slow log may show them: no password in them.
fn without_secrets<'a>(command: Option<&'static Command>, arguments: &[&'a [u8]]) -> Vec<&'a [u8]> {
    const HIDDEN: &[u8] = b"(redacted)";
    let mut shown = arguments.to_vec();
    match command.map(|command| command.name) {
        Some("auth") => shown.iter_mut().skip(1).for_each(|word| *word = HIDDEN),
        Some("hello") => {
            let login = arguments.iter().position(|word| is_keyword(word, "AUTH"));
            let secrets = shown.iter_mut().skip(login.map_or(usize::MAX, |at| at + 1));
            secrets.take(2).for_each(|word| *word = HIDDEN);
        }
        Some("config|set") => {
            for pair in shown[2..].chunks_mut(2) {
                let secret = PARAMETERS
                    .iter()
                    .any(|parameter| parameter.secret && is_keyword(pair[0], parameter.name));
                if let (true, [_, value]) = (secret, pair) {
                    *value = HIDDEN;
                }
            }
        }
        _ => {}
    }
    shown
}

/// Removes expired keys that the command met, as Redis does.
#[cold]
fn remove_met(context: &mut Context<'_>) {
    // Where the lock is held or the store is damaged, the next writer will do it, or say so.
    if let Ok(removed) = context.store.remove_met() {
        context.session.counters.expired += removed;
    }
}

#[inline(always)]
fn finish<R: Reply + ?Sized>(
    context: &mut Context<'_>,
    outcome: Result<(), Failure>,
    reply: &mut R,
) -> Result<(), Blocked> {
    let session = &mut *context.session;
    if session.scratch.capacity() > SCRATCH_MAX {
        session.scratch = Vec::new();
    }
    match outcome {
        Ok(()) => {}
        Err(Failure::Reply(error)) => {
            session.counters.errors += 1;
            error.write(reply);
        }
        // It will run again, and be counted then.
        Err(Failure::Blocked(blocked)) => return Err(blocked),
    }
    session.counters.commands += 1;
    if Store::met_expired() {
        remove_met(context);
    }
    Ok(())
}
