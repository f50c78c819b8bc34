//! Implements the `cmsgpack` library, which packs values as MessagePack.

use std::ffi::{CStr, c_int};

use crate::libraries::function::{Function, Memory, asked};
use crate::state::{Kind, State, TABLE_WALK};
use crate::values::numbers::truncated;

/// The functions of `cmsgpack`, with the limits on each call's time and memory.
pub(crate) const FUNCTIONS: &[Function] = &[
    asked(c"pack", pack, "values and their bytes", Memory::Counted),
    asked(c"unpack", unpack, "values and their bytes", Memory::Counted),
    asked(
        c"unpack_one",
        unpack_one,
        "values and their bytes",
        Memory::Counted,
    ),
    asked(
        c"unpack_limit",
        unpack_limit,
        "values and their bytes",
        Memory::Counted,
    ),
];

/// The string constants of `cmsgpack`.
const TEXTS: &[(&CStr, &str)] = &[
    (c"_NAME", "cmsgpack"),
    (c"_VERSION", "lua-cmsgpack 0.4.0"),
    (c"_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo"),
    (c"_DESCRIPTION", "MessagePack C implementation for Lua"),
];

/// Adds the constants of `cmsgpack` to the table on top of the stack.
pub(crate) fn add_values(state: &mut State<'_>) {
    for (name, text) in TEXTS {
        state.push_bytes(text.as_bytes());
        state.set_field(-2, name);
    }
}

/// The maximum nesting depth of packed tables. Deeper tables become nil.
const PACKED_LEVELS_MAX: usize = 16;
/// The maximum nesting depth of unpacked arrays and maps.
const LEVELS_MAX: usize = 1000;

fn pack(state: &mut State<'_>) -> c_int {
    let count = state.top();
    if count == 0 {
        state.raise_argument(0, c"MessagePack pack needs input.");
    }
    let context = state.context();
    context.clear_scratch();
    // SAFETY: `out` is the only reference to the scratch buffer: no function called below uses the
    // buffer, and no script runs.
    let out = unsafe { &mut *context.scratch() };
    for index in 1..=count {
        check_stack(state, 1);
        state.push_value(index);
        append(state, out, 0);
    }
    state.push_scratch();
    1
}

fn check_stack(state: &State<'_>, slots: c_int) {
    if !state.has_room(slots + 5) {
        state.raise_here(b"stack overflow (too many levels or values)");
    }
}

/// Raises an error if the stack has no room for `slots` more results, because the function may
/// return every unpacked value.
fn check_results(state: &State<'_>, slots: c_int) {
    if !state.has_room(slots + 5) {
        state.raise_here(
            b"stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)",
        );
    }
}

/// Packs the value on top of the stack, and pops it.
fn append(state: &mut State<'_>, out: &mut Vec<u8>, level: usize) {
    state.spend(1);
    state.check_scratch(out.len() + 16);
    match state.kind(-1) {
        Kind::STRING => {
            let text = state.bytes(-1);
            state.check_scratch(out.len() + text.len() + 16);
            state.spend_bytes(text.len());
            append_text(out, text);
        }
        Kind::BOOLEAN => out.push(0xc2 | u8::from(state.boolean(-1))),
        Kind::NUMBER => append_number(out, state.number(-1)),
        Kind::TABLE if level < PACKED_LEVELS_MAX => append_table(state, out, level),
        _ => out.push(0xc0),
    }
    state.pop(1);
}

/// Appends a length. A length below `short.1` is stored in one byte together with the type
/// `short.0`. A longer length follows one of the type bytes `marks`, in two or four bytes.
fn append_length(out: &mut Vec<u8>, length: usize, short: (u8, usize), marks: (u8, u8)) {
    if length < short.1 {
        out.push(short.0 | length as u8);
    } else if let Ok(length) = u16::try_from(length) {
        out.push(marks.0);
        out.extend_from_slice(&length.to_be_bytes());
    } else {
        out.push(marks.1);
        out.extend_from_slice(&(length as u32).to_be_bytes());
    }
}

fn append_text(out: &mut Vec<u8>, text: &[u8]) {
    match text.len() {
        32..=0xff => out.extend_from_slice(&[0xd9, text.len() as u8]),
        length => append_length(out, length, (0xa0, 32), (0xda, 0xdb)),
    }
    out.extend_from_slice(text);
}

