//! Implements the commands that read and write complete strings.

use undercroft_engine::events::KeyEvent;
use undercroft_engine::strings::{Held, Values};
use undercroft_engine::{Entry, Expiry, Key, Writer};
use undercroft_numbers::parse_integer;

use crate::arguments::{CommandError, TimeBase, TimeUnit, is_keyword, positive_deadline};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("get", get),
    ("set", set),
    ("getex", getex),
    ("getdel", getdel),
    ("getset", getset),
    ("setnx", setnx),
    ("setex", setex),
    ("psetex", psetex),
    ("mget", mget),
    ("mset", mset),
    ("msetnx", msetnx),
    ("incr", incr),
    ("decr", decr),
    ("incrby", incrby),
    ("decrby", decrby),
];

/// Handles GET.
#[inline]
pub(crate) fn plain_get<R: Reply + ?Sized>(
    context: &mut Context<'_>,
    key: &[u8],
    reply: &mut R,
) -> Outcome {
    let (store, database) = (context.store, context.database());
    let found = match reply.text() {
        Some(mut text) => store.get(database, key, &mut text)?,
        None => {
            let found = store.get(database, key, &mut context.session.read_buffers.text)?;
            if found {
                reply.bulk(&context.session.read_buffers.text);
            }
            found
        }
    };
    context.count_lookup(found);
    if !found {
        reply.null();
    }
    Ok(())
}

/// Handles `SET key value` without options.
#[inline]
pub(crate) fn plain_set<R: Reply + ?Sized>(
    context: &mut Context<'_>,
    key: &[u8],
    value: &[u8],
    reply: &mut R,
) -> Outcome {
    context.store.set(context.database(), key, value)?;
    reply.ok();
    Ok(())
}

/// Handles GET.
fn get(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    plain_get(context, arguments[1], reply)
}

/// The options of SET and GETEX, which have the same syntax.
#[derive(Default)]
struct Options<'a> {
    if_missing: bool,
    if_present: bool,
    get: bool,
    keep: bool,
    persist: bool,
    time: Option<(TimeUnit, TimeBase, &'a [u8])>,
}

