//! Splits a line into words by the rules of Redis' configuration files.

/// Splits a line into words. Quotes can enclose an entire word or only its last part. Returns
/// `None` if a quote is not closed, or if a closing quote is not followed by a blank.
pub(crate) fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        let start = rest.iter().position(|byte| !is_blank(*byte));
        let Some(start) = start else {
            return Some(words);
        };
        let (word, behind) = word(&rest[start..])?;
        words.push(word);
        rest = behind;
    }
}

/// Returns whether C's `isspace` is true for a byte.
pub(crate) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Parses one word. Returns the word and the rest of the line.
fn word(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    let mut quote = None;
    while let Some((&byte, behind)) = rest.split_first() {
        let next = behind.first().copied();
        let (taken, length) = match (quote, byte) {
            (None, b'"' | b'\'') => {
                quote = Some(byte);
                rest = behind;
                continue;
            }
            // Any other blank, such as a vertical tab, is part of the word.
            (None, b' ' | b'\n' | b'\r' | b'\t') => break,
            (Some(end), _) if byte == end => {
                return next.is_none_or(is_blank).then_some((word, behind));
            }
            (Some(b'"'), b'\\') => escaped(behind).unwrap_or((byte, 1)),
            (Some(b'\''), b'\\') if next == Some(b'\'') => (b'\'', 2),
            _ => (byte, 1),
        };
        word.push(taken);
        rest = &rest[length..];
    }
    quote.is_none().then_some((word, rest))
}

/// Decodes an escape sequence in a double-quoted word, given the bytes after the backslash. Returns
/// the decoded byte and the length of the sequence including the backslash, or `None` if nothing
/// follows the backslash.
fn escaped(behind: &[u8]) -> Option<(u8, usize)> {
    let digit = |place| {
        let digit = char::from(*behind.get(place)?).to_digit(16)?;
        u8::try_from(digit).ok()
    };
    Some(match *behind.first()? {
        b'x' if let (Some(high), Some(low)) = (digit(1), digit(2)) => (high << 4 | low, 4),
        b'n' => (b'\n', 2),
        b'r' => (b'\r', 2),
        b't' => (b'\t', 2),
        b'b' => (8, 2),
        b'a' => (7, 2),
        other => (other, 2),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_split_like_redis_configuration_lines() {
        for (line, expected) in [
            ("#!lua", Some(&["#!lua"][..])),
            (" #!lua \t a\r", Some(&["#!lua", "a"])),
            ("a\x0b b", Some(&["a\x0b", "b"])),
            ("\"a b\" 'c d'\x0b", Some(&["a b", "c d"])),
            ("a=\"b c\" d", Some(&["a=b c", "d"])),
            ("\"\\x41\\n\\q\\xZ\" '\\'\\n'", Some(&["A\nqxZ", "'\\n"])),
            ("\"\" ''", Some(&["", ""])),
            ("", Some(&[])),
            ("\"a", None),
            ("\"a\\", None),
            ("\"a\\\"", None),
            ("a=\"b\"c", None),
            ("'a'\"b\"", None),
        ] {
            let found = words(line.as_bytes());
            let expected = expected.map(|words| {
                let words = words.iter();
                words
                    .map(|word| word.as_bytes().to_vec())
                    .collect::<Vec<_>>()
            });
            assert_eq!(found, expected, "{line:?}");
        }
    }
}
