//! Implements the set commands.

use undercroft_engine::events::KeyEvent;
use undercroft_engine::sets::{NewMembers, Set, SetOperation};
use undercroft_engine::{Error, Key, Random, Ranges, Reader, chance};
use undercroft_numbers::parse_integer;

use crate::arguments::{CommandError, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::handlers::collections::sampling::{random_count, sample_bounded, sampled};
use crate::handlers::scan::scan_collection;
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("sadd", sadd),
    ("srem", srem),
    ("sismember", sismember),
    ("smismember", smismember),
    ("scard", scard),
    ("smembers", smembers),
    ("spop", spop),
    ("srandmember", srandmember),
    ("smove", smove),
    ("sinter", sinter),
    ("sinterstore", sinterstore),
    ("sintercard", sintercard),
    ("sunion", sunion),
    ("sunionstore", sunionstore),
    ("sdiff", sdiff),
    ("sdiffstore", sdiffstore),
    ("sscan", sscan),
];

/// Returns the configured maximum size of a packed set of integers.
fn integers(context: &Context<'_>) -> u64 {
    context.host.config().limits().integers
}

/// Handles SADD.
fn sadd(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database, integers) = (context.store, context.database(), integers(context));
    let key = store.key(arguments[1]);
    let new = store.write(store.shards_of([&key]), |writer| {
        writer.set_add(database, &key, &arguments[2..], integers)
    })?;
    store.note_use(&key);
    reply.integer(new as i64);
    Ok(())
}

/// Handles SREM.
fn srem(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let removed = store.write(store.shards_of([&key]), |writer| {
        writer.set_remove(database, &key, &arguments[2..])
    })?;
    store.note_use(&key);
    reply.integer(removed as i64);
    Ok(())
}

/// Calls `body` on the set at a key. Returns `None` if the key does not exist.
fn read<R>(
    context: &mut Context<'_>,
    key: &[u8],
    body: impl Fn(&Reader<'_, '_>, &Set) -> Result<R, Error> + Sync,
) -> Result<Option<R>, Failure> {
    let database = context.database();
    context.look_at(key, |reader, key| match reader.set(database, key)? {
        None => Ok(None),
        Some(set) => Ok(Some(body(reader, &set)?)),
    })
}

/// Handles SISMEMBER.
fn sismember(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let member = context.store.key(arguments[2]);
    let there = read(context, arguments[1], |reader, set| {
        set.contains(reader.view(), &member)
    })?;
    reply.integer(there.unwrap_or(false).into());
    Ok(())
}

/// Handles SMISMEMBER.
fn smismember(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let members: Vec<Key<'_>> = context.keys(&arguments[2..]);
    let there = read(context, arguments[1], |reader, set| {
        let there = members.iter().enumerate().map(|(position, member)| {
            set.warm_ahead(reader.view(), &members, position);
            set.contains(reader.view(), member)
        });
        there.collect::<Result<Vec<bool>, Error>>()
    })?;
    let there = there.unwrap_or_else(|| vec![false; members.len()]);
    reply.array(there.len());
    there
        .iter()
        .for_each(|there| reply.integer((*there).into()));
    Ok(())
}

/// Handles SCARD.
fn scard(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let length = read(context, arguments[1], |reader, set| {
        set.length(reader.view())
    })?;
    reply.integer(length.unwrap_or(0) as i64);
    Ok(())
}

/// Handles SMEMBERS.
fn smembers(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let texts = read(context, arguments[1], |reader, set| {
        let mut texts = Ranges::new();
        set.append_all(reader.view(), &mut texts)?;
        Ok(texts)
    })?;
    write_set(&texts.unwrap_or_default(), reply);
    Ok(())
}

fn write_set(texts: &Ranges, reply: &mut dyn Reply) {
    reply.set(texts.len());
    reply.bulks(texts);
}

