//! Implements the `string` library.
//!
//! - `format`: implements `string.format`.
//! - `matcher`: matches Lua patterns against strings.
//! - `patterns`: implements the functions that take a pattern.

mod format;
mod matcher;
pub(super) mod patterns;

use std::ffi::{CStr, c_int};

use crate::libraries::function::{Function, Memory, asked, constant};
use crate::state::{Kind, State};
use crate::values::buffer::Buffer;
use format::format;

/// The functions of `string`, with the limits on each call's time and memory.
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

/// Resolves a Lua position, in which negative values count from the end of the string.
fn place(place: i64, length: usize) -> i64 {
    let length = length as i64;
    match place {
        0.. => place,
        _ => place.saturating_add(length).saturating_add(1).max(0),
    }
}

fn len(state: &mut State<'_>) -> c_int {
    state.push_integer(state.check_bytes(1).len() as i64);
    1
}

fn sub(state: &mut State<'_>) -> c_int {
    let text = state.check_bytes(1);
    let first = place(state.check_integer(2), text.len()).max(1);
    let last = place(state.optional_integer(3, -1), text.len()).min(text.len() as i64);
    if first > last {
        state.push_bytes(b"");
        return 1;
    }
    let part = &text[first as usize - 1..last as usize];
    state.spend_bytes(part.len());
    state.make_room(part.len());
    state.push_bytes(part);
    1
}

fn reverse(state: &mut State<'_>) -> c_int {
    let text = state.check_bytes(1);
    let mut out = Buffer::new(state);
    out.add_mapped(text.iter().rev().copied(), |byte| byte);
    out.push();
    1
}

fn lower(state: &mut State<'_>) -> c_int {
    let text = state.check_bytes(1);
    let mut out = Buffer::new(state);
    out.add_mapped(text.iter().copied(), |byte| byte.to_ascii_lowercase());
    out.push();
    1
}

fn upper(state: &mut State<'_>) -> c_int {
    let text = state.check_bytes(1);
    let mut out = Buffer::new(state);
    out.add_mapped(text.iter().copied(), |byte| byte.to_ascii_uppercase());
    out.push();
    1
}

fn rep(state: &mut State<'_>) -> c_int {
    let text = state.check_bytes(1);
    let times = usize::try_from(state.check_int(2)).unwrap_or(0);
    let mut out = Buffer::new(state);
    out.add_repeated(text, times);
    out.push();
    1
}

fn byte(state: &mut State<'_>) -> c_int {
    const TOO_LONG: &CStr = c"string slice too long";
    let text = state.check_bytes(1);
    let first = place(state.optional_integer(2, 1), text.len());
    let last = place(state.optional_integer(3, first), text.len()).min(text.len() as i64);
    let first = first.max(1);
    if first > last {
        return 0;
    }
    let part = &text[first as usize - 1..last as usize];
    let Ok(count) = c_int::try_from(part.len()) else {
        state.raise_here(TOO_LONG.to_bytes());
    };
    state.check_room_for(count, TOO_LONG);
    state.spend(part.len());
    for byte in part {
        state.push_integer(i64::from(*byte));
    }
    count
}

fn char(state: &mut State<'_>) -> c_int {
    let count = state.top();
    state.check_room_for(2, c"too many arguments");
    let mut out = Buffer::new(state);
    for index in 1..=count {
        let Ok(byte) = u8::try_from(state.check_int(index)) else {
            state.raise_argument(index, c"invalid value");
        };
        state.spend(1);
        out.add_byte(byte);
    }
    out.push();
    1
}

fn dump(state: &mut State<'_>) -> c_int {
    state.check_kind(1, Kind::FUNCTION);
    state.set_top(1);
    // `dump` requires the function on top of the stack, so create the buffer before pushing the
    // function.
    let mut out = Buffer::new(state);
    state.push_value(1);
    if !state.dump(&mut |piece| out.add(piece)) {
        state.raise_here(b"unable to dump given function");
    }
    out.push();
    1
}
