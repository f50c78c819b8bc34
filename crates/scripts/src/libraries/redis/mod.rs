//! The library `redis`: commands, and what belongs to them.
//!
//! - `register`: `redis.register_function`.
//! - `registrations`: what the program of a library has registered.

pub(crate) mod register;
pub(crate) mod registrations;

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use mlua_sys::{
    LUA_TNUMBER, LUA_TSTRING, lua_State, lua_createtable, lua_error, lua_gettop, lua_isnumber,
    lua_isstring, lua_pushboolean, lua_pushnumber, lua_pushvalue, lua_setfield, lua_settop,
    lua_tolstring, lua_tonumber, lua_type,
};
use smallvec::SmallVec;
use undercroft_commands::protocol::Protocol;
use undercroft_commands::script::{Hashing, Refused};

use crate::libraries::function::{Function, Memory, asked, bounded, constant};
use crate::libraries::workspace::Workspace;
use crate::state::limits::{self, check_room};
use crate::state::raise::{push_error, raise};
use crate::state::stack::push_bytes;
use crate::state::stack::{bytes, c_bytes};
use crate::values::numbers::{append_general, truncated};
use crate::values::reply_tape::ReplyTape;

/// Its functions.
pub(crate) const FUNCTIONS: &[Function] = &[
    bounded(
        c"call",
        call,
        "one command, as of any client; its reply is asked",
        Memory::Counted,
    ),
    bounded(
        c"pcall",
        pcall,
        "one command, as of any client; its reply is asked",
        Memory::Counted,
    ),
    asked(c"sha1hex", sha1hex, "bytes", Memory::Fixed),
    asked(c"error_reply", error_reply, "bytes", Memory::Counted),
    constant(c"status_reply", status_reply),
    asked(c"log", log, "bytes", Memory::Counted),
    constant(c"setresp", setresp),
    constant(c"set_repl", set_repl),
    constant(c"replicate_commands", replicate_commands),
    constant(c"breakpoint", breakpoint),
    constant(c"debug", debug),
    constant(c"acl_check_cmd", acl_check_cmd),
];

/// Adds what is no function to the table on top.
pub(crate) unsafe fn add_values(state: *mut lua_State) {
    for (name, number) in NUMBERS {
        lua_pushnumber(state, *number);
        lua_setfield(state, -2, name.as_ptr());
    }
    push_bytes(state, VERSION);
    lua_setfield(state, -2, c"REDIS_VERSION".as_ptr());
}

/// The version of Redis whose behaviour this is.
pub(crate) const VERSION: &[u8] = b"7.0.15";

/// Its numbers.
pub(crate) const NUMBERS: &[(&std::ffi::CStr, f64)] = &[
    (c"LOG_DEBUG", 0.0),
    (c"LOG_VERBOSE", 1.0),
    (c"LOG_NOTICE", 2.0),
    (c"LOG_WARNING", 3.0),
    (c"REPL_NONE", 0.0),
    (c"REPL_AOF", 1.0),
    (c"REPL_SLAVE", 2.0),
    (c"REPL_REPLICA", 2.0),
    (c"REPL_ALL", 3.0),
    // That of `VERSION`.
    (c"REDIS_VERSION_NUM", 458_767.0),
];

/// How a command ended.
#[derive(Clone, Copy)]
enum CommandOutcome {
    Replied { as_resp3: bool },
    Stopped,
}

unsafe extern "C-unwind" fn call(state: *mut lua_State) -> c_int {
    call_command(state, true)
}

unsafe extern "C-unwind" fn pcall(state: *mut lua_State) -> c_int {
    call_command(state, false)
}

unsafe fn call_command(state: *mut lua_State, raises: bool) -> c_int {
    let workspace = Workspace::of(state);
    if (*workspace).context.calls.is_null() {
        return raise(
            state,
            b"ERR redis.call/pcall can only be called inside a script invocation",
        );
    }
    let problem: &[u8] = match gather_arguments(state, workspace) {
        GatheredArguments::Valid => {
            let ended = execute_command(workspace);
            let CommandOutcome::Replied { as_resp3 } = ended else {
                return limits::stop(state);
            };
            lua_settop(state, 0);
            let is_error = (*workspace).reply.is_error();
            ReplyTape::push(&raw const (*workspace).reply, state, as_resp3);
            if is_error && raises {
                lua_error(state);
            }
            return 1;
        }
        GatheredArguments::Missing => {
            b"ERR Please specify at least one argument for this redis lib call"
        }
        GatheredArguments::WrongType => {
            b"ERR Lua redis lib command arguments must be strings or integers"
        }
    };
    push_error(state, problem);
    if raises {
        lua_error(state);
    }
    1
}

