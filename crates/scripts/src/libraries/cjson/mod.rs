//! Implements the `cjson` library, which converts between Lua values and JSON.
//!
//! - `decode`: decodes JSON into Lua values.
//! - `encode`: encodes Lua values as JSON.
//! - `settings`: defines the settings that scripts can change.

mod decode;
mod encode;
pub(crate) mod settings;

use std::cell::Cell;
use std::ffi::{CStr, c_int};

use crate::libraries::function::{self, Function, Memory, asked, constant};
use crate::libraries::workspace::Workspace;
use crate::state::{Kind, State};
use decode::decode;
use encode::encode;
use settings::Settings;

/// The functions of `cjson`, with the limits on each call's time and memory.
pub(crate) const FUNCTIONS: &[Function] = &[
    asked(c"encode", encode, "values and their bytes", Memory::Counted),
    asked(c"decode", decode, "bytes", Memory::Counted),
    constant(c"encode_sparse_array", encode_sparse_array),
    constant(c"encode_max_depth", encode_max_depth),
    constant(c"decode_max_depth", decode_max_depth),
    constant(c"encode_number_precision", encode_number_precision),
    constant(c"encode_keep_buffer", encode_keep_buffer),
    constant(c"encode_invalid_numbers", encode_invalid_numbers),
    constant(c"decode_invalid_numbers", decode_invalid_numbers),
    constant(c"new", new),
];

/// Adds the constants of `cjson` to the table on top of the stack.
pub(crate) fn add_values(state: &mut State<'_>) {
    state.push_null();
    state.set_field(-2, c"null");
    state.push_bytes(b"cjson");
    state.set_field(-2, c"_NAME");
    state.push_bytes(b"2.1.0");
    state.set_field(-2, c"_VERSION");
}

fn new(state: &mut State<'_>) -> c_int {
    state.push_table(0, 16);
    function::add(state, FUNCTIONS);
    add_values(state);
    1
}

fn settings<'i>(state: &State<'i>) -> &'i Settings {
    &Workspace::of(state).json
}

fn take_arguments(state: &State<'_>, count: c_int) {
    if state.top() > count {
        state.raise_argument(count + 1, c"found too many arguments");
    }
    while state.top() < count {
        state.push_nil();
    }
}

/// Changes an integer setting if the argument is present, and pushes the setting's value.
fn set_integer(
    state: &State<'_>,
    index: c_int,
    setting: &Cell<c_int>,
    (least, most): (c_int, c_int),
) {
    if state.kind(index) != Kind::NIL {
        let value = state.check_integer(index);
        if !(i64::from(least)..=i64::from(most)).contains(&value) {
            let problem = format_args!("expected integer between {least} and {most}");
            state.raise_argument_formatted(1, problem);
        }
        setting.set(value as c_int);
    }
    state.push_integer(i64::from(setting.get()));
}

/// Changes a setting if the argument, a word or a boolean, is present, and pushes the setting's
/// value.
fn set_word(state: &State<'_>, index: c_int, setting: &Cell<c_int>, words: &[&CStr]) {
    match state.kind(index) {
        Kind::BOOLEAN => setting.set(c_int::from(state.boolean(index))),
        Kind::NIL => {}
        _ => setting.set(state.check_word(index, words) as c_int),
    }
    match setting.get() {
        value @ (0 | 1) => state.push_boolean(value != 0),
        other => state.push_bytes(words[other as usize].to_bytes()),
    }
}

const OFF_ON: [&CStr; 2] = [c"off", c"on"];
const OFF_ON_NULL: [&CStr; 3] = [c"off", c"on", c"null"];

fn encode_sparse_array(state: &mut State<'_>) -> c_int {
    take_arguments(state, 3);
    let settings = settings(state);
    set_word(state, 1, &settings.converts_sparse, &OFF_ON);
    set_integer(state, 2, &settings.sparse_ratio, (0, c_int::MAX));
    set_integer(state, 3, &settings.sparse_safe, (0, c_int::MAX));
    3
}

fn encode_max_depth(state: &mut State<'_>) -> c_int {
    take_arguments(state, 1);
    set_integer(state, 1, &settings(state).encode_depth, (1, c_int::MAX));
    1
}

fn decode_max_depth(state: &mut State<'_>) -> c_int {
    take_arguments(state, 1);
    set_integer(state, 1, &settings(state).decode_depth, (1, c_int::MAX));
    1
}

fn encode_number_precision(state: &mut State<'_>) -> c_int {
    take_arguments(state, 1);
    set_integer(state, 1, &settings(state).precision, (1, 14));
    1
}

fn encode_keep_buffer(state: &mut State<'_>) -> c_int {
    take_arguments(state, 1);
    set_word(state, 1, &settings(state).keeps_buffer, &OFF_ON);
    1
}

fn encode_invalid_numbers(state: &mut State<'_>) -> c_int {
    take_arguments(state, 1);
    set_word(state, 1, &settings(state).encodes_invalid, &OFF_ON_NULL);
    1
}

fn decode_invalid_numbers(state: &mut State<'_>) -> c_int {
    take_arguments(state, 1);
    set_word(state, 1, &settings(state).decodes_invalid, &OFF_ON);
    1
}
