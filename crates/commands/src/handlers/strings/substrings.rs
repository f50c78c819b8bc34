//! Implements the commands for substrings and floating-point counters, as well as LCS.

use undercroft_engine::events::KeyEvent;
use undercroft_engine::strings::STRING_MAX;
use undercroft_engine::{Expiry, Key, Writer};

use crate::algorithms::extended::Extended;
use crate::algorithms::lcs;
use crate::arguments::{CommandError, float, integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("append", append),
    ("strlen", strlen),
    ("getrange", getrange),
    ("setrange", setrange),
    ("substr", getrange),
    ("incrbyfloat", incrbyfloat),
    ("lcs", lcs),
];

/// The minimum value of `proto-max-bulk-len`, in bytes. A shorter string is always allowed, so it
/// needs no configuration lookup.
const ALWAYS_ALLOWED: u64 = 1 << 20;

/// Handles APPEND.
fn append(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let limits = Limits::of(context);
    let length = store.write(store.shards_of([&key]), |writer| {
        let old = text_length(writer, database, &key)?;
        if let Some(old) = old {
            limits.check(old + arguments[2].len() as u64)?;
        }
        Ok::<_, Failure>(writer.append(database, &key, arguments[2])?)
    })?;
    store.note_use(&key);
    reply.integer(length as i64);
    Ok(())
}

/// The limits on string length, read from the configuration.
struct Limits<'a>(&'a crate::config::Config);

