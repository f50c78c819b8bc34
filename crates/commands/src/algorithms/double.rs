//! Parses doubles by the rules of C's `strtod`, with Redis' restrictions.

/// The largest number of decimal digits for which a double represents every integer exactly.
const EXACT_DIGITS: usize = 15;

/// Parses a string as a number. Rejects whitespace, trailing characters, NaN, overflow and
/// underflow.
pub(crate) fn parse_double(text: &[u8]) -> Option<f64> {
    if text.contains(&0) {
        return None;
    }
    match convert(text)? {
        (_, false) => None,
        (value, true) => Some(value),
    }
}

/// Parses a bound of a score range. Skips leading whitespace and stops at a zero byte. An empty
/// string yields 0, as does underflow. Overflow yields infinity.
pub(crate) fn parse_bound(text: &[u8]) -> Option<f64> {
    convert_easily(text).map(|(value, _)| value)
}

/// Calls [`convert`] after normalizing lenient input: skips leading whitespace, stops at a zero
/// byte, and treats an empty string as 0.
fn convert_easily(text: &[u8]) -> Option<(f64, bool)> {
    let end = text.iter().position(|&byte| byte == 0);
    let text = &text[..end.unwrap_or(text.len())];
    if text.is_empty() {
        return Some((0.0, true));
    }
    let blanks = text
        .iter()
        .take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r'));
    convert(&text[blanks.count()..])
}

/// Parses a value that SORT compares as a number. Skips leading whitespace and stops at a zero
/// byte. An empty string yields 0. Returns `None` on overflow or underflow.
pub(crate) fn parse_sortable(text: &[u8]) -> Option<f64> {
    let (value, in_range) = convert_easily(text)?;
    in_range.then_some(value)
}

/// Returns the parsed number and whether it was parsed without overflow or underflow. Returns
/// `None` if the string is not a number or is NaN.
fn convert(text: &[u8]) -> Option<(f64, bool)> {
    let (negative, unsigned) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let (value, vanishes) = match unsigned {
        [_, ..] if unsigned.len() <= EXACT_DIGITS && unsigned.iter().all(u8::is_ascii_digit) => {
            let value = unsigned.iter().fold(0, |value, digit| {
                value * 10 + u64::from(digit.wrapping_sub(b'0'))
            });
            (value as f64, false)
        }
        [b'0', b'x' | b'X', rest @ ..] => hexadecimal(rest)?,
        [b'0'..=b'9' | b'.', ..] => {
            let value: f64 = std::str::from_utf8(unsigned).ok()?.parse().ok()?;
            let mantissa = unsigned
                .iter()
                .take_while(|byte| !byte.is_ascii_alphabetic());
            let is_zero = mantissa.clone().all(|byte| matches!(byte, b'0' | b'.'));
            (value, !is_zero)
        }
        _ if unsigned.eq_ignore_ascii_case(b"inf")
            || unsigned.eq_ignore_ascii_case(b"infinity") =>
        {
            let infinity = if negative {
                f64::NEG_INFINITY
            } else {
                f64::INFINITY
            };
            return Some((infinity, true));
        }
        _ => return None,
    };
    let in_range = value.is_finite() && !(value == 0.0 && vanishes);
    Some((if negative { -value } else { value }, in_range))
}

