//! Inline commands: lines of words and quoted strings, as typed into a terminal.

use super::Span;
use std::fmt;

/// A quote that is not closed, or a closing quote that is directly followed by other text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnbalancedQuotes;

impl fmt::Display for UnbalancedQuotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unbalanced quotes: expected a closing quote followed by a blank or the end of the line")
    }
}

impl std::error::Error for UnbalancedQuotes {}

/// Returns whether a byte is white space according to C's `isspace`, and therefore separates
/// arguments.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Splits a line into arguments by Redis' rules, which also apply to its configuration file and
/// `redis-cli`.
///
/// Appends the arguments' bytes to `text`, and a span of `text` to `spans` for each argument.
/// Inside double quotes, `\xHH`, `\n`, `\r`, `\t`, `\b` and `\a` are escapes, and a backslash
/// before any other byte stands for that byte. Inside single quotes, only `\'` is an escape. Quotes
/// may start inside a word. Runs in linear time. After an error, `text` and `spans` contain the
/// arguments before the error.
pub fn split_args(
    line: &[u8],
    text: &mut Vec<u8>,
    spans: &mut Vec<Span>,
) -> Result<(), UnbalancedQuotes> {
    let mut rest = line;
    loop {
        while let [first, tail @ ..] = rest {
            if !is_blank(*first) {
                break;
            }
            rest = tail;
        }
        if rest.is_empty() {
            return Ok(());
        }
        let start = text.len();
        rest = word(rest, text)?;
        spans.push(Span {
            start,
            len: text.len() - start,
        });
    }
}

/// Appends one argument to `text` and returns the rest of the line.
fn word<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        match rest {
            // Unlike in `is_blank`, a vertical tab or form feed inside a word is part of the word.
            [] | [b' ' | b'\n' | b'\r' | b'\t', ..] => return Ok(rest),
            [b'"', tail @ ..] => return double_quoted(tail, text),
            [b'\'', tail @ ..] => return single_quoted(tail, text),
            [byte, tail @ ..] => {
                text.push(*byte);
                rest = tail;
            }
        }
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        let (byte, tail) = match rest {
            [b'"', tail @ ..] => return after_quote(tail),
            [b'\\', b'x', high, low, tail @ ..]
                if hex_digit(*high).is_some() && hex_digit(*low).is_some() =>
            {
                let digit = |byte| hex_digit(byte).unwrap_or(0);
                (digit(*high) << 4 | digit(*low), tail)
            }
            [b'\\', escaped, tail @ ..] => {
                let byte = match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                };
                (byte, tail)
            }
            [byte, tail @ ..] => (*byte, tail),
            [] => return Err(UnbalancedQuotes),
        };
        text.push(byte);
        rest = tail;
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        let (byte, tail) = match rest {
            [b'\'', tail @ ..] => return after_quote(tail),
            [b'\\', b'\'', tail @ ..] => (b'\'', tail),
            [byte, tail @ ..] => (*byte, tail),
            [] => return Err(UnbalancedQuotes),
        };
        text.push(byte);
        rest = tail;
    }
}

/// Checks that white space or the end of the line follows a closing quote.
fn after_quote(rest: &[u8]) -> Result<&[u8], UnbalancedQuotes> {
    match rest {
        [byte, ..] if !is_blank(*byte) => Err(UnbalancedQuotes),
        _ => Ok(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, UnbalancedQuotes> {
        let (mut text, mut spans) = (Vec::new(), Vec::new());
        split_args(line, &mut text, &mut spans)?;
        Ok(spans
            .iter()
            .map(|span| text[span.range()].to_vec())
            .collect())
    }

    #[test]
    fn lines_split_into_words_and_quoted_strings() {
        let cases: [(&[u8], &[&[u8]]); 13] = [
            (b"", &[]),
            (b" \t\x0b\x0c ", &[]),
            (b"SET k v", &[b"SET", b"k", b"v"]),
            (b"  SET\t k  ", &[b"SET", b"k"]),
            (b"a\rb", &[b"a", b"b"]),
            (b"a\x0b\x0cb", &[b"a\x0b\x0cb"]),
            (b"\"\" ''", &[b"", b""]),
            (b"fo\"o b\" c", &[b"foo b", b"c"]),
            (
                br#""\x41\xfF\xg1\n\r\t\b\a\q\\\"""#,
                &[b"A\xffxg1\n\r\t\x08\x07q\\\""],
            ),
            (br"'it\'s \n \x41'", &[br"it's \n \x41"]),
            (br#"a\nb"#, &[br"a\nb"]),
            (b"\"a\"\x0bb", &[b"a", b"b"]),
            (br#""\x4""#, &[b"x4"]),
        ];
        for (line, words) in cases {
            let words: Vec<_> = words.iter().map(|word| word.to_vec()).collect();
            assert_eq!(split(line), Ok(words), "{}", line.escape_ascii());
        }
    }

    #[test]
    fn quotes_must_balance() {
        for line in [
            &b"\""[..],
            b"'",
            b"a \"b",
            b"a 'b",
            b"\"a\"b",
            b"'a'b",
            b"'a'\"b\"",
            b"\"a\\\"",
            b"'a\\'",
            b"\"\\",
        ] {
            assert_eq!(
                split(line),
                Err(UnbalancedQuotes),
                "{}",
                line.escape_ascii()
            );
        }
    }
}