/// Handles SPOP.
fn spop(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    const NEGATIVE: CommandError =
        CommandError::fixed("ERR value is out of range, must be positive");
    let count = match arguments {
        [_, _] => None,
        [_, _, count] => {
            let count = parse_integer(count).and_then(|count| u64::try_from(count).ok());
            Some(count.ok_or(NEGATIVE)?)
        }
        _ => return Err(CommandError::SYNTAX.into()),
    };
    let (store, database) = (context.store, context.database());
    let mut texts = Ranges::new();
    store.set_pop(database, arguments[1], count.unwrap_or(1), &mut texts)?;
    match count {
        None => reply.bulk_or_null(texts.iter().next()),
        Some(_) => write_set(&texts, reply),
    }
    Ok(())
}

/// Handles SRANDMEMBER.
fn srandmember(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let count = match arguments {
        [_, _] => None,
        [_, _, count] => Some(random_count(count)?),
        _ => return Err(CommandError::SYNTAX.into()),
    };
    let seed = chance();
    let sample = read(context, arguments[1], |reader, set| {
        let (mut texts, mut random) = (Ranges::new(), Random::new(seed));
        let has_room = sample_bounded(count.unwrap_or(1), |count| {
            set.sample(reader.view(), &mut random, count, &mut texts)?;
            Ok(texts.byte_length())
        })?;
        Ok(has_room.then_some(texts))
    })?;
    let texts = sampled(sample)?;
    if count.is_none() {
        reply.bulk_or_null(texts.iter().next());
        return Ok(());
    }
    reply.array(texts.len());
    reply.bulks(&texts);
    Ok(())
}

/// Handles SMOVE.
fn smove(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database, integers) = (context.store, context.database(), integers(context));
    let (from, to) = (store.key(arguments[1]), store.key(arguments[2]));
    let member = arguments[3];
    let looked_up = store.key(member);
    let moved = store.write(store.shards_of([&from, &to]), |writer| {
        let Some(source) = writer.find_set(database, &from)? else {
            return Ok(false);
        };
        writer.find_set(database, &to)?;
        if from.bytes() == to.bytes() {
            return source.contains(writer.view(), &looked_up);
        }
        if writer.set_remove(database, &from, &[member])? == 0 {
            return Ok(false);
        }
        writer.set_add(database, &to, &[member], integers)?;
        Ok::<_, Error>(true)
    })?;
    store.note_use(&from);
    store.note_use(&to);
    reply.integer(moved.into());
    Ok(())
}

/// Returns the intersection, union or difference of several sets.
fn combined(
    context: &mut Context<'_>,
    keys: &[&[u8]],
    operation: SetOperation,
    limit: usize,
) -> Result<Ranges, Failure> {
    let (store, database) = (context.store, context.database());
    let keys = context.keys(keys);
    let (texts, found) = store.read(store.shards_of(&keys), |reader| {
        let mut texts = Ranges::new();
        reader.combine_sets(database, &keys, operation, limit, &mut texts)?;
        let found = keys
            .iter()
            .map(|key| Ok(reader.find(database, key)?.is_some()));
        let found = found.collect::<Result<Vec<bool>, Error>>()?;
        Ok::<_, Failure>((texts, found))
    })?;
    for (key, found) in keys.iter().zip(found) {
        context.looked_up(key, found);
    }
    Ok(texts)
}

