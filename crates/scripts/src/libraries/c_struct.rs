//! The library `struct`: values in the form of C structures.

use std::ffi::c_int;

use mlua_sys::{
    lua_State, lua_checkstack, lua_gettop, lua_isnumber, lua_pop, lua_pushfstring, lua_pushinteger,
    lua_pushnil, lua_pushnumber, lua_settop, lua_tonumber, luaL_argerror, luaL_checklstring,
    luaL_checknumber, luaL_error,
};

use crate::libraries::function::{Function, Memory, asked};
use crate::libraries::workspace::Workspace;
use crate::state::limits::{self, check_room};
use crate::state::stack::push_bytes;
use crate::values::arguments::optional_integer;
use crate::values::numbers::{truncated, truncated_unsigned};

/// Its functions.
pub(crate) const FUNCTIONS: &[Function] = &[
    asked(c"pack", pack, "options and bytes", Memory::Counted),
    asked(c"unpack", unpack, "options and bytes", Memory::Counted),
    asked(c"size", size, "options", Memory::Fixed),
];

const INTEGER_MAX: usize = 32;
const ALIGNMENT_MAX: usize = 8;

/// A format that is being read.
#[derive(Clone, Copy)]
struct Format {
    next: *const u8,
    is_big: bool,
    alignment: usize,
}

impl Format {
    unsafe fn of(state: *mut lua_State) -> Format {
        Format {
            next: luaL_checklstring(state, 1, std::ptr::null_mut()).cast(),
            is_big: false,
            alignment: 1,
        }
    }

    /// The next option and the size of what it stands for.
    unsafe fn option(&mut self, state: *mut lua_State) -> Option<(u8, usize)> {
        let option = *self.next;
        if option == 0 {
            return None;
        }
        limits::spend(state, 1);
        self.next = self.next.add(1);
        let size = match option {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.number(state, 1),
            b'i' | b'I' => {
                let size = self.number(state, 4);
                if size > INTEGER_MAX {
                    luaL_error(
                        state,
                        c"integral size %d is larger than limit of %d".as_ptr(),
                        size as c_int,
                        INTEGER_MAX as c_int,
                    );
                }
                size
            }
            _ => 0,
        };
        Some((option, size))
    }

    unsafe fn number(&mut self, state: *mut lua_State, default: usize) -> usize {
        if !(*self.next).is_ascii_digit() {
            return default;
        }
        let mut number = 0_usize;
        while (*self.next).is_ascii_digit() {
            limits::spend(state, 1);
            let digit = usize::from(*self.next - b'0');
            if number > c_int::MAX as usize / 10 || number * 10 > c_int::MAX as usize - digit {
                luaL_error(state, c"integral size overflow".as_ptr());
            }
            number = number * 10 + digit;
            self.next = self.next.add(1);
        }
        number
    }

    /// Bytes between a place and one that is aligned for an option.
    fn padding(&self, at: usize, option: u8, size: usize) -> usize {
        if size == 0 || option == b'c' {
            return 0;
        }
        let size = size.min(self.alignment);
        size.wrapping_sub(at & (size - 1)) & (size - 1)
    }

