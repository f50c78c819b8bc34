//! The notation of expected replies in case files, a human-readable form of RESP.
//!
//! Each element occupies one line, and the elements of an aggregate follow it:
//!
//! ```text
//! +OK            simple string        :5       integer       $"a\x00b"  bulk string
//! -ERR ...       error, whole text    :1..9    a range       $~"part"   a bulk string with that part
//! -~ERR wrong    error, its start     :?       any integer   $?         any bulk string
//! $-1  *-1  _    the three nulls      #t  ,1.5  (123  ="txt:abc"        RESP3 scalars
//! *2  ~2  %1  >3 aggregates           *2 unordered           ?          any reply at all
//! ```

use anyhow::{Context, Result, bail, ensure};

use crate::command::split_word;
use crate::resp::{Reply, without_code};

/// A pattern that a reply must match.
#[derive(Debug, Clone, PartialEq)]
pub enum Pattern {
    /// Matches only this reply.
    Is(Reply),
    /// Matches an error that begins with this text.
    ErrorStart(Vec<u8>),
    /// Matches a string that is this number in any notation.
    Number(f64),
    /// Matches an integer in this range, including both bounds.
    Between(i64, i64),
    /// Matches any bulk or verbatim string.
    AnyBulk,
    /// Matches a bulk or verbatim string that contains these bytes.
    Contains(Vec<u8>),
    /// Matches any reply.
    Any,
    /// Matches an aggregate with this marker and these items.
    Items(char, Vec<Pattern>),
    /// Matches an aggregate with this marker and these items in any order.
    Unordered(char, Vec<Pattern>),
}

impl Pattern {
    /// Returns the pattern for replies that were [loosened](Reply::loosened).
    #[must_use]
    pub fn loosened(self) -> Pattern {
        let loosened = |items: Vec<Pattern>| items.into_iter().map(Pattern::loosened).collect();
        match self {
            Pattern::Is(reply) => match reply.loosened() {
                Reply::Bulk(text) => {
                    number(&text).map_or(Pattern::Is(Reply::Bulk(text)), Pattern::Number)
                }
                reply => Pattern::Is(reply),
            },
            Pattern::ErrorStart(start) => Pattern::ErrorStart(without_code(start)),
            Pattern::Items(_, items) => Pattern::Items('*', loosened(items)),
            Pattern::Unordered(_, items) => Pattern::Unordered('*', loosened(items)),
            other => other,
        }
    }

    /// Returns whether the reply matches the pattern.
    pub fn matches(&self, reply: &Reply) -> bool {
        match self {
            Pattern::Is(expected) => expected == reply,
            Pattern::ErrorStart(start) => {
                matches!(reply, Reply::Error(text) if text.starts_with(start))
            }
            Pattern::Number(value) => {
                matches!(reply, Reply::Bulk(text) if number(text) == Some(*value))
            }
            Pattern::Between(low, high) => {
                matches!(reply, Reply::Integer(i) if (low..=high).contains(&i))
            }
            Pattern::AnyBulk => matches!(reply, Reply::Bulk(_) | Reply::Verbatim(_)),
            Pattern::Contains(part) => match reply {
                Reply::Bulk(text) | Reply::Verbatim(text) => {
                    part.is_empty() || text.windows(part.len()).any(|w| w == part)
                }
                _ => false,
            },
            Pattern::Any => true,
            Pattern::Items(marker, patterns) => reply.items().is_some_and(|items| {
                reply.marker() == *marker
                    && items.len() == patterns.len()
                    && patterns.iter().zip(items).all(|(p, item)| p.matches(item))
            }),
            Pattern::Unordered(marker, patterns) => reply.items().is_some_and(|items| {
                let mut left: Vec<&Reply> = items.iter().collect();
                reply.marker() == *marker
                    && items.len() == patterns.len()
                    && patterns.iter().all(|pattern| {
                        let found = left.iter().position(|item| pattern.matches(item));
                        found.map(|place| left.swap_remove(place)).is_some()
                    })
            }),
        }
    }
}

/// Returns the number that a text is, if it is one.
fn number(text: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    number.is_finite().then_some(number)
}

/// Parses one complete pattern from the lines of an expected reply.
///
/// # Errors
/// Returns an error if a line is not valid notation, or if the number of lines is wrong.
pub fn parse(lines: &[&str]) -> Result<Pattern> {
    let mut rest = lines.iter();
    let pattern = next(&mut rest)?;
    ensure!(
        rest.next().is_none(),
        "expected one reply, got more lines: {lines:?}"
    );
    Ok(pattern)
}

fn next(lines: &mut std::slice::Iter<'_, &str>) -> Result<Pattern> {
    let line = lines
        .next()
        .context("expected another element, got the end of the reply")?
        .trim();
    let context = || format!("in the expected line '{line}'");
    let kind = line
        .chars()
        .next()
        .context("expected a reply, got an empty line")?;
    let rest = &line[kind.len_utf8()..];
    let is = |reply| Ok(Pattern::Is(reply));
    match kind {
        '?' if rest.is_empty() => Ok(Pattern::Any),
        '+' => is(Reply::Simple(bare(rest).with_context(context)?)),
        '-' => match rest.strip_prefix('~') {
            Some(start) => Ok(Pattern::ErrorStart(bare(start).with_context(context)?)),
            None => is(Reply::Error(bare(rest).with_context(context)?)),
        },
        ':' => integer(rest).with_context(context),
        '$' | '=' | '!' => bulk(kind, rest).with_context(context),
        '_' if rest.is_empty() => is(Reply::Null),
        '#' if rest == "t" || rest == "f" => is(Reply::Boolean(rest == "t")),
        ',' => is(Reply::Double(rest.into())),
        '(' => is(Reply::BigNumber(rest.into())),
        '*' if rest == "-1" => is(Reply::NullArray),
        '*' | '~' | '>' | '%' => {
            let (count, order) = rest.split_once(' ').unwrap_or((rest, ""));
            let count: usize = count.parse().with_context(context)?;
            let count = if kind == '%' { count * 2 } else { count };
            let items = (0..count).map(|_| next(lines)).collect::<Result<_>>()?;
            match order {
                "" => Ok(Pattern::Items(kind, items)),
                "unordered" => Ok(Pattern::Unordered(kind, items)),
                _ => bail!("expected nothing or 'unordered' after the count, got '{order}'"),
            }
        }
        _ => bail!("expected a RESP type character, got '{line}'"),
    }
}

