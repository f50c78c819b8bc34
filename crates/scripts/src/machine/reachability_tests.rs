//! Checks that the table of functions lists every function that a script can reach, and that
//! `docs/scripts.md` shows the table.

use std::collections::{BTreeSet, HashSet};

use super::Machine;
use crate::libraries::catalog::{LIBRARIES, rows};
use crate::state::{GLOBALS, Kind, RegistryKey, State, Status};

/// A traversal of all values that a script can reach.
#[derive(Default)]
struct Walk {
    /// The registry keys of the tables that scripts and libraries see as their globals.
    tables: Vec<RegistryKey>,
    functions: BTreeSet<usize>,
    seen: HashSet<usize>,
}

/// Visits the value on top of the stack and everything reachable from it, and pops the value.
fn walk(state: &mut State<'_>, walked: &mut Walk) {
    state.check_room_for(10, c"");
    let kind = state.kind(-1);
    let is_container = matches!(
        kind,
        Kind::TABLE | Kind::FUNCTION | Kind::MEMORY | Kind::COROUTINE
    );
    if is_container && !walked.seen.insert(state.address(-1)) {
        return state.pop(1);
    }
    if state.push_metatable(-1) {
        walk(state, walked);
    }
    if kind == Kind::TABLE {
        state.push_nil();
        while state.next(-2) {
            walk(state, walked);
            state.push_value(-1);
            walk(state, walked);
        }
    }
    if kind == Kind::FUNCTION {
        walked.functions.extend(state.native_address(-1));
        assert!(state.is_native(-1), "no library is written in Lua");
        for number in 1.. {
            if !state.push_upvalue(-1, number) {
                break;
            }
            walk(state, walked);
        }
    }
    if matches!(kind, Kind::FUNCTION | Kind::MEMORY | Kind::COROUTINE) {
        state.push_environment(-1);
        walk(state, walked);
    }
    state.pop(1);
}

/// Visits every value that scripts, unguarded scripts and library functions can name, and
/// everything reachable from these values.
fn walk_all(state: &mut State<'_>, walked: &mut Walk) {
    state.push_value(GLOBALS);
    walk(state, walked);
    state.push_bytes(b"");
    walk(state, walked);
    for key in std::mem::take(&mut walked.tables) {
        state.push_kept(key);
        assert_eq!(state.kind(-1).name(), "table");
        walk(state, walked);
    }
}

#[test]
fn every_reachable_function_is_in_the_table() {
    let machine = Machine::new().expect("an interpreter");
    let mut walked = Walk {
        tables: machine.global_tables(),
        ..Walk::default()
    };
    let status = machine.interpreter.run_protected(walk_all, &mut walked);
    assert!(status == Status::DONE);
    let all = || {
        LIBRARIES.iter().flat_map(|library| {
            let functions = library.functions.iter().chain(library.returned);
            functions.map(move |function| (library.name, function))
        })
    };
    let known: BTreeSet<usize> = all().map(|(_, known)| known.entry.address()).collect();
    let unknown: Vec<_> = walked.functions.difference(&known).collect();
    assert!(
        unknown.is_empty(),
        "functions that no table names: {unknown:x?}"
    );
    // Every function that has a name in scripts must also be reachable.
    let named = LIBRARIES.iter().flat_map(|library| library.functions);
    for function in named {
        let address = function.entry.address();
        assert!(walked.functions.contains(&address), "{:?}", function.name);
    }
}

#[test]
fn no_standard_lua_library_is_loaded() {
    let names = [
        "luaopen_",
        "luaL_openlibs",
        "luaL_loadbuffer",
        "luaL_Buffer",
    ];
    let sources = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
    let mut read = 0;
    let mut directories = vec![sources.expect("the sources")];
    while let Some(directory) = directories.pop() {
        for file in directory {
            let path = file.expect("a file").path();
            if path.is_dir() {
                directories.push(std::fs::read_dir(path).expect("a directory"));
                continue;
            }
            if path.ends_with("reachability_tests.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a text");
            let found = names.iter().find(|name| text.contains(*name));
            assert_eq!(found, None, "{}", path.display());
            read += 1;
        }
    }
    assert!(read > 20, "{read} files");
}

#[test]
fn scripts_page_shows_the_function_table() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scripts.md");
    let page = std::fs::read_to_string(page).expect("the page");
    // The page has one row for all functions with the same bounds.
    let mut groups: Vec<([&str; 3], Vec<String>)> = Vec::new();
    for row in rows() {
        let name = if row.is_named {
            format!("`{}`", row.name)
        } else {
            row.name
        };
        let bounds = [row.cost, row.ends, row.memory];
        match groups.iter_mut().find(|(known, _)| *known == bounds) {
            Some((_, names)) => names.push(name),
            None => groups.push((bounds, vec![name])),
        }
    }
    let mut lines = String::new();
    for ([cost, ends, memory], names) in groups {
        let names = names.join(", ");
        lines += &format!("| {names} | {cost} | {ends} | {memory} |\n");
    }
    assert!(
        page.contains(&lines),
        "docs/scripts.md needs these lines:\n{lines}"
    );
}
