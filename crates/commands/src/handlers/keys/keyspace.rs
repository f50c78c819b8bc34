//! Implements the commands that delete, find, rename and copy keys of any type.

use undercroft_engine::events::KeyEvent;
use undercroft_engine::{Access, DATABASES, Key, Ranges, ValueType, chance};

use crate::arguments::{CommandError, integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::handlers::scan::{ScanOptions, TOO_COMPLEX, matches_all, scan_cursor};
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("del", del),
    ("unlink", del),
    ("exists", exists),
    ("type", type_of),
    ("keys", keys),
    ("scan", scan),
    ("randomkey", randomkey),
    ("rename", rename),
    ("renamenx", renamenx),
    ("copy", copy),
    ("move", move_key),
    ("touch", touch),
];

/// The error for a source and a destination that are identical.
const SAME: CommandError = CommandError::fixed("ERR source and destination objects are the same");

/// Parses a database number, which SELECT, MOVE and COPY take as an argument.
pub(crate) fn database_number(argument: &[u8]) -> Result<usize, CommandError> {
    let number = integer(argument)?;
    if i32::try_from(number).is_err() {
        return Err(CommandError::fixed(
            "ERR value is out of range, value must between -2147483648 and 2147483647",
        ));
    }
    check_database(number)
}

pub(crate) fn check_database(number: i64) -> Result<usize, CommandError> {
    match usize::try_from(number) {
        Ok(number) if number < DATABASES => Ok(number),
        _ => Err(CommandError::DATABASE_OUT_OF_RANGE),
    }
}

/// Handles DEL and UNLINK.
fn del(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let removed = if let [_, key] = arguments {
        let key = store.key(key);
        store.write(store.shards_of([&key]), |writer| {
            Ok::<_, Failure>(i64::from(writer.remove(database, &key)?))
        })?
    } else {
        store.delete(database, &arguments[1..])? as i64
    };
    reply.integer(removed);
    Ok(())
}

/// Handles EXISTS.
fn exists(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let found = look_for(context, &arguments[1..])?;
    let found = found.iter().filter(|(_, found)| *found).count();
    reply.integer(found as i64);
    Ok(())
}

/// Handles TOUCH.
fn touch(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let mut touched = 0;
    for (key, found) in look_for(context, &arguments[1..])? {
        if found {
            context.store.touch(&key);
            touched += 1;
        }
    }
    reply.integer(touched);
    Ok(())
}

/// Checks which of the keys exist, in a single consistent read.
fn look_for<'k>(
    context: &mut Context<'_>,
    names: &[&'k [u8]],
) -> Result<Vec<(Key<'k>, bool)>, Failure> {
    let (store, database) = (context.store, context.database());
    let keys: Vec<Key<'k>> = store.hash_all(names);
    let found = store.read(store.shards_of(&keys), |reader| {
        let found = keys.iter().enumerate().map(|(position, key)| {
            reader.warm_ahead(database, &keys, position);
            Ok(reader.find(database, key)?.is_some())
        });
        found.collect::<Result<Vec<bool>, Failure>>()
    })?;
    for (key, found) in keys.iter().zip(&found) {
        context.peeked(key, *found);
    }
    Ok(keys.into_iter().zip(found).collect())
}

/// Handles TYPE.
fn type_of(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let found = store.read(store.shards_of([&key]), |reader| {
        let entry = reader.find(database, &key)?;
        Ok::<_, Failure>(entry.map(|entry| entry.value_type()).transpose()?)
    })?;
    context.peeked(&key, found.is_some());
    reply.simple(found.map_or("none", ValueType::name));
    Ok(())
}

/// Handles KEYS.
fn keys(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let mut complex = None;
    let found = context.store.keys_where(context.database(), |key| {
        Ok(matches_all(arguments[1], key).unwrap_or_else(|error| {
            complex = Some(error);
            false
        }))
    })?;
    if complex.is_some() {
        return Err(TOO_COMPLEX.into());
    }
    reply.array(found.len());
    reply.bulks(&found);
    Ok(())
}

