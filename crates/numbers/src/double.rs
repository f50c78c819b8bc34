//! Formats doubles as they appear in replies.

use std::fmt;
use std::io::Write;
use std::ops::Deref;

use crate::parse_integer;

/// The maximum length of a formatted double: a sign, 17 digits, a decimal point, and `e-308`.
const DOUBLE_TEXT: usize = 24;

/// The text of a double, stored inline without allocation. Returned by [`double_text`].
#[derive(Clone, Copy)]
pub struct DoubleText {
    bytes: [u8; DOUBLE_TEXT],
    len: u8,
}

impl DoubleText {
    const fn new() -> Self {
        Self {
            bytes: [0; DOUBLE_TEXT],
            len: 0,
        }
    }

    fn push(&mut self, text: &[u8]) {
        let start = usize::from(self.len);
        self.bytes[start..start + text.len()].copy_from_slice(text);
        self.len += text.len() as u8;
    }
}

impl DoubleText {
    /// Returns the text as a `str`.
    pub fn as_str(&self) -> &str {
        // The default is never used, because the text is ASCII.
        std::str::from_utf8(self).unwrap_or_default()
    }
}

impl Deref for DoubleText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for DoubleText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl fmt::Display for DoubleText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// Formats a double as Redis 7.0 does in replies: C's `%.17g`, and `inf`, `-inf`, `nan`, `-nan`.
///
/// For example, 3.1 becomes `3.1000000000000001`. Seventeen digits always round-trip, and clients
/// compare the exact text.
pub fn double_text(value: f64) -> DoubleText {
    let mut text = DoubleText::new();
    if value.is_sign_negative() {
        text.push(b"-");
    }
    let magnitude = value.abs();
    if magnitude.is_nan() {
        text.push(b"nan");
    } else if magnitude.is_infinite() {
        text.push(b"inf");
    } else if magnitude < 1e17 && magnitude.trunc() == magnitude {
        text.push(itoa::Buffer::new().format(magnitude as u64).as_bytes());
    } else {
        push_17_digits(&mut text, magnitude);
    }
    text
}

/// Appends a positive finite number in the format `%.17g`: fixed notation for decimal exponents
/// from -4 to 16, scientific notation otherwise, without trailing zeros in the fraction.
fn push_17_digits(text: &mut DoubleText, magnitude: f64) {
    // The output has the form `d.dddddddddddddddde-308` and is correctly rounded. The buffer is
    // large enough, so the write cannot fail.
    let mut scientific = [0u8; DOUBLE_TEXT];
    let mut rest = &mut scientific[..];
    let written = write!(rest, "{magnitude:.16e}").map_or(0, |()| DOUBLE_TEXT - rest.len());
    let (mantissa, exponent) = match scientific[..written].iter().position(|&b| b == b'e') {
        Some(at) => (&scientific[..at], &scientific[at + 1..written]),
        None => (&scientific[..written], &b"0"[..]),
    };
    let exponent = parse_integer(exponent).unwrap_or(0);
    let mut digits = [0u8; 17];
    let mut significant = 0;
    for (place, &digit) in mantissa.iter().filter(|&&b| b != b'.').enumerate() {
        digits[place] = digit;
        if digit != b'0' {
            significant = place + 1;
        }
    }
    let digits = &digits[..significant.max(1)];
    if (-4..0).contains(&exponent) {
        text.push(b"0.");
        text.push(&b"000"[..(-exponent - 1) as usize]);
        text.push(digits);
    } else if (0..17).contains(&exponent) {
        let whole = exponent as usize + 1;
        // Integers were handled above, so digits remain for the fraction.
        let (whole, fraction) = digits.split_at(whole.min(digits.len()));
        text.push(whole);
        text.push(b".");
        text.push(fraction);
    } else {
        text.push(&digits[..1]);
        if digits.len() > 1 {
            text.push(b".");
            text.push(&digits[1..]);
        }
        text.push(if exponent < 0 { b"e-" } else { b"e+" });
        if exponent.abs() < 10 {
            text.push(b"0");
        }
        text.push(
            itoa::Buffer::new()
                .format(exponent.unsigned_abs())
                .as_bytes(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_print_as_in_c() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-3.0, "-3"),
            (0.5, "0.5"),
            (3.1, "3.1000000000000001"),
            (3141.0 / 1000.0, "3.141"),
            (0.1, "0.10000000000000001"),
            (0.0001, "0.0001"),
            (0.00012345, "0.00012344999999999999"),
            (1e-5, "1.0000000000000001e-05"),
            (1234.5, "1234.5"),
            (12345678901234.5, "12345678901234.5"),
            (99999999999999984.0, "99999999999999984"),
            (1e17, "1e+17"),
            (123456789012345678.0, "1.2345678901234568e+17"),
            (1e300, "1.0000000000000001e+300"),
            (f64::MAX, "1.7976931348623157e+308"),
            (-f64::MIN_POSITIVE, "-2.2250738585072014e-308"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (-f64::NAN, "-nan"),
        ] {
            assert_eq!(
                String::from_utf8_lossy(&double_text(value)),
                text,
                "{value:?}"
            );
        }
    }
}
