//! Implements the functions of `string` that match Lua patterns: `find`, `match`, `gmatch` and
//! `gsub`.
//!
//! Patterns work as in Lua 5.1, with two differences: matching recurses at most 200 levels deep,
//! and it regularly asks the host whether the script may continue. Lua's own functions can run for
//! years if a pattern has many ways to match, and overflow the stack if the pattern is long.

use std::ffi::c_int;
use std::mem::ManuallyDrop;

use super::matcher::{Matched, Matcher, until_zero};
use crate::libraries::function::{Function, Memory, asked, constant};
use crate::state::{Kind, State, upvalue};
use crate::values::buffer::Buffer;

/// The functions that match patterns, with the limits on each call's time and memory.
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

/// Functions that scripts can obtain only as results of the pattern functions.
pub(crate) const RETURNED: &[Function] = &[asked(
    c"the iterator of string.gmatch",
    next_match,
    "steps of the pattern",
    Memory::Counted,
)];

const SPECIAL: &[u8] = b"^$*+?.([%-";

/// Returns the end of the match, or `None` if there is no match. Raises an error if the pattern is
/// malformed.
fn unwrap_or_raise(state: &State<'_>, matched: Matched) -> Option<usize> {
    match matched {
        Ok(matched) => matched,
        Err(problem) => state.raise_here(problem),
    }
}

fn find(state: &mut State<'_>) -> c_int {
    find_first(state, true)
}

fn match_(state: &mut State<'_>) -> c_int {
    find_first(state, false)
}

fn find_first(state: &State<'_>, finds: bool) -> c_int {
    let (subject, pattern) = (state.check_bytes(1), state.check_bytes(2));
    let start = state.optional_integer(3, 1);
    let start = if start < 0 {
        start.saturating_add(subject.len() as i64 + 1)
    } else {
        start
    };
    let start = usize::try_from(start.saturating_sub(1))
        .unwrap_or(0)
        .min(subject.len());
    if finds && (state.boolean(4) || is_plain(state, pattern)) {
        return match find_plain(state, &subject[start..], pattern) {
            Some(at) => {
                state.push_integer((start + at) as i64 + 1);
                state.push_integer((start + at + pattern.len()) as i64);
                2
            }
            None => {
                state.push_nil();
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
            state.push_integer(at as i64 + 1);
            state.push_integer(end as i64);
            return matcher.push_captures(at, end, false) + 2;
        }
        if is_anchored {
            break;
        }
    }
    state.push_nil();
    1
}

/// Returns whether a pattern contains no special characters.
fn is_plain(state: &State<'_>, pattern: &[u8]) -> bool {
    const PIECE: usize = 4096;
    let mut pieces = until_zero(pattern).chunks(PIECE);
    pieces.all(|piece| {
        state.spend(piece.len());
        !piece.iter().any(|byte| SPECIAL.contains(byte))
    })
}

/// Returns the offset of `wanted` in `text`. Searches a long text in parts, and asks the host
/// between parts whether to continue.
fn find_plain(state: &State<'_>, text: &[u8], wanted: &[u8]) -> Option<usize> {
    const PART: usize = 1 << 20;
    state.spend_bytes(wanted.len());
    // A Lua error can skip this destructor. It has nothing to free, because the finder borrows
    // `wanted`.
    let finder = ManuallyDrop::new(memchr::memmem::Finder::new(wanted));
    let part = PART.max(wanted.len().saturating_mul(4));
    let mut start = 0;
    while text.len() - start >= wanted.len() {
        let end = text.len().min(start + part);
        state.spend_bytes(end - start);
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

fn match_all(state: &mut State<'_>) -> c_int {
    state.check_bytes(1);
    state.check_bytes(2);
    state.set_top(2);
    state.push_integer(0);
    state.push_closure(next_match, 3);
    1
}

/// Implements the iterator that `gmatch` returns. Its upvalues are the text, the pattern and the
/// next position.
fn next_match(state: &mut State<'_>) -> c_int {
    // SAFETY: a running function keeps its upvalues alive, and only the third upvalue is replaced.
    let anchored = unsafe { state.anchored() };
    let (subject, pattern) = (anchored.bytes(upvalue(1)), anchored.bytes(upvalue(2)));
    let start = state.number(upvalue(3)) as usize;
    let mut matcher = Matcher::new(anchored, subject, pattern);
    for at in start..=subject.len() {
        if let Some(end) = unwrap_or_raise(state, matcher.match_from(at, 0)) {
            let next = if end == at { end + 1 } else { end };
            state.push_integer(next as i64);
            state.replace(upvalue(3));
            return matcher.push_captures(at, end, true);
        }
    }
    0
}

fn replace_all(state: &mut State<'_>) -> c_int {
    state.check_stack();
    // SAFETY: the arguments and the buffer's memory stay on the stack until this function returns,
    // so the bytes stay alive.
    let anchored = unsafe { state.anchored() };
    let (subject, pattern) = (anchored.check_bytes(1), anchored.check_bytes(2));
    let kind = state.kind(3);
    let most = state.optional_int(4, (subject.len() as i64).saturating_add(1));
    if !matches!(
        kind,
        Kind::NUMBER | Kind::STRING | Kind::FUNCTION | Kind::TABLE
    ) {
        state.raise_argument(3, c"string/function/table expected");
    }
    let mut matcher = Matcher::new(anchored, subject, pattern);
    let is_anchored = matcher.pattern_byte(0) == b'^';
    let first = usize::from(is_anchored);
    let mut out = Buffer::new(anchored);
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
    state.push_integer(count);
    2
}

/// Appends the replacement for a match: a string, or the value that a table or a function returns.
fn add_value(
    state: &mut State<'_>,
    matcher: &Matcher<'_>,
    out: &mut Buffer<'_>,
    kind: Kind,
    (start, end): (usize, usize),
) {
    match kind {
        Kind::FUNCTION => {
            state.push_value(3);
            let count = matcher.push_captures(start, end, true);
            state.call(count, 1);
        }
        Kind::TABLE => {
            matcher.push_capture(0, start, end);
            state.get(3);
        }
        _ => return add_text(state, matcher, out, (start, end)),
    }
    if !state.boolean(-1) {
        state.pop(1);
        return out.add(&matcher.text[start..end]);
    }
    if !state.is_string(-1) {
        let kind = state.kind(-1).name();
        state.raise_formatted(format_args!("invalid replacement value (a {kind})"));
    }
    out.add(state.bytes(-1));
    state.pop(1);
}

/// Appends the replacement string, in which captures replace `%1`, `%2` and so on.
fn add_text(
    state: &mut State<'_>,
    matcher: &Matcher<'_>,
    out: &mut Buffer<'_>,
    (start, end): (usize, usize),
) {
    // SAFETY: the third argument stays on the stack until this function returns, so its bytes stay
    // alive.
    let mut rest = unsafe { state.anchored() }.bytes(3);
    while let Some(at) = memchr::memchr(b'%', rest) {
        out.add(&rest[..at]);
        let byte = rest.get(at + 1).copied().unwrap_or(0);
        match byte {
            b'0' => out.add(&matcher.text[start..end]),
            b'1'..=b'9' => {
                matcher.push_capture(usize::from(byte - b'1'), start, end);
                out.add(state.bytes(-1));
                state.pop(1);
            }
            byte => out.add_byte(byte),
        }
        rest = rest.get(at + 2..).unwrap_or(&[]);
    }
    out.add(rest);
}
