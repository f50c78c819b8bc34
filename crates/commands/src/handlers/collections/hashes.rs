//! Implements the hash commands.

use undercroft_engine::events::KeyEvent;
use undercroft_engine::hashes::{Hash, Parts};
use undercroft_engine::{Error, Key, PackedLimits, Random, Ranges, Reader, chance};
use undercroft_numbers::parse_integer;

use crate::algorithms::extended::Extended;
use crate::arguments::{CommandError, float, integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::handlers::collections::sampling::{random_count, sample_bounded, sampled};
use crate::handlers::scan::scan_collection;
use crate::protocol::Protocol;
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("hset", hset),
    ("hsetnx", hsetnx),
    ("hmset", hmset),
    ("hget", hget),
    ("hmget", hmget),
    ("hgetall", hgetall),
    ("hdel", hdel),
    ("hexists", hexists),
    ("hlen", hlen),
    ("hkeys", hkeys),
    ("hvals", hvals),
    ("hstrlen", hstrlen),
    ("hincrby", hincrby),
    ("hincrbyfloat", hincrbyfloat),
    ("hrandfield", hrandfield),
    ("hscan", hscan),
];

/// Returns the configured size limits of packed hashes.
fn limits(context: &Context<'_>) -> PackedLimits {
    context.host.config().limits().hash
}

/// Handles HSET.
fn hset(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let new = set(context, arguments, "hset")?;
    reply.integer(new as i64);
    Ok(())
}

/// Handles HMSET.
fn hmset(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    set(context, arguments, "hmset")?;
    reply.ok();
    Ok(())
}

fn set(context: &mut Context<'_>, arguments: &[&[u8]], name: &str) -> Result<u64, Failure> {
    let pairs = &arguments[2..];
    if !pairs.len().is_multiple_of(2) {
        return Err(CommandError::wrong_arity(name).into());
    }
    let (store, database, limits) = (context.store, context.database(), limits(context));
    let key = store.key(arguments[1]);
    let new = store.write(store.shards_of([&key]), |writer| {
        Ok::<_, Failure>(writer.hash_set(database, &key, pairs, &limits)?)
    })?;
    store.note_use(&key);
    Ok(new)
}

/// Handles HSETNX.
fn hsetnx(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database, limits) = (context.store, context.database(), limits(context));
    let (key, field) = (store.key(arguments[1]), store.key(arguments[2]));
    let set = store.write(store.shards_of([&key]), |writer| {
        if let Some(hash) = writer.hash(database, &key)?
            && hash.contains(writer.view(), &field)?
        {
            return Ok(false);
        }
        writer.hash_set(database, &key, &arguments[2..4], &limits)?;
        Ok::<_, Failure>(true)
    })?;
    store.note_use(&key);
    reply.integer(set.into());
    Ok(())
}

/// Handles HGET.
fn hget(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let (key, field) = (store.key(arguments[1]), store.key(arguments[2]));
    let scratch = &mut context.session.read_buffers.text;
    let found = store.read_into(store.shards_of([&key]), scratch, |reader, scratch| {
        reader.hash_get(database, &key, &field, scratch)
    })?;
    context.looked_up(&key, found.is_some());
    reply.bulk_or_null((found == Some(true)).then_some(&context.session.read_buffers.text));
    Ok(())
}

/// Calls `body` on the hash at a key. Returns `None` if the key does not exist.
fn read<R>(
    context: &mut Context<'_>,
    key: &[u8],
    body: impl Fn(&Reader<'_, '_>, &Hash) -> Result<R, Error> + Sync,
) -> Result<Option<R>, Failure> {
    let database = context.database();
    context.look_at(key, |reader, key| match reader.hash(database, key)? {
        None => Ok(None),
        Some(hash) => Ok(Some(body(reader, &hash)?)),
    })
}

/// Handles HMGET.
fn hmget(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let fields: Vec<Key<'_>> = context.keys(&arguments[2..]);
    let values = read(context, arguments[1], |reader, hash| {
        let (mut texts, mut there) = (Ranges::new(), Vec::with_capacity(fields.len()));
        for (position, field) in fields.iter().enumerate() {
            hash.warm_ahead(reader.view(), &fields, position);
            there.push(texts.push_with(|out| hash.get(reader.view(), field, out))?);
        }
        Ok((texts, there))
    })?;
    let (texts, there) = values.unwrap_or_default();
    reply.array(fields.len());
    for index in 0..fields.len() {
        let there = there.get(index) == Some(&true);
        reply.bulk_or_null(there.then(|| texts.get(index)));
    }
    Ok(())
}

fn all(context: &mut Context<'_>, key: &[u8], parts: Parts) -> Result<Ranges, Failure> {
    let texts = read(context, key, |reader, hash| {
        let mut texts = Ranges::new();
        hash.append_all(reader.view(), parts, &mut texts)?;
        Ok(texts)
    })?;
    Ok(texts.unwrap_or_default())
}

/// Handles HGETALL.
fn hgetall(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let texts = all(context, arguments[1], Parts::Both)?;
    reply.map(texts.len() / 2);
    reply.bulks(&texts);
    Ok(())
}

/// Handles HKEYS.
fn hkeys(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let texts = all(context, arguments[1], Parts::Fields)?;
    reply.array(texts.len());
    reply.bulks(&texts);
    Ok(())
}

/// Handles HVALS.
fn hvals(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let texts = all(context, arguments[1], Parts::Values)?;
    reply.array(texts.len());
    reply.bulks(&texts);
    Ok(())
}

