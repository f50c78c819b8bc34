//! Formats numbers, and converts numbers to integers as C does.

use std::io::Write as _;

/// Casts a double to a 64-bit integer as C does on x86-64, where values out of range become the
/// smallest integer.
pub(crate) fn truncated(number: f64) -> i64 {
    // The smallest double that exceeds the largest 64-bit integer.
    const END: f64 = 9_223_372_036_854_775_808.0;
    if (-END..END).contains(&number) {
        number as i64
    } else {
        i64::MIN
    }
}

/// Casts a double to an unsigned 64-bit integer as C does on x86-64. For values of 2^63 and above,
/// subtracts 2^63, casts the difference to a signed integer, and restores the highest bit.
pub(crate) fn truncated_unsigned(number: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    if number >= HALF {
        truncated(number - HALF) as u64 ^ 1 << 63
    } else {
        truncated(number) as u64
    }
}

/// Appends a number in C's `%.<digits>g` format.
pub(crate) fn append_general(out: &mut Vec<u8>, number: f64, digits: usize) {
    if number.is_nan() {
        out.extend_from_slice(if number.is_sign_negative() {
            b"-nan"
        } else {
            b"nan"
        });
        return;
    }
    if number.is_infinite() {
        out.extend_from_slice(if number > 0.0 { b"inf" } else { b"-inf" });
        return;
    }
    let is_whole = number == number.trunc() && number.abs() < 1e15;
    if is_whole && digits >= 15 || is_whole && number.abs() < 1e14 && digits >= 14 {
        if number == 0.0 && number.is_sign_negative() {
            out.push(b'-');
        }
        let _ = write!(out, "{}", number as i64);
        return;
    }
    let digits = digits.max(1);
    let start = out.len();
    let _ = write!(out, "{number:.*e}", digits - 1);
    let mark = out[start..].iter().position(|byte| *byte == b'e');
    let Some(mark) = mark.map(|mark| start + mark) else {
        return;
    };
    let exponent = str::from_utf8(&out[mark + 1..]).map_or(0, |text| text.parse().unwrap_or(0));
    if exponent < -4 || exponent >= i32::try_from(digits).unwrap_or(i32::MAX) {
        out.truncate(mark);
        trim(out, start);
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "e{sign}{:02}", exponent.unsigned_abs());
        return;
    }
    out.truncate(start);
    let decimals = (digits as i32 - 1 - exponent).unsigned_abs() as usize;
    let _ = write!(out, "{number:.decimals$}");
    trim(out, start);
}

/// Removes trailing zeros after a decimal point, and the point if no digit follows it.
fn trim(out: &mut Vec<u8>, start: usize) {
    if !out[start..].contains(&b'.') {
        return;
    }
    while out.last() == Some(&b'0') {
        out.pop();
    }
    if out.last() == Some(&b'.') {
        out.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_in_c() {
        let text = |number, digits| {
            let mut out = Vec::new();
            append_general(&mut out, number, digits);
            String::from_utf8(out).expect("ASCII")
        };
        for (number, digits, expected) in [
            (0.0, 17, "0"),
            (-0.0, 17, "-0"),
            (3.0, 14, "3"),
            (3.5, 17, "3.5"),
            (0.1, 17, "0.10000000000000001"),
            (0.1, 14, "0.1"),
            (1e14, 14, "1e+14"),
            (1e15, 17, "1000000000000000"),
            (123_456_789_012_345.0, 14, "1.2345678901234e+14"),
            (1e17, 17, "1e+17"),
            (1.5e-5, 17, "1.5e-05"),
            (1e100, 17, "1e+100"),
            (99.95, 3, "100"),
            (f64::INFINITY, 17, "inf"),
            (f64::NEG_INFINITY, 14, "-inf"),
        ] {
            assert_eq!(text(number, digits), expected);
        }
    }

    #[test]
    fn unsigned_casts_match_c() {
        for (number, expected) in [
            (3.99, 3),
            (-1.0, u64::MAX),
            (9_223_372_036_854_775_808.0, 1 << 63),
            (18_446_744_073_709_551_616.0, 0),
            (f64::INFINITY, 0),
            (f64::NEG_INFINITY, 1 << 63),
            (f64::NAN, 1 << 63),
        ] {
            assert_eq!(truncated_unsigned(number), expected, "{number}");
        }
    }

    #[test]
    fn signed_casts_match_c() {
        assert_eq!(truncated(3.99), 3);
        assert_eq!(truncated(-3.99), -3);
        for number in [
            f64::NAN,
            1e19,
            -1e19,
            f64::INFINITY,
            9_223_372_036_854_775_808.0,
        ] {
            assert_eq!(truncated(number), i64::MIN);
        }
    }
}