/// Parses the digits and exponent that follow the `0x` prefix of a hexadecimal number. Also returns
/// whether any digit is nonzero.
fn hexadecimal(text: &[u8]) -> Option<(f64, bool)> {
    let (mut mantissa, mut exponent) = (0_u64, 0_i64);
    let (mut digits, mut beyond, mut in_fraction) = (0, false, false);
    let mut rest = text;
    while let [byte, behind @ ..] = rest {
        if *byte == b'.' && !in_fraction {
            in_fraction = true;
        } else if let Some(digit) = char::from(*byte).to_digit(16) {
            digits += 1;
            if mantissa >> 60 == 0 {
                mantissa = mantissa << 4 | u64::from(digit);
                exponent -= if in_fraction { 4 } else { 0 };
            } else {
                // The mantissa is full. Rounding depends only on whether any of the remaining
                // digits is nonzero.
                beyond |= digit != 0;
                exponent += if in_fraction { 0 } else { 4 };
            }
        } else {
            break;
        }
        rest = behind;
    }
    if digits == 0 {
        return None;
    }
    match rest {
        [] => {}
        [b'p' | b'P', power @ ..] => {
            let unsigned = power.strip_prefix(b"+").unwrap_or(power);
            let number = unsigned.strip_prefix(b"-").unwrap_or(unsigned);
            let is_number = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
            // Two consecutive signs, as in "+-1", are invalid.
            if !is_number || unsigned.len() < power.len() && number.len() < unsigned.len() {
                return None;
            }
            let power = number.iter().fold(0_i64, |power, digit| {
                (power * 10 + i64::from(digit - b'0')).min(1_000_000)
            });
            exponent += if number.len() < unsigned.len() {
                -power
            } else {
                power
            };
        }
        _ => return None,
    }
    Some((scale(mantissa | u64::from(beyond), exponent), mantissa != 0))
}

/// Returns `mantissa * 2^exponent`, rounded only once. If the mantissa fills all 64 bits, its
/// lowest bit can represent truncated digits.
fn scale(mantissa: u64, exponent: i64) -> f64 {
    if mantissa == 0 {
        return 0.0;
    }
    let top = 64 - i64::from(mantissa.leading_zeros()) + exponent;
    // The precision in bits of a double of this magnitude. Subnormal numbers have fewer bits.
    let bits = (top + 1074).clamp(0, 53);
    let length = 64 - i64::from(mantissa.leading_zeros());
    let drop = length - bits;
    if drop <= 0 {
        return power_of_two(mantissa as f64, exponent);
    }
    let wide = u128::from(mantissa);
    let (kept, rest) = (wide >> drop, wide & ((1 << drop) - 1));
    let half = 1_u128 << (drop - 1);
    let up = rest > half || rest == half && kept & 1 == 1;
    power_of_two((kept + u128::from(up)) as f64, exponent + drop)
}

/// Returns `value * 2^exponent`. The result is exact unless it overflows.
fn power_of_two(mut value: f64, mut exponent: i64) -> f64 {
    while exponent > 0 && value.is_finite() {
        let step = exponent.min(1000);
        value *= 2_f64.powi(step as i32);
        exponent -= step;
    }
    while exponent < 0 && value != 0.0 {
        let step = exponent.max(-1000);
        value *= 2_f64.powi(step as i32);
        exponent -= step;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_text_must_be_a_number() {
        for (text, value) in [
            ("1", 1.0),
            ("-1.5e3", -1500.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("+2", 2.0),
            ("0x10", 16.0),
            ("-0x1.8p1", -3.0),
            ("0x1p-1074", 5e-324),
            ("0x20000000000001", 9_007_199_254_740_992.0),
            ("0x20000000000003", 9_007_199_254_740_996.0),
            (
                "0x1000000000000080000000001",
                79_228_162_514_264_355_185_729_634_304.0,
            ),
            ("inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("1e-320", 1e-320),
            ("0e-999", 0.0),
        ] {
            assert_eq!(parse_double(text.as_bytes()), Some(value), "{text}");
        }
        for text in [
            "", " 1", "1 ", "nan", "-nan", "1e400", "1e-400", "0x", "0x1p", "0x1p+-1", "1e", "x",
            ".", "1_0", "+", "infinit", "--1", "1\0",
        ] {
            assert_eq!(parse_double(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn bounds_are_parsed_leniently() {
        for (text, value) in [
            ("", 0.0),
            (" 1", 1.0),
            ("\t\n-2", -2.0),
            ("1e400", f64::INFINITY),
            ("-1e400", f64::NEG_INFINITY),
            ("1e-400", 0.0),
            ("3\0abc", 3.0),
        ] {
            assert_eq!(parse_bound(text.as_bytes()), Some(value), "{text:?}");
            let sortable = Some(value).filter(|_| !text.contains("400"));
            assert_eq!(parse_sortable(text.as_bytes()), sortable, "{text:?}");
        }
        for text in ["nan", " ", "1 ", "x", "1x"] {
            assert_eq!(parse_bound(text.as_bytes()), None, "{text:?}");
        }
    }
}
