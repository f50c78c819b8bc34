//! Parses entry IDs, ranges and trimming options.

use undercroft_engine::streams::{EntryId, StreamId, StreamLimits, Trim, TrimTo};
use undercroft_numbers::parse_integer;

use crate::arguments::{CommandError, integer, is_keyword};

const INVALID: CommandError =
    CommandError::fixed("ERR Invalid stream ID specified as stream command argument");
/// The maximum length of an entry ID in bytes.
const LONGEST: usize = 127;

/// Parses an entire string as a number, like C's `strtoull`.
fn number(text: &[u8]) -> Option<u64> {
    if let Some(value) = parse_integer(text) {
        return u64::try_from(value).ok();
    }
    let text = text.trim_ascii_start();
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_u64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value
            .checked_mul(10)?
            .checked_add(u64::from(digit - b'0'))?;
    }
    Some(if negative {
        value.wrapping_neg()
    } else {
        value
    })
}

/// Parses an ID. Also returns whether the ID's sequence number must be generated (`*`).
fn parse(
    text: &[u8],
    missing: u64,
    strict: bool,
    may_choose: bool,
) -> Result<(StreamId, bool), CommandError> {
    if text.len() > LONGEST {
        return Err(INVALID);
    }
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    match text {
        b"-" if !strict => return Ok((StreamId::MIN, false)),
        b"+" if !strict => return Ok((StreamId::MAX, false)),
        b"-" | b"+" => return Err(INVALID),
        _ => {}
    }
    let (ms, seq) = match text.iter().position(|byte| *byte == b'-') {
        Some(place) => (&text[..place], Some(&text[place + 1..])),
        None => (text, None),
    };
    let ms = number(ms).ok_or(INVALID)?;
    match seq {
        None => Ok((StreamId { ms, seq: missing }, false)),
        Some(b"*") if may_choose => Ok((StreamId { ms, seq: 0 }, true)),
        Some(seq) => {
            let seq = number(seq).ok_or(INVALID)?;
            Ok((StreamId { ms, seq }, false))
        }
    }
}

/// Parses an ID. Rejects `-` and `+`.
pub(super) fn strict_id(text: &[u8]) -> Result<StreamId, CommandError> {
    parse(text, 0, true, false).map(|(id, _)| id)
}

/// Parses an ID. Accepts `-` as the lowest ID and `+` as the highest ID.
pub(super) fn any_id(text: &[u8]) -> Result<StreamId, CommandError> {
    parse(text, 0, false, false).map(|(id, _)| id)
}

/// Parses the first ID of a range.
pub(super) fn start(text: &[u8]) -> Result<StreamId, CommandError> {
    match text {
        [b'(', text @ ..] if !text.is_empty() => strict_id(text)?
            .next()
            .ok_or(CommandError::fixed("ERR invalid start ID for the interval")),
        text => any_id(text),
    }
}

/// Parses the last ID of a range.
pub(super) fn end(text: &[u8]) -> Result<StreamId, CommandError> {
    let last = |text, strict| parse(text, u64::MAX, strict, false).map(|(id, _)| id);
    match text {
        [b'(', text @ ..] if !text.is_empty() => last(text, true)?
            .before()
            .ok_or(CommandError::fixed("ERR invalid end ID for the interval")),
        text => last(text, false),
    }
}

/// Parses an ID. Returns `None` for `$`, which stands for the last ID of the stream.
pub(super) fn last_or_id(text: &[u8]) -> Result<Option<StreamId>, CommandError> {
    match text {
        b"$" => Ok(None),
        text => strict_id(text).map(Some),
    }
}

/// The options of XADD and XTRIM.
#[derive(Debug, Default)]
pub(super) struct Options {
    /// The trimming to apply to the stream, if any.
    pub(super) trim: Option<Trim>,
    /// Whether XADD must not create a stream (NOMKSTREAM).
    pub(super) keep_missing: bool,
    /// The index of XADD's ID in the arguments.
    pub(super) id_at: usize,
    /// The ID given to XADD, if any.
    pub(super) id: Option<EntryId>,
}

