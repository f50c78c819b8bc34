//! Implements DUMP, RESTORE, OBJECT, MEMORY USAGE and DEBUG OBJECT, which serialize or inspect
//! values.

use undercroft_engine::events::KeyEvent;
use undercroft_engine::strings::STRING_MAX;
use undercroft_engine::{Entry, Error, Ranges, ValueType, View, rdb};

use crate::arguments::{CommandError, integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("dump", dump_key),
    ("restore", restore),
    ("object|encoding", encoding),
    ("object|idletime", idletime),
    ("object|freq", freq),
    ("object|refcount", refcount),
    ("memory|usage", usage),
];

/// Calls `look` on the entry of a key. Returns `None` if the key does not exist.
pub(crate) fn look<R>(
    context: &mut Context<'_>,
    key: &[u8],
    look: impl Fn(&Entry, &View<'_>) -> Result<R, Failure> + Sync,
) -> Result<Option<R>, Failure> {
    let (store, database) = (context.store, context.database());
    let key = store.key(key);
    store.read(store.shards_of([&key]), |reader| {
        match reader.find(database, &key)? {
            None => Ok(None),
            Some(entry) => Ok(Some(look(&entry, reader.view())?)),
        }
    })
}

/// Handles DUMP.
fn dump_key(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let found = look(context, arguments[1], |entry, view| {
        let mut items = Ranges::new();
        entry.append_items(view, &mut items)?;
        Ok((entry.value_type()?, entry.encoding()?, items))
    })?;
    context.looked_up(&context.store.key(arguments[1]), found.is_some());
    let payload =
        found.map(|(value_type, encoding, items)| rdb::dump(value_type, encoding, &items));
    reply.bulk_or_null(payload.as_deref());
    Ok(())
}

#[derive(Default)]
struct RestoreOptions {
    replace: bool,
    absolute: bool,
    idle: Option<u64>,
    frequency: Option<u8>,
}

impl RestoreOptions {
    fn parse(mut rest: &[&[u8]]) -> Result<RestoreOptions, CommandError> {
        let mut options = RestoreOptions::default();
        while let [option, behind @ ..] = rest {
            rest = behind;
            if is_keyword(option, "REPLACE") {
                options.replace = true;
            } else if is_keyword(option, "ABSTTL") {
                options.absolute = true;
            } else if let [value, behind @ ..] = rest
                && is_keyword(option, "IDLETIME")
                && options.frequency.is_none()
            {
                let idle = u64::try_from(integer(value)?);
                options.idle = Some(idle.map_err(|_| {
                    CommandError::fixed("ERR Invalid IDLETIME value, must be >= 0")
                })?);
                rest = behind;
            } else if let [value, behind @ ..] = rest
                && is_keyword(option, "FREQ")
                && options.idle.is_none()
            {
                let frequency = u8::try_from(integer(value)?);
                options.frequency = Some(frequency.map_err(|_| {
                    CommandError::fixed("ERR Invalid FREQ value, must be >= 0 and <= 255")
                })?);
                rest = behind;
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(options)
    }
}

/// Handles RESTORE.
fn restore(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let options = RestoreOptions::parse(&arguments[4..])?;
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    // Parse the time and the payload only once. As in Redis, report errors in these arguments only
    // if the key may be written.
    let parsed = restored(context, arguments, &options);
    let limits = context.host.config().limits();
    store.write(store.shards_of([&key]), |writer| {
        let there = writer.find(database, &key)?.is_some();
        if there && !options.replace {
            const BUSY: CommandError =
                CommandError::fixed("BUSYKEY Target key name already exists.");
            return Err(BUSY.into());
        }
        let (value_type, items, deadline) = parsed.as_ref().map_err(|error| error.clone())?;
        if deadline.is_some_and(|deadline| writer.has_passed(deadline)) {
            writer.remove(database, &key)?;
            return Ok(());
        }
        // As in Redis, a key that RESTORE replaces counts as a new key.
        writer.remove_quietly(database, &key)?;
        writer.tell_as(KeyEvent::Restore, database, &key, |writer| {
            writer.put_items(database, &key, *value_type, items, *deadline, &limits)
        })?;
        Ok::<_, Failure>(())
    })?;
    // Set either the frequency or the idle time, depending on which one the eviction policy uses.
    match (is_frequency_policy(context), options.frequency) {
        (true, Some(frequency)) => store.set_frequency(&key, frequency),
        (true, None) => {}
        (false, _) => store.set_idle_seconds(&key, options.idle.unwrap_or(0)),
    }
    reply.ok();
    Ok(())
}

/// Parses the value and the deadline for RESTORE to set.
fn restored(
    context: &Context<'_>,
    arguments: &[&[u8]],
    options: &RestoreOptions,
) -> Result<(ValueType, Ranges, Option<u64>), CommandError> {
    let time = u64::try_from(integer(arguments[2])?)
        .map_err(|_| CommandError::fixed("ERR Invalid TTL value, must be >= 0"))?;
    let deadline = match time {
        0 => None,
        time if options.absolute => Some(time),
        // As in Redis, a deadline that overflows 64 bits counts as a deadline in the past.
        time => time
            .checked_add(context.store.now())
            .filter(|deadline| i64::try_from(*deadline).is_ok())
            .or(Some(0)),
    };
    let longest = context.host.config().integer("proto-max-bulk-len");
    let longest = longest.unsigned_abs().min(STRING_MAX) as usize;
    let (value_type, items) = rdb::restore(arguments[3], longest)
        .map_err(|error| CommandError::fixed(error.message()))?;
    Ok((value_type, items, deadline))
}

/// Handles OBJECT ENCODING.
fn encoding(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let name = look(context, arguments[2], |entry, _| {
        Ok(entry.encoding()?.name())
    })?;
    reply.bulk_or_null(name.map(str::as_bytes));
    Ok(())
}

/// Handles OBJECT REFCOUNT. The reference count of an existing key is always 1, because keys do not
/// share values.
fn refcount(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    match look(context, arguments[2], |_, _| Ok(()))? {
        Some(()) => reply.integer(1),
        None => reply.null(),
    }
    Ok(())
}

fn is_frequency_policy(context: &Context<'_>) -> bool {
    context.store.eviction().policy.is_lfu()
}

/// Handles OBJECT IDLETIME.
fn idletime(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let found = look(context, arguments[2], |_, _| Ok(()))?;
    if found.is_none() {
        reply.null();
    } else if is_frequency_policy(context) {
        return Err(CommandError::fixed(
            "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between \
             policies at runtime LRU and LFU data will take some time to adjust.",
        )
        .into());
    } else {
        let store = context.store;
        reply.integer(store.idle_seconds(&store.key(arguments[2])) as i64);
    }
    Ok(())
}

/// Handles OBJECT FREQ. The frequency can be inexact, because several keys can share an access
/// counter (R6).
fn freq(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let found = look(context, arguments[2], |_, _| Ok(()))?;
    if found.is_none() {
        reply.null();
    } else if !is_frequency_policy(context) {
        return Err(CommandError::fixed(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
             switching between policies at runtime LRU and LFU data will take some time to adjust.",
        )
        .into());
    } else {
        let store = context.store;
        reply.integer(store.frequency(&store.key(arguments[2])).into());
    }
    Ok(())
}

/// The number of a collection's elements that MEMORY USAGE samples by default, as in Redis.
const SAMPLES: u64 = 5;

/// Handles MEMORY USAGE.
fn usage(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (mut rest, mut samples) = (&arguments[3..], SAMPLES);
    while let [option, count, behind @ ..] = rest {
        if !is_keyword(option, "SAMPLES") {
            return Err(CommandError::SYNTAX.into());
        }
        samples = u64::try_from(integer(count)?).map_err(|_| CommandError::SYNTAX)?;
        rest = behind;
    }
    if !rest.is_empty() {
        return Err(CommandError::SYNTAX.into());
    }
    match look(context, arguments[2], |entry, view| {
        Ok(entry.memory_usage(view, samples)?)
    })? {
        Some(bytes) => reply.integer(bytes as i64),
        None => reply.null(),
    }
    Ok(())
}

/// Handles DEBUG OBJECT.
pub(crate) fn debug(context: &mut Context<'_>, key: &[u8], reply: &mut dyn Reply) -> Outcome {
    let found = look(context, key, |entry, view| {
        let memory = entry.memory_usage(view, SAMPLES)?;
        let length = match entry.text(view) {
            Err(Error::WrongType) => memory,
            text => text?.length(),
        };
        Ok((entry.encoding()?.name(), length, memory))
    })?;
    let (encoding, length, memory) = found.ok_or(CommandError::NO_SUCH_KEY)?;
    let idle = context.store.idle_seconds(&context.store.key(key));
    reply.simple(&format!(
        "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{length} lru:0 lru_seconds_idle:{idle} \
         memory:{memory}"
    ));
    Ok(())
}
