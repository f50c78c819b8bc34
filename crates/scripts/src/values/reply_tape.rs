//! What a command answers, as values of Lua.
//!
//! It is kept until the command is done, as making values of Lua may fail, and then leaves everything where it stands.

use std::ffi::c_int;

use mlua_sys::{
    lua_State, lua_checkstack, lua_createtable, lua_pushboolean, lua_pushnil, lua_pushnumber,
    lua_rawset, lua_rawseti_, luaL_error,
};
use undercroft_commands::reply::Reply;

use crate::state::limits;
use crate::state::raise::{mark_counted, push_error};
use crate::state::stack::push_bytes;
use crate::values::numbers::append_general;

/// One reply.
#[derive(Default)]
pub(crate) struct ReplyTape {
    events: Vec<Event>,
    /// The bytes of all texts.
    bytes: Vec<u8>,
}

/// A part of the bytes: where it begins, and how long it is.
type Part = (usize, usize);

/// One call of a method of [`Reply`].
#[derive(Clone, Copy)]
enum Event {
    Status(Part),
    Error(Part),
    Integer(i64),
    Text(Part),
    NoText,
    NoArray,
    Array(usize),
    Map(usize),
    Set(usize),
    Double(f64, Part),
    Boolean(bool),
    BigNumber(Part),
    Verbatim(Part, Part),
}

impl ReplyTape {
    pub(crate) fn clear(&mut self) {
        self.events.clear();
        self.bytes.clear();
    }

    /// Whether it is an error.
    pub(crate) fn is_error(&self) -> bool {
        matches!(self.events.first(), Some(Event::Error(_)))
    }

    /// Gives back what one long reply has taken.
    pub(crate) fn trim(&mut self) {
        const KEPT: usize = 64 * 1024;
        self.clear();
        self.bytes.shrink_to(KEPT);
        self.events.shrink_to(KEPT / size_of::<Event>());
    }

    fn keep(&mut self, bytes: &[u8]) -> Part {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        (start, bytes.len())
    }

    fn part(&self, (start, length): Part) -> &[u8] {
        &self.bytes[start..start + length]
    }

    /// Pushes the reply as one value. `as_resp3` says how that of a command which knows RESP3 looks.
    ///
    /// # Safety
    /// Lua may jump past this function and its callers: nothing of theirs needs to be dropped. `tape` stays as it is
    /// meanwhile.
    pub(crate) unsafe fn push(tape: *const ReplyTape, state: *mut lua_State, as_resp3: bool) {
        // What is no collection has room on the stack of any function that Lua calls.
        let mut at = 0;
        ReplyTape::push_next(tape, state, as_resp3, &mut at);
    }

    unsafe fn push_next(
        tape: *const ReplyTape,
        state: *mut lua_State,
        as_resp3: bool,
        at: &mut usize,
    ) {
        let events = &(*tape).events;
        let Some(event) = events.get(*at).copied() else {
            return lua_pushboolean(state, 0);
        };
        *at += 1;
        limits::spend(state, 1);
        let text = |part| (*tape).part(part);
        match event {
            Event::Status(part) => push_field(state, b"ok", text(part)),
            Event::Error(part) => {
                push_error(state, text(part));
                mark_counted(state);
            }
            Event::Integer(value) => lua_pushnumber(state, value as f64),
            Event::Text(part) => {
                limits::make_room(state, part.1);
                push_bytes(state, text(part));
            }
            Event::NoText | Event::NoArray if as_resp3 => lua_pushnil(state),
            Event::NoText | Event::NoArray => lua_pushboolean(state, 0),
            Event::Array(length) => ReplyTape::push_items(tape, state, as_resp3, at, length),
            Event::Map(pairs) if !as_resp3 => {
                ReplyTape::push_items(tape, state, as_resp3, at, pairs * 2);
            }
            Event::Set(length) if !as_resp3 => {
                ReplyTape::push_items(tape, state, as_resp3, at, length);
            }
            Event::Map(pairs) => {
                check_levels(state);
                lua_createtable(state, 0, 1);
                push_bytes(state, b"map");
                lua_createtable(state, 0, room(pairs));
                for _ in 0..pairs {
                    ReplyTape::push_next(tape, state, as_resp3, at);
                    ReplyTape::push_next(tape, state, as_resp3, at);
                    lua_rawset(state, -3);
                }
                lua_rawset(state, -3);
            }
            Event::Set(length) => {
                check_levels(state);
                lua_createtable(state, 0, 1);
                push_bytes(state, b"set");
                lua_createtable(state, 0, room(length));
                for _ in 0..length {
                    ReplyTape::push_next(tape, state, as_resp3, at);
                    lua_pushboolean(state, 1);
                    lua_rawset(state, -3);
                }
                lua_rawset(state, -3);
            }
            Event::Double(_, part) if !as_resp3 => push_bytes(state, text(part)),
            Event::Double(value, _) => {
                lua_createtable(state, 0, 1);
                push_bytes(state, b"double");
                lua_pushnumber(state, value);
                lua_rawset(state, -3);
            }
            Event::Boolean(value) if !as_resp3 => lua_pushnumber(state, f64::from(u8::from(value))),
            Event::Boolean(value) => lua_pushboolean(state, c_int::from(value)),
            Event::BigNumber(part) if !as_resp3 => push_bytes(state, text(part)),
            Event::BigNumber(part) => push_field(state, b"big_number", text(part)),
            Event::Verbatim(_, part) if !as_resp3 => push_bytes(state, text(part)),
            Event::Verbatim(format, part) => {
                lua_createtable(state, 0, 1);
                push_bytes(state, b"verbatim_string");
                lua_createtable(state, 0, 2);
                push_bytes(state, b"format");
                push_bytes(state, text(format));
                lua_rawset(state, -3);
                push_bytes(state, b"string");
                push_bytes(state, text(part));
                lua_rawset(state, -3);
                lua_rawset(state, -3);
            }
        }
    }

