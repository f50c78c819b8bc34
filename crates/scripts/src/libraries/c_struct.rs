//! Implements the `struct` library, which packs values in the layout of C structures.

use std::ffi::c_int;

use crate::libraries::function::{Function, Memory, asked};
use crate::state::State;
use crate::values::numbers::{truncated, truncated_unsigned};

/// The functions of `struct`, with the limits on each call's time and memory.
pub(crate) const FUNCTIONS: &[Function] = &[
    asked(c"pack", pack, "options and bytes", Memory::Counted),
    asked(c"unpack", unpack, "options and bytes", Memory::Counted),
    asked(c"size", size, "options", Memory::Fixed),
];

const INTEGER_MAX: usize = 32;
const ALIGNMENT_MAX: usize = 8;

/// A parser for the format strings of `struct`.
#[derive(Clone, Copy)]
struct Format<'t> {
    rest: &'t [u8],
    is_big: bool,
    alignment: usize,
}

impl Format<'static> {
    /// Returns a parser for the first argument. The argument must stay on the stack while the
    /// parser exists.
    fn of(state: &State<'_>) -> Format<'static> {
        state.check_bytes(1);
        Format {
            // SAFETY: no function in this file removes its first argument from the stack, so the
            // bytes stay alive.
            rest: unsafe { state.anchored() }.c_bytes(1),
            is_big: false,
            alignment: 1,
        }
    }
}

impl Format<'_> {
    /// Parses the next format option. Returns the option and the size in bytes of the value that it
    /// describes.
    fn option(&mut self, state: &State<'_>) -> Option<(u8, usize)> {
        let (&option, rest) = self.rest.split_first()?;
        state.spend(1);
        self.rest = rest;
        let size = match option {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.number(state, 1),
            b'i' | b'I' => {
                let size = self.number(state, 4);
                if size > INTEGER_MAX {
                    state.raise_formatted(format_args!(
                        "integral size {size} is larger than limit of {INTEGER_MAX}"
                    ));
                }
                size
            }
            _ => 0,
        };
        Some((option, size))
    }

    /// Parses the number after an option. Returns `default` if no digit follows.
    fn number(&mut self, state: &State<'_>, default: usize) -> usize {
        let mut number = None;
        while let Some((digit @ b'0'..=b'9', rest)) = self.rest.split_first() {
            state.spend(1);
            let (before, digit) = (number.unwrap_or(0), usize::from(digit - b'0'));
            if before > c_int::MAX as usize / 10 || before * 10 > c_int::MAX as usize - digit {
                state.raise_here(b"integral size overflow");
            }
            number = Some(before * 10 + digit);
            self.rest = rest;
        }
        number.unwrap_or(default)
    }

    /// Returns the number of padding bytes that align an option's value at offset `at`.
    fn padding(&self, at: usize, option: u8, size: usize) -> usize {
        if size == 0 || option == b'c' {
            return 0;
        }
        let size = size.min(self.alignment);
        size.wrapping_sub(at & (size - 1)) & (size - 1)
    }

    /// Applies an option that describes no value, such as a byte order.
    fn apply_control(&mut self, state: &State<'_>, option: u8) {
        match option {
            b' ' => {}
            b'>' => self.is_big = true,
            b'<' => self.is_big = false,
            b'!' => {
                let alignment = self.number(state, ALIGNMENT_MAX);
                if !alignment.is_power_of_two() {
                    let problem = format_args!("alignment {alignment} is not a power of 2");
                    state.raise_formatted(problem);
                }
                self.alignment = alignment;
            }
            _ => {
                state.push_bytes(b"invalid format option '");
                state.push_bytes(&[option]);
                state.push_bytes(b"'");
                state.raise_argument_joined(1, 3);
            }
        }
    }
}

fn append(out: &mut Vec<u8>, bytes: &mut [u8], is_big: bool) {
    if is_big {
        bytes.reverse();
    }
    out.extend_from_slice(bytes);
}

fn pack(state: &mut State<'_>) -> c_int {
    let mut format = Format::of(state);
    let context = state.context();
    context.clear_scratch();
    // SAFETY: `out` is the only reference to the scratch buffer: no function called below uses the
    // buffer, and no script runs.
    let out = unsafe { &mut *context.scratch() };
    // Push nil after the last argument, so that a missing argument is read as nil.
    state.push_nil();
    let (mut argument, mut total) = (2, 0_usize);
    while let Some((option, size)) = format.option(state) {
        let padding = format.padding(total, option, size);
        total += padding;
        state.check_scratch(out.len() + padding + INTEGER_MAX);
        out.resize(out.len() + padding, 0);
        let size = match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let value = truncated_unsigned(state.check_number(argument));
                let mut bytes = [0; INTEGER_MAX];
                bytes[..8].copy_from_slice(&value.to_le_bytes());
                append(out, &mut bytes[..size], format.is_big);
                argument += 1;
                size
            }
            b'f' => {
                let number = state.check_number(argument) as f32;
                append(out, &mut number.to_le_bytes(), format.is_big);
                argument += 1;
                size
            }
            b'd' => {
                let number = state.check_number(argument);
                append(out, &mut number.to_le_bytes(), format.is_big);
                argument += 1;
                size
            }
            b'c' | b's' => {
                argument += 1;
                append_text(state, out, argument - 1, option, size)
            }
            b'x' => {
                out.push(0);
                size
            }
            _ => {
                format.apply_control(state, option);
                size
            }
        };
        total = total.wrapping_add(size);
    }
    state.push_scratch();
    1
}

