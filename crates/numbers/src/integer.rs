//! Parses integers in text form.

/// Parses a decimal integer by Redis' rules: an optional `-`, no `+`, no leading zeros, no spaces,
/// and a value that fits in `i64`. Every integer therefore has exactly one text form.
#[inline]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    match digits {
        [b'0'] => return (!negative).then_some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    // A nineteen-digit number is less than 10^19, which fits in an unsigned 64-bit integer.
    let mut value = 0_u64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + u64::from(digit - b'0');
    }
    if negative {
        0_i64.checked_sub_unsigned(value)
    } else {
        i64::try_from(value).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_exactly_one_text() {
        for (text, value) in [
            ("0", 0),
            ("1", 1),
            ("-1", -1),
            ("42", 42),
            ("1000000000000000000", 1_000_000_000_000_000_000),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(parse_integer(text.as_bytes()), Some(value), "{text}");
        }
        for text in [
            "",
            "-",
            "-0",
            "+1",
            "--1",
            "00",
            "01",
            "-01",
            " 1",
            "1 ",
            "1.0",
            "0x1",
            "1a",
            "a",
            "-a",
            "9223372036854775808",
            "-9223372036854775809",
            "18446744073709551616",
            "99999999999999999999",
            "99999999999999999999999",
        ] {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn integers_round_trip() {
        let mut random = fastrand::Rng::with_seed(11);
        for _ in 0..10_000 {
            let value = random.i64(..) >> random.u32(..64);
            assert_eq!(parse_integer(value.to_string().as_bytes()), Some(value));
        }
    }
}