/// What a command was called with.
enum GatheredArguments {
    Valid,
    Missing,
    /// Something is neither a string nor a number.
    WrongType,
}

/// Notes where the arguments on the stack lie, which stay there.
unsafe fn gather_arguments(state: *mut lua_State, workspace: *mut Workspace) -> GatheredArguments {
    let workspace = &mut *workspace;
    workspace.arguments.clear();
    workspace.digits.clear();
    let mut numbers: SmallVec<[(usize, usize, usize); 4]> = SmallVec::new();
    let count = lua_gettop(state);
    if count == 0 {
        return GatheredArguments::Missing;
    }
    for index in 1..=count {
        match lua_type(state, index) {
            LUA_TSTRING => {
                let mut length = 0;
                let text = lua_tolstring(state, index, &mut length);
                let text = std::slice::from_raw_parts(text.cast(), length);
                workspace.arguments.push(text);
            }
            LUA_TNUMBER => {
                let start = workspace.digits.len();
                append_general(&mut workspace.digits, lua_tonumber(state, index), 17);
                numbers.push((workspace.arguments.len(), start, workspace.digits.len()));
                workspace.arguments.push(&[]);
            }
            _ => return GatheredArguments::WrongType,
        }
    }
    // Where the digits lie is known only when all are there.
    for (index, start, end) in numbers {
        let place = workspace.digits.as_ptr().add(start);
        workspace.arguments[index] = std::slice::from_raw_parts(place, end - start);
    }
    GatheredArguments::Valid
}

/// Runs a command. Nothing in here calls Lua.
unsafe fn execute_command(workspace: *mut Workspace) -> CommandOutcome {
    let result = catch_unwind(AssertUnwindSafe(|| {
        let workspace = &mut *workspace;
        let calls = &mut *workspace.context.calls;
        workspace.reply.clear();
        let as_resp3 = calls.protocol() == Protocol::Resp3;
        match calls.call(&workspace.arguments, &mut workspace.reply) {
            Ok(()) => CommandOutcome::Replied { as_resp3 },
            Err(Refused::Error(error)) => {
                workspace.reply.clear();
                error.write(&mut workspace.reply);
                CommandOutcome::Replied { as_resp3 }
            }
            Err(Refused::Stopped) => CommandOutcome::Stopped,
        }
    }));
    result.unwrap_or_else(|panic| {
        (*workspace).panic = Some(panic);
        CommandOutcome::Stopped
    })
}

unsafe extern "C-unwind" fn sha1hex(state: *mut lua_State) -> c_int {
    if lua_gettop(state) != 1 {
        return raise(state, b"ERR wrong number of arguments");
    }
    const PIECE: usize = 64 << 10;
    let mut hashing = Hashing::default();
    for piece in bytes(state, 1).chunks(PIECE) {
        // A byte takes some nanoseconds.
        limits::spend(state, piece.len());
        hashing.add(piece);
    }
    let sha = hashing.end();
    push_bytes(state, sha.as_bytes());
    1
}

const WRONG_REPLY: &[u8] = b"ERR wrong number or type of arguments";

unsafe fn is_one_string(state: *mut lua_State) -> bool {
    lua_gettop(state) == 1 && lua_type(state, -1) == LUA_TSTRING
}

unsafe extern "C-unwind" fn error_reply(state: *mut lua_State) -> c_int {
    if !is_one_string(state) {
        push_error(state, WRONG_REPLY);
        return 1;
    }
    let text = c_bytes(state, 1);
    let workspace = Workspace::of(state);
    (*workspace).context.clear_scratch();
    check_room(state, text.len() + 8);
    limits::spend_bytes(state, text.len());
    compose_error(&mut (*workspace).context.text, text);
    push_error(state, &(*workspace).context.text);
    (*workspace).context.clear_scratch();
    1
}

/// An error's text as it lies in a table: without the `-` in front, with a code.
fn compose_error(out: &mut Vec<u8>, text: &[u8]) {
    out.clear();
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let space = text.iter().position(|byte| *byte == b' ');
    let (code, message) = match space {
        Some(space) => (&text[..space], &text[space + 1..]),
        None => (&b"ERR"[..], text),
    };
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let start = message
        .iter()
        .position(|byte| !is_end(byte))
        .unwrap_or(message.len());
    let end = message
        .iter()
        .rposition(|byte| !is_end(byte))
        .map_or(start, |last| last + 1);
    out.extend_from_slice(code);
    out.push(b' ');
    out.extend_from_slice(&message[start..end]);
}

