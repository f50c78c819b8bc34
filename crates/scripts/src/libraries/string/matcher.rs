//! Matches Lua patterns against strings.

use std::ffi::c_int;

use crate::state::{Context, State};

const CAPTURES_MAX: usize = 32;
const LEVELS_MAX: u32 = 200;
/// The maximum length of a pattern, in bytes. It limits the time of a single step, which can
/// examine the entire pattern.
const PATTERN_MAX: usize = 1 << 20;

/// The length of a capture whose end has not been matched.
const UNFINISHED: isize = -1;
/// The length that marks a capture as a position capture.
const POSITION: isize = -2;

/// The state of a search for a match.
#[derive(Clone, Copy)]
pub(super) struct Matcher<'a> {
    state: &'a State<'a>,
    context: &'a Context,
    pub(super) text: &'a [u8],
    pattern: &'a [u8],
    /// The start and the length of each capture.
    captures: [(usize, isize); CAPTURES_MAX],
    level: usize,
    depth: u32,
}

/// The result of a match: the end of the matched text, `None` if there is no match, or an error
/// message if the pattern is malformed.
pub(super) type Matched = Result<Option<usize>, &'static [u8]>;

impl<'a> Matcher<'a> {
    pub(super) fn new(state: &'a State<'a>, text: &'a [u8], pattern: &'a [u8]) -> Matcher<'a> {
        let pattern = until_zero(pattern);
        if pattern.len() > PATTERN_MAX {
            state.raise_here(b"pattern too long");
        }
        Matcher {
            state,
            context: state.context(),
            text,
            pattern,
            captures: [(0, UNFINISHED); CAPTURES_MAX],
            level: 0,
            depth: 0,
        }
    }

    /// Returns the pattern's byte at `place`, or 0 past the pattern's end.
    pub(super) fn pattern_byte(&self, place: usize) -> u8 {
        self.pattern.get(place).copied().unwrap_or(0)
    }

    /// Returns the text's byte at `place`, or 0 past the text's end.
    fn text_byte(&self, place: usize) -> u8 {
        self.text.get(place).copied().unwrap_or(0)
    }

    fn count(&self, steps: usize) {
        self.context.spend(self.state, steps);
    }

    /// Matches the pattern, starting at its offset `pattern`, against the text at offset `start`.
    pub(super) fn match_from(&mut self, start: usize, pattern: usize) -> Matched {
        self.level = 0;
        self.depth = 0;
        self.match_here(start, pattern)
    }

    /// Returns the offset after the single character, class or set that starts at offset `place` of
    /// the pattern.
    fn single_end(&self, mut place: usize) -> Result<usize, &'static [u8]> {
        let first = self.pattern_byte(place);
        place += 1;
        match first {
            b'%' if self.pattern_byte(place) == 0 => Err(b"malformed pattern (ends with '%')"),
            b'%' => Ok(place + 1),
            b'[' => {
                if self.pattern_byte(place) == b'^' {
                    place += 1;
                }
                loop {
                    let byte = self.pattern_byte(place);
                    if byte == 0 {
                        return Err(b"malformed pattern (missing ']')");
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

    /// Returns whether `byte` is in the set whose brackets are at the pattern's offsets `place` and
    /// `end`.
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
            return Err(b"unbalanced pattern");
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
            return Err(b"pattern too complex");
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
                        return Err(b"missing '[' after '%f' in pattern");
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
                    // Count each byte of a set as a step, because sets can be long.
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
            return Err(b"too many captures");
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
        let level = last.ok_or(&b"invalid pattern capture"[..])?;
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
            return Err(b"invalid capture index");
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

    /// Pushes a capture. If the pattern has no captures, the first capture is the entire match.
    pub(super) fn push_capture(&self, index: usize, start: usize, end: usize) {
        if index >= self.level {
            if index != 0 {
                self.state.raise_here(b"invalid capture index");
            }
            return self.state.push_bytes(&self.text[start..end]);
        }
        match self.captures[index] {
            (at, POSITION) => self.state.push_integer(at as i64 + 1),
            (_, UNFINISHED) => self.state.raise_here(b"unfinished capture"),
            (at, length) => self.state.push_bytes(&self.text[at..at + length as usize]),
        }
    }

    /// Pushes all captures, or the entire match if the pattern has no captures and `whole` is set.
    /// Returns the number of pushed values.
    pub(super) fn push_captures(&self, start: usize, end: usize, whole: bool) -> c_int {
        let count = if self.level == 0 && whole {
            1
        } else {
            self.level
        };
        if !self.state.has_room(count as c_int + 5) {
            self.state.raise_here(b"stack overflow (too many captures)");
        }
        for index in 0..count {
            self.push_capture(index, start, end);
        }
        count as c_int
    }
}

/// Returns whether `byte` belongs to a class, such as `d` for digits.
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

/// Returns the pattern up to its first zero byte. C strings, and therefore Lua 5.1's patterns, end
/// there.
pub(super) fn until_zero(pattern: &[u8]) -> &[u8] {
    let end = memchr::memchr(0, pattern);
    &pattern[..end.unwrap_or(pattern.len())]
}