/// Stores the intersection, union or difference of several sets, and replies with the number of
/// members.
fn store_combined(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    operation: SetOperation,
    reply: &mut dyn Reply,
) -> Outcome {
    let (store, database, integers) = (context.store, context.database(), integers(context));
    let all = context.keys(&arguments[1..]);
    let (to, keys) = (&all[0], &all[1..]);
    // Combine large sets before acquiring the locks. The result is stored only if the sets have not
    // changed in the meantime.
    let gathered = store.gather(database, keys)?;
    let apart = gathered.and_then(|gathered| {
        let members = gathered.combine(store.store(), operation)?;
        Some((gathered, members))
    });
    let handle = store.store();
    let apart = apart
        .as_ref()
        .map(|(gathered, members)| (gathered, NewMembers::of(handle, members)));
    let mut texts = Ranges::new();
    let length = store.write_into(store.shards_of(&all), &mut texts, |writer, texts| {
        let apart = match &apart {
            Some((gathered, members)) if gathered.still_holds(writer)? => Some(members),
            _ => None,
        };
        let found;
        let (members, integers) = match apart {
            Some(members) => (
                members,
                writer.combined_sets(database, keys, operation, integers)?,
            ),
            None => {
                let integers = writer.combine_sets(database, keys, operation, integers, texts)?;
                found = NewMembers::of(handle, texts);
                (&found, integers)
            }
        };
        for key in keys {
            if writer.find(database, key)?.is_none() {
                writer.tell(KeyEvent::KeyMiss, database, key);
            }
        }
        let event = match operation {
            SetOperation::Intersection => KeyEvent::SInterStore,
            SetOperation::Union => KeyEvent::SUnionStore,
            SetOperation::Difference => KeyEvent::SDiffStore,
        };
        writer.tell_as(event, database, to, |writer| {
            writer.set_store(database, to, members, integers)
        })?;
        Ok::<_, Error>(members.len())
    })?;
    all.iter().for_each(|key| store.note_use(key));
    reply.integer(length as i64);
    Ok(())
}

/// Handles SINTER.
fn sinter(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let operation = SetOperation::Intersection;
    write_set(
        &combined(context, &arguments[1..], operation, usize::MAX)?,
        reply,
    );
    Ok(())
}

/// Handles SINTERSTORE.
fn sinterstore(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    store_combined(context, arguments, SetOperation::Intersection, reply)
}

/// Handles SUNION.
fn sunion(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let operation = SetOperation::Union;
    write_set(
        &combined(context, &arguments[1..], operation, usize::MAX)?,
        reply,
    );
    Ok(())
}

/// Handles SUNIONSTORE.
fn sunionstore(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    store_combined(context, arguments, SetOperation::Union, reply)
}

/// Handles SDIFF.
fn sdiff(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let operation = SetOperation::Difference;
    write_set(
        &combined(context, &arguments[1..], operation, usize::MAX)?,
        reply,
    );
    Ok(())
}

/// Handles SDIFFSTORE.
fn sdiffstore(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    store_combined(context, arguments, SetOperation::Difference, reply)
}

/// Handles SINTERCARD.
fn sintercard(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    const NO_KEYS: CommandError = CommandError::fixed("ERR numkeys should be greater than 0");
    const TOO_MANY: CommandError =
        CommandError::fixed("ERR Number of keys can't be greater than number of args");
    const NEGATIVE: CommandError = CommandError::fixed("ERR LIMIT can't be negative");
    let number = parse_integer(arguments[1]).and_then(|number| usize::try_from(number).ok());
    let number = number.filter(|number| *number > 0).ok_or(NO_KEYS)?;
    if number > arguments.len() - 2 {
        return Err(TOO_MANY.into());
    }
    let (keys, mut rest) = arguments[2..].split_at(number);
    let mut limit = 0;
    while let [option, value, behind @ ..] = rest {
        if !is_keyword(option, "LIMIT") {
            return Err(CommandError::SYNTAX.into());
        }
        let value = parse_integer(value).and_then(|value| usize::try_from(value).ok());
        limit = value.ok_or(NEGATIVE)?;
        rest = behind;
    }
    if !rest.is_empty() {
        return Err(CommandError::SYNTAX.into());
    }
    let limit = if limit == 0 { usize::MAX } else { limit };
    let members = combined(context, keys, SetOperation::Intersection, limit)?;
    reply.integer(members.len() as i64);
    Ok(())
}

/// Handles SSCAN.
fn sscan(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let database = context.database();
    scan_collection(
        context,
        arguments,
        1,
        reply,
        |reader, key, cursor, count, out| match reader.set(database, key)? {
            None => Ok(None),
            Some(set) => Ok(Some(set.scan(reader.view(), cursor, count, out)?)),
        },
    )
}
