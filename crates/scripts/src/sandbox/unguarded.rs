//! The globals of scripts that set nothing.
//!
//! A proxy doubles each look into the globals and the libraries. Most scripts need none: they set no global and no field
//! of any table, and name only globals of a short list, none of which gives a way to set one (see `bytecode`). Such a
//! script sees the libraries themselves. It cannot keep the tables of its keys and its arguments for a later script, so
//! that these are used again.

use std::ffi::{CStr, c_int};

use super::bytecode::{GlobalReads, NAMES};
use crate::libraries::workspace::Workspace;
use crate::state::{RegistryKey, State};

/// A table of more texts is not used again.
const REUSED_MAX: usize = 64;

/// The globals of such scripts.
#[derive(Clone, Copy, Default)]
pub(crate) struct UnguardedGlobals {
    all: RegistryKey,
    keys: TextTable,
    arguments: TextTable,
}

#[cfg(test)]
impl UnguardedGlobals {
    /// Where the registry keeps the globals.
    pub(crate) fn key(&self) -> RegistryKey {
        self.all
    }
}

/// A table of texts.
#[derive(Clone, Copy, Default)]
struct TextTable {
    /// Where the registry keeps it.
    key: RegistryKey,
    /// An upper bound of the texts in it.
    length: usize,
}

/// Makes the globals of such scripts.
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

/// Makes the globals of the function on top those of such scripts.
pub(crate) fn use_globals(state: &mut State<'_>, globals: &UnguardedGlobals) {
    state.push_kept(globals.all);
    state.set_environment(-2);
}

/// Gives a script its keys and its arguments, as far as it reads them.
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

/// Replaces the texts in a table.
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
    // An error for want of memory leaves some of them in it.
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

/// Replaces a table by an empty one.
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