/// Decodes a line's text, in which escapes represent bytes that a line cannot contain.
fn bare(text: &str) -> Result<Vec<u8>> {
    let (word, _) = split_word(&format!("\"{}\"", text.replace('"', "\\\"")))?;
    Ok(word)
}

fn integer(text: &str) -> Result<Pattern> {
    if text == "?" {
        return Ok(Pattern::Between(i64::MIN, i64::MAX));
    }
    if let Some((low, high)) = text.split_once("..") {
        return Ok(Pattern::Between(low.parse()?, high.parse()?));
    }
    Ok(Pattern::Is(Reply::Integer(text.parse()?)))
}

fn bulk(kind: char, text: &str) -> Result<Pattern> {
    match (kind, text) {
        ('$', "-1") => return Ok(Pattern::Is(Reply::NullBulk)),
        ('$', "?") => return Ok(Pattern::AnyBulk),
        _ => {}
    }
    let (part, text) = match text.strip_prefix('~') {
        Some(rest) if kind == '$' => (true, rest),
        _ => (false, text),
    };
    ensure!(
        text.starts_with('"'),
        "expected a quoted string, got '{text}'"
    );
    let (word, tail) = split_word(text)?;
    ensure!(
        tail.is_empty(),
        "expected the end of the line, got '{tail}'"
    );
    Ok(match kind {
        _ if part => Pattern::Contains(word),
        '$' => Pattern::Is(Reply::Bulk(word)),
        '=' => Pattern::Is(Reply::Verbatim(word)),
        _ => Pattern::Is(Reply::BulkError(word)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        let lines: Vec<&str> = text.lines().collect();
        parse(&lines).unwrap()
    }

    #[test]
    fn a_printed_reply_matches_itself_and_no_other() {
        let replies = [
            Reply::Simple(b"OK".to_vec()),
            Reply::Error(b"ERR unknown command 'a\"\\' ".to_vec()),
            Reply::Integer(-7),
            Reply::Bulk(b"\"\\\r\n\x00".to_vec()),
            Reply::Bulk(vec![b'x'; 300]),
            Reply::NullBulk,
            Reply::NullArray,
            Reply::Null,
            Reply::Boolean(false),
            Reply::Double(b"1.5".to_vec()),
            Reply::Verbatim(b"txt:a".to_vec()),
            Reply::Array(vec![Reply::Integer(1), Reply::Array(vec![]), Reply::Null]),
            Reply::Map(vec![Reply::Bulk(b"k".to_vec()), Reply::Set(vec![])]),
        ];
        for (i, reply) in replies.iter().enumerate() {
            let lines = reply.lines();
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let pattern = parse(&lines).unwrap();
            for (j, other) in replies.iter().enumerate() {
                assert_eq!(pattern.matches(other), i == j, "{lines:?} against {other}");
            }
        }
    }

    #[test]
    fn loosened_replies_match_whatever_a_language_does_not_distinguish() {
        for (text, reply) in [
            ("+OK", Reply::Bulk(b"OK".to_vec())),
            ("$-1", Reply::Null),
            ("*-1", Reply::NullBulk),
            ("-ERR no", Reply::Error(b"no".to_vec())),
            ("-~ERR n", Reply::Error(b"no".to_vec())),
            ("$\"0.50\"", Reply::Double(b"5e-1".to_vec())),
            ("*1\n+a", Reply::Set(vec![Reply::Bulk(b"a".to_vec())])),
        ] {
            assert!(!pattern(text).matches(&reply), "{text}");
            assert!(
                pattern(text).loosened().matches(&reply.clone().loosened()),
                "{text}"
            );
        }
        let other = Reply::Bulk(b"other".to_vec());
        for text in ["+OK", "$\"0.5\"", "$-1", "*0"] {
            assert!(
                !pattern(text).loosened().matches(&other.clone().loosened()),
                "{text}"
            );
        }
    }

    #[test]
    fn ranges_and_partial_patterns_respect_their_bounds() {
        assert!(pattern(":1..3").matches(&Reply::Integer(3)));
        assert!(!pattern(":1..3").matches(&Reply::Integer(4)));
        assert!(pattern("-~ERR a").matches(&Reply::Error(b"ERR abc".to_vec())));
        assert!(!pattern("$~\"b\"").matches(&Reply::Bulk(b"ac".to_vec())));
        let two = pattern("*2 unordered\n  :1\n  :2");
        assert!(two.matches(&Reply::Array(vec![Reply::Integer(2), Reply::Integer(1)])));
        assert!(!two.matches(&Reply::Array(vec![Reply::Integer(1), Reply::Integer(1)])));
    }

    #[test]
    fn bad_notation_is_refused() {
        for bad in [
            "",
            "OK",
            "*2\n:1",
            ":1\n:2",
            "$abc",
            ":x",
            "*1 sorted\n:1",
            "#x",
        ] {
            assert!(parse(&bad.lines().collect::<Vec<_>>()).is_err(), "{bad}");
        }
    }
}
