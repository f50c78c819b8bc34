//! Decodes JSON into Lua values.

use std::ffi::{c_char, c_int};
use std::ptr::null_mut;

use super::settings::{LEVELS_MAX, Settings};
use crate::libraries::workspace::Workspace;
use crate::state::{Context, State};

unsafe extern "C" {
    fn strtod(text: *const c_char, end: *mut *mut c_char) -> f64;
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    /// A string, whose decoded bytes are in the scratch buffer.
    String,
    Number,
    Boolean,
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl Token {
    fn name(self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::String => "T_STRING",
            Token::Number => "T_NUMBER",
            Token::Boolean => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Error(text) => text,
        }
    }
}

/// A token with its offset in the text and its number or boolean value.
#[derive(Clone, Copy)]
struct Lexeme {
    token: Token,
    at: usize,
    value: f64,
}

/// Implements `cjson.decode`.
pub(super) fn decode(state: &mut State<'_>) -> c_int {
    if state.top() != 1 {
        state.raise_argument(1, c"expected 1 argument");
    }
    state.check_bytes(1);
    // SAFETY: the argument stays on the stack until this function returns, so its bytes stay alive.
    let text = unsafe { state.anchored() }.bytes_with_zero(1);
    if text.len() > 2 && (text[0] == 0 || text[1] == 0) {
        state.raise_here(b"JSON parser does not support UTF-16 or UTF-32");
    }
    let context = state.context();
    context.clear_scratch();
    let mut decoder = Decoder {
        context,
        text,
        at: 0,
        depth: 0,
        settings: &Workspace::of(state).json,
    };
    let first = decoder.next_token(state);
    decoder.push(state, first);
    let last = decoder.next_token(state);
    if last.token != Token::End {
        raise_expected(state, "the end", last);
    }
    1
}

fn raise_expected(state: &State<'_>, wanted: &str, found: Lexeme) -> ! {
    let (name, place) = (found.token.name(), found.at as c_int + 1);
    let problem = format_args!("Expected {wanted} but found {name} at character {place}");
    state.raise_formatted(problem)
}

/// A decoder for one JSON text.
#[derive(Clone, Copy)]
struct Decoder<'t> {
    context: &'t Context,
    /// The JSON text, including its terminating zero byte.
    text: &'t [u8],
    at: usize,
    depth: c_int,
    settings: &'t Settings,
}

/// Methods that read tokens.
impl Decoder<'_> {
    /// Returns the byte `ahead` bytes after the current offset, or 0 past the end of the text.
    #[inline]
    fn byte(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn begins_with(&self, word: &[u8]) -> bool {
        let same = |(ahead, byte): (usize, &u8)| self.byte(ahead) == *byte;
        word.iter().enumerate().all(same)
    }

    fn begins_with_any_case(&self, word: &[u8]) -> bool {
        let same = |(ahead, byte): (usize, &u8)| self.byte(ahead).to_ascii_lowercase() == *byte;
        word.iter().enumerate().all(same)
    }

    /// Reads the next token.
    fn next_token(&mut self, state: &State<'_>) -> Lexeme {
        self.context.spend(state, 1);
        while matches!(self.byte(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.context.spend(state, 1);
            self.at += 1;
        }
        let single = match self.byte(0) {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b',' => Token::Comma,
            b':' => Token::Colon,
            0 => return self.lexeme(Token::End),
            b'"' => return self.read_string(state),
            first => return self.next_word(state, first),
        };
        let found = self.lexeme(single);
        self.at += 1;
        found
    }

    /// Reads a number or a word such as `true`.
    fn next_word(&mut self, state: &State<'_>, first: u8) -> Lexeme {
        let invalid_is_read = self.settings.decodes_invalid.get() != 0;
        let (token, length, value) = match first {
            b'-' | b'0'..=b'9' => {
                if !invalid_is_read && self.is_invalid_number() {
                    return self.lexeme(Token::Error("invalid number"));
                }
                return self.read_number(state);
            }
            b't' if self.begins_with(b"true") => (Token::Boolean, 4, 1.0),
            b'f' if self.begins_with(b"false") => (Token::Boolean, 5, 0.0),
            b'n' if self.begins_with(b"null") => (Token::Null, 4, 0.0),
            b'+' | b'i' | b'I' | b'n' | b'N' | b't' | b'f'
                if invalid_is_read && self.is_invalid_number() =>
            {
                return self.read_number(state);
            }
            _ => return self.lexeme(Token::Error("invalid token")),
        };
        let at = self.at;
        self.at += length;
        Lexeme { token, at, value }
    }

    /// Returns a token without a value, located at the current offset.
    fn lexeme(&self, token: Token) -> Lexeme {
        Lexeme {
            token,
            at: self.at,
            value: 0.0,
        }
    }

    /// Returns whether a number at the current offset is one that C accepts but JSON forbids.
    fn is_invalid_number(&self) -> bool {
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

    fn read_number(&mut self, state: &State<'_>) -> Lexeme {
        let (here, mut end) = (self.text[self.at..].as_ptr().cast::<c_char>(), null_mut());
        // SAFETY: the text ends with a zero byte, so `strtod` stops within it.
        let (value, length) = unsafe {
            let value = strtod(here, &mut end);
            (value, end.cast_const().offset_from(here) as usize)
        };
        self.context.spend(state, length);
        let token = match length {
            0 => Token::Error("invalid number"),
            _ => Token::Number,
        };
        let at = self.at;
        self.at += length;
        Lexeme { token, at, value }
    }
}

/// Methods that read strings.
impl Decoder<'_> {
    /// Decodes a string into the scratch buffer.
    fn read_string(&mut self, state: &State<'_>) -> Lexeme {
        /// The number of bytes to read between two checks of the memory limit.
        const PIECE: usize = 4096;
        self.context.clear_scratch();
        // SAFETY: `out` is the only reference to the scratch buffer, because no function called
        // below uses the buffer.
        let out = unsafe { &mut *self.context.scratch() };
        let at = self.at;
        self.at += 1;
        let mut looked_at = 0;
        loop {
            if out.len() >= looked_at + PIECE {
                looked_at = out.len();
                state.check_scratch(looked_at + 2 * PIECE);
                self.context.spend(state, PIECE);
            }
            let rest = &self.text[self.at..];
            let part = &rest[..rest.len().min(PIECE)];
            let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0);
            let plain = part.iter().position(is_special).unwrap_or(part.len());
            out.extend_from_slice(&part[..plain]);
            self.at += plain;
            match part.get(plain) {
                None => {}
                Some(b'"') => break,
                Some(b'\\') => match self.read_escape() {
                    Ok((character, length)) => {
                        append_character(out, character);
                        self.at += length;
                    }
                    Err(problem) => return self.lexeme(Token::Error(problem)),
                },
                Some(_) => return self.lexeme(Token::Error("unexpected end of string")),
            }
        }
        self.at += 1;
        Lexeme {
            token: Token::String,
            at,
            value: 0.0,
        }
    }

    /// Decodes the escape sequence at the current offset. Returns its character and its length in
    /// bytes.
    fn read_escape(&self) -> Result<(u32, usize), &'static str> {
        let character = match self.byte(1) {
            b'u' => return self.read_unicode().ok_or("invalid unicode escape code"),
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 0x08,
            b't' => b'\t',
            b'n' => b'\n',
            b'f' => 0x0c,
            b'r' => b'\r',
            _ => return Err("invalid escape code"),
        };
        Ok((u32::from(character), 2))
    }

    /// Decodes a `\u` escape with four digits, or a surrogate pair of two `\u` escapes. Returns the
    /// character and the total length of its escapes in bytes.
    fn read_unicode(&self) -> Option<(u32, usize)> {
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
        let low = (first & 0x3ff) << 10 | second & 0x3ff;
        Some((low + 0x1_0000, 12))
    }

    /// Returns the value of the four hexadecimal digits that are `ahead` bytes after the current
    /// offset.
    fn four_digits(&self, ahead: usize) -> Option<u32> {
        let mut value = 0;
        for place in 0..4 {
            value = value * 16 + char::from(self.byte(ahead + place)).to_digit(16)?;
        }
        Some(value)
    }
}