    unsafe fn push_items(
        tape: *const ReplyTape,
        state: *mut lua_State,
        as_resp3: bool,
        at: &mut usize,
        length: usize,
    ) {
        check_levels(state);
        lua_createtable(state, room(length), 0);
        for index in 1..=length {
            ReplyTape::push_next(tape, state, as_resp3, at);
            lua_rawseti_(state, -2, index as c_int);
        }
    }
}

/// Makes room on the stack for a collection and one thing in it.
unsafe fn check_levels(state: *mut lua_State) {
    if lua_checkstack(state, 12) == 0 {
        luaL_error(
            state,
            c"the reply of a command has too many levels".as_ptr(),
        );
    }
}

/// Room made at once in a table.
fn room(length: usize) -> c_int {
    length.min(1 << 20) as c_int
}

/// Pushes a table of one field.
unsafe fn push_field(state: *mut lua_State, name: &[u8], text: &[u8]) {
    lua_createtable(state, 0, 1);
    push_bytes(state, name);
    push_bytes(state, text);
    lua_rawset(state, -3);
}

impl Reply for ReplyTape {
    fn simple(&mut self, text: &str) {
        let part = self.keep(text.as_bytes());
        self.events.push(Event::Status(part));
    }
    fn error(&mut self, text: &str) {
        self.error_bytes(text.as_bytes());
    }
    fn error_bytes(&mut self, text: &[u8]) {
        let part = self.keep(text);
        self.events.push(Event::Error(part));
    }
    fn integer(&mut self, value: i64) {
        self.events.push(Event::Integer(value));
    }
    fn bulk(&mut self, bytes: &[u8]) {
        let part = self.keep(bytes);
        self.events.push(Event::Text(part));
    }
    fn null(&mut self) {
        self.events.push(Event::NoText);
    }
    fn null_array(&mut self) {
        self.events.push(Event::NoArray);
    }
    fn array(&mut self, length: usize) {
        self.events.push(Event::Array(length));
    }
    fn map(&mut self, pairs: usize) {
        self.events.push(Event::Map(pairs));
    }
    fn set(&mut self, length: usize) {
        self.events.push(Event::Set(length));
    }
    fn push(&mut self, length: usize) {
        self.events.push(Event::Array(length));
    }
    fn double(&mut self, value: f64) {
        let start = self.bytes.len();
        append_general(&mut self.bytes, value, 17);
        let part = (start, self.bytes.len() - start);
        self.events.push(Event::Double(value, part));
    }
    fn decimal(&mut self, digits: &str) {
        let part = self.keep(digits.as_bytes());
        let value = digits.parse().unwrap_or(f64::NAN);
        self.events.push(Event::Double(value, part));
    }
    fn boolean(&mut self, value: bool) {
        self.events.push(Event::Boolean(value));
    }
    fn big_number(&mut self, digits: &str) {
        let part = self.keep(digits.as_bytes());
        self.events.push(Event::BigNumber(part));
    }
    fn verbatim(&mut self, format: &str, text: &[u8]) {
        let (format, text) = (self.keep(format.as_bytes()), self.keep(text));
        self.events.push(Event::Verbatim(format, text));
    }
}