    /// An option that stands for nothing itself.
    unsafe fn apply_control(&mut self, state: *mut lua_State, option: u8) {
        match option {
            b' ' => {}
            b'>' => self.is_big = true,
            b'<' => self.is_big = false,
            b'!' => {
                let alignment = self.number(state, ALIGNMENT_MAX);
                if !alignment.is_power_of_two() {
                    luaL_error(
                        state,
                        c"alignment %d is not a power of 2".as_ptr(),
                        alignment as c_int,
                    );
                }
                self.alignment = alignment;
            }
            _ => {
                let text = lua_pushfstring(
                    state,
                    c"invalid format option '%c'".as_ptr(),
                    c_int::from(option),
                );
                luaL_argerror(state, 1, text);
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

unsafe extern "C-unwind" fn pack(state: *mut lua_State) -> c_int {
    let mut format = Format::of(state);
    let workspace = Workspace::of(state);
    (*workspace).context.clear_scratch();
    let out = &raw mut (*workspace).context.text;
    // An argument that is missing is nil.
    lua_pushnil(state);
    let (mut argument, mut total) = (2, 0_usize);
    while let Some((option, mut size)) = format.option(state) {
        let padding = format.padding(total, option, size);
        total += padding;
        check_room(state, padding + INTEGER_MAX);
        let length = (*out).len();
        (*out).resize(length + padding, 0);
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let number = luaL_checknumber(state, argument);
                argument += 1;
                let value = truncated_unsigned(number);
                let mut bytes = [0; INTEGER_MAX];
                bytes[..8].copy_from_slice(&value.to_le_bytes());
                append(&mut *out, &mut bytes[..size], format.is_big);
            }
            b'x' => (*out).push(0),
            b'f' => {
                let number = luaL_checknumber(state, argument) as f32;
                argument += 1;
                append(&mut *out, &mut number.to_le_bytes(), format.is_big);
            }
            b'd' => {
                let number = luaL_checknumber(state, argument);
                argument += 1;
                append(&mut *out, &mut number.to_le_bytes(), format.is_big);
            }
            b'c' | b's' => {
                let mut length = 0;
                let text = luaL_checklstring(state, argument, &mut length);
                argument += 1;
                if size == 0 {
                    size = length;
                }
                if length < size {
                    return luaL_argerror(state, argument, c"string too short".as_ptr());
                }
                check_room(state, size + 1);
                limits::spend_bytes(state, size);
                (*out).extend_from_slice(std::slice::from_raw_parts(text.cast(), size));
                if option == b's' {
                    (*out).push(0);
                    size += 1;
                }
            }
            _ => format.apply_control(state, option),
        }
        total = total.wrapping_add(size);
    }
    limits::push_scratch(state);
    1
}

unsafe extern "C-unwind" fn unpack(state: *mut lua_State) -> c_int {
    let mut format = Format::of(state);
    let mut length = 0;
    let data: *const u8 = luaL_checklstring(state, 2, &mut length).cast();
    let position = optional_integer(state, 3, 1);
    // A negative one is far behind the end, as in Redis.
    if position == 0 {
        return luaL_argerror(state, 3, c"offset must be 1 or greater".as_ptr());
    }
    let mut at = (position as usize).wrapping_sub(1);
    let mut count = 0;
    lua_settop(state, 2);
    while let Some((option, mut size)) = format.option(state) {
        at = at.wrapping_add(format.padding(at, option, size));
        if size > length || at > length - size {
            return luaL_argerror(state, 2, c"data string too short".as_ptr());
        }
        if lua_checkstack(state, 2) == 0 {
            return luaL_error(
                state,
                c"stack overflow (%s)".as_ptr(),
                c"too many results".as_ptr(),
            );
        }
        let here = data.add(at);
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let value = read_integer(here, size, format.is_big);
                let is_signed = option.is_ascii_lowercase();
                lua_pushnumber(state, number(value, size, is_signed));
                count += 1;
            }
            b'x' => {}
            b'f' => {
                let value = read_integer(here, 4, format.is_big) as u32;
                lua_pushnumber(state, f64::from(f32::from_bits(value)));
                count += 1;
            }
            b'd' => {
                lua_pushnumber(state, f64::from_bits(read_integer(here, 8, format.is_big)));
                count += 1;
            }
            b'c' => {
                if size == 0 {
                    if count == 0 || lua_isnumber(state, -1) == 0 {
                        return luaL_error(state, c"format 'c0' needs a previous size".as_ptr());
                    }
                    size = truncated(lua_tonumber(state, -1)) as usize;
                    lua_pop(state, 1);
                    count -= 1;
                    if size > length || at > length - size {
                        return luaL_argerror(state, 2, c"data string too short".as_ptr());
                    }
                }
                limits::spend_bytes(state, size);
                limits::make_room(state, size);
                push_bytes(state, std::slice::from_raw_parts(here, size));
                count += 1;
            }
            b's' => {
                let rest = std::slice::from_raw_parts(here, length - at);
                let Some(end) = memchr::memchr(0, rest) else {
                    return luaL_error(state, c"unfinished string in data".as_ptr());
                };
                limits::spend_bytes(state, end);
                limits::make_room(state, end);
                push_bytes(state, &rest[..end]);
                size = end + 1;
                count += 1;
            }
            _ => format.apply_control(state, option),
        }
        at += size;
    }
    lua_pushinteger(state, (at as i64).wrapping_add(1));
    debug_assert_eq!(lua_gettop(state), count + 3);
    count + 1
}

/// The low 64 bits of an integer.
unsafe fn read_integer(from: *const u8, size: usize, is_big: bool) -> u64 {
    let bytes = std::slice::from_raw_parts(from, size);
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

unsafe extern "C-unwind" fn size(state: *mut lua_State) -> c_int {
    let mut format = Format::of(state);
    let mut at = 0_usize;
    while let Some((option, size)) = format.option(state) {
        at += format.padding(at, option, size);
        if option == b's' {
            return luaL_argerror(state, 1, c"option 's' has no fixed size".as_ptr());
        }
        if option == b'c' && size == 0 {
            return luaL_argerror(state, 1, c"option 'c0' has no fixed size".as_ptr());
        }
        if !option.is_ascii_alphanumeric() {
            format.apply_control(state, option);
        }
        at = at.wrapping_add(size);
    }
    lua_pushinteger(state, at as i64);
    1
}