impl<'a> Options<'a> {
    /// Parses options by Redis' rules. If an option is repeated, the last value applies.
    /// Conflicting options are an error.
    fn parse(mut rest: &[&'a [u8]], getex: bool) -> Result<Options<'a>, CommandError> {
        let mut options = Options::default();
        while let [option, behind @ ..] = rest {
            rest = behind;
            if is_keyword(option, "NX") && !options.if_present && !getex {
                options.if_missing = true;
            } else if is_keyword(option, "XX") && !options.if_missing && !getex {
                options.if_present = true;
            } else if is_keyword(option, "GET") && !getex {
                options.get = true;
            } else if is_keyword(option, "KEEPTTL") && options.time.is_none() && !getex {
                options.keep = true;
            } else if is_keyword(option, "PERSIST") && options.time.is_none() && getex {
                options.persist = true;
            } else if let (Some((unit, base)), [time, behind @ ..]) = (time_option(option), rest)
                && !options.keep
                && !options.persist
                && options
                    .time
                    .is_none_or(|(old_unit, old_base, _)| (old_unit, old_base) == (unit, base))
            {
                options.time = Some((unit, base, time));
                rest = behind;
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(options)
    }

    /// Returns the deadline in Unix milliseconds if the options specify one.
    fn deadline(&self, now: u64, name: &str) -> Result<Option<u64>, CommandError> {
        let Some((unit, base, text)) = self.time else {
            return Ok(None);
        };
        let deadline = positive_deadline(text, unit, base, now as i64, name)?;
        Ok(Some(deadline.unsigned_abs()))
    }
}

fn time_option(option: &[u8]) -> Option<(TimeUnit, TimeBase)> {
    Some(match option.to_ascii_uppercase().as_slice() {
        b"EX" => (TimeUnit::Seconds, TimeBase::Now),
        b"PX" => (TimeUnit::Milliseconds, TimeBase::Now),
        b"EXAT" => (TimeUnit::Seconds, TimeBase::Epoch),
        b"PXAT" => (TimeUnit::Milliseconds, TimeBase::Epoch),
        _ => return None,
    })
}

/// Replaces the contents of `out` with the string of an entry. Returns whether the entry exists.
fn copy_text(
    writer: &Writer<'_, '_>,
    entry: Option<&Entry>,
    out: &mut Vec<u8>,
) -> Result<bool, Failure> {
    out.clear();
    if let Some(entry) = entry {
        entry.text(writer.view())?.append_to(writer.view(), out)?;
    }
    Ok(entry.is_some())
}

fn write_scratch(context: &Context<'_>, found: bool, reply: &mut dyn Reply) {
    reply.bulk_or_null(found.then_some(&context.session.read_buffers.text));
}

/// Handles SET.
fn set(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let options = Options::parse(&arguments[3..], false)?;
    let deadline = options.deadline(context.store.now(), "set")?;
    let expiry = match deadline {
        Some(deadline) => Expiry::At(deadline),
        None if options.keep => Expiry::Keep,
        None => Expiry::Never,
    };
    let (store, database) = (context.store, context.database());
    let (key, value) = (store.key(arguments[1]), arguments[2]);
    let scratch = &mut context.session.read_buffers.text;
    let (found, set) = store.write_into(store.shards_of([&key]), scratch, |writer, scratch| {
        let old = writer.find(database, &key)?;
        let found = old.is_some();
        if options.get {
            copy_text(writer, old.as_ref(), scratch)?;
            if !found {
                writer.tell(KeyEvent::KeyMiss, database, &key);
            }
        }
        let set = !(options.if_missing && found || options.if_present && !found);
        if set {
            writer.set(database, &key, value, expiry)?;
        }
        Ok::<_, Failure>((found, set))
    })?;
    store.note_use(&key);
    if options.get {
        context.count_lookup(found);
        write_scratch(context, found, reply);
    } else if set {
        reply.ok();
    } else {
        reply.null();
    }
    Ok(())
}

/// Handles SETNX.
fn setnx(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let set = store.write(store.shards_of([&key]), |writer| {
        let missing = writer.find(database, &key)?.is_none();
        if missing {
            writer.set(database, &key, arguments[2], Expiry::Never)?;
        }
        Ok::<_, Failure>(missing)
    })?;
    store.note_use(&key);
    reply.integer(set.into());
    Ok(())
}

/// Handles SETEX.
fn setex(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    set_for(context, arguments, TimeUnit::Seconds, "setex", reply)
}

/// Handles PSETEX.
fn psetex(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    set_for(context, arguments, TimeUnit::Milliseconds, "psetex", reply)
}

fn set_for(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    unit: TimeUnit,
    name: &str,
    reply: &mut dyn Reply,
) -> Outcome {
    let (store, database) = (context.store, context.database());
    let now = store.now() as i64;
    let deadline = positive_deadline(arguments[2], unit, TimeBase::Now, now, name)?;
    let key = store.key(arguments[1]);
    store.write(store.shards_of([&key]), |writer| {
        let expiry = Expiry::At(deadline.unsigned_abs());
        Ok::<_, Failure>(writer.set(database, &key, arguments[3], expiry)?)
    })?;
    store.note_use(&key);
    reply.ok();
    Ok(())
}

/// Handles GETSET.
fn getset(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let scratch = &mut context.session.read_buffers.text;
    let found = store.exchange_string(database, arguments[1], arguments[2], scratch)?;
    context.count_lookup(found.is_some());
    write_scratch(context, found.is_some(), reply);
    Ok(())
}

/// Handles GETDEL.
fn getdel(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let found = store.take_string(
        database,
        arguments[1],
        &mut context.session.read_buffers.text,
    )?;
    context.count_lookup(found.is_some());
    write_scratch(context, found.is_some(), reply);
    Ok(())
}

/// Handles GETEX.
fn getex(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let options = Options::parse(&arguments[2..], true)?;
    if options.time.is_none() && !options.persist {
        return plain_get(context, arguments[1], reply);
    }
    get_and(
        context,
        arguments[1],
        reply,
        |writer, database, key, found| {
            if !found {
                return Ok(());
            }
            // An invalid time is reported only if the key exists.
            match options.deadline(writer.now(), "getex")? {
                Some(deadline) if writer.has_passed(deadline) => {
                    writer.remove(database, key)?;
                }
                deadline => {
                    writer.set_expiry(database, key, deadline)?;
                }
            }
            Ok(())
        },
    )
}

/// Reads a string, changes its key in the same transaction, and replies with the old string.
fn get_and(
    context: &mut Context<'_>,
    key: &[u8],
    reply: &mut dyn Reply,
    change: impl Fn(&mut Writer<'_, '_>, usize, &Key<'_>, bool) -> Outcome + Sync,
) -> Outcome {
    let (store, database) = (context.store, context.database());
    let key = store.key(key);
    let scratch = &mut context.session.read_buffers.text;
    let found = store.write_into(store.shards_of([&key]), scratch, |writer, scratch| {
        let old = writer.find(database, &key)?;
        let found = copy_text(writer, old.as_ref(), scratch)?;
        if !found {
            writer.tell(KeyEvent::KeyMiss, database, &key);
        }
        change(writer, database, &key, found)?;
        Ok::<_, Failure>(found)
    })?;
    store.note_use(&key);
    context.count_lookup(found);
    write_scratch(context, found, reply);
    Ok(())
}

/// Handles MGET.
fn mget(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let keys = context.keys(&arguments[1..]);
    let mut values = Values::in_memory(std::mem::take(&mut context.session.read_buffers.text));
    store.read_values(database, &keys, &mut values)?;
    reply.array(keys.len());
    for (key, held) in keys.iter().zip(values.iter()) {
        context.looked_up(key, held != Held::Missing);
        match held {
            Held::Text(text) => reply.bulk(text),
            Held::Missing | Held::Other => reply.null(),
        }
    }
    context.session.read_buffers.text = values.into_memory();
    Ok(())
}

/// Handles MSET.
fn mset(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    set_many(context, arguments, "mset", false)?;
    reply.ok();
    Ok(())
}

/// Handles MSETNX.
fn msetnx(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let set = set_many(context, arguments, "msetnx", true)?;
    reply.integer(set.into());
    Ok(())
}

fn set_many(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    name: &str,
    if_all_missing: bool,
) -> Result<bool, Failure> {
    let pairs = &arguments[1..];
    if !pairs.len().is_multiple_of(2) {
        return Err(CommandError::wrong_arity(name).into());
    }
    let (store, database) = (context.store, context.database());
    let keys = context.keys(pairs.iter().step_by(2));
    let values = || pairs.iter().skip(1).step_by(2);
    let set = store.write(store.shards_of(&keys), |writer| {
        if if_all_missing {
            for key in &keys {
                if writer.find(database, key)?.is_some() {
                    return Ok(false);
                }
            }
        }
        for (position, (key, value)) in keys.iter().zip(values()).enumerate() {
            writer.warm_ahead(database, &keys, position);
            writer.set(database, key, value, Expiry::Never)?;
        }
        Ok::<_, Failure>(true)
    })?;
    keys.iter().for_each(|key| store.note_use(key));
    Ok(set)
}

/// Handles INCR.
fn incr(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    increment(context, arguments[1], 1, reply)
}

/// Handles DECR.
fn decr(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    increment(context, arguments[1], -1, reply)
}

/// Handles INCRBY.
fn incrby(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let change = parse_integer(arguments[2]).ok_or(CommandError::NOT_AN_INTEGER)?;
    increment(context, arguments[1], change, reply)
}

/// Handles DECRBY.
fn decrby(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let change = parse_integer(arguments[2]).ok_or(CommandError::NOT_AN_INTEGER)?;
    let negated = change
        .checked_neg()
        .ok_or(CommandError::fixed("ERR decrement would overflow"))?;
    increment(context, arguments[1], negated, reply)
}

fn increment(context: &mut Context<'_>, key: &[u8], change: i64, reply: &mut dyn Reply) -> Outcome {
    let sum = context.store.increment(context.database(), key, change)?;
    reply.integer(sum);
    Ok(())
}
