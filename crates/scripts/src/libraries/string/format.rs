//! Implements `string.format`.
//!
//! C's `snprintf` prints each conversion after its format has been validated. The width and the
//! precision have at most two digits each, so no result is longer than a few hundred bytes.

use std::ffi::{c_char, c_double, c_int, c_long, c_ulong};

use crate::state::State;
use crate::values::buffer::Buffer;
use crate::values::numbers::{truncated, truncated_unsigned};

unsafe extern "C" {
    fn snprintf(out: *mut c_char, size: usize, format: *const c_char, ...) -> c_int;
}

/// The size, in bytes, of the buffer for one conversion. `%99.99f` of the largest number fits.
const CONVERSION_MAX: usize = 512;
const FLAGS: &[u8] = b"-+ #0";
/// A string of at least this many bytes is not padded.
const PADDED_MAX: usize = 100;

/// One conversion of a format, in the form that C expects.
struct Conversion {
    /// The conversion's format with a leading `%`, padded with zero bytes.
    text: [u8; 24],
    length: usize,
    has_precision: bool,
}

impl Conversion {
    fn add(&mut self, byte: u8) {
        if self.length < self.text.len() - 1 {
            self.text[self.length] = byte;
            self.length += 1;
        }
    }

    /// Parses the format after a `%`, up to the conversion letter. Returns the conversion and the
    /// number of bytes parsed.
    fn read(format: &[u8]) -> Result<(Conversion, usize), &'static [u8]> {
        let at = |place: usize| format.get(place).copied().unwrap_or(0);
        let is_digit = |place: usize| at(place).is_ascii_digit();
        let mut end = 0;
        while FLAGS.contains(&at(end)) {
            end += 1;
        }
        if end > FLAGS.len() {
            return Err(b"invalid format (repeated flags)");
        }
        end += usize::from(is_digit(end));
        end += usize::from(is_digit(end));
        let has_precision = at(end) == b'.';
        if has_precision {
            end += 1;
            end += usize::from(is_digit(end));
            end += usize::from(is_digit(end));
        }
        if is_digit(end) {
            return Err(b"invalid format (width or precision too long)");
        }
        let mut conversion = Conversion {
            text: [0; 24],
            length: 0,
            has_precision,
        };
        conversion.add(b'%');
        format[..end].iter().for_each(|byte| conversion.add(*byte));
        Ok((conversion, end))
    }

    /// Appends the conversion letter to the format, preceded by `l` for a 64-bit integer.
    fn terminate(&mut self, is_long: bool, letter: u8) -> *const c_char {
        if is_long {
            self.add(b'l');
        }
        self.add(letter);
        self.text.as_ptr().cast()
    }
}

/// Implements `string.format`.
pub(super) fn format(state: &mut State<'_>) -> c_int {
    let top = state.top();
    let format = state.check_bytes(1);
    state.check_room_for(4, c"too many arguments");
    let mut out = Buffer::new(state);
    let (mut at, mut argument) = (0, 1);
    while let Some(rest) = format.get(at..).filter(|rest| !rest.is_empty()) {
        let plain = memchr::memchr(b'%', rest).unwrap_or(rest.len());
        if plain > 0 {
            out.add(&rest[..plain]);
            at += plain;
            continue;
        }
        if rest.get(1) == Some(&b'%') {
            out.add_byte(b'%');
            at += 2;
            continue;
        }
        argument += 1;
        if argument > top {
            state.raise_argument(argument, c"no value");
        }
        state.spend(1);
        let (conversion, length) = match Conversion::read(&rest[1..]) {
            Ok(read) => read,
            Err(problem) => state.raise_here(problem),
        };
        let letter = rest.get(1 + length).copied().unwrap_or(0);
        at += length + 2;
        add_conversion(state, &mut out, conversion, letter, argument);
    }
    out.push();
    1
}

fn add_conversion(
    state: &State<'_>,
    out: &mut Buffer<'_>,
    mut conversion: Conversion,
    letter: u8,
    argument: c_int,
) {
    let mut printed = [0_u8; CONVERSION_MAX];
    let place = printed.as_mut_ptr().cast::<c_char>();
    match letter {
        b'c' => {
            let value = truncated(state.check_number(argument)) as c_int;
            let format = conversion.terminate(false, letter);
            // SAFETY: the format has one conversion, which matches the type of `value`, and the
            // output is limited to the buffer's size.
            unsafe { snprintf(place, CONVERSION_MAX, format, value) };
        }
        b'd' | b'i' => {
            let value: c_long = truncated(state.check_number(argument));
            let format = conversion.terminate(true, letter);
            // SAFETY: the format has one conversion, which matches the type of `value`, and the
            // output is limited to the buffer's size.
            unsafe { snprintf(place, CONVERSION_MAX, format, value) };
        }
        b'o' | b'u' | b'x' | b'X' => {
            let value: c_ulong = truncated_unsigned(state.check_number(argument));
            let format = conversion.terminate(true, letter);
            // SAFETY: the format has one conversion, which matches the type of `value`, and the
            // output is limited to the buffer's size.
            unsafe { snprintf(place, CONVERSION_MAX, format, value) };
        }
        b'e' | b'E' | b'f' | b'g' | b'G' => {
            let value: c_double = state.check_number(argument);
            let format = conversion.terminate(false, letter);
            // SAFETY: the format has one conversion, which matches the type of `value`, and the
            // output is limited to the buffer's size.
            unsafe { snprintf(place, CONVERSION_MAX, format, value) };
        }
        b'q' => return add_quoted(out, state.check_bytes(argument)),
        b's' => {
            let value = state.check_bytes(argument);
            if !conversion.has_precision && value.len() >= PADDED_MAX {
                return out.add(value);
            }
            let (format, value) = (conversion.terminate(false, letter), value.as_ptr());
            // SAFETY: the format has a single conversion, for a string. Every Lua string ends with
            // a zero byte, and the output is limited to the buffer's size.
            unsafe { snprintf(place, CONVERSION_MAX, format, value) };
        }
        _ => {
            let letter = if letter == 0 { &b""[..] } else { &[letter] };
            state.raise_joined(&[b"invalid option '%", letter, b"' to 'format'"]);
        }
    }
    // As in C, the output ends at the first zero byte.
    let length = printed.iter().position(|byte| *byte == 0);
    out.add(&printed[..length.unwrap_or(0)]);
}

fn add_quoted(out: &mut Buffer<'_>, text: &[u8]) {
    let is_quoted = |byte: &u8| matches!(byte, b'"' | b'\\' | b'\n' | b'\r' | 0);
    out.add_byte(b'"');
    let mut rest = text;
    while !rest.is_empty() {
        const PIECE: usize = 4096;
        let part = &rest[..rest.len().min(PIECE)];
        let plain = part.iter().position(is_quoted).unwrap_or(part.len());
        out.add(&part[..plain]);
        rest = &rest[plain..];
        if plain < part.len() {
            match rest[0] {
                b'\r' => out.add(b"\\r"),
                0 => out.add(b"\\000"),
                byte => out.add(&[b'\\', byte]),
            }
            rest = &rest[1..];
        }
    }
    out.add_byte(b'"');
}
