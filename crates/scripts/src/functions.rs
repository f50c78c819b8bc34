//! Loads libraries of Redis functions, and pushes their functions onto the Lua stack.
//!
//! The globals of a library's program are an empty table whose metatable redirects reads to a
//! second table. While the program is being loaded, the second table holds only the few functions
//! that register functions. While a registered function runs, it is a copy of the scripts' globals
//! without KEYS, ARGV and the script-only fields of `redis`. Used by `machine`.

use std::ffi::CStr;
use std::time::Duration;

use crate::libraries::guards::read_only;
use crate::libraries::redis::register::LOADING;
use crate::libraries::workspace::Workspace;
use crate::libraries::{function, parser, redis};
use crate::sandbox;
use crate::state::{RegistryKey, State, Status};

/// The time limit for running a library's program when it is loaded.
pub(crate) const LOAD_TIME: Duration = Duration::from_millis(500);

/// The registry keys of the tables that replace the globals in libraries.
#[derive(Clone, Copy, Default)]
pub(crate) struct LibraryGlobals {
    /// The empty table that libraries see as their globals.
    proxy: RegistryKey,
    /// The metatable of `proxy`.
    meta: RegistryKey,
    /// The table that serves reads of globals while a library's program is being loaded.
    while_loading: RegistryKey,
    /// The table that serves reads of globals while a library function runs.
    while_running: RegistryKey,
}

#[cfg(test)]
impl LibraryGlobals {
    /// Returns the registry keys of all four tables.
    pub(crate) fn keys(&self) -> [RegistryKey; 4] {
        [
            self.proxy,
            self.meta,
            self.while_loading,
            self.while_running,
        ]
    }
}

/// The functions of `redis` that scripts can call but libraries cannot.
const SCRIPTS_ONLY: [&CStr; 3] = [c"breakpoint", c"debug", c"replicate_commands"];

/// Creates the global tables of libraries. Pops the `redis` table for library programs from the
/// stack.
pub(crate) fn prepare(state: &mut State<'_>) -> LibraryGlobals {
    state.push_table(0, 8);
    function::add(state, LOADING);
    for (name, number) in redis::NUMBERS {
        if name.to_bytes().starts_with(b"LOG_") || *name == c"REDIS_VERSION_NUM" {
            state.push_number(*number);
            state.set_field(-2, name);
        }
    }
    state.push_bytes(redis::VERSION);
    state.set_field(-2, c"REDIS_VERSION");
    sandbox::protect(state, true);
    state.push_table(0, 1);
    state.swap();
    state.set_field(-2, c"redis");
    sandbox::protect(state, true);
    let while_loading = state.keep();
    let while_running = copy_globals(state);

    state.push_table(0, 0);
    state.push_table(0, 3);
    state.push_function(read_only);
    state.set_field(-2, c"__newindex");
    state.push_boolean(false);
    state.set_field(-2, c"__metatable");
    state.push_value(-1);
    let meta = state.keep();
    state.set_metatable(-2);
    let proxy = state.keep();
    LibraryGlobals {
        proxy,
        meta,
        while_loading,
        while_running,
    }
}

/// Stores a copy of the scripts' globals in the registry. Their `redis` table is copied, too.
fn copy_globals(state: &mut State<'_>) -> RegistryKey {
    let proxies = &Workspace::of(state).proxies;
    proxies.push_globals(state);
    copy(state);
    state.push_field(-1, c"redis");
    if let Some(original) = proxies.original(state, -1) {
        state.push_kept(original);
        copy(state);
        for name in SCRIPTS_ONLY {
            state.push_nil();
            state.set_field(-2, name);
        }
        sandbox::protect(state, false);
        state.set_field(-3, c"redis");
    }
    state.pop(1);
    sandbox::refuse_missing(state, -2);
    state.keep()
}

/// Replaces the table on top of the stack with a shallow copy.
fn copy(state: &mut State<'_>) {
    let from = state.top();
    state.push_table(0, 32);
    state.push_nil();
    while state.next(from) {
        state.push_value(-2);
        state.swap();
        state.raw_set(from + 1);
    }
    state.replace(from);
}

/// Makes `shown` the table that serves a library's reads of globals.
fn show_globals(state: &mut State<'_>, globals: LibraryGlobals, shown: RegistryKey) {
    state.push_kept(globals.meta);
    state.push_kept(shown);
    state.set_field(-2, c"__index");
    state.pop(1);
}

/// The reason why a library's program failed to load. The context holds the error message.
#[derive(Clone, Copy)]
pub(crate) enum LoadError {
    /// The program does not compile.
    Compiling,
    /// The program raised an error.
    Running,
}

/// Runs a library's program, and returns the functions that it registers.
pub(crate) fn load(
    state: &mut State<'_>,
    globals: LibraryGlobals,
    program: &[u8],
) -> Result<(), LoadError> {
    show_globals(state, globals, globals.while_loading);
    state.push_kept(globals.proxy);
    state.set_globals();
    state.push_bytes(b"@user_function");
    if parser::load_program(state, program, parser::PROGRAM_MAX) != Status::DONE {
        state.keep_error();
        return Err(LoadError::Compiling);
    }
    let registrations = &Workspace::of(state).registrations;
    registrations.begin();
    if state.call_protected(0, 0, 0) != Status::DONE {
        if !state.is_table(-1) {
            state.push_bytes(b"ERR ");
            state.swap();
            if state.is_string(-1) {
                state.concatenate(2);
            }
        }
        state.keep_error();
        // Because the program failed, release the functions that it registered.
        while let Some(key) = registrations.pop() {
            state.release(key);
        }
        return Err(LoadError::Running);
    }
    Ok(())
}

/// Pushes a library function that the caller is about to call.
pub(crate) fn push(
    state: &mut State<'_>,
    workspace: &Workspace,
    globals: LibraryGlobals,
    function: RegistryKey,
) {
    show_globals(state, globals, globals.while_running);
    workspace.proxies.push_globals(state);
    for name in [b"KEYS", b"ARGV"] {
        state.push_bytes(name);
        state.push_nil();
        state.raw_set(-3);
    }
    state.pop(1);
    state.push_kept(function);
}