/// Appends the first `size` bytes of a string argument, or the entire string if `size` is 0.
/// Returns the number of appended bytes.
fn append_text(
    state: &State<'_>,
    out: &mut Vec<u8>,
    argument: c_int,
    option: u8,
    size: usize,
) -> usize {
    let text = state.check_bytes(argument);
    let size = if size == 0 { text.len() } else { size };
    let Some(part) = text.get(..size) else {
        // As in Redis, the error names the argument that follows the short string.
        state.raise_argument(argument + 1, c"string too short");
    };
    state.check_scratch(out.len() + size + 1);
    state.spend_bytes(size);
    out.extend_from_slice(part);
    if option == b's' {
        out.push(0);
    }
    size + usize::from(option == b's')
}

fn unpack(state: &mut State<'_>) -> c_int {
    let mut format = Format::of(state);
    // SAFETY: the second argument stays on the stack until this function returns, so its bytes stay
    // alive.
    let data = unsafe { state.anchored() }.check_bytes(2);
    let position = state.optional_integer(3, 1);
    // As in Redis, a negative position wraps around to a huge position past the end of the data.
    if position == 0 {
        state.raise_argument(3, c"offset must be 1 or greater");
    }
    let mut at = (position as usize).wrapping_sub(1);
    let mut count = 0;
    state.set_top(2);
    while let Some((option, size)) = format.option(state) {
        at = at.wrapping_add(format.padding(at, option, size));
        if size > data.len() || at > data.len() - size {
            state.raise_argument(2, c"data string too short");
        }
        if !state.has_room(2) {
            state.raise_here(b"stack overflow (too many results)");
        }
        let rest = &data[at..];
        at += match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let value = read_integer(&rest[..size], format.is_big);
                let is_signed = option.is_ascii_lowercase();
                state.push_number(number(value, size, is_signed));
                count += 1;
                size
            }
            b'f' => {
                let value = read_integer(&rest[..size], format.is_big) as u32;
                state.push_number(f64::from(f32::from_bits(value)));
                count += 1;
                size
            }
            b'd' => {
                let value = read_integer(&rest[..size], format.is_big);
                state.push_number(f64::from_bits(value));
                count += 1;
                size
            }
            b'c' => {
                let has_size = size != 0;
                let size = if has_size {
                    size
                } else {
                    take_size(state, count)
                };
                push_text(state, rest.get(..size));
                count += c_int::from(has_size);
                size
            }
            b's' => {
                let Some(end) = memchr::memchr(0, rest) else {
                    state.raise_here(b"unfinished string in data");
                };
                push_text(state, rest.get(..end));
                count += 1;
                end + 1
            }
            b'x' => size,
            _ => {
                format.apply_control(state, option);
                size
            }
        };
    }
    state.push_integer((at as i64).wrapping_add(1));
    debug_assert_eq!(state.top(), count + 3);
    count + 1
}

/// Pops the value that was unpacked last, and returns it as the size of the next string.
fn take_size(state: &mut State<'_>, results: c_int) -> usize {
    if results == 0 || !state.is_number(-1) {
        state.raise_here(b"format 'c0' needs a previous size");
    }
    let size = truncated(state.number(-1)) as usize;
    state.pop(1);
    size
}

fn push_text(state: &State<'_>, text: Option<&[u8]>) {
    let Some(text) = text else {
        state.raise_argument(2, c"data string too short");
    };
    state.spend_bytes(text.len());
    state.make_room(text.len());
    state.push_bytes(text);
}

/// Returns the low 64 bits of an integer of any size.
fn read_integer(bytes: &[u8], is_big: bool) -> u64 {
    let join = |value: u64, (place, byte): (usize, &u8)| match place {
        0..8 => value | u64::from(*byte) << (place * 8),
        _ => value,
    };
    match is_big {
        true => bytes.iter().rev().enumerate().fold(0, join),
        false => bytes.iter().enumerate().fold(0, join),
    }
}

fn number(value: u64, size: usize, is_signed: bool) -> f64 {
    match size {
        _ if !is_signed => value as f64,
        1..8 => {
            let unused = 64 - size as u32 * 8;
            ((value << unused) as i64 >> unused) as f64
        }
        _ => value as i64 as f64,
    }
}

fn size(state: &mut State<'_>) -> c_int {
    let mut format = Format::of(state);
    let mut at = 0_usize;
    while let Some((option, size)) = format.option(state) {
        at += format.padding(at, option, size);
        if option == b's' {
            state.raise_argument(1, c"option 's' has no fixed size");
        }
        if option == b'c' && size == 0 {
            state.raise_argument(1, c"option 'c0' has no fixed size");
        }
        if !option.is_ascii_alphanumeric() {
            format.apply_control(state, option);
        }
        at = at.wrapping_add(size);
    }
    state.push_integer(at as i64);
    1
}
