//! Implements PFADD, PFCOUNT and PFMERGE, which count distinct elements approximately.

use std::time::Duration;

use undercroft_engine::events::KeyEvent;
use undercroft_engine::{Encoding as TextEncoding, Entry, View, limit_patience};

use crate::algorithms::hyperloglog as hll;
use crate::algorithms::hyperloglog::{Corrupt, Encoding, REGISTERS};
use crate::arguments::{CommandError, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("pfadd", pfadd),
    ("pfcount", pfcount),
    ("pfmerge", pfmerge),
    ("pfdebug", pfdebug),
    ("pfselftest", pfselftest),
];

const INVALID: CommandError =
    CommandError::fixed("WRONGTYPE Key is not a valid HyperLogLog string value.");

impl From<Corrupt> for Failure {
    fn from(_: Corrupt) -> Failure {
        CommandError::fixed("INVALIDOBJ Corrupted HLL object detected").into()
    }
}

/// Returns the configured maximum size of a sparse HyperLogLog in bytes.
fn sparse_max(context: &Context<'_>) -> usize {
    let bytes = context.host.config().integer("hll-sparse-max-bytes");
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Loads the HyperLogLog stored in `entry`. Returns `None` if `entry` is `None`. Rejects a value
/// with an invalid header before reading its body.
fn load(entry: Option<&Entry>, view: &View<'_>) -> Result<Option<Vec<u8>>, Failure> {
    let Some(entry) = entry else {
        return Ok(None);
    };
    let text = entry.text(view)?;
    let (mut value, length) = (Vec::new(), text.length());
    text.append_range(view, 0, length.min(hll::HEADER as u64), &mut value)?;
    if hll::encoding_of(&value, length).is_none() {
        return Err(INVALID.into());
    }
    value.clear();
    text.append_to(view, &mut value)?;
    // Check the header of the copy too, because the previous read without a lock may have seen a
    // different value.
    if hll::encoding(&value).is_none() {
        return Err(INVALID.into());
    }
    Ok(Some(value))
}

/// Handles PFADD.
fn pfadd(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let sparse_max = sparse_max(context);
    let changed = store.write(store.shards_of([&key]), |writer| {
        let entry = writer.find(database, &key)?;
        let old = load(entry.as_ref(), writer.view())?;
        let mut changed = old.is_none();
        let mut value = old.unwrap_or_else(hll::new);
        for element in &arguments[2..] {
            changed |= hll::add(&mut value, element, sparse_max)?;
        }
        if changed {
            hll::void_count(&mut value);
            writer.set_raw(database, &key, &value)?;
            writer.tell(KeyEvent::PfAdd, database, &key);
        } else {
            // As in Redis, PFADD converts the value to a raw string even if nothing changes.
            writer.bit_string(database, &key, 0)?;
        }
        Ok::<_, Failure>(changed)
    })?;
    store.note_use(&key);
    reply.integer(changed.into());
    Ok(())
}

/// Handles PFCOUNT.
fn pfcount(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let keys = context.keys(&arguments[1..]);
    if let [key] = keys.as_slice() {
        let found = store.read(store.shards_of([key]), |reader| {
            let entry = reader.find(database, key)?;
            let value = load(entry.as_ref(), reader.view())?;
            let encoding = entry.map(|entry| entry.encoding()).transpose()?;
            Ok::<_, Failure>(value.zip(encoding))
        })?;
        context.looked_up(key, found.is_some());
        let count = match found {
            None => 0,
            Some((value, encoding)) => {
                match hll::cached_count(&value) {
                    // As in Redis, PFCOUNT converts a value in any other encoding to a raw string.
                    Some(count) if encoding == TextEncoding::Raw => count,
                    cached => count_and_cache(context, arguments[1], &value, cached)?,
                }
            }
        };
        reply.integer(count as i64);
        return Ok(());
    }
    let (registers, found) = store.read(store.shards_of(&keys), |reader| {
        let mut registers = Box::new([0; REGISTERS]);
        let mut found = Vec::with_capacity(keys.len());
        for key in &keys {
            let entry = reader.find(database, key)?;
            let value = load(entry.as_ref(), reader.view())?;
            found.push(value.is_some());
            if let Some(value) = value {
                hll::merge(&mut registers, &value)?;
            }
        }
        Ok::<_, Failure>((registers, found))
    })?;
    for (key, found) in keys.iter().zip(found) {
        context.looked_up(key, found);
    }
    reply.integer(hll::count_registers(&registers) as i64);
    Ok(())
}

/// Counts the elements, and caches the result in the value if the store can be written immediately.
/// Otherwise the result is not cached, because a reader must neither wait for a writer (R9) nor
/// fail because the store is full.
fn count_and_cache(
    context: &Context<'_>,
    key: &[u8],
    seen: &[u8],
    cached: Option<u64>,
) -> Result<u64, Failure> {
    let (store, database) = (context.store, context.database());
    let key = store.key(key);
    let count = match cached {
        Some(count) => count,
        None => hll::count(seen)?,
    };
    let _limited = limit_patience(Duration::ZERO);
    let cached = store.write(store.shards_of([&key]), |writer| {
        let entry = writer.find(database, &key)?;
        let mut value = Vec::new();
        if let Some(entry) = entry {
            entry
                .text(writer.view())?
                .append_to(writer.view(), &mut value)?;
        }
        // Cache the count only if the value has not changed since it was counted.
        if value == seen {
            if cached.is_none() {
                hll::cache_count(&mut value, count);
                writer.set_raw(database, &key, &value)?;
            } else {
                writer.bit_string(database, &key, 0)?;
            }
        }
        Ok::<_, undercroft_engine::Error>(())
    });
    match cached {
        Err(error) if !error.is_read_only() && !error.is_busy() && !error.is_out_of_memory() => {
            Err(error.into())
        }
        _ => Ok(count),
    }
}

/// Handles PFMERGE.
fn pfmerge(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let keys = context.keys(&arguments[1..]);
    let sparse_max = sparse_max(context);
    store.write(store.shards_of(&keys), |writer| {
        let mut registers = Box::new([0; REGISTERS]);
        let (mut target, mut dense) = (None, false);
        for (number, key) in keys.iter().enumerate() {
            let entry = writer.find(database, key)?;
            let Some(value) = load(entry.as_ref(), writer.view())? else {
                writer.tell(KeyEvent::KeyMiss, database, key);
                continue;
            };
            dense |= hll::encoding(&value) == Some(Encoding::Dense);
            hll::merge(&mut registers, &value)?;
            if number == 0 {
                target = Some(value);
            }
        }
        let mut target = target.unwrap_or_else(hll::new);
        if dense {
            hll::make_dense(&mut target)?;
        }
        for (index, &value) in registers.iter().enumerate() {
            if value > 0 {
                hll::raise(&mut target, index, value, sparse_max)?;
            }
        }
        hll::void_count(&mut target);
        writer.set_raw(database, &keys[0], &target)?;
        writer.tell(KeyEvent::PfAdd, database, &keys[0]);
        Ok::<_, Failure>(())
    })?;
    keys.iter().for_each(|key| store.note_use(key));
    reply.ok();
    Ok(())
}

/// Handles PFDEBUG.
fn pfdebug(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (what, store, database) = (arguments[1], context.store, context.database());
    let key = store.key(arguments[2]);
    let densifies = is_keyword(what, "GETREG") || is_keyword(what, "TODENSE");
    let (value, was_sparse) = store.write(store.shards_of([&key]), |writer| {
        let entry = writer.find(database, &key)?;
        let Some(mut value) = load(entry.as_ref(), writer.view())? else {
            const MISSING: CommandError =
                CommandError::fixed("ERR The specified key does not exist");
            return Err(MISSING.into());
        };
        let was_sparse = densifies && hll::make_dense(&mut value)?;
        if was_sparse {
            writer.set_raw(database, &key, &value)?;
        } else {
            writer.bit_string(database, &key, 0)?;
        }
        Ok::<_, Failure>((value, was_sparse))
    })?;
    let sparse = hll::encoding(&value) == Some(Encoding::Sparse);
    if is_keyword(what, "GETREG") {
        let registers = hll::registers(&value)?;
        reply.array(registers.len());
        registers
            .iter()
            .for_each(|&register| reply.integer(register.into()));
    } else if is_keyword(what, "DECODE") && sparse {
        reply.bulk(hll::describe(&value).as_bytes());
    } else if is_keyword(what, "DECODE") {
        return Err(CommandError::fixed("ERR HLL encoding is not sparse").into());
    } else if is_keyword(what, "ENCODING") {
        let encoding = hll::encoding(&value).map_or("", Encoding::name);
        reply.simple(encoding);
    } else if is_keyword(what, "TODENSE") {
        reply.integer(was_sparse.into());
    } else {
        return Err(CommandError::quoting("ERR Unknown PFDEBUG subcommand ", what, "").into());
    }
    Ok(())
}

/// Handles PFSELFTEST. Uses generated elements to check that sparse and dense values have the same
/// registers and yield accurate estimates.
fn pfselftest(_: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    const ELEMENTS: u32 = 10_000;
    let (mut sparse, mut dense) = (hll::new(), hll::new());
    hll::make_dense(&mut dense)?;
    for number in 0..ELEMENTS {
        let element = number.to_le_bytes();
        let raised = hll::add(&mut sparse, &element, usize::MAX)?;
        if hll::add(&mut dense, &element, 0)? != raised {
            let text = format!("ERR TESTFAILED element {number} raised one encoding only");
            return Err(CommandError::new(text).into());
        }
    }
    let (one, other) = (hll::count(&sparse)?, hll::count(&dense)?);
    let error = one.abs_diff(u64::from(ELEMENTS));
    if one != other || error > u64::from(ELEMENTS) / 20 {
        let text = format!("ERR TESTFAILED estimates of {ELEMENTS} are {one} and {other}");
        return Err(CommandError::new(text).into());
    }
    reply.ok();
    Ok(())
}