/// Handles SCAN.
fn scan(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let cursor = scan_cursor(arguments[1])?;
    let options = ScanOptions::parse(&arguments[2..], true)?;
    let (mut found, mut complex) = (Ranges::new(), None);
    let next = context.store.scan(
        context.database(),
        cursor,
        options.count,
        |_, entry| Ok(Some(entry.value_type()?)),
        |key, key_type| {
            let wanted = options
                .kind
                .is_none_or(|kind| is_keyword(kind, key_type.name()));
            match options.matches(key) {
                Ok(true) if wanted => found.push(key),
                Ok(_) => {}
                Err(error) => complex = Some(error),
            }
        },
    )?;
    if complex.is_some() {
        return Err(TOO_COMPLEX.into());
    }
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.array(found.len());
    reply.bulks(&found);
    Ok(())
}

/// Handles RANDOMKEY.
fn randomkey(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let key = context.store.random_key(context.database(), chance())?;
    reply.bulk_or_null(key.as_deref());
    Ok(())
}

/// Handles RENAME.
fn rename(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let (from, to) = (store.key(arguments[1]), store.key(arguments[2]));
    store.write(store.shards_of([&from, &to]), |writer| {
        if writer.rename(database, &from, &to)? {
            Ok(())
        } else {
            Err(Failure::from(CommandError::NO_SUCH_KEY))
        }
    })?;
    note_renamed(store, &from, &to);
    reply.ok();
    Ok(())
}

/// Records an access to the key under its new name, which inherits the access frequency recorded
/// for the old name.
fn note_renamed(store: Access<'_>, from: &Key<'_>, to: &Key<'_>) {
    if store.eviction().policy.is_lfu() && from.bytes() != to.bytes() {
        store.set_frequency(to, store.frequency(from));
    }
    store.note_use(to);
}

/// Handles RENAMENX.
fn renamenx(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let (from, to) = (store.key(arguments[1]), store.key(arguments[2]));
    let renamed = store.write(store.shards_of([&from, &to]), |writer| {
        if writer.find(database, &from)?.is_none() {
            return Err(Failure::from(CommandError::NO_SUCH_KEY));
        }
        if writer.find(database, &to)?.is_some() {
            return Ok(false);
        }
        Ok(writer.rename(database, &from, &to)?)
    })?;
    if renamed {
        note_renamed(store, &from, &to);
    } else {
        store.note_use(&from);
    }
    reply.integer(renamed.into());
    Ok(())
}

/// Handles COPY.
fn copy(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let (mut target, mut replace) = (database, false);
    let mut rest = &arguments[3..];
    while let [option, behind @ ..] = rest {
        rest = behind;
        if is_keyword(option, "REPLACE") {
            replace = true;
        } else if let (true, [number, behind @ ..]) = (is_keyword(option, "DB"), rest) {
            target = database_number(number)?;
            rest = behind;
        } else {
            return Err(CommandError::SYNTAX.into());
        }
    }
    if target == database && arguments[1] == arguments[2] {
        return Err(SAME.into());
    }
    let (from, to) = (store.key(arguments[1]), store.key(arguments[2]));
    let copied = store.write(store.shards_of([&from, &to]), |writer| {
        if writer.find(database, &from)?.is_none() {
            writer.tell(KeyEvent::KeyMiss, database, &from);
            return Ok(false);
        }
        if writer.find(target, &to)?.is_some() {
            if !replace {
                return Ok(false);
            }
            writer.remove_quietly(target, &to)?;
        }
        Ok::<_, Failure>(writer.copy((database, &from), (target, &to))?)
    })?;
    if copied {
        store.note_use(&from);
    }
    reply.integer(copied.into());
    Ok(())
}

/// Handles MOVE.
fn move_key(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let target = database_number(arguments[2])?;
    if target == database {
        return Err(SAME.into());
    }
    let key = store.key(arguments[1]);
    let moved = store.write(store.shards_of([&key]), |writer| {
        if writer.find(target, &key)?.is_some() {
            return Ok(false);
        }
        Ok::<_, Failure>(writer.move_to(&key, database, target)?)
    })?;
    reply.integer(moved.into());
    Ok(())
}
