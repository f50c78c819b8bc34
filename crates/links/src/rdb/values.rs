//! Finds the end of a value in an RDB file. The value's content is checked later, by the engine.
//!
//! ```text
//! string                        | string |
//! list, set                     | items | string | ... |
//! hash                          | fields | field: string | value: string | ... |
//! sorted set                    | members | string | score | ... |
//! packed collection             | string |
//! quicklist                     | nodes | kind of the node, in type 18 | string | ... |
//! stream                        see crates/engine/src/types/stream/listpack.rs
//! hash with expiring fields     see crates/engine/src/rdb_form/expiring.rs
//! ```

use std::io::Read;

use undercroft_engine::rdb::ExpiringHash;
use undercroft_engine::strings::STRING_MAX;

use super::error::ReadError;
use super::source::Source;

const VALUE: &str = "the rest of a value";

/// A value's encoding, which the type byte and the family of the file determine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// An encoding that both families share, identified by its type byte.
    Shared(u8),
    /// A hash whose fields can expire.
    ExpiringHash(ExpiringHash),
}

/// The first byte of a length, which determines the encoding.
const LENGTH_32: u8 = 0x80;
const LENGTH_64: u8 = 0x81;

/// A length, or the encoding of a string that is not stored as its bytes.
enum Length {
    Plain(u64),
    Special(u8),
}

fn length_or_special<R: Read>(source: &mut Source<R>) -> Result<Length, ReadError> {
    let at = source.offset();
    let first = source.byte("a length")?;
    Ok(Length::Plain(match first >> 6 {
        0 => u64::from(first),
        1 => u64::from(first & 0x3f) << 8 | u64::from(source.byte("a length")?),
        2 if first == LENGTH_32 => u32::from_be_bytes(source.array("a length")?).into(),
        2 if first == LENGTH_64 => u64::from_be_bytes(source.array("a length")?),
        2 => {
            return Err(ReadError::damaged(
                at,
                format!("a length, found the byte {first}"),
            ));
        }
        _ => return Ok(Length::Special(first & 0x3f)),
    }))
}

/// Reads a length.
pub(super) fn length<R: Read>(source: &mut Source<R>) -> Result<u64, ReadError> {
    let at = source.offset();
    match length_or_special(source)? {
        Length::Plain(length) => Ok(length),
        Length::Special(_) => Err(ReadError::damaged(
            at,
            "a length, found an encoding of strings",
        )),
    }
}

/// Skips a string in any encoding.
pub(super) fn skip_string<R: Read>(source: &mut Source<R>) -> Result<(), ReadError> {
    let at = source.offset();
    let bytes = match length_or_special(source)? {
        Length::Plain(length) => length,
        Length::Special(0) => 1,
        Length::Special(1) => 2,
        Length::Special(2) => 4,
        Length::Special(3) => {
            let compressed = length(source)?;
            let whole = length(source)?;
            if whole > STRING_MAX {
                return Err(too_long(at, whole));
            }
            compressed
        }
        Length::Special(other) => {
            return Err(ReadError::damaged(
                at,
                format!("an encoding of strings from 0 to 3, found {other}"),
            ));
        }
    };
    if bytes > STRING_MAX {
        return Err(too_long(at, bytes));
    }
    source.skip(bytes, "the rest of a string")
}

fn too_long(at: u64, found: u64) -> ReadError {
    ReadError::damaged(
        at,
        format!("a string of at most {STRING_MAX} bytes, found {found}"),
    )
}

fn skip_strings<R: Read>(source: &mut Source<R>, count: u64) -> Result<(), ReadError> {
    // Each string has at least one byte, so a wrong count ends with the input.
    (0..count).try_for_each(|_| skip_string(source))
}

/// Skips a value.
pub(super) fn skip_value<R: Read>(
    source: &mut Source<R>,
    kind: ValueKind,
) -> Result<(), ReadError> {
    let kind = match kind {
        ValueKind::Shared(kind) => kind,
        ValueKind::ExpiringHash(encoding) => return skip_expiring(source, encoding),
    };
    match kind {
        0 | 9..=13 | 16 | 17 | 20 => skip_string(source),
        1 | 2 | 14 => {
            let count = length(source)?;
            skip_strings(source, count)
        }
        4 => (0..length(source)?).try_for_each(|_| skip_strings(source, 2)),
        3 => (0..length(source)?).try_for_each(|_| {
            skip_string(source)?;
            let length = source.byte(VALUE)?;
            // The last three values represent numbers that have no text.
            let text = if length >= 253 { 0 } else { length };
            source.skip(text.into(), VALUE)
        }),
        5 => (0..length(source)?).try_for_each(|_| {
            skip_string(source)?;
            source.skip(8, VALUE)
        }),
        18 => (0..length(source)?).try_for_each(|_| {
            length(source)?;
            skip_string(source)
        }),
        _ => skip_stream(source, kind),
    }
}

fn skip_lengths<R: Read>(source: &mut Source<R>, count: usize) -> Result<(), ReadError> {
    (0..count).try_for_each(|_| length(source).map(drop))
}

fn skip_stream<R: Read>(source: &mut Source<R>, kind: u8) -> Result<(), ReadError> {
    let (has_counts, has_active_times) = (kind >= 19, kind >= 21);
    for _ in 0..length(source)? {
        skip_strings(source, 2)?;
    }
    // The number of entries and the last ID, and then the first ID, the highest deleted ID and the
    // number of entries ever added.
    skip_lengths(source, if has_counts { 8 } else { 3 })?;
    for _ in 0..length(source)? {
        skip_string(source)?;
        skip_lengths(source, if has_counts { 3 } else { 2 })?;
        for _ in 0..length(source)? {
            source.skip(16 + 8, VALUE)?;
            length(source)?;
        }
        for _ in 0..length(source)? {
            skip_string(source)?;
            source.skip(if has_active_times { 16 } else { 8 }, VALUE)?;
            let ids = length(source)?;
            let bytes = ids.checked_mul(16).ok_or_else(|| {
                ReadError::damaged(source.offset(), format!("fewer than {ids} entries"))
            })?;
            source.skip(bytes, VALUE)?;
        }
    }
    Ok(())
}

fn skip_expiring<R: Read>(source: &mut Source<R>, encoding: ExpiringHash) -> Result<(), ReadError> {
    match encoding {
        ExpiringHash::Redis { has_earliest } => {
            source.skip(if has_earliest { 8 } else { 0 }, VALUE)?;
            (0..length(source)?).try_for_each(|_| {
                length(source)?;
                skip_strings(source, 2)
            })
        }
        ExpiringHash::RedisListpack { has_earliest } => {
            source.skip(if has_earliest { 8 } else { 0 }, VALUE)?;
            skip_string(source)
        }
        ExpiringHash::Valkey => (0..length(source)?).try_for_each(|_| {
            skip_strings(source, 2)?;
            source.skip(8, VALUE)
        }),
    }
}
