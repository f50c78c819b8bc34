//! Parses numbers in replies, as clients receive them.

use undercroft_numbers::parse_integer;

/// Parses an integer in a reply, like [`parse_integer`], but also accepts a `+` sign and leading
/// zeros, as RESP3 allows.
pub(crate) fn parse_reply_integer(text: &[u8]) -> Option<i64> {
    // Servers send the canonical form, so try that form first.
    parse_integer(text).or_else(|| {
        if !is_signed_digits(text) {
            return None;
        }
        std::str::from_utf8(text).ok()?.parse().ok()
    })
}

/// Returns whether the text consists of an optional sign and at least one digit.
pub(crate) fn is_signed_digits(text: &[u8]) -> bool {
    let digits = match text {
        [b'-' | b'+', rest @ ..] => rest,
        rest => rest,
    };
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

/// Parses a RESP3 double: either digits with an optional sign, fraction and exponent, or `inf`,
/// `-inf`, `nan`.
pub(crate) fn parse_double(text: &[u8]) -> Option<f64> {
    match text {
        b"inf" | b"+inf" => Some(f64::INFINITY),
        b"-inf" => Some(f64::NEG_INFINITY),
        b"nan" => Some(f64::NAN),
        b"-nan" => Some(-f64::NAN),
        _ => {
            // Rust's parser also accepts `infinity` and `NaN`, which no server sends.
            let plain = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
            if !text.iter().all(plain) {
                return None;
            }
            std::str::from_utf8(text).ok()?.parse().ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reply_numbers_accept_all_resp3_forms() {
        assert_eq!(parse_reply_integer(b"+12"), Some(12));
        assert_eq!(parse_reply_integer(b"-012"), Some(-12));
        assert_eq!(parse_reply_integer(b"9223372036854775808"), None);
        assert_eq!(parse_reply_integer(b""), None);
        assert_eq!(parse_reply_integer(b"+"), None);
        assert_eq!(parse_double(b"10"), Some(10.0));
        assert_eq!(parse_double(b"-1.5E3"), Some(-1500.0));
        assert_eq!(parse_double(b"-inf"), Some(f64::NEG_INFINITY));
        assert!(parse_double(b"nan").is_some_and(f64::is_nan));
        for text in ["", "infinity", "NaN", "1 ", "0x1", "1e", "--1"] {
            assert_eq!(parse_double(text.as_bytes()), None, "{text}");
        }
    }
}
