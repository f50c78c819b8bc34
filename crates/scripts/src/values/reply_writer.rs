//! What a script returns, as a reply.

use std::ffi::c_int;

use mlua_sys::{
    LUA_TBOOLEAN, LUA_TNIL, LUA_TNUMBER, LUA_TSTRING, LUA_TTABLE, lua_State, lua_checkstack,
    lua_next, lua_pop, lua_pushnil, lua_pushvalue, lua_rawget_, lua_rawgeti_, lua_toboolean,
    lua_tonumber, lua_type,
};
use undercroft_commands::arguments::CommandError;
use undercroft_commands::reply::{Reply, Tree};

use crate::state::limits::{self, TABLE_WALK, count_reply};
use crate::state::stack::{bytes, c_bytes, push_bytes};
use crate::values::numbers::truncated;

/// Tables within tables, at most: what is deeper is an error in its place.
const LEVELS_MAX: usize = 1000;
/// Bytes that a value of a reply takes in addition to its own, where the reply is kept before it is sent.
const NODE: usize = size_of::<Tree>();

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
    let mut writer = ReplyWriter {
        state,
        reply: &mut *reply,
        as_resp3,
    };
    writer.write(level);
}

/// A reply that is being written. Lua may jump past its functions: nothing in it needs to be dropped.
struct ReplyWriter<'r> {
    state: *mut lua_State,
    reply: &'r mut dyn Reply,
    as_resp3: bool,
}

impl ReplyWriter<'_> {
    /// Counts a value of so many bytes, before it is written. Raises an error if the reply gets too long, or takes too long.
    unsafe fn count(&mut self, length: usize) {
        count_reply(self.state, length.saturating_add(NODE));
        limits::spend_bytes(self.state, length);
    }

    /// Writes the value on top, and takes it off.
    unsafe fn write(&mut self, level: usize) {
        let state = self.state;
        if level > LEVELS_MAX || lua_checkstack(state, 5) == 0 {
            self.write_text_of_error("ERR reached lua stack limit");
            return lua_pop(state, 1);
        }
        match lua_type(state, -1) {
            LUA_TSTRING => {
                let text = bytes(state, -1);
                self.count(text.len());
                self.reply.bulk(text);
            }
            LUA_TNUMBER => {
                self.count(0);
                self.reply.integer(truncated(lua_tonumber(state, -1)));
            }
            LUA_TBOOLEAN => {
                self.count(0);
                let value = lua_toboolean(state, -1) != 0;
                match (self.as_resp3, value) {
                    (true, value) => self.reply.boolean(value),
                    (false, true) => self.reply.integer(1),
                    (false, false) => self.reply.null(),
                }
            }
            LUA_TTABLE => self.write_table(level),
            _ => {
                self.count(0);
                self.reply.null();
            }
        }
        lua_pop(state, 1);
    }

    unsafe fn write_table(&mut self, level: usize) {
        let state = self.state;
        if push_field(state, b"err") == LUA_TSTRING {
            self.write_error(c_bytes(state, -1));
            return lua_pop(state, 1);
        }
        lua_pop(state, 1);
        if push_field(state, b"ok") == LUA_TSTRING {
            self.write_status(c_bytes(state, -1));
            return lua_pop(state, 1);
        }
        lua_pop(state, 1);
        if push_field(state, b"double") == LUA_TNUMBER {
            self.count(0);
            self.reply.double(lua_tonumber(state, -1));
            return lua_pop(state, 1);
        }
        lua_pop(state, 1);
        if push_field(state, b"big_number") == LUA_TSTRING {
            self.write_big_number(bytes(state, -1));
            return lua_pop(state, 1);
        }
        lua_pop(state, 1);
        if push_field(state, b"verbatim_string") == LUA_TTABLE && self.write_verbatim() {
            return lua_pop(state, 1);
        }
        lua_pop(state, 1);
        if push_field(state, b"map") == LUA_TTABLE {
            let pairs = self.count_pairs();
            self.reply.map(pairs);
            lua_pushnil(state);
            while lua_next(state, -2) != 0 {
                lua_pushvalue(state, -2);
                self.write(level + 1);
                self.write(level + 1);
            }
            return lua_pop(state, 1);
        }
        lua_pop(state, 1);
        if push_field(state, b"set") == LUA_TTABLE {
            let items = self.count_pairs();
            self.reply.set(items);
            lua_pushnil(state);
            while lua_next(state, -2) != 0 {
                lua_pop(state, 1);
                lua_pushvalue(state, -1);
                self.write(level + 1);
            }
            return lua_pop(state, 1);
        }
        lua_pop(state, 1);
        self.write_array(level);
    }

    unsafe fn write_array(&mut self, level: usize) {
        let state = self.state;
        let mut length = 0;
        loop {
            limits::spend(state, 1);
            lua_rawgeti_(state, -1, length + 1);
            let is_end = lua_type(state, -1) == LUA_TNIL;
            lua_pop(state, 1);
            if is_end {
                break;
            }
            length += 1;
        }
        self.count(0);
        self.reply.array(length as usize);
        for index in 1..=length {
            lua_rawgeti_(state, -1, index);
            self.write(level + 1);
        }
    }

    /// Number of pairs of the table on top, which is counted as a value itself.
    unsafe fn count_pairs(&mut self) -> usize {
        self.count(0);
        limits::spend(self.state, TABLE_WALK);
        let mut pairs = 0;
        lua_pushnil(self.state);
        while lua_next(self.state, -2) != 0 {
            limits::spend(self.state, 1);
            lua_pop(self.state, 1);
            pairs += 1;
        }
        pairs
    }

    unsafe fn write_text_of_error(&mut self, text: &str) {
        self.count(text.len());
        self.reply.error(text);
    }

    unsafe fn write_error(&mut self, text: &[u8]) {
        self.count(text.len());
        CommandError::from_parts(&[text]).write(self.reply);
    }

    unsafe fn write_status(&mut self, text: &[u8]) {
        self.count(text.len());
        write_status(self.reply, text);
    }

    unsafe fn write_big_number(&mut self, text: &[u8]) {
        self.count(text.len());
        write_big_number(self.reply, text);
    }

    /// Writes the verbatim string on top, if it is one.
    unsafe fn write_verbatim(&mut self) -> bool {
        let state = self.state;
        if push_field(state, b"format") != LUA_TSTRING {
            lua_pop(state, 1);
            return false;
        }
        push_bytes(state, b"string");
        lua_rawget_(state, -3);
        let is_one = lua_type(state, -1) == LUA_TSTRING;
        if is_one {
            let text = bytes(state, -1);
            self.count(text.len());
            write_verbatim_text(self.reply, c_bytes(state, -2), text);
        }
        lua_pop(state, 2);
        is_one
    }
}

/// Pushes a field of the table on top, as it is in it. Returns its type.
unsafe fn push_field(state: *mut lua_State, name: &[u8]) -> c_int {
    push_bytes(state, name);
    lua_rawget_(state, -2);
    lua_type(state, -1)
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

fn write_verbatim_text(reply: &mut dyn Reply, format: &[u8], text: &[u8]) {
    let mut letters = [b' '; 3];
    for (letter, given) in letters.iter_mut().zip(format) {
        *letter = *given;
    }
    reply.verbatim(str::from_utf8(&letters).unwrap_or("txt"), text);
}
