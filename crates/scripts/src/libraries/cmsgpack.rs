//! The library `cmsgpack`: values in the form of MessagePack.

use std::ffi::{CStr, c_int};

use mlua_sys::{
    LUA_TBOOLEAN, LUA_TNUMBER, LUA_TSTRING, LUA_TTABLE, lua_State, lua_checkstack, lua_createtable,
    lua_gettable_, lua_gettop, lua_insert, lua_next, lua_objlen, lua_pop, lua_pushboolean,
    lua_pushinteger, lua_pushnil, lua_pushnumber, lua_pushvalue, lua_rawset, lua_setfield,
    lua_settop, lua_toboolean, lua_tonumber, lua_type, luaL_argerror, luaL_checklstring,
    luaL_error,
};

use crate::libraries::function::{Function, Memory, asked};
use crate::libraries::workspace::Workspace;
use crate::state::limits::{self, TABLE_WALK, check_room};
use crate::state::stack::bytes;
use crate::state::stack::push_bytes;
use crate::values::arguments::{integer, optional_integer};
use crate::values::numbers::truncated;

/// Its functions.
pub(crate) const FUNCTIONS: &[Function] = &[
    asked(c"pack", pack, "values and their bytes", Memory::Counted),
    asked(c"unpack", unpack, "values and their bytes", Memory::Counted),
    asked(
        c"unpack_one",
        unpack_one,
        "values and their bytes",
        Memory::Counted,
    ),
    asked(
        c"unpack_limit",
        unpack_limit,
        "values and their bytes",
        Memory::Counted,
    ),
];

/// Its texts.
const TEXTS: &[(&CStr, &str)] = &[
    (c"_NAME", "cmsgpack"),
    (c"_VERSION", "lua-cmsgpack 0.4.0"),
    (c"_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo"),
    (c"_DESCRIPTION", "MessagePack C implementation for Lua"),
];

/// Adds what is no function to the table on top.
pub(crate) unsafe fn add_values(state: *mut lua_State) {
    for (name, text) in TEXTS {
        push_bytes(state, text.as_bytes());
        lua_setfield(state, -2, name.as_ptr());
    }
}

/// Tables within tables that are packed; deeper ones become nil.
const PACKED_LEVELS_MAX: usize = 16;
/// Arrays and maps within one another that are unpacked.
const LEVELS_MAX: usize = 1000;

unsafe extern "C-unwind" fn pack(state: *mut lua_State) -> c_int {
    let count = lua_gettop(state);
    if count == 0 {
        return luaL_argerror(state, 0, c"MessagePack pack needs input.".as_ptr());
    }
    let workspace = Workspace::of(state);
    (*workspace).context.clear_scratch();
    let out = &raw mut (*workspace).context.text;
    for index in 1..=count {
        check_stack(state, 1);
        lua_pushvalue(state, index);
        append(state, out, 0);
    }
    limits::push_scratch(state);
    1
}

unsafe fn check_stack(state: *mut lua_State, slots: c_int) {
    if lua_checkstack(state, slots + 5) == 0 {
        luaL_error(
            state,
            c"stack overflow (%s)".as_ptr(),
            c"too many levels or values".as_ptr(),
        );
    }
}

/// Where values are read: each one that a text has is a result of its own.
unsafe fn check_results(state: *mut lua_State, slots: c_int) {
    if lua_checkstack(state, slots + 5) == 0 {
        luaL_error(
            state,
            c"stack overflow (%s)".as_ptr(),
            c"too many return values at once; use unpack_one or unpack_limit instead.".as_ptr(),
        );
    }
}

/// Appends the value on top, and takes it off.
unsafe fn append(state: *mut lua_State, out: *mut Vec<u8>, level: usize) {
    limits::spend(state, 1);
    check_room(state, 16);
    match lua_type(state, -1) {
        LUA_TSTRING => {
            let text = bytes(state, -1);
            check_room(state, text.len() + 16);
            limits::spend_bytes(state, text.len());
            append_text(&mut *out, text);
        }
        LUA_TBOOLEAN => (*out).push(if lua_toboolean(state, -1) != 0 {
            0xc3
        } else {
            0xc2
        }),
        LUA_TNUMBER => append_number(&mut *out, lua_tonumber(state, -1)),
        LUA_TTABLE if level < PACKED_LEVELS_MAX => append_table(state, out, level),
        _ => (*out).push(0xc0),
    }
    lua_pop(state, 1);
}

/// Appends a length behind one of three marks: with it in the first one where it is less than `short`.
fn append_length(out: &mut Vec<u8>, length: usize, short: (u8, usize), marks: (u8, u8)) {
    if length < short.1 {
        out.push(short.0 | length as u8);
    } else if let Ok(length) = u16::try_from(length) {
        out.push(marks.0);
        out.extend_from_slice(&length.to_be_bytes());
    } else {
        out.push(marks.1);
        out.extend_from_slice(&(length as u32).to_be_bytes());
    }
}

