//! The globals and libraries that a script can read and not change.
//!
//! A script could change any table that it can reach. So it is given a proxy of the globals and of each library: an empty
//! table whose metatable looks up reads in the original table, and refuses writes. The functions that ignore metatables,
//! as `rawset` and `table.insert` do, know the proxies. Functions and the machine may call it.
//!
//! - `bytecode`: the globals that a compiled program reads and sets.
//! - `unguarded`: the globals of scripts that set nothing.

mod bytecode;
pub(crate) mod unguarded;

pub(crate) use bytecode::{GlobalReads, find_reads};

use std::ffi::c_int;

use crate::libraries::catalog;
use crate::libraries::guards::{missing_global, read_only};
use crate::libraries::workspace::Workspace;
use crate::state::{GLOBALS, RegistryKey, State};

/// Sets the globals to those of all scripts: the last one may have set others.
#[inline]
pub(crate) fn use_globals(state: &mut State<'_>, workspace: &Workspace) {
    state.push_kept(workspace.proxies.globals());
    state.set_globals();
}

/// Gives a new interpreter its libraries, and guards them.
pub(crate) fn prepare(state: &mut State<'_>) {
    state.set_top(0);
    catalog::open(state);
    protect_all(state);
    state.set_top(0);
}

/// Makes proxies of the libraries and the globals.
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
            // Methods of strings are looked up in the original.
            state.push_bytes(b"");
            state.push_metatable(-1);
            state.push_kept(original);
            state.set_field(-2, c"__index");
            // A script is shown a proxy in the place of their metatable.
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
    // A script is shown a proxy in the place of their metatable.
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

/// Moves everything in the table on top into a new one, and makes it the proxy of that one. Where `refuses_missing` is
/// set, it is an error to read what is not there. Returns where the registry keeps the new one.
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

/// Makes it an error to read what is not in a table.
pub(crate) fn refuse_missing(state: &mut State<'_>, table: c_int) {
    state.push_table(0, 1);
    state.push_function(missing_global);
    state.set_field(-2, c"__index");
    state.set_metatable(table);
}
