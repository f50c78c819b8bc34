//! Values of a text.

use std::ffi::{CStr, c_char, c_int};

use mlua_sys::{
    lua_State, lua_checkstack, lua_createtable, lua_gettop, lua_pushboolean, lua_pushlightuserdata,
    lua_pushnumber, lua_rawset, lua_rawseti_, luaL_argerror, luaL_checklstring, luaL_error,
};

use super::settings::{LEVELS_MAX, Settings};
use crate::libraries::workspace::Workspace;
use crate::state::limits;

unsafe extern "C" {
    fn strtod(text: *const c_char, end: *mut *mut c_char) -> f64;
}

/// A text that is being read, which has a zero at its end.
struct Decoder {
    state: *mut lua_State,
    start: *const u8,
    at: usize,
    depth: c_int,
    settings: Settings,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    /// In the machine's text.
    String,
    Number,
    Boolean,
    Null,
    Colon,
    Comma,
    End,
    Error(&'static CStr),
}

impl Token {
    fn name(self) -> &'static CStr {
        match self {
            Token::ObjectBegin => c"T_OBJ_BEGIN",
            Token::ObjectEnd => c"T_OBJ_END",
            Token::ArrayBegin => c"T_ARR_BEGIN",
            Token::ArrayEnd => c"T_ARR_END",
            Token::String => c"T_STRING",
            Token::Number => c"T_NUMBER",
            Token::Boolean => c"T_BOOLEAN",
            Token::Null => c"T_NULL",
            Token::Colon => c"T_COLON",
            Token::Comma => c"T_COMMA",
            Token::End => c"T_END",
            Token::Error(text) => text,
        }
    }
}

/// A token, where it begins, and its number or truth value.
#[derive(Clone, Copy)]
struct Lexeme {
    token: Token,
    at: usize,
    value: f64,
}

pub(super) unsafe extern "C-unwind" fn decode(state: *mut lua_State) -> c_int {
    if lua_gettop(state) != 1 {
        return luaL_argerror(state, 1, c"expected 1 argument".as_ptr());
    }
    let mut length = 0;
    let start: *const u8 = luaL_checklstring(state, 1, &mut length).cast();
    if length >= 2 && (*start == 0 || *start.add(1) == 0) {
        return luaL_error(
            state,
            c"JSON parser does not support UTF-16 or UTF-32".as_ptr(),
        );
    }
    let workspace = Workspace::of(state);
    (*workspace).context.clear_scratch();
    let mut text = Decoder {
        state,
        start,
        at: 0,
        depth: 0,
        settings: (*workspace).json,
    };
    let first = text.next_token(workspace);
    text.push(state, workspace, first);
    let last = text.next_token(workspace);
    if last.token != Token::End {
        raise_expected(state, c"the end", last);
    }
    1
}

unsafe fn raise_expected(state: *mut lua_State, what: &CStr, found: Lexeme) {
    luaL_error(
        state,
        c"Expected %s but found %s at character %d".as_ptr(),
        what.as_ptr(),
        found.token.name().as_ptr(),
        found.at as c_int + 1,
    );
}

impl Decoder {
    unsafe fn byte(&self, ahead: usize) -> u8 {
        *self.start.add(self.at + ahead)
    }

    unsafe fn begins_with(&self, word: &[u8]) -> bool {
        let same = |(ahead, byte): (usize, &u8)| self.byte(ahead) == *byte;
        word.iter().enumerate().all(same)
    }

    unsafe fn begins_with_any_case(&self, word: &[u8]) -> bool {
        let same = |(ahead, byte): (usize, &u8)| self.byte(ahead).to_ascii_lowercase() == *byte;
        word.iter().enumerate().all(same)
    }

