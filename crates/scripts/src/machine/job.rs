//! What runs within Lua: compiling a script, loading a library, running either.

use std::ffi::c_int;

use mlua_sys::{
    LUA_GLOBALSINDEX, LUA_REGISTRYINDEX, lua_State, lua_createtable, lua_getfield_, lua_gettop,
    lua_isstring, lua_istable, lua_pcall, lua_pop, lua_pushcclosure, lua_pushvalue, lua_rawgeti_,
    lua_rawset, lua_rawseti_, lua_setfenv, lua_settop, lua_toboolean, lua_touserdata,
};
use undercroft_commands::protocol::Protocol;
use undercroft_commands::reply::Reply;
use undercroft_commands::script::{Called, Script};

use super::error_handler::handle;
use crate::functions::{self, LibraryGlobals, LoadError};
use crate::libraries::parser;
use crate::libraries::workspace::Workspace;
use crate::sandbox;
use crate::sandbox::unguarded::{self, GlobalReads, UnguardedGlobals};
use crate::state::context::{RunStatus, keep_error};
use crate::state::raise::COUNTED;
use crate::state::stack::{c_bytes, keep, push_bytes};
use crate::values::reply_writer;

/// A compiled script, or a function of a library.
#[derive(Clone, Copy)]
pub(super) struct Compiled {
    /// Where the registry holds it.
    pub(super) place: c_int,
    /// What it reads, where it does nothing else.
    pub(super) reads: Option<GlobalReads>,
}

/// Places in the registry that every run needs.
#[derive(Clone, Copy, Default)]
pub(super) struct RunKeys {
    /// What runs a job.
    pub(super) run: c_int,
    /// What makes errors of what a script raises.
    handler: c_int,
    pub(super) unguarded: UnguardedGlobals,
    pub(super) functions: LibraryGlobals,
}

/// What is to be done, and how it ended.
pub(super) struct Job<'a> {
    pub(super) workspace: *mut Workspace,
    pub(super) keys: *mut RunKeys,
    pub(super) script: &'a Script,
    pub(super) called: Option<Called<'a>>,
    /// What is run; or what was compiled.
    pub(super) function: Option<Compiled>,
    pub(super) reply: Option<&'a mut dyn Reply>,
    pub(super) outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// With an error, whole in the workspace's text.
    Error,
    /// Without one that could be told from; why is in the workspace's text.
    Failed,
}

/// Fills a new interpreter.
pub(super) unsafe extern "C-unwind" fn prepare(state: *mut lua_State) -> c_int {
    let keys = lua_touserdata(state, 1).cast::<RunKeys>();
    let workspace = Workspace::of(state);
    sandbox::prepare(state, workspace);
    let unguarded = unguarded::prepare(state, workspace);
    lua_settop(state, 0);
    let functions = functions::prepare(state, workspace);
    let [run, handler] = [run, handle].map(|function| {
        lua_pushcclosure(state, function, 0);
        keep(state)
    });
    *keys = RunKeys {
        run,
        handler,
        unguarded,
        functions,
    };
    0
}

/// Compiles a job's script.
pub(super) unsafe extern "C-unwind" fn compile(state: *mut lua_State) -> c_int {
    let job = lua_touserdata(state, 1).cast::<Job<'_>>();
    sandbox::use_globals(state, (*job).workspace);
    let program = (*job).script.program();
    let name = c"@user_script".as_ptr();
    if parser::load_program(state, program, name, parser::PROGRAM_MAX) != 0 {
        keep_error(state);
        (*job).outcome = Outcome::Failed;
        return 0;
    }
    let reads = unguarded::find_reads(state);
    if reads.is_some() {
        unguarded::use_globals(state, &(*(*job).keys).unguarded);
    }
    let place = keep(state);
    (*job).function = Some(Compiled { place, reads });
    0
}

/// Runs the program of a job's library.
pub(super) unsafe extern "C-unwind" fn load(state: *mut lua_State) -> c_int {
    let job = lua_touserdata(state, 1).cast::<Job<'_>>();
    let (globals, program) = ((*(*job).keys).functions, (*job).script.program());
    (*job).outcome = match functions::load(state, (*job).workspace, globals, program) {
        Ok(()) => Outcome::Done,
        Err(LoadError::Compiling) => Outcome::Failed,
        Err(LoadError::Running) => Outcome::Error,
    };
    0
}

