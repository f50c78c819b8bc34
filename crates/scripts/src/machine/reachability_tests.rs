//! What a script can reach is in the table, and the page about scripts shows the table.

use std::collections::{BTreeSet, HashSet};
use std::ffi::c_int;

use mlua_sys::{
    LUA_GLOBALSINDEX, LUA_TFUNCTION, LUA_TTABLE, LUA_TTHREAD, LUA_TUSERDATA, lua_State, lua_cpcall,
    lua_getfenv, lua_getmetatable, lua_getupvalue, lua_iscfunction, lua_next, lua_pop, lua_pushnil,
    lua_pushvalue, lua_rawgeti_, lua_tocfunction, lua_topointer, lua_touserdata, lua_type,
    luaL_checkstack,
};

use super::Machine;
use crate::libraries::catalog::{LIBRARIES, rows};
use crate::state::stack::push_bytes;

/// Addresses of functions, and everything that was seen.
#[derive(Default)]
struct Walk {
    /// Where the registry holds the tables that scripts and libraries see as their globals.
    places: Vec<c_int>,
    functions: BTreeSet<usize>,
    seen: HashSet<usize>,
}

/// Looks at the value on top and at all that it leads to, and takes it off.
unsafe fn walk(state: *mut lua_State, walked: &mut Walk) {
    luaL_checkstack(state, 10, c"".as_ptr());
    let kind = lua_type(state, -1);
    let is_container = matches!(
        kind,
        LUA_TTABLE | LUA_TFUNCTION | LUA_TUSERDATA | LUA_TTHREAD
    );
    if is_container && !walked.seen.insert(lua_topointer(state, -1).addr()) {
        return lua_pop(state, 1);
    }
    if lua_getmetatable(state, -1) != 0 {
        walk(state, walked);
    }
    if kind == LUA_TTABLE {
        lua_pushnil(state);
        while lua_next(state, -2) != 0 {
            walk(state, walked);
            lua_pushvalue(state, -1);
            walk(state, walked);
        }
    }
    if kind == LUA_TFUNCTION {
        if let Some(function) = lua_tocfunction(state, -1) {
            walked.functions.insert(function as usize);
        }
        assert!(
            lua_iscfunction(state, -1) != 0,
            "no library is written in Lua"
        );
        for number in 1.. {
            if lua_getupvalue(state, -1, number).is_null() {
                break;
            }
            walk(state, walked);
        }
    }
    if matches!(kind, LUA_TFUNCTION | LUA_TUSERDATA | LUA_TTHREAD) {
        lua_getfenv(state, -1);
        walk(state, walked);
    }
    lua_pop(state, 1);
}

/// Walks everything that a script, a plain script and a library of functions begin with.
unsafe extern "C-unwind" fn walk_all(state: *mut lua_State) -> c_int {
    let walked = lua_touserdata(state, 1).cast::<Walk>();
    lua_pushvalue(state, LUA_GLOBALSINDEX);
    walk(state, &mut *walked);
    push_bytes(state, b"");
    walk(state, &mut *walked);
    for place in (*walked).places.clone() {
        lua_rawgeti_(state, mlua_sys::LUA_REGISTRYINDEX, place);
        assert_eq!(lua_type(state, -1), LUA_TTABLE);
        walk(state, &mut *walked);
    }
    0
}

#[test]
fn no_function_is_reached_that_is_not_in_the_table() {
    let machine = Machine::new().expect("an interpreter");
    let mut walked = Walk {
        places: machine.global_tables(),
        ..Walk::default()
    };
    // SAFETY: the interpreter is new, and `walked` outlives the call.
    let status = unsafe { lua_cpcall(machine.state(), walk_all, (&raw mut walked).cast()) };
    assert_eq!(status, 0);
    let all = || {
        LIBRARIES.iter().flat_map(|library| {
            let functions = library.functions.iter().chain(library.returned);
            functions.map(move |function| (library.name, function))
        })
    };
    let known: BTreeSet<usize> = all().map(|(_, known)| known.function as usize).collect();
    let unknown: Vec<_> = walked.functions.difference(&known).collect();
    assert!(
        unknown.is_empty(),
        "functions that no table names: {unknown:x?}"
    );
    // The walk came to every function that has a name.
    let named = LIBRARIES.iter().flat_map(|library| library.functions);
    for function in named {
        let address = function.function as usize;
        assert!(walked.functions.contains(&address), "{:?}", function.name);
    }
}

#[test]
fn no_library_of_lua_is_opened() {
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
fn the_page_about_scripts_shows_the_table() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scripts.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let mut lines = String::new();
    for row in rows() {
        let name = match row.is_named {
            true => format!("`{}`", row.name),
            false => row.name,
        };
        lines += &format!(
            "| {name} | Undercroft | {} | {} | {} |\n",
            row.cost, row.ends, row.memory
        );
    }
    assert!(
        page.contains(&lines),
        "docs/scripts.md needs these lines:\n{lines}"
    );
}
