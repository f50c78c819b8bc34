//! The text of a value.

use std::ffi::{CStr, c_int};

use mlua_sys::{
    LUA_TBOOLEAN, LUA_TLIGHTUSERDATA, LUA_TNIL, LUA_TNUMBER, LUA_TSTRING, LUA_TTABLE, lua_State,
    lua_checkstack, lua_gettop, lua_next, lua_pop, lua_pushnil, lua_rawgeti_, lua_tonumber,
    lua_touserdata, lua_type, lua_typename, luaL_argerror, luaL_error,
};

use super::settings::LEVELS_MAX;
use crate::libraries::workspace::Workspace;
use crate::state::limits::{self, TABLE_WALK, check_room};
use crate::state::stack::bytes;
use crate::state::stack::is_true;
use crate::values::numbers::append_general;

/// Bytes that a number, a word or a bracket takes at most, with what stands around it.
const ITEM: usize = 64;
/// Bytes of a text that are written before it is asked again whether there is room for more.
const PIECE: usize = 4096;

pub(super) unsafe extern "C-unwind" fn encode(state: *mut lua_State) -> c_int {
    if lua_gettop(state) != 1 {
        return luaL_argerror(state, 1, c"expected 1 argument".as_ptr());
    }
    let workspace = Workspace::of(state);
    (*workspace).context.clear_scratch();
    append(state, workspace, 0);
    limits::push_scratch(state);
    1
}

unsafe fn raise_unserializable(state: *mut lua_State, index: c_int, why: &CStr) {
    luaL_error(
        state,
        c"Cannot serialise %s: %s".as_ptr(),
        lua_typename(state, lua_type(state, index)),
        why.as_ptr(),
    );
}

/// Appends the value on top, which stays.
unsafe fn append(state: *mut lua_State, workspace: *mut Workspace, level: c_int) {
    let out = &raw mut (*workspace).context.text;
    check_room(state, ITEM);
    limits::spend(state, 1);
    match lua_type(state, -1) {
        LUA_TSTRING => append_text(state, workspace, bytes(state, -1)),
        LUA_TNUMBER => append_number(state, workspace, -1),
        LUA_TBOOLEAN => {
            let text: &[u8] = if is_true(state, -1) {
                b"true"
            } else {
                b"false"
            };
            (*out).extend_from_slice(text);
        }
        LUA_TTABLE => {
            let level = level + 1;
            if level > (*workspace).json.encode_depth.min(LEVELS_MAX)
                || lua_checkstack(state, 5) == 0
            {
                luaL_error(
                    state,
                    c"Cannot serialise, excessive nesting (%d)".as_ptr(),
                    level,
                );
            }
            limits::spend(state, TABLE_WALK);
            match array_length(state, workspace) {
                0 => append_object(state, workspace, level),
                length => append_array(state, workspace, level, length),
            }
        }
        LUA_TNIL => (*out).extend_from_slice(b"null"),
        LUA_TLIGHTUSERDATA if lua_touserdata(state, -1).is_null() => {
            (*out).extend_from_slice(b"null");
        }
        _ => raise_unserializable(state, -1, c"type not supported"),
    }
}

unsafe fn append_text(state: *mut lua_State, workspace: *mut Workspace, text: &[u8]) {
    let out = &raw mut (*workspace).context.text;
    (*out).push(b'"');
    for piece in text.chunks(PIECE) {
        // A byte becomes six at most.
        check_room(state, piece.len() * 6 + ITEM);
        limits::spend_bytes(state, piece.len());
        append_piece(&mut *out, piece);
    }
    (*out).push(b'"');
}

fn append_piece(out: &mut Vec<u8>, piece: &[u8]) {
    for byte in piece {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'/' => out.extend_from_slice(b"\\/"),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..0x20 | 0x7f => {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(b"\\u00");
                out.push(DIGITS[usize::from(byte >> 4)]);
                out.push(DIGITS[usize::from(byte & 15)]);
            }
            other => out.push(*other),
        }
    }
}

unsafe fn append_number(state: *mut lua_State, workspace: *mut Workspace, index: c_int) {
    let number = lua_tonumber(state, index);
    let settings = (*workspace).json;
    let out = &mut (*workspace).context.text;
    if !number.is_finite() {
        match settings.encodes_invalid {
            0 => return raise_unserializable(state, index, c"must not be NaN or Inf"),
            1 if number.is_nan() => return out.extend_from_slice(b"nan"),
            1 => {}
            _ => return out.extend_from_slice(b"null"),
        }
    }
    append_general(out, number, settings.precision as usize);
}

/// The length of the array that the table on top is; 0 where it is none.
unsafe fn array_length(state: *mut lua_State, workspace: *const Workspace) -> c_int {
    let (mut most, mut items) = (0_i64, 0_i64);
    lua_pushnil(state);
    while lua_next(state, -2) != 0 {
        limits::spend(state, 1);
        let number = match lua_type(state, -2) {
            LUA_TNUMBER => lua_tonumber(state, -2),
            _ => 0.0,
        };
        if number < 1.0 || number.floor() != number || number > f64::from(c_int::MAX) {
            lua_pop(state, 2);
            return 0;
        }
        most = most.max(number as i64);
        items += 1;
        lua_pop(state, 1);
    }
    let settings = &(*workspace).json;
    let (ratio, safe) = (
        i64::from(settings.sparse_ratio),
        i64::from(settings.sparse_safe),
    );
    if ratio > 0 && most > items * ratio && most > safe {
        if settings.converts_sparse == 0 {
            raise_unserializable(state, -1, c"excessively sparse array");
        }
        return 0;
    }
    most as c_int
}

unsafe fn append_array(
    state: *mut lua_State,
    workspace: *mut Workspace,
    level: c_int,
    length: c_int,
) {
    let out = &raw mut (*workspace).context.text;
    (*out).push(b'[');
    for index in 1..=length {
        if index > 1 {
            (*out).push(b',');
        }
        lua_rawgeti_(state, -1, index);
        append(state, workspace, level);
        lua_pop(state, 1);
    }
    (*out).push(b']');
}

unsafe fn append_object(state: *mut lua_State, workspace: *mut Workspace, level: c_int) {
    let out = &raw mut (*workspace).context.text;
    (*out).push(b'{');
    let mut is_first = true;
    lua_pushnil(state);
    while lua_next(state, -2) != 0 {
        if !is_first {
            (*out).push(b',');
        }
        is_first = false;
        check_room(state, ITEM);
        match lua_type(state, -2) {
            LUA_TNUMBER => {
                (*out).push(b'"');
                append_number(state, workspace, -2);
                (*out).extend_from_slice(b"\":");
            }
            LUA_TSTRING => {
                append_text(state, workspace, bytes(state, -2));
                (*out).push(b':');
            }
            _ => raise_unserializable(state, -2, c"table key must be a number or string"),
        }
        append(state, workspace, level);
        lua_pop(state, 1);
    }
    (*out).push(b'}');
}
