//! Libraries of functions: loads their programs and pushes their functions.
//!
//! A program's globals are an empty table whose metatable redirects reads to another table. While
//! the program runs, that table holds only the few functions that register functions. While its
//! functions run, it is a copy of the globals of scripts without KEYS, ARGV and some fields of
//! `redis`. Used by `machine`.

use std::ffi::CStr;
use std::time::Duration;

use crate::libraries::guards::read_only;
use crate::libraries::redis::register::LOADING;
use crate::libraries::workspace::Workspace;
use crate::libraries::{function, parser, redis};
use crate::sandbox;
use crate::state::{RegistryKey, State, Status};

/// How long a library's program may run while it is loaded.
pub(crate) const LOAD_TIME: Duration = Duration::from_millis(500);

/// The registry keys of the tables that stand in for the globals of libraries.
#[derive(Clone, Copy, Default)]
pub(crate) struct LibraryGlobals {
    /// The globals that libraries see, an empty table.
    proxy: RegistryKey,
    /// The metatable of `proxy`.
    meta: RegistryKey,
    /// Serves reads of globals while a library's program runs.
    while_loading: RegistryKey,
    /// Serves reads of globals while a function of a library runs.
    while_running: RegistryKey,
}

#[cfg(test)]
impl LibraryGlobals {
    /// Returns the registry keys of all tables.
    pub(crate) fn keys(&self) -> [RegistryKey; 4] {
        [
            self.proxy,
            self.meta,
            self.while_loading,
            self.while_running,
        ]
    }
}

/// Functions of `redis` that scripts can call and libraries cannot.
const SCRIPTS_ONLY: [&CStr; 3] = [c"breakpoint", c"debug", c"replicate_commands"];

/// Creates the tables, and pops the library `redis` for programs, which is on top of the stack.
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

/// Stores a copy of the globals, with a separate copy of `redis`, in the registry.
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

/// Replaces the table on top of the stack with a copy.
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

/// Sets the table that serves reads of globals in libraries.
fn show_globals(state: &mut State<'_>, globals: LibraryGlobals, shown: RegistryKey) {
    state.push_kept(globals.meta);
    state.push_kept(shown);
    state.set_field(-2, c"__index");
    state.pop(1);
}

/// Why loading a library's program failed. The context holds the error message.
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
        // The program failed, so release the functions that it registered.
        while let Some(key) = registrations.pop() {
            state.release(key);
        }
        return Err(LoadError::Running);
    }
    Ok(())
}

/// Pushes a library function for an immediate call.
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
