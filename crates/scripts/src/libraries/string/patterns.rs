//! Lua's patterns: `find`, `match`, `gmatch` and `gsub` of the library `string`.
//!
//! They are as in Lua 5.1, but for two limits: a pattern goes only so deep, and one that takes long is asked whether it
//! may go on, as any script is. Lua's own would try for years what has many ways to match, and run out of stack in
//! patterns that are long.

use std::ffi::{CStr, c_int};

use mlua_sys::{
    LUA_TFUNCTION, LUA_TNUMBER, LUA_TSTRING, LUA_TTABLE, lua_State, lua_call, lua_checkstack,
    lua_gettable_, lua_isstring, lua_pop, lua_pushcclosure, lua_pushinteger, lua_pushnil,
    lua_pushvalue, lua_replace, lua_settop, lua_toboolean, lua_tonumber, lua_type, lua_typename,
    lua_upvalueindex, luaL_argerror, luaL_error,
};

use crate::libraries::function::{Function, Memory, asked, constant};
use crate::state::limits;
use crate::state::stack::bytes;
use crate::state::stack::push_bytes;
use crate::state::stack::text;
use crate::values::arguments::{optional_int, optional_integer};
use crate::values::buffer::Buffer;

/// The functions.
pub(crate) const FUNCTIONS: &[Function] = &[
    asked(c"find", find, "steps of the pattern", Memory::Counted),
    asked(c"match", match_, "steps of the pattern", Memory::Counted),
    constant(c"gmatch", match_all),
    constant(c"gfind", match_all),
    asked(
        c"gsub",
        replace_all,
        "steps of the pattern, and the function that it calls",
        Memory::Counted,
    ),
];

/// The functions that these return.
pub(crate) const RETURNED: &[Function] = &[asked(
    c"the iterator of string.gmatch",
    next_match,
    "steps of the pattern",
    Memory::Counted,
)];

const CAPTURES_MAX: usize = 32;
const LEVELS_MAX: u32 = 200;
/// Bytes of a pattern, at most: one step may look at all of them.
const PATTERN_MAX: usize = 1 << 20;
const SPECIAL: &[u8] = b"^$*+?.([%-";

/// A capture that has begun and not ended.
const UNFINISHED: isize = -1;
/// A capture of a position.
const POSITION: isize = -2;

/// A match that is being looked for.
#[derive(Clone, Copy)]
struct Matcher<'a> {
    state: *mut lua_State,
    text: &'a [u8],
    pattern: &'a [u8],
    /// Where each capture begins, and how long it is.
    captures: [(usize, isize); CAPTURES_MAX],
    level: usize,
    depth: u32,
}

/// Where a match ends, if there is one; or what is wrong with the pattern.
type Matched = Result<Option<usize>, &'static CStr>;

