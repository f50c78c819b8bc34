//! The library `bit`: operations on the low 32 bits of numbers.

use std::ffi::c_int;

use mlua_sys::{lua_State, lua_gettop, lua_pushnumber, luaL_checknumber};

use crate::libraries::function::{Function, constant};
use crate::state::stack::push_bytes;

/// Its functions.
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

/// The low 32 bits of an argument, rounded to the nearest integer.
unsafe fn argument(state: *mut lua_State, index: c_int) -> u32 {
    bits(luaL_checknumber(state, index))
}

fn bits(number: f64) -> u32 {
    // 2^52 + 2^51: what is added to it lies in the low bits, rounded.
    (number + 6_755_399_441_055_744.0).to_bits() as u32
}

/// Leaves a number, as a signed one.
unsafe fn push_signed(state: *mut lua_State, bits: u32) -> c_int {
    lua_pushnumber(state, f64::from(bits as i32));
    1
}

unsafe extern "C-unwind" fn to_bit(state: *mut lua_State) -> c_int {
    push_signed(state, argument(state, 1))
}

unsafe extern "C-unwind" fn not(state: *mut lua_State) -> c_int {
    push_signed(state, !argument(state, 1))
}

unsafe fn fold(state: *mut lua_State, join: fn(u32, u32) -> u32) -> c_int {
    let mut all = argument(state, 1);
    // The last one that is none is told of, as in Redis.
    for index in (2..=lua_gettop(state)).rev() {
        all = join(all, argument(state, index));
    }
    push_signed(state, all)
}

unsafe extern "C-unwind" fn and(state: *mut lua_State) -> c_int {
    fold(state, |one, other| one & other)
}

unsafe extern "C-unwind" fn or(state: *mut lua_State) -> c_int {
    fold(state, |one, other| one | other)
}

unsafe extern "C-unwind" fn exclusive_or(state: *mut lua_State) -> c_int {
    fold(state, |one, other| one ^ other)
}

unsafe fn shift(state: *mut lua_State, by: fn(u32, u32) -> u32) -> c_int {
    let bits = argument(state, 1);
    let places = argument(state, 2) & 31;
    push_signed(state, by(bits, places))
}

unsafe extern "C-unwind" fn shift_left(state: *mut lua_State) -> c_int {
    shift(state, |bits, places| bits << places)
}

unsafe extern "C-unwind" fn shift_right(state: *mut lua_State) -> c_int {
    shift(state, |bits, places| bits >> places)
}

unsafe extern "C-unwind" fn shift_right_signed(state: *mut lua_State) -> c_int {
    shift(state, |bits, places| (bits as i32 >> places) as u32)
}

unsafe extern "C-unwind" fn rotate_left(state: *mut lua_State) -> c_int {
    shift(state, u32::rotate_left)
}

unsafe extern "C-unwind" fn rotate_right(state: *mut lua_State) -> c_int {
    shift(state, u32::rotate_right)
}

unsafe extern "C-unwind" fn swap_bytes(state: *mut lua_State) -> c_int {
    push_signed(state, argument(state, 1).swap_bytes())
}

unsafe extern "C-unwind" fn to_hexadecimal(state: *mut lua_State) -> c_int {
    let mut bits = argument(state, 1);
    let asked = match lua_gettop(state) {
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
    push_bytes(state, &text[..length]);
    1
}

#[cfg(test)]
mod tests {
    use super::bits;

    #[test]
    fn numbers_are_cut_to_32_bits() {
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
