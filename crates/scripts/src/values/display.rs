//! Converts values to strings, like `tostring`.

use std::ffi::c_int;

use crate::state::{Kind, State};

/// Pushes the string that `tostring` returns for a value without a `__tostring` metamethod.
pub(crate) fn push_text(state: &State<'_>, index: c_int) {
    match state.kind(index) {
        Kind::NUMBER => {
            state.push_value(index);
            // Reading a number's bytes converts the number to a string in place.
            state.bytes(-1);
        }
        Kind::STRING => state.push_value(index),
        Kind::BOOLEAN if state.boolean(index) => state.push_bytes(b"true"),
        Kind::BOOLEAN => state.push_bytes(b"false"),
        Kind::NIL => state.push_bytes(b"nil"),
        _ => state.push_type_and_address(index),
    }
}
