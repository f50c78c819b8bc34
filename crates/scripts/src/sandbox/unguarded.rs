//! Provides the globals of unguarded scripts, which set no globals and no table fields.
//!
//! A proxy doubles the cost of each lookup in the globals and the libraries. Most scripts are safe
//! without proxies: they set no global and no table field, and name only globals from a short list
//! of functions that set none either (see `bytecode`). Such a script sees the original libraries.
//! It cannot store its `KEYS` and `ARGV` tables for a later script, so the next script reuses the
//! tables.

use std::ffi::{CStr, c_int};

use super::bytecode::{GlobalReads, NAMES};
use crate::libraries::workspace::Workspace;
use crate::state::{RegistryKey, State};

/// The maximum number of strings in a table that is reused.
const REUSED_MAX: usize = 64;

/// The globals of unguarded scripts, with their reusable `KEYS` and `ARGV` tables.
#[derive(Clone, Copy, Default)]
pub(crate) struct UnguardedGlobals {
    all: RegistryKey,
    keys: TextTable,
    arguments: TextTable,
}

#[cfg(test)]
impl UnguardedGlobals {
    /// Returns the registry key of the table of globals.
    pub(crate) fn key(&self) -> RegistryKey {
        self.all
    }
}

/// A table of strings that consecutive scripts reuse.
#[derive(Clone, Copy, Default)]
struct TextTable {
    /// The table's registry key.
    key: RegistryKey,
    /// An upper bound on the number of strings in the table.
    length: usize,
}

/// Creates the globals of unguarded scripts.
pub(crate) fn prepare(state: &mut State<'_>) -> UnguardedGlobals {
    let proxies = &Workspace::of(state).proxies;
    state.push_table(0, NAMES.len() as c_int + 2);
    proxies.push_globals(state);
    for name in NAMES {
        state.push_field(2, name);
        if let Some(original) = proxies.original(state, 3) {
            state.push_kept(original);
            state.replace(3);
        }
        state.set_field(1, name);
    }
    state.pop(1);
    let mut globals = UnguardedGlobals::default();
    for texts in [&mut globals.keys, &mut globals.arguments] {
        state.push_table(0, 0);
        texts.key = state.keep();
    }
    globals.all = state.keep();
    renew(state, globals.all, c"KEYS", &mut globals.keys, 0);
    renew(state, globals.all, c"ARGV", &mut globals.arguments, 0);
    globals
}

/// Makes the unguarded globals the environment of the function on top of the stack.
pub(crate) fn use_globals(state: &mut State<'_>, globals: &UnguardedGlobals) {
    state.push_kept(globals.all);
    state.set_environment(-2);
}

/// Sets `KEYS` and `ARGV` if the script reads them.
pub(crate) fn set_texts(
    state: &mut State<'_>,
    globals: &mut UnguardedGlobals,
    reads: GlobalReads,
    keys: &[&[u8]],
    arguments: &[&[u8]],
) {
    if reads.keys {
        fill(state, globals.all, c"KEYS", &mut globals.keys, keys);
    }
    if reads.arguments {
        fill(
            state,
            globals.all,
            c"ARGV",
            &mut globals.arguments,
            arguments,
        );
    }
}

/// Replaces the strings in a reusable table.
fn fill(
    state: &mut State<'_>,
    globals: RegistryKey,
    name: &CStr,
    table: &mut TextTable,
    texts: &[&[u8]],
) {
    if table.length.max(texts.len()) > REUSED_MAX {
        renew(state, globals, name, table, texts.len());
    }
    let before = table.length;
    state.push_kept(table.key);
    // Update the length first: if memory runs out, old and new strings can both remain in the
    // table.
    table.length = before.max(texts.len());
    for (index, text) in texts.iter().enumerate() {
        state.push_bytes(text);
        state.set_item(-2, index as c_int + 1);
    }
    for index in texts.len()..before {
        state.push_nil();
        state.set_item(-2, index as c_int + 1);
    }
    table.length = texts.len();
    state.pop(1);
}

/// Replaces a reusable table with an empty one.
fn renew(
    state: &mut State<'_>,
    globals: RegistryKey,
    name: &CStr,
    table: &mut TextTable,
    length: usize,
) {
    state.push_kept(globals);
    state.push_table(length.min(1 << 20) as c_int, 0);
    state.push_value(-1);
    state.replace_kept(table.key);
    state.set_field(-2, name);
    state.pop(1);
    table.length = 0;
}
