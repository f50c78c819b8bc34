//! Libraries of functions: their programs, which register functions and do nothing else, and the functions.
//!
//! A program has a table of its own as its globals, whose metatable looks up reads in another table: while the program
//! runs, one with few functions; while its functions run, a copy of what scripts see, without KEYS, ARGV and some of
//! `redis`. The machine may call this.

use std::ffi::CStr;
use std::time::Duration;

use crate::libraries::guards::read_only;
use crate::libraries::redis::register::LOADING;
use crate::libraries::workspace::Workspace;
use crate::libraries::{function, parser, redis};
use crate::sandbox;
use crate::state::{RegistryKey, State, Status};

/// How long the program of a library may run.
pub(crate) const LOAD_TIME: Duration = Duration::from_millis(500);

/// Where the registry keeps tables.
#[derive(Clone, Copy, Default)]
pub(crate) struct LibraryGlobals {
    /// The globals of libraries, an empty table.
    proxy: RegistryKey,
    /// Its metatable.
    meta: RegistryKey,
    /// The table that is read while the program of a library runs.
    while_loading: RegistryKey,
    /// The table that is read while a function of a library runs.
    while_running: RegistryKey,
}

#[cfg(test)]
impl LibraryGlobals {
    /// Where the registry keeps the tables.
    pub(crate) fn keys(&self) -> [RegistryKey; 4] {
        [
            self.proxy,
            self.meta,
            self.while_loading,
            self.while_running,
        ]
    }
}

/// Functions of `redis` that scripts have and libraries do not.
const SCRIPTS_ONLY: [&CStr; 3] = [c"breakpoint", c"debug", c"replicate_commands"];

/// Makes the tables. The library `redis` of programs is on top, and is taken off.
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

/// Keeps a copy of the globals, with a `redis` of its own.
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

/// Replaces the table on top by a copy.
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

/// Sets the table in which libraries look up their globals.
fn show_globals(state: &mut State<'_>, globals: LibraryGlobals, shown: RegistryKey) {
    state.push_kept(globals.meta);
    state.push_kept(shown);
    state.set_field(-2, c"__index");
    state.pop(1);
}

/// Why the program of a library was not loaded. The context has the text of the error.
#[derive(Clone, Copy)]
pub(crate) enum LoadError {
    /// It cannot be compiled.
    Compiling,
    /// It failed while it ran.
    Running,
}

/// Runs the program of a library, which registers its functions.
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
        // The library does not exist, and nothing refers to its functions.
        while let Some(key) = registrations.pop() {
            state.release(key);
        }
        return Err(LoadError::Running);
    }
    Ok(())
}

/// Pushes a function of a library, which is then about to be called.
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