    /// Reads a token.
    unsafe fn next_token(&mut self, workspace: *mut Workspace) -> Lexeme {
        limits::spend(self.state, 1);
        while matches!(self.byte(0), b' ' | b'\t' | b'\n' | b'\r') {
            limits::spend(self.state, 1);
            self.at += 1;
        }
        let at = self.at;
        let found = |token| Lexeme {
            token,
            at,
            value: 0.0,
        };
        let single = match self.byte(0) {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b',' => Token::Comma,
            b':' => Token::Colon,
            0 => return found(Token::End),
            b'"' => return self.read_string(workspace, at),
            b'-' | b'0'..=b'9' => {
                if self.settings.decodes_invalid == 0 && self.is_invalid_number() {
                    return found(Token::Error(c"invalid number"));
                }
                return self.read_number(at);
            }
            b't' if self.begins_with(b"true") => {
                self.at += 4;
                return Lexeme {
                    token: Token::Boolean,
                    at,
                    value: 1.0,
                };
            }
            b'f' if self.begins_with(b"false") => {
                self.at += 5;
                return found(Token::Boolean);
            }
            b'n' if self.begins_with(b"null") => {
                self.at += 4;
                return found(Token::Null);
            }
            b'+' | b'i' | b'I' | b'n' | b'N' | b't' | b'f'
                if self.settings.decodes_invalid != 0 && self.is_invalid_number() =>
            {
                return self.read_number(at);
            }
            _ => return found(Token::Error(c"invalid token")),
        };
        self.at += 1;
        found(single)
    }

    /// Whether this may be a number to C which is none in JSON.
    unsafe fn is_invalid_number(&self) -> bool {
        if self.byte(0) == b'+' {
            return true;
        }
        let ahead = usize::from(self.byte(0) == b'-');
        match self.byte(ahead) {
            b'0' => {
                let next = self.byte(ahead + 1);
                next | 0x20 == b'x' || next.is_ascii_digit()
            }
            0..=b'9' => false,
            _ => {
                let rest = Decoder {
                    at: self.at + ahead,
                    ..*self
                };
                rest.begins_with_any_case(b"inf") || rest.begins_with_any_case(b"nan")
            }
        }
    }

    unsafe fn read_number(&mut self, at: usize) -> Lexeme {
        let here = self.start.add(self.at).cast::<c_char>();
        let mut end = std::ptr::null_mut();
        let value = strtod(here, &mut end);
        let length = end.cast_const().offset_from(here) as usize;
        limits::spend(self.state, length);
        let token = match length {
            0 => Token::Error(c"invalid number"),
            _ => Token::Number,
        };
        self.at += length;
        Lexeme { token, at, value }
    }

    /// Reads a string into the scratch text.
    unsafe fn read_string(&mut self, workspace: *mut Workspace, at: usize) -> Lexeme {
        let out = &raw mut (*workspace).context.text;
        (*workspace).context.clear_scratch();
        self.at += 1;
        let mut looked = 0;
        loop {
            /// Bytes between two looks at what the text takes.
            const PIECE: usize = 4096;
            if (*out).len() >= looked + PIECE {
                looked = (*out).len();
                limits::check_room(self.state, 2 * PIECE);
                limits::spend(self.state, PIECE);
            }
            let byte = match self.byte(0) {
                b'"' => break,
                0 => return self.string_error(c"unexpected end of string"),
                b'\\' => match self.byte(1) {
                    b'u' => {
                        match self.read_escape() {
                            Some((character, length)) => {
                                append_character(&mut *out, character);
                                self.at += length;
                            }
                            None => return self.string_error(c"invalid unicode escape code"),
                        }
                        continue;
                    }
                    other => {
                        let byte = match other {
                            b'"' | b'\\' | b'/' => other,
                            b'b' => 0x08,
                            b't' => b'\t',
                            b'n' => b'\n',
                            b'f' => 0x0c,
                            b'r' => b'\r',
                            _ => return self.string_error(c"invalid escape code"),
                        };
                        self.at += 1;
                        byte
                    }
                },
                other => other,
            };
            (*out).push(byte);
            self.at += 1;
        }
        self.at += 1;
        Lexeme {
            token: Token::String,
            at,
            value: 0.0,
        }
    }

    fn string_error(&self, why: &'static CStr) -> Lexeme {
        Lexeme {
            token: Token::Error(why),
            at: self.at,
            value: 0.0,
        }
    }

    /// The number that four hexadecimal digits are.
    unsafe fn four_digits(&self, ahead: usize) -> Option<u32> {
        let mut value = 0;
        for place in 0..4 {
            value = value * 16 + char::from(self.byte(ahead + place)).to_digit(16)?;
        }
        Some(value)
    }

