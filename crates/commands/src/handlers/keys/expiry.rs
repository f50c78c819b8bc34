//! Implements EXPIRE, TTL and the other commands that set or read the deadlines of keys.

use crate::arguments::{CommandError, TimeBase, TimeUnit, deadline};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("expire", expire),
    ("pexpire", pexpire),
    ("expireat", expireat),
    ("pexpireat", pexpireat),
    ("ttl", ttl),
    ("pttl", pttl),
    ("expiretime", expiretime),
    ("pexpiretime", pexpiretime),
    ("persist", persist),
];

/// Handles EXPIRE.
fn expire(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    set_deadline(
        context,
        arguments,
        TimeUnit::Seconds,
        TimeBase::Now,
        "expire",
        reply,
    )
}

/// Handles PEXPIRE.
fn pexpire(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    set_deadline(
        context,
        arguments,
        TimeUnit::Milliseconds,
        TimeBase::Now,
        "pexpire",
        reply,
    )
}

/// Handles EXPIREAT.
fn expireat(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    set_deadline(
        context,
        arguments,
        TimeUnit::Seconds,
        TimeBase::Epoch,
        "expireat",
        reply,
    )
}

/// Handles PEXPIREAT.
fn pexpireat(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    set_deadline(
        context,
        arguments,
        TimeUnit::Milliseconds,
        TimeBase::Epoch,
        "pexpireat",
        reply,
    )
}

/// The conditions for setting a deadline.
#[derive(Default)]
struct Conditions {
    if_none: bool,
    if_some: bool,
    if_later: bool,
    if_sooner: bool,
}

impl Conditions {
    fn parse(options: &[&[u8]]) -> Result<Conditions, CommandError> {
        let mut conditions = Conditions::default();
        for option in options {
            let condition = match option.to_ascii_uppercase().as_slice() {
                b"NX" => &mut conditions.if_none,
                b"XX" => &mut conditions.if_some,
                b"GT" => &mut conditions.if_later,
                b"LT" => &mut conditions.if_sooner,
                _ => {
                    let end = option.iter().position(|byte| *byte == 0);
                    let option = &option[..end.unwrap_or(option.len())];
                    return Err(CommandError::from_parts(&[
                        b"ERR Unsupported option ",
                        option,
                    ]));
                }
            };
            *condition = true;
        }
        let Conditions {
            if_none,
            if_some,
            if_later,
            if_sooner,
        } = conditions;
        if if_none && (if_some || if_later || if_sooner) {
            return Err(CommandError::fixed(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if if_later && if_sooner {
            return Err(CommandError::fixed(
                "ERR GT and LT options at the same time are not compatible",
            ));
        }
        Ok(conditions)
    }

    /// Returns whether the conditions allow the new deadline. If a key has no deadline, the
    /// conditions treat it as infinite.
    fn hold(&self, old: Option<u64>, new: i64) -> bool {
        let old = old.map(|old| i64::try_from(old).unwrap_or(i64::MAX));
        !(self.if_none && old.is_some()
            || self.if_some && old.is_none()
            || self.if_later && old.is_none_or(|old| new <= old)
            || self.if_sooner && old.is_some_and(|old| new >= old))
    }
}

fn set_deadline(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    unit: TimeUnit,
    base: TimeBase,
    name: &str,
    reply: &mut dyn Reply,
) -> Outcome {
    let conditions = Conditions::parse(&arguments[3..])?;
    let (store, database) = (context.store, context.database());
    let deadline = deadline(arguments[2], unit, base, store.now() as i64, name)?;
    let key = store.key(arguments[1]);
    let (found, set) = store.write(store.shards_of([&key]), |writer| {
        let Some(old) = writer.expiry(database, &key)? else {
            return Ok((false, false));
        };
        if !conditions.hold(old, deadline) {
            return Ok((true, false));
        }
        match u64::try_from(deadline) {
            Ok(deadline) if !writer.has_passed(deadline) => {
                writer.set_expiry(database, &key, Some(deadline))?;
            }
            _ => {
                writer.remove(database, &key)?;
            }
        }
        Ok::<_, Failure>((true, true))
    })?;
    if found {
        store.note_use(&key);
    }
    reply.integer(set.into());
    Ok(())
}

/// Handles PERSIST.
fn persist(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let (found, removed) = store.write(store.shards_of([&key]), |writer| {
        let expiry = writer.expiry(database, &key)?;
        let expires = matches!(expiry, Some(Some(_)));
        if expires {
            writer.set_expiry(database, &key, None)?;
        }
        Ok::<_, Failure>((expiry.is_some(), expires))
    })?;
    if found {
        store.note_use(&key);
    }
    reply.integer(removed.into());
    Ok(())
}

/// Handles TTL.
fn ttl(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    tell(context, arguments[1], reply, |deadline, now| {
        rounded_seconds((deadline - now).max(0))
    })
}

/// Handles PTTL.
fn pttl(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    tell(context, arguments[1], reply, |deadline, now| {
        (deadline - now).max(0)
    })
}

/// Handles EXPIRETIME.
fn expiretime(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    tell(context, arguments[1], reply, |deadline, _| {
        rounded_seconds(deadline)
    })
}

/// Handles PEXPIRETIME.
fn pexpiretime(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    tell(context, arguments[1], reply, |deadline, _| deadline)
}

/// Rounds a time to the nearest second. Cannot overflow for any valid deadline.
fn rounded_seconds(milliseconds: i64) -> i64 {
    milliseconds / 1000 + (milliseconds % 1000 + 500) / 1000
}

fn tell(
    context: &mut Context<'_>,
    key: &[u8],
    reply: &mut dyn Reply,
    figure: fn(i64, i64) -> i64,
) -> Outcome {
    let expiry = context.store.expiry(context.database(), key)?;
    context.peeked(&context.store.key(key), expiry.is_some());
    reply.integer(match expiry {
        None => -2,
        Some(None) => -1,
        Some(Some(deadline)) => {
            let deadline = i64::try_from(deadline).unwrap_or(i64::MAX);
            figure(deadline, context.store.now() as i64)
        }
    });
    Ok(())
}
