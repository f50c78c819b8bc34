//! Texts of integers, which are kept as integers.

/// Parses the text of an integer as Redis does: no blanks, no plus sign, no
/// leading zeros.
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
    fn integers_are_parsed_strictly() {
        for text in [
            "0",
            "1",
            "-1",
            "9223372036854775807",
            "-9223372036854775808",
            "42",
        ] {
            assert_eq!(parse_integer(text.as_bytes()), text.parse().ok(), "{text}");
        }
        let not = [
            "",
            "-",
            "+1",
            " 1",
            "1 ",
            "01",
            "-0",
            "00",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
            "1.0",
            "a",
            "-a",
        ];
        for text in not {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text:?}");
        }
    }
}
