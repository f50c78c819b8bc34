//! Gives scripts globals and libraries that they can read but not change.
//!
//! A script can change any table that it can reach, so it sees a proxy in place of the globals and
//! of each library. A proxy is an empty table whose metatable redirects reads to the original table
//! and raises an error on writes. Functions that bypass metatables, such as `rawset` and
//! `table.insert`, check for proxies. Used by `functions` and `machine`.
//!
//! - `bytecode`: finds the globals that a compiled program reads and sets.
//! - `unguarded`: provides the globals of scripts that set no globals and no table fields.

mod bytecode;
pub(crate) mod unguarded;

pub(crate) use bytecode::{GlobalReads, find_reads};

use std::ffi::c_int;

use crate::libraries::catalog;
use crate::libraries::guards::{missing_global, read_only};
use crate::libraries::workspace::Workspace;
use crate::state::{GLOBALS, RegistryKey, State};

/// Restores the globals of ordinary scripts, which the last script may have replaced.
#[inline]
pub(crate) fn use_globals(state: &mut State<'_>, workspace: &Workspace) {
    state.push_kept(workspace.proxies.globals());
    state.set_globals();
}

/// Creates the libraries of a new interpreter, and protects them against changes.
pub(crate) fn prepare(state: &mut State<'_>) {
    state.set_top(0);
    catalog::open(state);
    protect_all(state);
    state.set_top(0);
}

/// Replaces the libraries and the globals with proxies.
fn protect_all(state: &mut State<'_>) {
    let libraries = [
        c"string",
        c"table",
        c"math",
        c"coroutine",
        c"redis",
        c"cjson",
        c"cmsgpack",
        c"struct",
        c"bit",
    ];
    for name in libraries {
        state.push_field(GLOBALS, name);
        let original = protect(state, false);
        if name == c"string" {
            // Strings look up their methods in the original table, which is faster than through the
            // proxy.
            state.push_bytes(b"");
            state.push_metatable(-1);
            state.push_kept(original);
            state.set_field(-2, c"__index");
            // Hide the metatable from scripts: `getmetatable` returns a proxy.
            state.push_table(0, 1);
            state.push_value(-4);
            state.set_field(-2, c"__index");
            protect(state, false);
            state.set_field(-2, c"__metatable");
            state.pop(2);
        }
        state.pop(1);
    }
    state.push_value(GLOBALS);
    let original = protect(state, true);
    // Hide the metatable from scripts: `getmetatable` returns a proxy.
    state.push_metatable(-1);
    state.push_table(0, 1);
    state.push_function(missing_global);
    state.set_field(-2, c"__index");
    protect(state, false);
    state.set_field(-2, c"__metatable");
    state.pop(1);
    let proxy = state.keep();
    Workspace::of(state).proxies.set_globals(proxy, original);
}

/// Moves the contents of the table on top of the stack to a new table, and makes the old table a
/// proxy of the new one. If `refuses_missing` is set, reading a missing field raises an error.
/// Returns the registry key of the new table.
pub(crate) fn protect(state: &mut State<'_>, refuses_missing: bool) -> RegistryKey {
    let proxy = state.top();
    state.push_table(0, 32);
    let original = proxy + 1;
    state.push_nil();
    while state.next(proxy) {
        state.push_value(-2);
        state.swap();
        state.raw_set(original);
    }
    state.push_nil();
    while state.next(original) {
        state.pop(1);
        state.push_value(-1);
        state.push_nil();
        state.raw_set(proxy);
    }
    if refuses_missing {
        refuse_missing(state, original);
    }
    state.push_table(0, 3);
    state.push_value(original);
    state.set_field(-2, c"__index");
    state.push_function(read_only);
    state.set_field(-2, c"__newindex");
    state.push_boolean(false);
    state.set_field(-2, c"__metatable");
    state.set_metatable(proxy);
    let key = state.keep();
    Workspace::of(state).proxies.add(state, proxy, key);
    key
}

/// Makes reads of missing fields of the table at index `table` raise an error.
pub(crate) fn refuse_missing(state: &mut State<'_>, table: c_int) {
    state.push_table(0, 1);
    state.push_function(missing_global);
    state.set_field(-2, c"__index");
    state.set_metatable(table);
}