/// Runs a job's script, and writes its reply.
pub(super) unsafe extern "C-unwind" fn run(state: *mut lua_State) -> c_int {
    let job = lua_touserdata(state, 1).cast::<Job<'_>>();
    let (workspace, keys) = ((*job).workspace, (*job).keys);
    let Some(called) = &(*job).called else {
        return 0;
    };
    lua_rawgeti_(state, LUA_REGISTRYINDEX, (*keys).handler);
    let handler = lua_gettop(state);
    let Some(Compiled { place, reads }) = (*job).function else {
        (*workspace).context.keep_text(b"it is not compiled");
        (*job).outcome = Outcome::Failed;
        return 0;
    };
    let mut arguments = 0;
    if let Some(reads) = reads {
        unguarded::set_texts(
            state,
            &mut (*keys).unguarded,
            reads,
            called.keys,
            called.arguments,
        );
        lua_rawgeti_(state, LUA_REGISTRYINDEX, place);
    } else if called.function.is_some() {
        sandbox::use_globals(state, workspace);
        functions::push(state, workspace, (*keys).functions, place);
        push_texts(state, called.keys);
        push_texts(state, called.arguments);
        arguments = 2;
    } else {
        sandbox::use_globals(state, workspace);
        set_texts(state, workspace, b"KEYS", called.keys);
        set_texts(state, workspace, b"ARGV", called.arguments);
        lua_rawgeti_(state, LUA_REGISTRYINDEX, place);
        // A script may have given itself another environment.
        lua_pushvalue(state, LUA_GLOBALSINDEX);
        lua_setfenv(state, -2);
    }
    if lua_pcall(state, arguments, 1, handler) == 0 {
        if let (RunStatus::Running, Some(reply)) = ((*workspace).context.status, &mut (*job).reply)
        {
            let as_resp3 = (*(*workspace).context.calls).protocol() == Protocol::Resp3;
            reply_writer::write(state, &raw mut **reply, as_resp3, 0);
        }
        return 0;
    }
    if (*workspace).context.status == RunStatus::OutOfMemory {
        (*workspace).context.keep_text(b"not enough memory");
        (*job).outcome = Outcome::Failed;
        return 0;
    }
    if lua_istable(state, -1) == 0 {
        (*workspace).context.keep_text(b"execution failure");
        if lua_isstring(state, -1) != 0 {
            let text = c_bytes(state, -1);
            (*workspace).context.keep_text(&text[..text.len().min(100)]);
        }
        (*job).outcome = Outcome::Failed;
        return 0;
    }
    lua_getfield_(state, -1, c"err".as_ptr());
    let text: &[u8] = match lua_isstring(state, -1) {
        0 => b"ERR unknown error",
        _ => c_bytes(state, -1),
    };
    (*workspace).context.keep_text(text);
    lua_pop(state, 1);
    lua_getfield_(state, -1, COUNTED.as_ptr());
    if lua_toboolean(state, -1) != 0 {
        (*(*workspace).context.calls).set_counted();
    }
    lua_pop(state, 1);
    lua_getfield_(state, -1, c"source".as_ptr());
    lua_getfield_(state, -2, c"line".as_ptr());
    if lua_isstring(state, -1) != 0 && lua_isstring(state, -2) != 0 {
        let (source, line) = (c_bytes(state, -2), c_bytes(state, -1));
        let name = called.function.unwrap_or((*job).script.sha().as_bytes());
        let text = &mut (*workspace).context.text;
        for part in [b" script: ", name, b", on ", source, b":", line, b"."] {
            text.extend_from_slice(part);
        }
    }
    (*job).outcome = Outcome::Error;
    0
}

/// Sets a global to a table of texts.
unsafe fn set_texts(
    state: *mut lua_State,
    workspace: *const Workspace,
    name: &[u8],
    texts: &[&[u8]],
) {
    (*workspace).proxies.push_globals(state);
    push_bytes(state, name);
    push_texts(state, texts);
    lua_rawset(state, -3);
    lua_pop(state, 1);
}

/// Pushes a table of texts.
unsafe fn push_texts(state: *mut lua_State, texts: &[&[u8]]) {
    lua_createtable(state, texts.len().min(1 << 20) as c_int, 0);
    for (index, text) in texts.iter().enumerate() {
        push_bytes(state, text);
        lua_rawseti_(state, -2, index as c_int + 1);
    }
}