/// Handles HDEL.
fn hdel(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let removed = store.write(store.shards_of([&key]), |writer| {
        writer.hash_delete(database, &key, &arguments[2..])
    })?;
    store.note_use(&key);
    reply.integer(removed as i64);
    Ok(())
}

/// Handles HEXISTS.
fn hexists(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let field = context.store.key(arguments[2]);
    let there = read(context, arguments[1], |reader, hash| {
        hash.contains(reader.view(), &field)
    })?;
    reply.integer(there.unwrap_or(false).into());
    Ok(())
}

/// Handles HLEN.
fn hlen(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let length = read(context, arguments[1], |reader, hash| {
        hash.length(reader.view())
    })?;
    reply.integer(length.unwrap_or(0) as i64);
    Ok(())
}

/// Handles HSTRLEN.
fn hstrlen(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let field = context.store.key(arguments[2]);
    let length = read(context, arguments[1], |reader, hash| {
        hash.value_length(reader.view(), &field)
    })?;
    reply.integer(length.unwrap_or(0) as i64);
    Ok(())
}

/// Handles HINCRBY.
fn hincrby(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    const NOT_AN_INTEGER: CommandError = CommandError::fixed("ERR hash value is not an integer");
    let change = integer(arguments[3])?;
    let sum = change_value(context, arguments, KeyEvent::HIncrBy, |old| {
        let old = match old {
            None => 0,
            Some(text) => parse_integer(text).ok_or(NOT_AN_INTEGER)?,
        };
        let sum = old.checked_add(change).ok_or(CommandError::OVERFLOW)?;
        Ok((sum, sum.to_string()))
    })?;
    reply.integer(sum);
    Ok(())
}

/// Handles HINCRBYFLOAT.
fn hincrbyfloat(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    const NOT_A_FLOAT: CommandError = CommandError::fixed("ERR hash value is not a float");
    let change = float(arguments[3])?;
    if change.is_infinite() {
        return Err(CommandError::fixed("ERR value is NaN or Infinity").into());
    }
    let sum = change_value(context, arguments, KeyEvent::HIncrByFloat, |old| {
        let old = match old {
            None => Extended::from_integer(0),
            Some(text) => Extended::parse(text).ok_or(NOT_A_FLOAT)?,
        };
        let sum = old
            .checked_add(change)
            .ok_or(CommandError::NAN_OR_INFINITY)?;
        let sum = sum.text();
        Ok((sum.clone(), sum))
    })?;
    reply.bulk(sum.as_bytes());
    Ok(())
}

/// Replaces the value of a field with the string that `new` computes from the old value.
fn change_value<R>(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    event: KeyEvent,
    new: impl Fn(Option<&[u8]>) -> Result<(R, String), CommandError> + Sync,
) -> Result<R, Failure> {
    let (store, database, limits) = (context.store, context.database(), limits(context));
    let (key, field) = (store.key(arguments[1]), store.key(arguments[2]));
    let scratch = &mut context.session.read_buffers.text;
    let result = store.write_into(store.shards_of([&key]), scratch, |writer, scratch| {
        let there = match writer.hash(database, &key)? {
            Some(hash) => hash.get(writer.view(), &field, scratch)?,
            None => false,
        };
        let (result, text) = new(there.then_some(scratch.as_slice()))?;
        let pair = [arguments[2], text.as_bytes()];
        writer.tell_as(event, database, &key, |writer| {
            writer.hash_set(database, &key, &pair, &limits)
        })?;
        Ok::<_, Failure>(result)
    })?;
    store.note_use(&key);
    Ok(result)
}

/// Handles HRANDFIELD.
fn hrandfield(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let count = match arguments.get(2) {
        None => None,
        Some(count) => Some(random_count(count)?),
    };
    let with_values = match (&arguments[2..], count) {
        ([] | [_], _) => false,
        ([_, word], Some(count)) if is_keyword(word, "WITHVALUES") => {
            if count > i64::MAX / 2 {
                return Err(CommandError::fixed("ERR value is out of range").into());
            }
            true
        }
        _ => return Err(CommandError::SYNTAX.into()),
    };
    let seed = chance();
    let sample = read(context, arguments[1], |reader, hash| {
        let (mut texts, mut random) = (Ranges::new(), Random::new(seed));
        let has_room = sample_bounded(count.unwrap_or(1), |count| {
            hash.sample(reader.view(), &mut random, count, &mut texts)?;
            Ok(texts.byte_length())
        })?;
        Ok(has_room.then_some(texts))
    })?;
    let texts = sampled(sample)?;
    let pairs = texts.len() / 2;
    if count.is_none() {
        reply.bulk_or_null(texts.iter().next());
        return Ok(());
    }
    let nested = with_values && context.session.protocol == Protocol::Resp3;
    reply.array(if with_values && !nested {
        pairs * 2
    } else {
        pairs
    });
    for (index, text) in texts.iter().enumerate() {
        if nested && index % 2 == 0 {
            reply.array(2);
        }
        if with_values || index % 2 == 0 {
            reply.bulk(text);
        }
    }
    Ok(())
}

/// Handles HSCAN.
fn hscan(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let database = context.database();
    scan_collection(
        context,
        arguments,
        2,
        reply,
        |reader, key, cursor, count, out| match reader.hash(database, key)? {
            None => Ok(None),
            Some(hash) => Ok(Some(hash.scan(reader.view(), cursor, count, out)?)),
        },
    )
}