impl<'a> Matcher<'a> {
    unsafe fn new(state: *mut lua_State, text: &'a [u8], pattern: &'a [u8]) -> Matcher<'a> {
        let pattern = until_zero(pattern);
        if pattern.len() > PATTERN_MAX {
            luaL_error(state, c"pattern too long".as_ptr());
        }
        Matcher {
            state,
            text,
            pattern,
            captures: [(0, UNFINISHED); CAPTURES_MAX],
            level: 0,
            depth: 0,
        }
    }

    /// A byte of the pattern; 0 behind its end.
    fn pattern_byte(&self, place: usize) -> u8 {
        self.pattern.get(place).copied().unwrap_or(0)
    }

    /// A byte of the text; 0 behind its end.
    fn text_byte(&self, place: usize) -> u8 {
        self.text.get(place).copied().unwrap_or(0)
    }

    fn count(&self, steps: usize) {
        // SAFETY: the state is that of the running script, and nothing between here and its call needs to be dropped.
        unsafe { limits::spend(self.state, steps) };
    }

    /// Looks for a match of the whole pattern from a place on.
    fn match_from(&mut self, start: usize, pattern: usize) -> Matched {
        self.level = 0;
        self.depth = 0;
        self.match_here(start, pattern)
    }

    /// Behind the single character, class or set at a place of the pattern.
    fn single_end(&self, mut place: usize) -> Result<usize, &'static CStr> {
        let first = self.pattern_byte(place);
        place += 1;
        match first {
            b'%' if self.pattern_byte(place) == 0 => Err(c"malformed pattern (ends with '%')"),
            b'%' => Ok(place + 1),
            b'[' => {
                if self.pattern_byte(place) == b'^' {
                    place += 1;
                }
                loop {
                    let byte = self.pattern_byte(place);
                    if byte == 0 {
                        return Err(c"malformed pattern (missing ']')");
                    }
                    place += 1;
                    if byte == b'%' && self.pattern_byte(place) != 0 {
                        place += 1;
                    }
                    if self.pattern_byte(place) == b']' {
                        return Ok(place + 1);
                    }
                }
            }
            _ => Ok(place),
        }
    }

    /// Whether a byte is in the set whose brackets are at these places.
    fn in_set(&self, byte: u8, mut place: usize, end: usize) -> bool {
        let mut is_in = true;
        if self.pattern_byte(place + 1) == b'^' {
            is_in = false;
            place += 1;
        }
        place += 1;
        while place < end {
            if self.pattern_byte(place) == b'%' {
                place += 1;
                if in_class(byte, self.pattern_byte(place)) {
                    return is_in;
                }
            } else if self.pattern_byte(place + 1) == b'-' && place + 2 < end {
                if (self.pattern_byte(place)..=self.pattern_byte(place + 2)).contains(&byte) {
                    return is_in;
                }
                place += 2;
            } else if self.pattern_byte(place) == byte {
                return is_in;
            }
            place += 1;
        }
        !is_in
    }

    fn is_in_single(&self, byte: u8, place: usize, end: usize) -> bool {
        match self.pattern_byte(place) {
            b'.' => true,
            b'%' => in_class(byte, self.pattern_byte(place + 1)),
            b'[' => self.in_set(byte, place, end - 1),
            other => other == byte,
        }
    }

    fn single_matches(&self, at: usize, place: usize, end: usize) -> bool {
        at < self.text.len() && self.is_in_single(self.text[at], place, end)
    }

    fn match_balanced(&mut self, start: usize, place: usize) -> Matched {
        let mut at = start;
        let (open, close) = (self.pattern_byte(place), self.pattern_byte(place + 1));
        if open == 0 || close == 0 {
            return Err(c"unbalanced pattern");
        }
        if self.text_byte(at) != open {
            return Ok(None);
        }
        let mut levels = 1;
        at += 1;
        while at < self.text.len() {
            let byte = self.text[at];
            if byte == close {
                levels -= 1;
                if levels == 0 {
                    self.count(at - start);
                    return Ok(Some(at + 1));
                }
            } else if byte == open {
                levels += 1;
            }
            at += 1;
        }
        self.count(at - start);
        Ok(None)
    }

    fn match_here(&mut self, at: usize, place: usize) -> Matched {
        self.depth += 1;
        if self.depth > LEVELS_MAX {
            return Err(c"pattern too complex");
        }
        let matched = self.match_steps(at, place);
        self.depth -= 1;
        matched
    }

    fn match_steps(&mut self, mut at: usize, mut place: usize) -> Matched {
        loop {
            self.count(1);
            match (self.pattern_byte(place), self.pattern_byte(place + 1)) {
                (0, _) => return Ok(Some(at)),
                (b'(', b')') => return self.begin_capture(at, place + 2, POSITION),
                (b'(', _) => return self.begin_capture(at, place + 1, UNFINISHED),
                (b')', _) => return self.end_capture(at, place + 1),
                (b'$', 0) => return Ok((at == self.text.len()).then_some(at)),
                (b'%', b'b') => match self.match_balanced(at, place + 2)? {
                    Some(end) => (at, place) = (end, place + 4),
                    None => return Ok(None),
                },
                (b'%', b'f') => {
                    place += 2;
                    if self.pattern_byte(place) != b'[' {
                        return Err(c"missing '[' after '%f' in pattern");
                    }
                    let end = self.single_end(place)?;
                    let before = if at == 0 { 0 } else { self.text[at - 1] };
                    if self.in_set(before, place, end - 1)
                        || !self.in_set(self.text_byte(at), place, end - 1)
                    {
                        return Ok(None);
                    }
                    place = end;
                }
                (b'%', digit @ b'0'..=b'9') => match self.match_backreference(at, digit)? {
                    Some(end) => (at, place) = (end, place + 2),
                    None => return Ok(None),
                },
                _ => {
                    let end = self.single_end(place)?;
                    // A set may be long.
                    self.count(end - place);
                    let is_one = self.single_matches(at, place, end);
                    match self.pattern_byte(end) {
                        b'?' => {
                            if is_one && let Some(end) = self.match_here(at + 1, end + 1)? {
                                return Ok(Some(end));
                            }
                            place = end + 1;
                        }
                        b'*' => return self.match_longest(at, place, end),
                        b'+' if is_one => return self.match_longest(at + 1, place, end),
                        b'-' => return self.match_shortest(at, place, end),
                        b'+' => return Ok(None),
                        _ if is_one => (at, place) = (at + 1, end),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    fn match_longest(&mut self, at: usize, place: usize, end: usize) -> Matched {
        let mut length = 0;
        while self.single_matches(at + length, place, end) {
            length += 1;
            self.count(end - place);
        }
        loop {
            if let Some(end) = self.match_here(at + length, end + 1)? {
                return Ok(Some(end));
            }
            match length.checked_sub(1) {
                Some(less) => length = less,
                None => return Ok(None),
            }
        }
    }

    fn match_shortest(&mut self, mut at: usize, place: usize, end: usize) -> Matched {
        loop {
            if let Some(end) = self.match_here(at, end + 1)? {
                return Ok(Some(end));
            }
            if !self.single_matches(at, place, end) {
                return Ok(None);
            }
            at += 1;
            self.count(end - place);
        }
    }

    fn begin_capture(&mut self, at: usize, place: usize, what: isize) -> Matched {
        if self.level >= CAPTURES_MAX {
            return Err(c"too many captures");
        }
        self.captures[self.level] = (at, what);
        self.level += 1;
        let matched = self.match_here(at, place)?;
        if matched.is_none() {
            self.level -= 1;
        }
        Ok(matched)
    }

    fn end_capture(&mut self, at: usize, place: usize) -> Matched {
        let open = (0..self.level).rev();
        let last = open
            .into_iter()
            .find(|&level| self.captures[level].1 == UNFINISHED);
        let level = last.ok_or(c"invalid pattern capture")?;
        self.captures[level].1 = (at - self.captures[level].0) as isize;
        let matched = self.match_here(at, place)?;
        if matched.is_none() {
            self.captures[level].1 = UNFINISHED;
        }
        Ok(matched)
    }

    fn match_backreference(&mut self, at: usize, digit: u8) -> Matched {
        let level = usize::from(digit).wrapping_sub(usize::from(b'1'));
        if level >= self.level || self.captures[level].1 == UNFINISHED {
            return Err(c"invalid capture index");
        }
        let (start, length) = self.captures[level];
        let Ok(length) = usize::try_from(length) else {
            return Ok(None);
        };
        self.count(length);
        let again = self.text.get(at..at + length);
        let is_same = again == Some(&self.text[start..start + length]);
        Ok(is_same.then_some(at + length))
    }

    /// Pushes a capture of a match; the first one of a pattern without any is the match.
    unsafe fn push_capture(&self, index: usize, start: usize, end: usize) {
        if index >= self.level {
            if index != 0 {
                luaL_error(self.state, c"invalid capture index".as_ptr());
            }
            return push_bytes(self.state, &self.text[start..end]);
        }
        match self.captures[index] {
            (at, POSITION) => lua_pushinteger(self.state, at as i64 + 1),
            (_, UNFINISHED) => {
                luaL_error(self.state, c"unfinished capture".as_ptr());
            }
            (at, length) => push_bytes(self.state, &self.text[at..at + length as usize]),
        }
    }

    /// Pushes all captures, or the match where it has none and `whole` is set. Returns how many.
    unsafe fn push_captures(&self, start: usize, end: usize, whole: bool) -> c_int {
        let count = if self.level == 0 && whole {
            1
        } else {
            self.level
        };
        if lua_checkstack(self.state, count as c_int + 5) == 0 {
            luaL_error(
                self.state,
                c"stack overflow (%s)".as_ptr(),
                c"too many captures".as_ptr(),
            );
        }
        for index in 0..count {
            self.push_capture(index, start, end);
        }
        count as c_int
    }
}

/// Whether a byte is of the class that a letter stands for.
fn in_class(byte: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | b'\t'..=b'\r'),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_in != class.is_ascii_uppercase()
}

/// Where a match ends, if there is one.
unsafe fn unwrap_or_raise(state: *mut lua_State, matched: Matched) -> Option<usize> {
    match matched {
        Ok(matched) => matched,
        Err(problem) => {
            luaL_error(state, c"%s".as_ptr(), problem.as_ptr());
            None
        }
    }
}

/// A pattern ends with a zero, as in C.
fn until_zero(pattern: &[u8]) -> &[u8] {
    let end = memchr::memchr(0, pattern);
    &pattern[..end.unwrap_or(pattern.len())]
}

unsafe extern "C-unwind" fn find(state: *mut lua_State) -> c_int {
    find_first(state, true)
}

unsafe extern "C-unwind" fn match_(state: *mut lua_State) -> c_int {
    find_first(state, false)
}

unsafe fn find_first(state: *mut lua_State, finds: bool) -> c_int {
    let (subject, pattern) = (text(state, 1), text(state, 2));
    let start = optional_integer(state, 3, 1);
    let start = if start < 0 {
        start.saturating_add(subject.len() as i64 + 1)
    } else {
        start
    };
    let start = usize::try_from(start.saturating_sub(1))
        .unwrap_or(0)
        .min(subject.len());
    if finds && (lua_toboolean(state, 4) != 0 || is_plain(state, pattern)) {
        return match find_plain(state, &subject[start..], pattern) {
            Some(at) => {
                lua_pushinteger(state, (start + at) as i64 + 1);
                lua_pushinteger(state, (start + at + pattern.len()) as i64);
                2
            }
            None => {
                lua_pushnil(state);
                1
            }
        };
    }
    let mut matcher = Matcher::new(state, subject, pattern);
    let is_anchored = matcher.pattern_byte(0) == b'^';
    let first = usize::from(is_anchored);
    for at in start..=subject.len() {
        if let Some(end) = unwrap_or_raise(state, matcher.match_from(at, first)) {
            if !finds {
                return matcher.push_captures(at, end, true);
            }
            lua_pushinteger(state, at as i64 + 1);
            lua_pushinteger(state, end as i64);
            return matcher.push_captures(at, end, false) + 2;
        }
        if is_anchored {
            break;
        }
    }
    lua_pushnil(state);
    1
}

/// Whether a pattern stands for itself.
unsafe fn is_plain(state: *mut lua_State, pattern: &[u8]) -> bool {
    const PIECE: usize = 4096;
    let mut pieces = until_zero(pattern).chunks(PIECE);
    pieces.all(|piece| {
        limits::spend(state, piece.len());
        !piece.iter().any(|byte| SPECIAL.contains(byte))
    })
}

/// Where a text is in another one. It is looked for in parts, as both may be long.
unsafe fn find_plain(state: *mut lua_State, text: &[u8], wanted: &[u8]) -> Option<usize> {
    const PART: usize = 1 << 20;
    limits::spend_bytes(state, wanted.len());
    let finder = memchr::memmem::Finder::new(wanted);
    let part = PART.max(wanted.len().saturating_mul(4));
    let mut start = 0;
    while text.len() - start >= wanted.len() {
        let end = text.len().min(start + part);
        limits::spend_bytes(state, end - start);
        if let Some(at) = finder.find(&text[start..end]) {
            return Some(start + at);
        }
        if end == text.len() {
            return None;
        }
        start = end + 1 - wanted.len();
    }
    None
}

unsafe extern "C-unwind" fn match_all(state: *mut lua_State) -> c_int {
    text(state, 1);
    text(state, 2);
    lua_settop(state, 2);
    lua_pushinteger(state, 0);
    lua_pushcclosure(state, next_match, 3);
    1
}

/// The iterator of `gmatch`: its upvalues are the text, the pattern, and where to go on.
unsafe extern "C-unwind" fn next_match(state: *mut lua_State) -> c_int {
    let (subject, pattern) = (
        bytes(state, lua_upvalueindex(1)),
        bytes(state, lua_upvalueindex(2)),
    );
    let start = lua_tonumber(state, lua_upvalueindex(3)) as usize;
    let mut matcher = Matcher::new(state, subject, pattern);
    for at in start..=subject.len() {
        if let Some(end) = unwrap_or_raise(state, matcher.match_from(at, 0)) {
            let next = if end == at { end + 1 } else { end };
            lua_pushinteger(state, next as i64);
            lua_replace(state, lua_upvalueindex(3));
            return matcher.push_captures(at, end, true);
        }
    }
    0
}

unsafe extern "C-unwind" fn replace_all(state: *mut lua_State) -> c_int {
    limits::check_stack(state);
    let (subject, pattern) = (text(state, 1), text(state, 2));
    let kind = lua_type(state, 3);
    let most = optional_int(state, 4, (subject.len() as i64).saturating_add(1));
    if !matches!(kind, LUA_TNUMBER | LUA_TSTRING | LUA_TFUNCTION | LUA_TTABLE) {
        return luaL_argerror(state, 3, c"string/function/table expected".as_ptr());
    }
    let mut matcher = Matcher::new(state, subject, pattern);
    let is_anchored = matcher.pattern_byte(0) == b'^';
    let first = usize::from(is_anchored);
    let mut out = Buffer::new(state);
    let (mut at, mut count) = (0, 0);
    while count < most {
        let end = unwrap_or_raise(state, matcher.match_from(at, first));
        if let Some(end) = end {
            count += 1;
            add_value(state, &matcher, &mut out, kind, (at, end));
        }
        match end {
            Some(end) if end > at => at = end,
            _ if at < subject.len() => {
                out.add_byte(subject[at]);
                at += 1;
            }
            _ => break,
        }
        if is_anchored {
            break;
        }
    }
    out.add(&subject[at..]);
    out.push();
    lua_pushinteger(state, count);
    2
}

/// Adds what a match is replaced by.
unsafe fn add_value(
    state: *mut lua_State,
    matcher: &Matcher<'_>,
    out: &mut Buffer,
    kind: c_int,
    (start, end): (usize, usize),
) {
    match kind {
        LUA_TFUNCTION => {
            lua_pushvalue(state, 3);
            let count = matcher.push_captures(start, end, true);
            lua_call(state, count, 1);
        }
        LUA_TTABLE => {
            matcher.push_capture(0, start, end);
            lua_gettable_(state, 3);
        }
        _ => return add_text(state, matcher, out, (start, end)),
    }
    if lua_toboolean(state, -1) == 0 {
        lua_pop(state, 1);
        return out.add(&matcher.text[start..end]);
    }
    if lua_isstring(state, -1) == 0 {
        luaL_error(
            state,
            c"invalid replacement value (a %s)".as_ptr(),
            lua_typename(state, lua_type(state, -1)),
        );
    }
    out.add(bytes(state, -1));
    lua_pop(state, 1);
}

/// Adds the replacement text, with captures in the place of `%1` and its like.
unsafe fn add_text(
    state: *mut lua_State,
    matcher: &Matcher<'_>,
    out: &mut Buffer,
    (start, end): (usize, usize),
) {
    let replacement = bytes(state, 3);
    let mut rest = replacement;
    while let Some(at) = memchr::memchr(b'%', rest) {
        out.add(&rest[..at]);
        let byte = rest.get(at + 1).copied().unwrap_or(0);
        match byte {
            b'0' => out.add(&matcher.text[start..end]),
            b'1'..=b'9' => {
                matcher.push_capture(usize::from(byte - b'1'), start, end);
                out.add(bytes(state, -1));
                lua_pop(state, 1);
            }
            byte => out.add_byte(byte),
        }
        rest = rest.get(at + 2..).unwrap_or(&[]);
    }
    out.add(rest);
}