/// Methods that decode values.
impl Decoder<'_> {
    fn enter_level(&mut self, state: &State<'_>) {
        self.depth += 1;
        if self.depth > self.settings.decode_depth.get().min(LEVELS_MAX) || !state.has_room(5) {
            state.raise_formatted(format_args!(
                "Found too many nested data structures ({}) at character {}",
                self.depth, self.at as c_int
            ));
        }
    }

    /// Pushes the value that starts with the token `found`.
    fn push(&mut self, state: &mut State<'_>, found: Lexeme) {
        match found.token {
            Token::String => state.push_scratch(),
            Token::Number => state.push_number(found.value),
            Token::Boolean => state.push_boolean(found.value != 0.0),
            Token::Null => state.push_null(),
            Token::ObjectBegin => self.push_object(state),
            Token::ArrayBegin => self.push_array(state),
            _ => raise_expected(state, "value", found),
        }
    }

    fn push_object(&mut self, state: &mut State<'_>) {
        self.enter_level(state);
        state.push_table(0, 0);
        let mut found = self.next_token(state);
        while found.token != Token::ObjectEnd {
            if found.token != Token::String {
                raise_expected(state, "object key string", found);
            }
            state.push_scratch();
            found = self.next_token(state);
            if found.token != Token::Colon {
                raise_expected(state, "colon", found);
            }
            found = self.next_token(state);
            self.push(state, found);
            state.raw_set(-3);
            found = self.next_token(state);
            if found.token == Token::ObjectEnd {
                break;
            }
            if found.token != Token::Comma {
                raise_expected(state, "comma or object end", found);
            }
            found = self.next_token(state);
            if found.token == Token::ObjectEnd {
                raise_expected(state, "object key string", found);
            }
        }
        self.depth -= 1;
    }

    fn push_array(&mut self, state: &mut State<'_>) {
        self.enter_level(state);
        state.push_table(0, 0);
        let mut found = self.next_token(state);
        let mut index = 1;
        while index > 1 || found.token != Token::ArrayEnd {
            self.push(state, found);
            state.set_item(-2, index);
            index += 1;
            found = self.next_token(state);
            if found.token == Token::ArrayEnd {
                break;
            }
            if found.token != Token::Comma {
                raise_expected(state, "comma or array end", found);
            }
            found = self.next_token(state);
        }
        self.depth -= 1;
    }
}

/// Appends a character as UTF-8, even if it is half of a surrogate pair.
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