    /// A character that is written as `\u` and four digits, or as two of those, and the length of this.
    unsafe fn read_escape(&self) -> Option<(u32, usize)> {
        let first = self.four_digits(2)?;
        if first & 0xf800 != 0xd800 {
            return Some((first, 6));
        }
        if first & 0x400 != 0 || self.byte(6) != b'\\' || self.byte(7) != b'u' {
            return None;
        }
        let second = self.four_digits(8)?;
        if second & 0xfc00 != 0xdc00 {
            return None;
        }
        Some(((first & 0x3ff) << 10 | second & 0x3ff, 12))
            .map(|(low, length)| (low + 0x1_0000, length))
    }

    unsafe fn enter_level(&mut self, state: *mut lua_State) {
        self.depth += 1;
        if self.depth > self.settings.decode_depth.min(LEVELS_MAX) || lua_checkstack(state, 5) == 0
        {
            luaL_error(
                state,
                c"Found too many nested data structures (%d) at character %d".as_ptr(),
                self.depth,
                self.at as c_int,
            );
        }
    }

    /// Pushes the value that begins with a token.
    unsafe fn push(&mut self, state: *mut lua_State, workspace: *mut Workspace, found: Lexeme) {
        match found.token {
            Token::String => limits::push_scratch(state),
            Token::Number => lua_pushnumber(state, found.value),
            Token::Boolean => lua_pushboolean(state, c_int::from(found.value != 0.0)),
            Token::Null => lua_pushlightuserdata(state, std::ptr::null_mut()),
            Token::ObjectBegin => self.push_object(state, workspace),
            Token::ArrayBegin => self.push_array(state, workspace),
            _ => raise_expected(state, c"value", found),
        }
    }

    unsafe fn push_object(&mut self, state: *mut lua_State, workspace: *mut Workspace) {
        self.enter_level(state);
        lua_createtable(state, 0, 0);
        let mut found = self.next_token(workspace);
        while found.token != Token::ObjectEnd {
            if found.token != Token::String {
                raise_expected(state, c"object key string", found);
            }
            limits::push_scratch(state);
            found = self.next_token(workspace);
            if found.token != Token::Colon {
                raise_expected(state, c"colon", found);
            }
            found = self.next_token(workspace);
            self.push(state, workspace, found);
            lua_rawset(state, -3);
            found = self.next_token(workspace);
            if found.token == Token::ObjectEnd {
                break;
            }
            if found.token != Token::Comma {
                raise_expected(state, c"comma or object end", found);
            }
            found = self.next_token(workspace);
            if found.token == Token::ObjectEnd {
                raise_expected(state, c"object key string", found);
            }
        }
        self.depth -= 1;
    }

    unsafe fn push_array(&mut self, state: *mut lua_State, workspace: *mut Workspace) {
        self.enter_level(state);
        lua_createtable(state, 0, 0);
        let mut found = self.next_token(workspace);
        let mut index = 1;
        while index > 1 || found.token != Token::ArrayEnd {
            self.push(state, workspace, found);
            lua_rawseti_(state, -2, index);
            index += 1;
            found = self.next_token(workspace);
            if found.token == Token::ArrayEnd {
                break;
            }
            if found.token != Token::Comma {
                raise_expected(state, c"comma or array end", found);
            }
            found = self.next_token(workspace);
        }
        self.depth -= 1;
    }
}

/// Appends a character in UTF-8, also where it is half of a pair.
fn append_character(out: &mut Vec<u8>, character: u32) {
    let last = |bits: u32| 0x80 | (character >> bits & 0x3f) as u8;
    match character {
        0..0x80 => out.push(character as u8),
        0x80..0x800 => out.extend_from_slice(&[0xc0 | (character >> 6) as u8, last(0)]),
        0x800..0x1_0000 => {
            out.extend_from_slice(&[0xe0 | (character >> 12) as u8, last(6), last(0)]);
        }
        _ => out.extend_from_slice(&[0xf0 | (character >> 18) as u8, last(12), last(6), last(0)]),
    }
}