fn append_number(out: &mut Vec<u8>, number: f64) {
    let whole = truncated(number);
    if number.is_finite() && whole as f64 == number && number < 9_223_372_036_854_775_808.0 {
        append_integer(out, whole);
    } else if f64::from(number as f32) == number {
        out.push(0xca);
        out.extend_from_slice(&(number as f32).to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

fn append_integer(out: &mut Vec<u8>, value: i64) {
    match value {
        -32..=127 => out.push(value as u8),
        128..=0xff => out.extend_from_slice(&[0xcc, value as u8]),
        0x100..=0xffff => {
            out.push(0xcd);
            out.extend_from_slice(&(value as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend_from_slice(&(value as u32).to_be_bytes());
        }
        0x1_0000_0000.. => {
            out.push(0xcf);
            out.extend_from_slice(&value.to_be_bytes());
        }
        -128..=-33 => out.extend_from_slice(&[0xd0, value as u8]),
        -0x8000..=-129 => {
            out.push(0xd1);
            out.extend_from_slice(&(value as i16).to_be_bytes());
        }
        -0x8000_0000..=-0x8001 => {
            out.push(0xd2);
            out.extend_from_slice(&(value as i32).to_be_bytes());
        }
        _ => {
            out.push(0xd3);
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
}

/// Returns whether the keys of the table on top of the stack are the integers from 1 on, without
/// gaps.
fn is_array(state: &mut State<'_>) -> bool {
    let (mut count, mut most) = (0_i64, 0_i64);
    state.push_nil();
    while state.next(-2) {
        state.spend(1);
        state.pop(1);
        let number = match state.kind(-1) {
            Kind::NUMBER => state.number(-1),
            _ => 0.0,
        };
        let index = truncated(number);
        if number <= 0.0 || index as f64 != number {
            state.pop(1);
            return false;
        }
        most = most.max(index);
        count += 1;
    }
    most == count
}

fn append_table(state: &mut State<'_>, out: &mut Vec<u8>, level: usize) {
    check_stack(state, 3);
    state.spend(TABLE_WALK);
    state.check_scratch(out.len());
    if is_array(state) {
        let length = state.length(-1);
        append_length(out, length, (0x90, 16), (0xdc, 0xdd));
        for index in 1..=length {
            // All items exist, so the lookups call no metamethods.
            state.push_item(-1, index as c_int);
            append(state, out, level + 1);
        }
        return;
    }
    let mut length = 0;
    state.push_nil();
    while state.next(-2) {
        state.spend(1);
        state.pop(1);
        length += 1;
    }
    append_length(out, length, (0x80, 16), (0xde, 0xdf));
    state.push_nil();
    while state.next(-2) {
        state.push_value(-2);
        append(state, out, level + 1);
        append(state, out, level + 1);
    }
}

/// The bytes that remain to be unpacked.
#[derive(Clone, Copy)]
struct Input<'a> {
    rest: &'a [u8],
}

/// The reason why bytes cannot be unpacked.
#[derive(Clone, Copy)]
enum UnpackError {
    Truncated,
    Malformed,
}

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], UnpackError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(UnpackError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Reads an unsigned big-endian number of `length` bytes.
    fn number(&mut self, length: usize) -> Result<u64, UnpackError> {
        let bytes = self.take(length)?;
        Ok(bytes
            .iter()
            .fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }
}

/// Unpacks the next value onto the stack.
fn push_value(
    state: &mut State<'_>,
    input: &mut Input<'_>,
    level: usize,
) -> Result<(), UnpackError> {
    check_results(state, 3);
    if level > LEVELS_MAX {
        state.raise_here(b"stack overflow (too many levels)");
    }
    state.spend(1);
    let mark = input.take(1)?[0];
    match mark {
        0x00..=0x7f => state.push_number(f64::from(mark)),
        0x80..=0x8f => return push_map(state, input, usize::from(mark & 15), level),
        0x90..=0x9f => return push_array(state, input, usize::from(mark & 15), level),
        0xa0..=0xbf => state.push_bytes(input.take(usize::from(mark & 31))?),
        0xc0 => state.push_nil(),
        0xc2 | 0xc3 => state.push_boolean(mark == 0xc3),
        0xca => {
            let value = f32::from_bits(input.number(4)? as u32);
            state.push_number(f64::from(value));
        }
        0xcb => state.push_number(f64::from_bits(input.number(8)?)),
        0xcc..=0xce => state.push_number(input.number(1 << (mark - 0xcc))? as f64),
        // As in Redis, unsigned integers of 2^63 and above become negative.
        0xcf => state.push_number(input.number(8)? as i64 as f64),
        0xd0 => state.push_number(f64::from(input.number(1)? as i8)),
        0xd1 => state.push_number(f64::from(input.number(2)? as i16)),
        0xd2 => state.push_number(f64::from(input.number(4)? as i32)),
        0xd3 => state.push_number(input.number(8)? as i64 as f64),
        0xd9..=0xdb => push_text(state, input, 1 << (mark - 0xd9))?,
        0xdc | 0xdd => {
            let length = input.number(2 << (mark - 0xdc))? as usize;
            return push_array(state, input, length, level);
        }
        0xde | 0xdf => {
            let length = input.number(2 << (mark - 0xde))? as usize;
            return push_map(state, input, length, level);
        }
        0xe0..=0xff => state.push_number(f64::from(mark as i8)),
        0xc1 | 0xc4..=0xc9 | 0xd4..=0xd8 => return Err(UnpackError::Malformed),
    }
    Ok(())
}

/// Pushes a string whose length precedes it as a number of `size` bytes.
fn push_text(state: &mut State<'_>, input: &mut Input<'_>, size: usize) -> Result<(), UnpackError> {
    let length = input.number(size)? as usize;
    let text = input.take(length)?;
    state.spend_bytes(length);
    state.make_room(length);
    state.push_bytes(text);
    Ok(())
}

fn push_array(
    state: &mut State<'_>,
    input: &mut Input<'_>,
    length: usize,
    level: usize,
) -> Result<(), UnpackError> {
    state.push_table(0, 0);
    for index in 1..=length {
        state.push_number(index as f64);
        push_value(state, input, level + 1)?;
        state.raw_set(-3);
    }
    Ok(())
}

fn push_map(
    state: &mut State<'_>,
    input: &mut Input<'_>,
    length: usize,
    level: usize,
) -> Result<(), UnpackError> {
    state.push_table(0, 0);
    for _ in 0..length {
        push_value(state, input, level + 1)?;
        push_value(state, input, level + 1)?;
        state.raw_set(-3);
    }
    Ok(())
}

fn unpack_values(state: &mut State<'_>, limit: i64, offset: i64) -> c_int {
    // SAFETY: the first argument stays on the stack until this function returns, so its bytes stay
    // alive.
    let data = unsafe { state.anchored() }.check_bytes(1);
    let length = data.len();
    if offset < 0 || limit < 0 {
        state.raise_formatted(format_args!(
            "Invalid request to unpack with offset of {} and limit of {}.",
            offset as c_int, length as c_int
        ));
    }
    if offset as usize > length {
        state.raise_formatted(format_args!(
            "Start offset {} greater than input length {}.",
            offset as c_int, length as c_int
        ));
    }
    let is_all = limit == 0 && offset == 0;
    let limit = if is_all { c_int::MAX as i64 } else { limit };
    let mut input = Input {
        rest: &data[offset as usize..],
    };
    let mut count = 0;
    while !input.rest.is_empty() && count < limit {
        match push_value(state, &mut input, 0) {
            Ok(()) => {}
            Err(UnpackError::Truncated) => state.raise_here(b"Missing bytes in input."),
            Err(UnpackError::Malformed) => state.raise_here(b"Bad data format in input."),
        }
        count += 1;
    }
    if !is_all {
        check_results(state, 1);
        let next = match input.rest.len() {
            0 => -1,
            left => (length - left) as i64,
        };
        state.push_integer(next);
        state.insert(2);
        count += 1;
    }
    count as c_int
}

fn unpack(state: &mut State<'_>) -> c_int {
    unpack_values(state, 0, 0)
}

fn unpack_one(state: &mut State<'_>) -> c_int {
    let offset = state.optional_integer(2, 0);
    state.set_top(1);
    unpack_values(state, 1, offset)
}

fn unpack_limit(state: &mut State<'_>) -> c_int {
    let limit = state.check_integer(2);
    let offset = state.optional_integer(3, 0);
    state.set_top(1);
    unpack_values(state, limit, offset)
}
