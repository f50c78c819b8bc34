//! Implements the `bit` library: bitwise operations on the low 32 bits of numbers.

use std::ffi::c_int;

use crate::libraries::function::{Function, constant};
use crate::state::State;

/// The functions of `bit`, with the limits on each call's time and memory.
pub(crate) const FUNCTIONS: &[Function] = &[
    constant(c"tobit", to_bit),
    constant(c"bnot", not),
    constant(c"band", and),
    constant(c"bor", or),
    constant(c"bxor", exclusive_or),
    constant(c"lshift", shift_left),
    constant(c"rshift", shift_right),
    constant(c"arshift", shift_right_signed),
    constant(c"rol", rotate_left),
    constant(c"ror", rotate_right),
    constant(c"bswap", swap_bytes),
    constant(c"tohex", to_hexadecimal),
];

/// Returns the argument at `index`, rounded to the nearest integer and truncated to 32 bits.
fn argument(state: &State<'_>, index: c_int) -> u32 {
    bits(state.check_number(index))
}

fn bits(number: f64) -> u32 {
    // Adding 2^52 + 2^51 leaves the rounded integer in the low bits of the sum.
    (number + 6_755_399_441_055_744.0).to_bits() as u32
}

/// Pushes the bits as a signed number. Returns 1, the number of Lua results.
fn push_signed(state: &State<'_>, bits: u32) -> c_int {
    state.push_number(f64::from(bits as i32));
    1
}

fn to_bit(state: &mut State<'_>) -> c_int {
    push_signed(state, argument(state, 1))
}

fn not(state: &mut State<'_>) -> c_int {
    push_signed(state, !argument(state, 1))
}

fn fold(state: &State<'_>, join: fn(u32, u32) -> u32) -> c_int {
    let mut all = argument(state, 1);
    // Redis checks the arguments after the first one from last to first. Check them in the same
    // order, so that the error names the same bad argument.
    for index in (2..=state.top()).rev() {
        all = join(all, argument(state, index));
    }
    push_signed(state, all)
}

fn and(state: &mut State<'_>) -> c_int {
    fold(state, |one, other| one & other)
}

fn or(state: &mut State<'_>) -> c_int {
    fold(state, |one, other| one | other)
}

fn exclusive_or(state: &mut State<'_>) -> c_int {
    fold(state, |one, other| one ^ other)
}

fn shift(state: &State<'_>, by: fn(u32, u32) -> u32) -> c_int {
    let bits = argument(state, 1);
    let places = argument(state, 2) & 31;
    push_signed(state, by(bits, places))
}

fn shift_left(state: &mut State<'_>) -> c_int {
    shift(state, |bits, places| bits << places)
}

fn shift_right(state: &mut State<'_>) -> c_int {
    shift(state, |bits, places| bits >> places)
}

fn shift_right_signed(state: &mut State<'_>) -> c_int {
    shift(state, |bits, places| (bits as i32 >> places) as u32)
}

fn rotate_left(state: &mut State<'_>) -> c_int {
    shift(state, u32::rotate_left)
}

fn rotate_right(state: &mut State<'_>) -> c_int {
    shift(state, u32::rotate_right)
}

fn swap_bytes(state: &mut State<'_>) -> c_int {
    push_signed(state, argument(state, 1).swap_bytes())
}

fn to_hexadecimal(state: &mut State<'_>) -> c_int {
    let mut bits = argument(state, 1);
    let asked = match state.top() {
        0 | 1 => 8,
        _ => argument(state, 2) as i32,
    };
    let digits: &[u8; 16] = match asked < 0 {
        true => b"0123456789ABCDEF",
        false => b"0123456789abcdef",
    };
    let length = asked.unsigned_abs().min(8) as usize;
    let mut text = [0; 8];
    for place in text[..length].iter_mut().rev() {
        *place = digits[(bits & 15) as usize];
        bits >>= 4;
    }
    state.push_bytes(&text[..length]);
    1
}

#[cfg(test)]
mod tests {
    use super::bits;

    #[test]
    fn numbers_are_truncated_to_32_bits() {
        for (number, expected) in [
            (0.0, 0),
            (-1.0, u32::MAX),
            (4_294_967_296.0, 0),
            (4_294_967_297.0, 1),
            (1.5, 2),
            (2.5, 2),
            (-4_294_967_297.0, u32::MAX),
        ] {
            assert_eq!(bits(number), expected);
        }
    }
}
