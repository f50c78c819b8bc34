//! The library `coroutine`.

use std::ffi::{CStr, c_int};

use mlua_sys::{
    LUA_TFUNCTION, LUA_YIELD, lua_Debug, lua_State, lua_checkstack, lua_concat, lua_error,
    lua_getstack, lua_gettop, lua_insert, lua_iscfunction, lua_isstring, lua_newthread,
    lua_pushboolean, lua_pushcclosure, lua_pushfstring, lua_pushnil, lua_pushstring_,
    lua_pushthread, lua_pushvalue, lua_resume_, lua_status, lua_tothread, lua_type,
    lua_upvalueindex, lua_xmove, lua_yield, luaL_argerror, luaL_error, luaL_where,
};

use crate::libraries::function::{Function, Memory, asked, constant};
use crate::state::limits;

unsafe extern "C-unwind" {
    fn lua_setlevel(from: *mut lua_State, to: *mut lua_State);
}

/// The functions.
pub(crate) const FUNCTIONS: &[Function] = &[
    constant(c"create", create),
    asked(
        c"resume",
        resume,
        "the coroutine, until it yields",
        Memory::Fixed,
    ),
    constant(c"running", running),
    constant(c"status", status),
    constant(c"wrap", wrap),
    constant(c"yield", yield_values),
];

/// The functions that these return.
pub(crate) const RETURNED: &[Function] = &[asked(
    c"the function that coroutine.wrap returns",
    resume_wrapped,
    "the coroutine, until it yields",
    Memory::Fixed,
)];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Running,
    Suspended,
    /// It has resumed another one.
    Normal,
    Dead,
}

impl Status {
    unsafe fn of(coroutine: *mut lua_State, here: *mut lua_State) -> Status {
        if coroutine == here {
            return Status::Running;
        }
        match lua_status(coroutine) {
            LUA_YIELD => Status::Suspended,
            0 => {
                let mut frame = std::mem::zeroed::<lua_Debug>();
                if lua_getstack(coroutine, 0, &mut frame) > 0 {
                    Status::Normal
                } else if lua_gettop(coroutine) == 0 {
                    Status::Dead
                } else {
                    Status::Suspended
                }
            }
            _ => Status::Dead,
        }
    }

    fn name(self) -> &'static CStr {
        match self {
            Status::Running => c"running",
            Status::Suspended => c"suspended",
            Status::Normal => c"normal",
            Status::Dead => c"dead",
        }
    }
}

unsafe extern "C-unwind" fn create(state: *mut lua_State) -> c_int {
    if lua_type(state, 1) != LUA_TFUNCTION || lua_iscfunction(state, 1) != 0 {
        return luaL_argerror(state, 1, c"Lua function expected".as_ptr());
    }
    // It takes over the hook, so that it can be interrupted, too.
    let coroutine = lua_newthread(state);
    lua_pushvalue(state, 1);
    lua_xmove(state, coroutine, 1);
    1
}

/// The coroutine that the first argument is.
unsafe fn coroutine(state: *mut lua_State) -> *mut lua_State {
    let coroutine = lua_tothread(state, 1);
    if coroutine.is_null() {
        luaL_argerror(state, 1, c"coroutine expected".as_ptr());
    }
    coroutine
}

/// Resumes a coroutine with the values on top. Leaves what it yields or returns, and says how much; or leaves an error.
unsafe fn resume_with(
    state: *mut lua_State,
    coroutine: *mut lua_State,
    arguments: c_int,
) -> Option<c_int> {
    limits::check_stack(state);
    if lua_checkstack(coroutine, arguments) == 0 {
        luaL_error(state, c"too many arguments to resume".as_ptr());
    }
    let status = Status::of(coroutine, state);
    if status != Status::Suspended {
        lua_pushfstring(
            state,
            c"cannot resume %s coroutine".as_ptr(),
            status.name().as_ptr(),
        );
        return None;
    }
    limits::hook_coroutine(state, coroutine);
    lua_xmove(state, coroutine, arguments);
    // Calls of C within one another are counted across coroutines.
    lua_setlevel(state, coroutine);
    let status = lua_resume_(coroutine, arguments);
    if status == 0 || status == LUA_YIELD {
        let results = lua_gettop(coroutine);
        if lua_checkstack(state, results + 1) == 0 {
            luaL_error(state, c"too many results to resume".as_ptr());
        }
        lua_xmove(coroutine, state, results);
        return Some(results);
    }
    limits::check_caught(state, status);
    lua_xmove(coroutine, state, 1);
    None
}

unsafe extern "C-unwind" fn resume(state: *mut lua_State) -> c_int {
    let coroutine = coroutine(state);
    let resumed = resume_with(state, coroutine, lua_gettop(state) - 1);
    lua_pushboolean(state, c_int::from(resumed.is_some()));
    let results = resumed.unwrap_or(1);
    lua_insert(state, -(results + 1));
    results + 1
}

unsafe extern "C-unwind" fn wrap(state: *mut lua_State) -> c_int {
    create(state);
    lua_pushcclosure(state, resume_wrapped, 1);
    1
}

/// The function that `coroutine.wrap` makes: its upvalue is the coroutine.
unsafe extern "C-unwind" fn resume_wrapped(state: *mut lua_State) -> c_int {
    let coroutine = lua_tothread(state, lua_upvalueindex(1));
    if let Some(results) = resume_with(state, coroutine, lua_gettop(state)) {
        return results;
    }
    if lua_isstring(state, -1) != 0 {
        luaL_where(state, 1);
        lua_insert(state, -2);
        lua_concat(state, 2);
    }
    lua_error(state)
}

unsafe extern "C-unwind" fn yield_values(state: *mut lua_State) -> c_int {
    lua_yield(state, lua_gettop(state))
}

unsafe extern "C-unwind" fn status(state: *mut lua_State) -> c_int {
    let status = Status::of(coroutine(state), state);
    lua_pushstring_(state, status.name().as_ptr());
    1
}

unsafe extern "C-unwind" fn running(state: *mut lua_State) -> c_int {
    if lua_pushthread(state) != 0 {
        lua_pushnil(state);
    }
    1
}
