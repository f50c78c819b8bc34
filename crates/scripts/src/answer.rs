//! What a script returns, as a reply.

use std::ffi::{CStr, c_int};

use mlua_sys::{
    LUA_TBOOLEAN, LUA_TNIL, LUA_TNUMBER, LUA_TSTRING, LUA_TTABLE, lua_State, lua_checkstack,
    lua_next, lua_pop, lua_pushnil, lua_pushvalue, lua_rawget_, lua_rawgeti_, lua_toboolean,
    lua_tolstring, lua_tonumber, lua_type,
};
use undercroft_commands::arguments::CommandError;
use undercroft_commands::reply::Reply;

use crate::limits::count_answer;
use crate::numbers::truncated;
use crate::raise::push_bytes;

/// Tables within tables, at most: what is deeper is an error in its place.
const LEVELS_MAX: usize = 1000;

/// The bytes of the string at an index. They are there while it stays on the stack.
pub(crate) unsafe fn bytes<'a>(state: *mut lua_State, index: c_int) -> &'a [u8] {
    let mut length = 0;
    let text = lua_tolstring(state, index, &mut length);
    if text.is_null() {
        return b"";
    }
    std::slice::from_raw_parts(text.cast(), length)
}

/// The bytes of the string at an index up to the first zero, as C reads them.
pub(crate) unsafe fn c_bytes<'a>(state: *mut lua_State, index: c_int) -> &'a [u8] {
    let text = lua_tolstring(state, index, std::ptr::null_mut());
    if text.is_null() {
        return b"";
    }
    CStr::from_ptr(text).to_bytes()
}

/// Writes the value on top, and takes it off.
///
/// # Safety
/// Lua may jump past this function: nothing of its callers' needs to be dropped.
pub(crate) unsafe fn write(
    state: *mut lua_State,
    reply: *mut (dyn Reply + '_),
    as_resp3: bool,
    level: usize,
) {
    let reply = &mut *reply;
    if level > LEVELS_MAX || lua_checkstack(state, 5) == 0 {
        reply.error("ERR reached lua stack limit");
        return lua_pop(state, 1);
    }
    match lua_type(state, -1) {
        LUA_TSTRING => {
            let text = bytes(state, -1);
            count_answer(state, text.len());
            reply.bulk(text);
        }
        LUA_TNUMBER => reply.integer(truncated(lua_tonumber(state, -1))),
        LUA_TBOOLEAN => {
            let value = lua_toboolean(state, -1) != 0;
            match (as_resp3, value) {
                (true, value) => reply.boolean(value),
                (false, true) => reply.integer(1),
                (false, false) => reply.null(),
            }
        }
        LUA_TTABLE => write_table(state, reply, as_resp3, level),
        _ => reply.null(),
    }
    lua_pop(state, 1);
}

/// Pushes a field of the table on top, as it is in it. Returns its type.
unsafe fn push_field(state: *mut lua_State, name: &[u8]) -> c_int {
    push_bytes(state, name);
    lua_rawget_(state, -2);
    lua_type(state, -1)
}

unsafe fn write_table(state: *mut lua_State, reply: &mut dyn Reply, as_resp3: bool, level: usize) {
    if push_field(state, b"err") == LUA_TSTRING {
        write_error(reply, c_bytes(state, -1));
        return lua_pop(state, 1);
    }
    lua_pop(state, 1);
    if push_field(state, b"ok") == LUA_TSTRING {
        write_status(reply, c_bytes(state, -1));
        return lua_pop(state, 1);
    }
    lua_pop(state, 1);
    if push_field(state, b"double") == LUA_TNUMBER {
        reply.double(lua_tonumber(state, -1));
        return lua_pop(state, 1);
    }
    lua_pop(state, 1);
    if push_field(state, b"big_number") == LUA_TSTRING {
        write_big_number(reply, bytes(state, -1));
        return lua_pop(state, 1);
    }
    lua_pop(state, 1);
    if push_field(state, b"verbatim_string") == LUA_TTABLE && write_verbatim(state, reply) {
        return lua_pop(state, 1);
    }
    lua_pop(state, 1);
    if push_field(state, b"map") == LUA_TTABLE {
        reply.map(count(state));
        lua_pushnil(state);
        while lua_next(state, -2) != 0 {
            lua_pushvalue(state, -2);
            write(state, reply, as_resp3, level + 1);
            write(state, reply, as_resp3, level + 1);
        }
        return lua_pop(state, 1);
    }
    lua_pop(state, 1);
    if push_field(state, b"set") == LUA_TTABLE {
        reply.set(count(state));
        lua_pushnil(state);
        while lua_next(state, -2) != 0 {
            lua_pop(state, 1);
            lua_pushvalue(state, -1);
            write(state, reply, as_resp3, level + 1);
        }
        return lua_pop(state, 1);
    }
    lua_pop(state, 1);
    let mut length = 0;
    loop {
        lua_rawgeti_(state, -1, length + 1);
        let is_end = lua_type(state, -1) == LUA_TNIL;
        lua_pop(state, 1);
        if is_end {
            break;
        }
        length += 1;
    }
    reply.array(length as usize);
    for index in 1..=length {
        lua_rawgeti_(state, -1, index);
        write(state, reply, as_resp3, level + 1);
    }
}

/// Number of pairs of the table on top.
unsafe fn count(state: *mut lua_State) -> usize {
    let mut pairs = 0;
    lua_pushnil(state);
    while lua_next(state, -2) != 0 {
        lua_pop(state, 1);
        pairs += 1;
    }
    pairs
}

fn write_error(reply: &mut dyn Reply, text: &[u8]) {
    CommandError::from_parts(&[text]).write(reply);
}

fn write_status(reply: &mut dyn Reply, text: &[u8]) {
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let shown = text
        .iter()
        .map(|byte| if is_end(byte) { b' ' } else { *byte });
    let shown: Vec<u8> = shown.collect();
    match str::from_utf8(&shown) {
        Ok(text) => reply.simple(text),
        Err(_) => reply.simple_bytes(&shown),
    }
}

fn write_big_number(reply: &mut dyn Reply, text: &[u8]) {
    reply.big_number(CommandError::from_parts(&[text]).text());
}

/// Writes the verbatim string on top, if it is one.
unsafe fn write_verbatim(state: *mut lua_State, reply: &mut dyn Reply) -> bool {
    if push_field(state, b"format") != LUA_TSTRING {
        lua_pop(state, 1);
        return false;
    }
    push_bytes(state, b"string");
    lua_rawget_(state, -3);
    let is_one = lua_type(state, -1) == LUA_TSTRING;
    if is_one {
        write_verbatim_text(reply, c_bytes(state, -2), bytes(state, -1));
    }
    lua_pop(state, 2);
    is_one
}

fn write_verbatim_text(reply: &mut dyn Reply, format: &[u8], text: &[u8]) {
    let mut letters = [b' '; 3];
    for (letter, given) in letters.iter_mut().zip(format) {
        *letter = *given;
    }
    reply.verbatim(str::from_utf8(&letters).unwrap_or("txt"), text);
}