impl<'a> Limits<'a> {
    fn of(context: &Context<'a>) -> Limits<'a> {
        Limits(context.host.config())
    }

    fn longest(&self) -> u64 {
        let configured = self.0.integer("proto-max-bulk-len").unsigned_abs();
        configured.min(STRING_MAX)
    }

    fn check(&self, length: u64) -> Result<(), CommandError> {
        if length <= ALWAYS_ALLOWED || length <= self.longest() {
            Ok(())
        } else {
            Err(CommandError::STRING_TOO_LONG)
        }
    }
}

fn text_length(
    writer: &mut Writer<'_, '_>,
    database: usize,
    key: &Key<'_>,
) -> Result<Option<u64>, Failure> {
    match writer.find(database, key)? {
        None => Ok(None),
        Some(entry) => Ok(Some(entry.text(writer.view())?.length())),
    }
}

/// Handles STRLEN.
fn strlen(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let length = store.read(store.shards_of([&key]), |reader| {
        match reader.find(database, &key)? {
            None => Ok(None),
            Some(entry) => Ok::<_, Failure>(Some(entry.text(reader.view())?.length())),
        }
    })?;
    context.looked_up(&key, length.is_some());
    reply.integer(length.unwrap_or(0) as i64);
    Ok(())
}

/// Handles GETRANGE and SUBSTR.
fn getrange(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (start, end) = (integer(arguments[2])?, integer(arguments[3])?);
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let scratch = &mut context.session.read_buffers.text;
    let found = store.read_into(store.shards_of([&key]), scratch, |reader, scratch| {
        let Some(entry) = reader.find(database, &key)? else {
            return Ok(false);
        };
        let text = entry.text(reader.view())?;
        if let Some((start, end)) = range(start, end, text.length()) {
            text.append_range(reader.view(), start, end, scratch)?;
        }
        Ok::<_, Failure>(true)
    })?;
    context.looked_up(&key, found);
    reply.bulk(&context.session.read_buffers.text);
    Ok(())
}

/// Converts the range of a GETRANGE command to the byte range `start..end` in a string of the given
/// length. Returns `None` if the range is empty.
fn range(start: i64, end: i64, length: u64) -> Option<(u64, u64)> {
    let length = i64::try_from(length).ok()?;
    if start < 0 && end < 0 && start > end {
        return None;
    }
    let from_end = |position: i64| {
        if position < 0 {
            (length + position).max(0)
        } else {
            position
        }
    };
    let (start, end) = (from_end(start), from_end(end).min(length - 1));
    (start <= end).then(|| (start.unsigned_abs(), end.unsigned_abs() + 1))
}

/// Handles SETRANGE.
fn setrange(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let position = integer(arguments[2])?;
    let position =
        u64::try_from(position).map_err(|_| CommandError::fixed("ERR offset is out of range"))?;
    let value = arguments[3];
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let limits = Limits::of(context);
    let length = store.write(store.shards_of([&key]), |writer| {
        let old = text_length(writer, database, &key)?;
        if value.is_empty() {
            return Ok(old.unwrap_or(0));
        }
        limits.check(position.saturating_add(value.len() as u64))?;
        Ok::<_, Failure>(writer.set_range(database, &key, position, value)?)
    })?;
    store.note_use(&key);
    reply.integer(length as i64);
    Ok(())
}

/// Handles INCRBYFLOAT.
fn incrbyfloat(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let scratch = &mut context.session.read_buffers.text;
    let sum = store.write_into(store.shards_of([&key]), scratch, |writer, scratch| {
        let old = match writer.find(database, &key)? {
            None => Extended::from_integer(0),
            Some(entry) => {
                let text = entry.text(writer.view())?;
                text.append_to(writer.view(), scratch)?;
                float(scratch)?
            }
        };
        let sum = old.checked_add(float(arguments[2])?);
        let sum = sum.ok_or(CommandError::NAN_OR_INFINITY)?.text();
        writer.set_text(database, &key, sum.as_bytes(), Expiry::Keep)?;
        writer.tell(KeyEvent::IncrByFloat, database, &key);
        Ok::<_, Failure>(sum)
    })?;
    store.note_use(&key);
    reply.bulk(sum.as_bytes());
    Ok(())
}

/// Handles LCS.
fn lcs(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let keys = context.keys(&arguments[1..3]);
    let (texts, found) = store.read(store.shards_of(&keys), |reader| {
        let mut texts = [Vec::new(), Vec::new()];
        let mut found = [false; 2];
        for ((key, text), found) in keys.iter().zip(&mut texts).zip(&mut found) {
            let entry = reader.find(database, key)?;
            *found = entry.is_some();
            let Some(entry) = entry else {
                continue;
            };
            match entry.text(reader.view()) {
                Err(undercroft_engine::Error::WrongType) => {
                    const NOT_STRINGS: CommandError =
                        CommandError::fixed("ERR The specified keys must contain string values");
                    return Err(NOT_STRINGS.into());
                }
                found => found?.append_to(reader.view(), text)?,
            }
        }
        Ok::<_, Failure>((texts, found))
    })?;
    for (key, found) in keys.iter().zip(found) {
        context.looked_up(key, found);
    }
    // LCS is slow, so run it on copies, without holding a lock and without having to retry the
    // read.
    let options = LcsOptions::parse(&arguments[3..])?;
    let [first, second] = &texts;
    lcs::check_size(first.len(), second.len(), Limits::of(context).longest())
        .map_err(|error| CommandError::fixed(error.message()))?;
    if options.length {
        reply.integer(lcs::length(first, second) as i64);
        return Ok(());
    }
    let matches = lcs::matches(first, second);
    if options.index {
        write_matches(&matches, &options, reply);
    } else {
        reply.bulk(&lcs::sequence(first, &matches));
    }
    Ok(())
}

#[derive(Default)]
struct LcsOptions {
    length: bool,
    index: bool,
    with_length: bool,
    least: i64,
}

impl LcsOptions {
    fn parse(mut rest: &[&[u8]]) -> Result<LcsOptions, CommandError> {
        let mut options = LcsOptions::default();
        while let [option, behind @ ..] = rest {
            rest = behind;
            if is_keyword(option, "LEN") {
                options.length = true;
            } else if is_keyword(option, "IDX") {
                options.index = true;
            } else if is_keyword(option, "WITHMATCHLEN") {
                options.with_length = true;
            } else if let (true, [least, behind @ ..]) = (is_keyword(option, "MINMATCHLEN"), rest) {
                options.least = integer(least)?;
                rest = behind;
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        if options.length && options.index {
            return Err(CommandError::fixed(
                "ERR If you want both the length and indexes, please just use IDX.",
            ));
        }
        Ok(options)
    }
}

fn write_matches(matches: &[lcs::Match], options: &LcsOptions, reply: &mut dyn Reply) {
    let total: usize = matches.iter().map(|run| run.length).sum();
    let long = |run: &&lcs::Match| run.length as i64 >= options.least;
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(matches.iter().filter(long).count());
    for run in matches.iter().filter(long) {
        reply.array(2 + usize::from(options.with_length));
        for start in [run.first_start, run.second_start] {
            reply.array(2);
            reply.integer(start as i64);
            reply.integer((start + run.length - 1) as i64);
        }
        if options.with_length {
            reply.integer(run.length as i64);
        }
    }
    reply.bulk(b"len");
    reply.integer(total as i64);
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn byte_ranges_are_clamped_to_the_string() {
        for (start, end, length, expected) in [
            (0, -1, 5, Some((0, 5))),
            (-100, 100, 5, Some((0, 5))),
            (-1, -2, 5, None),
            (3, 2, 5, None),
            (5, 9, 5, None),
            (0, -9, 5, Some((0, 1))),
            (0, -1, 0, None),
            (i64::MIN, i64::MAX, 3, Some((0, 3))),
        ] {
            assert_eq!(
                range(start, end, length),
                expected,
                "{start} {end} {length}"
            );
        }
    }
}
