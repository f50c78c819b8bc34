//! Prevents scripts from changing the libraries and the globals.

use std::ffi::c_int;

use super::function::{Function, constant};
use super::workspace::Workspace;

use crate::state::State;

/// The functions in the metatables of proxies. A proxy is a read-only stand-in for a table.
pub(crate) const GUARDS: &[Function] = &[
    constant(c"the guard of read-only tables", read_only),
    constant(c"the guard of missing globals", missing_global),
];

const READ_ONLY: &[u8] = b"Attempt to modify a readonly table";

pub(crate) fn read_only(state: &mut State<'_>) -> c_int {
    state.raise_here(READ_ONLY)
}

pub(crate) fn missing_global(state: &mut State<'_>) -> c_int {
    if state.top() != 2 {
        state.raise_here(b"Wrong number of arguments to luaProtectedTableError");
    }
    if !state.is_string(-1) && !state.is_number(-1) {
        state.raise_here(b"Second argument to luaProtectedTableError must be a string or number");
    }
    state.raise_joined(&[
        b"Script attempted to access nonexistent global variable '",
        state.c_bytes(-1),
        b"'",
    ])
}

/// Raises an error if the first argument is a proxy, because scripts must not change the table that
/// the proxy stands in for.
pub(super) fn refuse_proxy(state: &State<'_>) {
    if Workspace::of(state).proxies.original(state, 1).is_some() {
        state.raise_text(READ_ONLY);
    }
}

/// If the first argument is a proxy, replaces it with the original table.
pub(super) fn replace_proxy(state: &mut State<'_>) {
    if let Some(original) = Workspace::of(state).proxies.original(state, 1) {
        state.push_kept(original);
        state.replace(1);
    }
}
