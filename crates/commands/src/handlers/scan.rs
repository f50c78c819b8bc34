//! Contains the code that SCAN, HSCAN, SSCAN and ZSCAN share: cursors, options, and iteration over
//! a collection.

use undercroft_engine::glob::{Case, TooComplex, matches};
use undercroft_engine::{Error, Key, Ranges, Reader};

use crate::arguments::{CommandError, integer, is_keyword};
use crate::context::Context;
use crate::failure::Outcome;
use crate::reply::Reply;

/// The error for a pattern that takes more than [`undercroft_engine::glob::STEP_BUDGET`] steps to
/// match against a key.
pub(crate) const TOO_COMPLEX: CommandError =
    CommandError::fixed("ERR pattern takes too many steps to match; use a simpler pattern");

/// Matches a key against the pattern of KEYS or SCAN. The pattern `*` matches every key, including
/// the empty key.
pub(crate) fn matches_all(pattern: &[u8], key: &[u8]) -> Result<bool, TooComplex> {
    if pattern == b"*" {
        return Ok(true);
    }
    matches(pattern, key, Case::Sensitive)
}

/// Parses a cursor like C's `strtoul`, but rejects leading whitespace. A zero byte ends the cursor,
/// an empty cursor is zero, and a sign is allowed.
pub(crate) fn scan_cursor(text: &[u8]) -> Result<u64, CommandError> {
    let end = text.iter().position(|byte| *byte == 0);
    let text = &text[..end.unwrap_or(text.len())];
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let sum = digits.iter().try_fold(0u64, |sum, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    });
    match sum {
        Some(_) if digits.is_empty() && !text.is_empty() => {
            Err(CommandError::fixed("ERR invalid cursor"))
        }
        Some(sum) if negative => Ok(sum.wrapping_neg()),
        Some(sum) => Ok(sum),
        None => Err(CommandError::fixed("ERR invalid cursor")),
    }
}

/// The options of a scan command.
pub(crate) struct ScanOptions<'a> {
    /// The value of the COUNT option, which is positive.
    pub(crate) count: u64,
    pattern: Option<&'a [u8]>,
    /// The value of the TYPE option, which only SCAN accepts.
    pub(crate) kind: Option<&'a [u8]>,
}

impl<'a> ScanOptions<'a> {
    /// Parses the options of a scan command. TYPE is accepted only if `takes_type` is set, which is
    /// the case for SCAN.
    pub(crate) fn parse(
        mut rest: &[&'a [u8]],
        takes_type: bool,
    ) -> Result<ScanOptions<'a>, CommandError> {
        let (mut count, mut pattern, mut kind) = (10, None, None);
        while let [option, value, behind @ ..] = rest {
            rest = behind;
            if is_keyword(option, "COUNT") {
                count = integer(value)?;
                if count < 1 {
                    return Err(CommandError::SYNTAX);
                }
            } else if is_keyword(option, "MATCH") {
                pattern = Some(*value);
            } else if takes_type && is_keyword(option, "TYPE") {
                kind = Some(*value);
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        if !rest.is_empty() {
            return Err(CommandError::SYNTAX);
        }
        Ok(ScanOptions {
            count: count.unsigned_abs(),
            pattern,
            kind,
        })
    }

    /// Returns whether a name matches the MATCH pattern. If MATCH was not given, every name
    /// matches.
    pub(crate) fn matches(&self, name: &[u8]) -> Result<bool, TooComplex> {
        self.pattern
            .map_or(Ok(true), |pattern| matches_all(pattern, name))
    }
}

/// Replies with the next part of an iteration over the collection at a key. `part` appends the
/// elements that follow a cursor. Each element consists of `width` strings, the first of which is
/// matched against the pattern. `part` returns `None` if the key does not exist.
pub(crate) fn scan_collection(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    width: usize,
    reply: &mut dyn Reply,
    part: impl Fn(&Reader<'_, '_>, &Key<'_>, u64, u64, &mut Ranges) -> Result<Option<u64>, Error> + Sync,
) -> Outcome {
    let cursor = scan_cursor(arguments[2])?;
    let options = ScanOptions::parse(&arguments[3..], false);
    // As in Redis, invalid options are reported only if the key exists.
    let count = options.as_ref().map_or(1, |options| options.count);
    let mut texts = Ranges::new();
    let next = context.look_into(arguments[1], &mut texts, |reader, key, texts| {
        Ok(part(reader, key, cursor, count, texts)?)
    })?;
    let mut wanted = Vec::new();
    if next.is_some() {
        let options = options?;
        for element in 0..texts.len() / width {
            let name = texts.get(element * width);
            if options.matches(name).map_err(|_| TOO_COMPLEX)? {
                wanted.push(element);
            }
        }
    }
    reply.array(2);
    reply.bulk(next.unwrap_or(0).to_string().as_bytes());
    reply.array(wanted.len() * width);
    for element in wanted {
        for place in element * width..(element + 1) * width {
            reply.bulk(texts.get(place));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_parsed_like_strtoul() {
        for (text, cursor) in [
            ("", Some(0)),
            ("+7", Some(7)),
            ("8\0x", Some(8)),
            ("-1", Some(u64::MAX)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("-", None),
            ("1x", None),
            (" 1", None),
        ] {
            assert_eq!(scan_cursor(text.as_bytes()).ok(), cursor, "{text:?}");
        }
    }
}
