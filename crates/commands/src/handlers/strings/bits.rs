//! Implements the commands that access, count, search and combine the bits of strings.

use undercroft_engine::View;
use undercroft_engine::events::KeyEvent;
use undercroft_engine::strings::{BitOperation, Text};
use undercroft_numbers::parse_integer;

use crate::arguments::{CommandError, integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("setbit", setbit),
    ("getbit", getbit),
    ("bitcount", bitcount),
    ("bitpos", bitpos),
    ("bitop", bitop),
];

/// Parses a bit offset, which must lie within a string of the maximum allowed length.
pub(crate) fn bit_offset(context: &Context<'_>, argument: &[u8]) -> Result<u64, CommandError> {
    let offset = parse_integer(argument);
    check_offset(context, offset)
}

/// Returns `offset` if it is a valid bit offset, and an error otherwise.
pub(crate) fn check_offset(
    context: &Context<'_>,
    offset: Option<i64>,
) -> Result<u64, CommandError> {
    let longest = context.host.config().integer("proto-max-bulk-len");
    offset
        .filter(|offset| *offset >= 0 && offset >> 3 < longest)
        .map(i64::unsigned_abs)
        .ok_or(CommandError::fixed(
            "ERR bit offset is not an integer or out of range",
        ))
}

/// Handles SETBIT.
fn setbit(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let offset = bit_offset(context, arguments[2])?;
    let bit = parse_integer(arguments[3]).filter(|bit| matches!(bit, 0 | 1));
    let bit = bit.ok_or(CommandError::fixed(
        "ERR bit is not an integer or out of range",
    ))?;
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let old = store.write(store.shards_of([&key]), |writer| {
        let (string, grown) = writer.bit_string(database, &key, offset / 8 + 1)?;
        let old = string.text().bits(writer.view(), offset, 1)?;
        writer.set_bits(&string, offset, 1, bit.unsigned_abs())?;
        if grown || old != bit.unsigned_abs() {
            writer.tell(KeyEvent::SetBit, database, &key);
        }
        Ok::<_, Failure>(old)
    })?;
    store.note_use(&key);
    reply.integer(old as i64);
    Ok(())
}