fn append_text(out: &mut Vec<u8>, text: &[u8]) {
    match text.len() {
        32..=0xff => out.extend_from_slice(&[0xd9, text.len() as u8]),
        length => append_length(out, length, (0xa0, 32), (0xda, 0xdb)),
    }
    out.extend_from_slice(text);
}

fn append_number(out: &mut Vec<u8>, number: f64) {
    let whole = truncated(number);
    if number.is_finite() && whole as f64 == number && number < 9_223_372_036_854_775_808.0 {
        append_integer(out, whole);
    } else if f64::from(number as f32) == number {
        out.push(0xca);
        out.extend_from_slice(&(number as f32).to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

fn append_integer(out: &mut Vec<u8>, value: i64) {
    match value {
        -32..=127 => out.push(value as u8),
        128..=0xff => out.extend_from_slice(&[0xcc, value as u8]),
        0x100..=0xffff => {
            out.push(0xcd);
            out.extend_from_slice(&(value as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend_from_slice(&(value as u32).to_be_bytes());
        }
        0x1_0000_0000.. => {
            out.push(0xcf);
            out.extend_from_slice(&value.to_be_bytes());
        }
        -128..=-33 => out.extend_from_slice(&[0xd0, value as u8]),
        -0x8000..=-129 => {
            out.push(0xd1);
            out.extend_from_slice(&(value as i16).to_be_bytes());
        }
        -0x8000_0000..=-0x8001 => {
            out.push(0xd2);
            out.extend_from_slice(&(value as i32).to_be_bytes());
        }
        _ => {
            out.push(0xd3);
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
}

/// Whether the keys of the table on top are 1, 2 and so on.
unsafe fn is_array(state: *mut lua_State) -> bool {
    let (mut count, mut most) = (0_i64, 0_i64);
    lua_pushnil(state);
    while lua_next(state, -2) != 0 {
        limits::spend(state, 1);
        lua_pop(state, 1);
        let number = match lua_type(state, -1) {
            LUA_TNUMBER => lua_tonumber(state, -1),
            _ => 0.0,
        };
        let index = truncated(number);
        if number <= 0.0 || index as f64 != number {
            lua_pop(state, 1);
            return false;
        }
        most = most.max(index);
        count += 1;
    }
    most == count
}

unsafe fn append_table(state: *mut lua_State, out: *mut Vec<u8>, level: usize) {
    check_stack(state, 3);
    limits::spend(state, TABLE_WALK);
    check_room(state, 0);
    if is_array(state) {
        let length = lua_objlen(state, -1);
        append_length(&mut *out, length, (0x90, 16), (0xdc, 0xdd));
        for index in 1..=length {
            lua_pushnumber(state, index as f64);
            lua_gettable_(state, -2);
            append(state, out, level + 1);
        }
        return;
    }
    let mut length = 0;
    lua_pushnil(state);
    while lua_next(state, -2) != 0 {
        limits::spend(state, 1);
        lua_pop(state, 1);
        length += 1;
    }
    append_length(&mut *out, length, (0x80, 16), (0xde, 0xdf));
    lua_pushnil(state);
    while lua_next(state, -2) != 0 {
        lua_pushvalue(state, -2);
        append(state, out, level + 1);
        append(state, out, level + 1);
    }
}

/// Bytes that are being unpacked.
#[derive(Clone, Copy)]
struct Input<'a> {
    rest: &'a [u8],
}

/// Why bytes cannot be unpacked.
#[derive(Clone, Copy)]
enum UnpackError {
    Truncated,
    Malformed,
}

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], UnpackError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(UnpackError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// An unsigned number of so many bytes behind its mark.
    fn number(&mut self, length: usize) -> Result<u64, UnpackError> {
        let bytes = self.take(length)?;
        Ok(bytes
            .iter()
            .fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }
}

/// Pushes the next value.
unsafe fn push_value(
    state: *mut lua_State,
    input: &mut Input<'_>,
    level: usize,
) -> Result<(), UnpackError> {
    check_results(state, 3);
    if level > LEVELS_MAX {
        luaL_error(
            state,
            c"stack overflow (%s)".as_ptr(),
            c"too many levels".as_ptr(),
        );
    }
    limits::spend(state, 1);
    let mark = input.take(1)?[0];
    match mark {
        0x00..=0x7f => lua_pushnumber(state, f64::from(mark)),
        0x80..=0x8f => return push_map(state, input, usize::from(mark & 15), level),
        0x90..=0x9f => return push_array(state, input, usize::from(mark & 15), level),
        0xa0..=0xbf => push_bytes(state, input.take(usize::from(mark & 31))?),
        0xc0 => lua_pushnil(state),
        0xc2 | 0xc3 => lua_pushboolean(state, c_int::from(mark == 0xc3)),
        0xca => {
            let value = f32::from_bits(input.number(4)? as u32);
            lua_pushnumber(state, f64::from(value));
        }
        0xcb => lua_pushnumber(state, f64::from_bits(input.number(8)?)),
        0xcc..=0xce => lua_pushnumber(state, input.number(1 << (mark - 0xcc))? as f64),
        // The greatest become negative, as in Redis.
        0xcf => lua_pushnumber(state, input.number(8)? as i64 as f64),
        0xd0 => lua_pushnumber(state, f64::from(input.number(1)? as i8)),
        0xd1 => lua_pushnumber(state, f64::from(input.number(2)? as i16)),
        0xd2 => lua_pushnumber(state, f64::from(input.number(4)? as i32)),
        0xd3 => lua_pushnumber(state, input.number(8)? as i64 as f64),
        0xd9..=0xdb => push_text(state, input, 1 << (mark - 0xd9))?,
        0xdc | 0xdd => {
            let length = input.number(2 << (mark - 0xdc))? as usize;
            return push_array(state, input, length, level);
        }
        0xde | 0xdf => {
            let length = input.number(2 << (mark - 0xde))? as usize;
            return push_map(state, input, length, level);
        }
        0xe0..=0xff => lua_pushnumber(state, f64::from(mark as i8)),
        0xc1 | 0xc4..=0xc9 | 0xd4..=0xd8 => return Err(UnpackError::Malformed),
    }
    Ok(())
}

/// Pushes a text whose length stands in front of it in so many bytes.
unsafe fn push_text(
    state: *mut lua_State,
    input: &mut Input<'_>,
    size: usize,
) -> Result<(), UnpackError> {
    let length = input.number(size)? as usize;
    let text = input.take(length)?;
    limits::spend_bytes(state, length);
    limits::make_room(state, length);
    push_bytes(state, text);
    Ok(())
}

unsafe fn push_array(
    state: *mut lua_State,
    input: &mut Input<'_>,
    length: usize,
    level: usize,
) -> Result<(), UnpackError> {
    lua_createtable(state, 0, 0);
    for index in 1..=length {
        lua_pushnumber(state, index as f64);
        push_value(state, input, level + 1)?;
        lua_rawset(state, -3);
    }
    Ok(())
}

unsafe fn push_map(
    state: *mut lua_State,
    input: &mut Input<'_>,
    length: usize,
    level: usize,
) -> Result<(), UnpackError> {
    lua_createtable(state, 0, 0);
    for _ in 0..length {
        push_value(state, input, level + 1)?;
        push_value(state, input, level + 1)?;
        lua_rawset(state, -3);
    }
    Ok(())
}

unsafe fn unpack_values(state: *mut lua_State, limit: i64, offset: i64) -> c_int {
    let mut length = 0;
    let data = luaL_checklstring(state, 1, &mut length);
    if offset < 0 || limit < 0 {
        return luaL_error(
            state,
            c"Invalid request to unpack with offset of %d and limit of %d.".as_ptr(),
            offset as c_int,
            length as c_int,
        );
    }
    if offset as usize > length {
        return luaL_error(
            state,
            c"Start offset %d greater than input length %d.".as_ptr(),
            offset as c_int,
            length as c_int,
        );
    }
    let is_all = limit == 0 && offset == 0;
    let limit = if is_all { c_int::MAX as i64 } else { limit };
    let data: &[u8] = std::slice::from_raw_parts(data.cast(), length);
    let mut input = Input {
        rest: &data[offset as usize..],
    };
    let mut count = 0;
    while !input.rest.is_empty() && count < limit {
        match push_value(state, &mut input, 0) {
            Ok(()) => {}
            Err(UnpackError::Truncated) => {
                return luaL_error(state, c"Missing bytes in input.".as_ptr());
            }
            Err(UnpackError::Malformed) => {
                return luaL_error(state, c"Bad data format in input.".as_ptr());
            }
        }
        count += 1;
    }
    if !is_all {
        check_results(state, 1);
        let next = match input.rest.len() {
            0 => -1,
            left => (length - left) as i64,
        };
        lua_pushinteger(state, next);
        lua_insert(state, 2);
        count += 1;
    }
    count as c_int
}

unsafe extern "C-unwind" fn unpack(state: *mut lua_State) -> c_int {
    unpack_values(state, 0, 0)
}

unsafe extern "C-unwind" fn unpack_one(state: *mut lua_State) -> c_int {
    let offset = optional_integer(state, 2, 0);
    lua_settop(state, 1);
    unpack_values(state, 1, offset)
}

unsafe extern "C-unwind" fn unpack_limit(state: *mut lua_State) -> c_int {
    let limit = integer(state, 2);
    let offset = optional_integer(state, 3, 0);
    lua_settop(state, 1);
    unpack_values(state, limit, offset)
}