unsafe extern "C-unwind" fn status_reply(state: *mut lua_State) -> c_int {
    if !is_one_string(state) {
        push_error(state, WRONG_REPLY);
        return 1;
    }
    lua_createtable(state, 0, 1);
    lua_pushvalue(state, 1);
    lua_setfield(state, -2, c"ok".as_ptr());
    1
}

pub(crate) unsafe extern "C-unwind" fn log(state: *mut lua_State) -> c_int {
    let count = lua_gettop(state);
    if count < 2 {
        return raise(state, b"ERR redis.log() requires two arguments or more.");
    }
    if lua_isnumber(state, 1) == 0 {
        return raise(state, b"ERR First argument must be a number (log level).");
    }
    let level = truncated(lua_tonumber(state, 1));
    if !(0..=3).contains(&level) {
        return raise(state, b"ERR Invalid debug level.");
    }
    let workspace = Workspace::of(state);
    (*workspace).context.clear_scratch();
    for index in 2..=count {
        if lua_isstring(state, index) != 0 {
            let part = bytes(state, index);
            check_room(state, part.len() + 1);
            limits::spend_bytes(state, part.len());
            let text = &mut (*workspace).context.text;
            if index != 2 {
                text.push(b' ');
            }
            text.extend_from_slice(part);
        }
    }
    if let Some(calls) = (*workspace).context.calls.as_mut() {
        calls.log(level as u8, &(*workspace).context.text);
    }
    0
}

unsafe extern "C-unwind" fn setresp(state: *mut lua_State) -> c_int {
    let workspace = Workspace::of(state);
    if (*workspace).context.calls.is_null() {
        return raise(
            state,
            b"ERR redis.setresp can only be called inside a script invocation",
        );
    }
    if lua_gettop(state) != 1 {
        return raise(state, b"ERR redis.setresp() requires one argument.");
    }
    let protocol = match truncated(lua_tonumber(state, 1)) {
        2 => Protocol::Resp2,
        3 => Protocol::Resp3,
        _ => return raise(state, b"ERR RESP version must be 2 or 3."),
    };
    (*(*workspace).context.calls).set_protocol(protocol);
    0
}

unsafe extern "C-unwind" fn set_repl(state: *mut lua_State) -> c_int {
    if (*Workspace::of(state)).context.calls.is_null() {
        return raise(
            state,
            b"ERR redis.set_repl can only be called inside a script invocation",
        );
    }
    if lua_gettop(state) != 1 {
        return raise(state, b"ERR redis.set_repl() requires two arguments.");
    }
    if truncated(lua_tonumber(state, 1)) & !3 != 0 {
        return raise(
            state,
            b"ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
        );
    }
    0
}

unsafe extern "C-unwind" fn replicate_commands(state: *mut lua_State) -> c_int {
    lua_pushboolean(state, 1);
    1
}

unsafe extern "C-unwind" fn breakpoint(state: *mut lua_State) -> c_int {
    lua_pushboolean(state, 0);
    1
}

unsafe extern "C-unwind" fn debug(_: *mut lua_State) -> c_int {
    0
}

unsafe extern "C-unwind" fn acl_check_cmd(state: *mut lua_State) -> c_int {
    let workspace = Workspace::of(state);
    if (*workspace).context.calls.is_null() {
        return raise(
            state,
            b"ERR redis.acl_check_cmd can only be called inside a script invocation",
        );
    }
    match gather_arguments(state, workspace) {
        GatheredArguments::Missing => raise(
            state,
            b"ERR Please specify at least one argument for this redis lib call",
        ),
        GatheredArguments::WrongType => raise(
            state,
            b"ERR Lua redis lib command arguments must be strings or integers",
        ),
        GatheredArguments::Valid => match is_allowed(workspace) {
            None => raise(
                state,
                b"ERR Invalid command passed to redis.acl_check_cmd()",
            ),
            Some(allowed) => {
                lua_pushboolean(state, c_int::from(allowed));
                1
            }
        },
    }
}

unsafe fn is_allowed(workspace: *mut Workspace) -> Option<bool> {
    (*(*workspace).context.calls).allows(&(*workspace).arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_get_a_code() {
        for (text, expected) in [
            ("My Err", "My Err"),
            ("-My Err", "My Err"),
            ("My", "ERR My"),
            ("", "ERR "),
            ("CODE text\r\n", "CODE text"),
        ] {
            let mut out = Vec::new();
            compose_error(&mut out, text.as_bytes());
            assert_eq!(out, expected.as_bytes());
        }
    }
}