/// Calls `look` on the string stored at `key`. Returns `None` if the key does not exist.
pub(crate) fn look_at_text<R>(
    context: &mut Context<'_>,
    key: &[u8],
    look: impl Fn(&Text, &View<'_>) -> Result<R, Failure> + Sync,
) -> Result<Option<R>, Failure> {
    let database = context.database();
    context.look_at(key, |reader, key| match reader.find(database, key)? {
        None => Ok(None),
        Some(entry) => {
            let text = entry.text(reader.view())?;
            Ok(Some(look(&text, reader.view())?))
        }
    })
}

/// Handles GETBIT.
fn getbit(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let offset = bit_offset(context, arguments[2])?;
    let bit = look_at_text(context, arguments[1], |text, view| {
        Ok(text.bits(view, offset, 1)?)
    })?;
    reply.integer(bit.unwrap_or(0) as i64);
    Ok(())
}

/// Returns whether the unit of a range is BIT rather than BYTE.
fn in_bits(unit: &[u8]) -> Result<bool, CommandError> {
    if is_keyword(unit, "BIT") {
        Ok(true)
    } else if is_keyword(unit, "BYTE") {
        Ok(false)
    } else {
        Err(CommandError::SYNTAX)
    }
}

/// Converts a range of bytes or bits, in a string of `bytes` bytes, to the first bit of the range
/// and the bit after its end. Returns `None` if the range is empty.
fn bit_range(start: i64, end: Option<i64>, bits: bool, bytes: u64) -> Option<(u64, u64)> {
    let units = i64::try_from(if bits { bytes * 8 } else { bytes }).ok()?;
    let from_end = |place: i64| {
        if place < 0 {
            units.saturating_add(place).max(0)
        } else {
            place
        }
    };
    let (start, end) = (from_end(start), from_end(end.unwrap_or(-1)).min(units - 1));
    if start > end {
        return None;
    }
    let size = if bits { 1 } else { 8 };
    Some((start.unsigned_abs() * size, (end.unsigned_abs() + 1) * size))
}

/// Handles BITCOUNT. As in Redis, invalid arguments are not reported if the key does not exist.
fn bitcount(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let range = match &arguments[2..] {
        [] => Ok(Some((0, -1, false))),
        [start, end, unit @ ..] if unit.len() <= 1 => count_range(start, end, unit),
        _ => Err(CommandError::SYNTAX),
    };
    let count = look_at_text(context, arguments[1], |text, view| {
        let range = match &range {
            Ok(range) => *range,
            Err(error) => return Err(error.clone().into()),
        };
        let range =
            range.and_then(|(start, end, bits)| bit_range(start, Some(end), bits, text.length()));
        Ok(match range {
            Some((start, end)) => text.count_bits(view, start, end)?,
            None => 0,
        })
    })?;
    reply.integer(count.unwrap_or(0) as i64);
    Ok(())
}

/// Parses the range of BITCOUNT. If the range is empty in every string, returns `None` without
/// checking the unit.
fn count_range(
    start: &[u8],
    end: &[u8],
    unit: &[&[u8]],
) -> Result<Option<(i64, i64, bool)>, CommandError> {
    let (start, end) = (integer(start)?, integer(end)?);
    if start < 0 && end < 0 && start > end {
        return Ok(None);
    }
    let bits = unit.first().map_or(Ok(false), |unit| in_bits(unit))?;
    Ok(Some((start, end, bits)))
}

/// Handles BITPOS. As in Redis, invalid arguments that follow the bit are not reported if the key
/// does not exist.
fn bitpos(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let bit = match integer(arguments[2])? {
        0 => false,
        1 => true,
        _ => return Err(CommandError::fixed("ERR The bit argument must be 1 or 0.").into()),
    };
    let range = position_range(&arguments[3..]);
    let found = look_at_text(context, arguments[1], |text, view| {
        let (start, end, bits) = match &range {
            Ok(range) => *range,
            Err(error) => return Err(error.clone().into()),
        };
        let Some((first, last)) = bit_range(start, end, bits, text.length()) else {
            return Ok(None);
        };
        let found = text.find_bit(view, bit, first, last)?;
        // If no end is given, the string is treated as if it were padded with zeros.
        Ok(found.or((!bit && end.is_none()).then_some(last)))
    })?;
    reply.integer(match found {
        None if bit => -1,
        None => 0,
        Some(found) => found.map_or(-1, |found| found as i64),
    });
    Ok(())
}

/// Parses the start, end and unit of BITPOS. The default unit is a byte.
fn position_range(rest: &[&[u8]]) -> Result<(i64, Option<i64>, bool), CommandError> {
    match rest {
        [] => Ok((0, None, false)),
        [start] => Ok((integer(start)?, None, false)),
        [start, end] => Ok((integer(start)?, Some(integer(end)?), false)),
        [start, end, unit] => {
            let start = integer(start)?;
            let bits = in_bits(unit)?;
            Ok((start, Some(integer(end)?), bits))
        }
        _ => Err(CommandError::SYNTAX),
    }
}

/// Handles BITOP.
fn bitop(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let operation = match arguments[1].to_ascii_uppercase().as_slice() {
        b"AND" => BitOperation::And,
        b"OR" => BitOperation::Or,
        b"XOR" => BitOperation::Xor,
        b"NOT" => BitOperation::Not,
        _ => return Err(CommandError::SYNTAX.into()),
    };
    if operation == BitOperation::Not && arguments.len() != 4 {
        return Err(
            CommandError::fixed("ERR BITOP NOT must be called with a single source key.").into(),
        );
    }
    let (store, database) = (context.store, context.database());
    let target = store.key(arguments[2]);
    let sources = context.keys(&arguments[3..]);
    let shards = store.shards_of(sources.iter().chain([&target]));
    let (length, found) = store.write(shards, |writer| {
        writer.combine_bits(database, operation, &target, &sources)
    })?;
    let counters = &mut context.session.activity.counters;
    counters.hits += found;
    counters.misses += sources.len() as u64 - found;
    sources.iter().for_each(|key| store.note_use(key));
    store.note_use(&target);
    reply.integer(length as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::bit_range;

    #[test]
    fn bit_ranges_are_clamped_to_the_string() {
        for (start, end, bits, bytes, expected) in [
            (0, None, false, 3, Some((0, 24))),
            (1, Some(1), false, 3, Some((8, 16))),
            (-1, None, false, 3, Some((16, 24))),
            (-100, Some(100), false, 3, Some((0, 24))),
            (2, Some(1), false, 3, None),
            (3, None, false, 3, None),
            (5, Some(30), true, 3, Some((5, 24))),
            (-2, Some(-1), true, 3, Some((22, 24))),
            (0, Some(-1), true, 0, None),
            (i64::MIN, Some(i64::MAX), true, 1, Some((0, 8))),
            (0, Some(i64::MIN), false, 2, Some((0, 8))),
        ] {
            assert_eq!(
                bit_range(start, end, bits, bytes),
                expected,
                "{start} {end:?} {bits} {bytes}"
            );
        }
    }
}
