//! The library `string`.
//!
//! - `format`: `string.format`.
//! - `patterns`: the functions that look for patterns.

mod format;
pub(super) mod patterns;

use std::ffi::{c_int, c_void};

use mlua_sys::{
    LUA_TFUNCTION, lua_State, lua_dump, lua_gettop, lua_pushinteger, lua_settop, luaL_argerror,
    luaL_checkstack, luaL_checktype, luaL_error,
};

use crate::libraries::function::{Function, Memory, asked, constant};
use crate::state::limits;
use crate::state::stack::{push_bytes, text};
use crate::values::arguments::{int, integer, optional_integer};
use crate::values::buffer::Buffer;
use format::format;

/// The functions.
pub(crate) const FUNCTIONS: &[Function] = &[
    asked(c"byte", byte, "results, 8,000 at most", Memory::Counted),
    asked(c"char", char, "arguments, 8,000 at most", Memory::Counted),
    asked(c"dump", dump, "bytes of the function", Memory::Counted),
    asked(
        c"format",
        format,
        "bytes of the format and of the result",
        Memory::Counted,
    ),
    constant(c"len", len),
    asked(c"lower", lower, "bytes", Memory::Counted),
    asked(c"rep", rep, "bytes of the result", Memory::Counted),
    asked(c"reverse", reverse, "bytes", Memory::Counted),
    asked(c"sub", sub, "bytes of the result", Memory::Counted),
    asked(c"upper", upper, "bytes", Memory::Counted),
];

/// A place in a text: a negative one is counted from its end.
fn place(place: i64, length: usize) -> i64 {
    let length = length as i64;
    match place {
        0.. => place,
        _ => place.saturating_add(length).saturating_add(1).max(0),
    }
}

unsafe extern "C-unwind" fn len(state: *mut lua_State) -> c_int {
    lua_pushinteger(state, text(state, 1).len() as i64);
    1
}

unsafe extern "C-unwind" fn sub(state: *mut lua_State) -> c_int {
    let text = text(state, 1);
    let first = place(integer(state, 2), text.len()).max(1);
    let last = place(optional_integer(state, 3, -1), text.len()).min(text.len() as i64);
    if first > last {
        push_bytes(state, b"");
        return 1;
    }
    let part = &text[first as usize - 1..last as usize];
    limits::spend_bytes(state, part.len());
    limits::make_room(state, part.len());
    push_bytes(state, part);
    1
}

unsafe extern "C-unwind" fn reverse(state: *mut lua_State) -> c_int {
    let text = text(state, 1);
    let mut out = Buffer::new(state);
    out.add_mapped(text.iter().rev().copied(), |byte| byte);
    out.push();
    1
}

unsafe extern "C-unwind" fn lower(state: *mut lua_State) -> c_int {
    let text = text(state, 1);
    let mut out = Buffer::new(state);
    out.add_mapped(text.iter().copied(), |byte| byte.to_ascii_lowercase());
    out.push();
    1
}

unsafe extern "C-unwind" fn upper(state: *mut lua_State) -> c_int {
    let text = text(state, 1);
    let mut out = Buffer::new(state);
    out.add_mapped(text.iter().copied(), |byte| byte.to_ascii_uppercase());
    out.push();
    1
}

unsafe extern "C-unwind" fn rep(state: *mut lua_State) -> c_int {
    let text = text(state, 1);
    let times = usize::try_from(int(state, 2)).unwrap_or(0);
    let mut out = Buffer::new(state);
    out.add_repeated(text, times);
    out.push();
    1
}

unsafe extern "C-unwind" fn byte(state: *mut lua_State) -> c_int {
    const TOO_LONG: &std::ffi::CStr = c"string slice too long";
    let text = text(state, 1);
    let first = place(optional_integer(state, 2, 1), text.len());
    let last = place(optional_integer(state, 3, first), text.len()).min(text.len() as i64);
    let first = first.max(1);
    if first > last {
        return 0;
    }
    let part = &text[first as usize - 1..last as usize];
    let Ok(count) = c_int::try_from(part.len()) else {
        return luaL_error(state, TOO_LONG.as_ptr());
    };
    luaL_checkstack(state, count, TOO_LONG.as_ptr());
    limits::spend(state, part.len());
    for byte in part {
        lua_pushinteger(state, i64::from(*byte));
    }
    count
}

unsafe extern "C-unwind" fn char(state: *mut lua_State) -> c_int {
    let count = lua_gettop(state);
    luaL_checkstack(state, 2, c"too many arguments".as_ptr());
    let mut out = Buffer::new(state);
    for index in 1..=count {
        let Ok(byte) = u8::try_from(int(state, index)) else {
            return luaL_argerror(state, index, c"invalid value".as_ptr());
        };
        limits::spend(state, 1);
        out.add_byte(byte);
    }
    out.push();
    1
}

unsafe extern "C-unwind" fn dump(state: *mut lua_State) -> c_int {
    luaL_checktype(state, 1, LUA_TFUNCTION);
    lua_settop(state, 1);
    // What is dumped has to be on top, and so the text is made below it.
    let mut out = Buffer::new(state);
    mlua_sys::lua_pushvalue(state, 1);
    if lua_dump(state, add_piece, (&raw mut out).cast(), 0) != 0 {
        return luaL_error(state, c"unable to dump given function".as_ptr());
    }
    out.push();
    1
}

/// Adds a piece of a program to a buffer.
unsafe extern "C-unwind" fn add_piece(
    _: *mut lua_State,
    piece: *const c_void,
    length: usize,
    out: *mut c_void,
) -> c_int {
    if length > 0 {
        (*out.cast::<Buffer>()).add(std::slice::from_raw_parts(piece.cast(), length));
    }
    0
}
