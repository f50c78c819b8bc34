//! Implements the error handler, which converts errors to tables with a message and a location.

use std::ffi::c_int;

use crate::state::{Location, State};
use crate::values::display::push_text;

/// Converts the raised value to a table with the message and the location of the error.
pub(super) fn handle_error(state: &mut State<'_>) -> c_int {
    state.set_top(1);
    if !state.is_table(1) {
        state.push_table(0, 4);
        state.push_bytes(b"ERR ");
        push_text(state, 1);
        state.concatenate(2);
        state.set_field(-2, c"err");
        state.replace(1);
    }
    push_location(state);
    1
}

/// Adds the location of the error, if known. For an error in a Rust function, which has no
/// location, adds the location of the function's caller.
fn push_location(state: &mut State<'_>) {
    // SAFETY: Lua keeps running functions and the names of their programs alive.
    let anchored = unsafe { state.anchored() };
    let location = match anchored.location(1) {
        Some(Location {
            is_native: true, ..
        }) => anchored.location(2),
        location => location,
    };
    if let Some(Location { source, line, .. }) = location {
        state.push_bytes(source.to_bytes());
        state.set_field(1, c"source");
        state.push_number(f64::from(line));
        state.set_field(1, c"line");
    }
}