impl Options {
    /// Parses the options. If LIMIT is not given, `limits` determines how many entries an
    /// approximate trim can remove. `is_of_source` says that a replica's source has sent the command:
    /// it replaces an approximate trim by an exact one with the same result, but keeps LIMIT.
    pub(super) fn parse(
        arguments: &[&[u8]],
        adds: bool,
        limits: &StreamLimits,
        is_of_source: bool,
    ) -> Result<Options, CommandError> {
        let mut options = Options::default();
        let mut trimming = Trimming::default();
        let mut place = 2;
        while let Some(&option) = arguments.get(place) {
            let more = arguments.len() - 1 - place;
            let is_trim = is_keyword(option, "maxlen") || is_keyword(option, "minid");
            if adds && option == b"*" {
                options.id = Some(EntryId::Now);
                break;
            } else if is_trim && more > 0 {
                place += trimming.read_strategy(option, &arguments[place + 1..])?;
            } else if is_keyword(option, "limit") && more > 0 {
                trimming.read_limit(arguments[place + 1])?;
                place += 1;
            } else if adds && is_keyword(option, "nomkstream") {
                options.keep_missing = true;
            } else if adds {
                let (id, chosen) = parse(option, 0, true, true)?;
                options.id = Some(match chosen {
                    true => EntryId::Within(id.ms),
                    false => EntryId::Exactly(id),
                });
                break;
            } else {
                return Err(CommandError::SYNTAX);
            }
            place += 1;
        }
        options.id_at = place;
        if is_of_source && !trimming.is_approximate {
            trimming.limit = None;
        }
        options.trim = trimming.finish(adds, limits)?;
        Ok(options)
    }
}

/// The trimming options that have been parsed so far.
#[derive(Default)]
struct Trimming {
    to: Option<TrimTo>,
    /// Whether only complete leaves of the stream's tree are removed.
    is_approximate: bool,
    /// The maximum number of entries to remove.
    limit: Option<u64>,
}

impl Trimming {
    /// Parses the arguments of MAXLEN or MINID. Returns the number of arguments parsed.
    fn read_strategy(&mut self, option: &[u8], words: &[&[u8]]) -> Result<usize, CommandError> {
        if self.to.is_some() {
            return Err(CommandError::fixed(
                "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
            ));
        }
        let (operator, threshold, length) = match words {
            [operator @ (b"~" | b"="), threshold, ..] => (*operator, *threshold, 2),
            [threshold, ..] => (&b"="[..], *threshold, 1),
            [] => return Err(CommandError::SYNTAX),
        };
        self.is_approximate = operator == b"~";
        self.to = Some(if is_keyword(option, "maxlen") {
            let length = u64::try_from(integer(threshold)?)
                .map_err(|_| CommandError::fixed("ERR The MAXLEN argument must be >= 0."))?;
            TrimTo::Length(length)
        } else {
            TrimTo::From(strict_id(threshold)?)
        });
        Ok(length)
    }

    fn read_limit(&mut self, argument: &[u8]) -> Result<(), CommandError> {
        let most = u64::try_from(integer(argument)?)
            .map_err(|_| CommandError::fixed("ERR The LIMIT argument must be >= 0."))?;
        self.limit = Some(most);
        Ok(())
    }

    fn finish(self, adds: bool, limits: &StreamLimits) -> Result<Option<Trim>, CommandError> {
        let Some(to) = self.to else {
            if self.limit.is_some_and(|limit| limit > 0) {
                return Err(CommandError::fixed(
                    "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
                ));
            }
            if !adds {
                return Err(CommandError::fixed(
                    "ERR syntax error, XTRIM must be called with a trimming strategy",
                ));
            }
            return Ok(None);
        };
        if self.limit.is_some() && !self.is_approximate {
            return Err(CommandError::fixed(
                "ERR syntax error, LIMIT cannot be used without the special ~ option",
            ));
        }
        let most = match self.limit {
            Some(0) => u64::MAX,
            Some(limit) => limit,
            None => limits.trimmed_at_once(),
        };
        let about = self.is_approximate.then_some(most);
        Ok(Some(Trim { to, about }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_parsed_as_in_redis() {
        let id = |ms, seq| StreamId { ms, seq };
        for (text, expected) in [
            ("5", Some(id(5, 0))),
            ("5-7", Some(id(5, 7))),
            (
                "18446744073709551615-18446744073709551615",
                Some(StreamId::MAX),
            ),
            ("007-1", Some(id(7, 1))),
            (" 7-+1", Some(id(7, 1))),
            ("18446744073709551616", None),
            ("-", None),
            ("+", None),
            ("", None),
            ("5-", None),
            ("-5", None),
            ("5--1", None),
            ("5-*", None),
            ("a-1", None),
            ("5 -1", None),
        ] {
            assert_eq!(strict_id(text.as_bytes()).ok(), expected, "{text}");
        }
        assert_eq!(start(b"(5-7").ok(), Some(id(5, 8)));
        assert_eq!(end(b"5").ok(), Some(id(5, u64::MAX)));
        assert_eq!(end(b"(5-0").ok(), Some(id(4, u64::MAX)));
        assert_eq!(end(b"+").ok(), Some(StreamId::MAX));
        assert!(start(b"(18446744073709551615-18446744073709551615").is_err());
        assert!(end(b"(0-0").is_err() && start(b"(-").is_err() && start(b"(").is_err());
    }
}
