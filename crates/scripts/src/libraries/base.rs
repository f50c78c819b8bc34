//! The global functions.

use std::ffi::{CStr, c_char, c_int};

use mlua_sys::{
    LUA_GCCOLLECT, LUA_GCCOUNT, LUA_GCCOUNTB, LUA_GCRESTART, LUA_GCSETPAUSE, LUA_GCSETSTEPMUL,
    LUA_GCSTEP, LUA_GCSTOP, LUA_MULTRET, LUA_REGISTRYINDEX, LUA_TNIL, LUA_TSTRING, LUA_TTABLE,
    lua_State, lua_checkstack, lua_concat, lua_createtable, lua_error, lua_gc, lua_getfield_,
    lua_getmetatable, lua_gettop, lua_insert, lua_isnumber, lua_isstring, lua_istable, lua_next,
    lua_objlen, lua_pcall, lua_pushboolean, lua_pushcclosure, lua_pushinteger, lua_pushnil,
    lua_pushnumber, lua_pushstring_, lua_pushvalue, lua_rawequal, lua_rawget_, lua_rawgeti_,
    lua_rawset, lua_remove, lua_replace, lua_setmetatable, lua_settop, lua_toboolean, lua_tonumber,
    lua_type, lua_typename, luaL_argerror, luaL_callmeta, luaL_checkany, luaL_checklstring,
    luaL_checkoption, luaL_checktype, luaL_error, luaL_getmetafield, luaL_optlstring, luaL_where,
};

use super::guards::{refuse_proxy, replace_proxy};
use crate::libraries::function::{Function, Memory, asked, bounded, constant};
use crate::libraries::parser;
use crate::libraries::workspace::Workspace;
use crate::state::limits;
use crate::state::stack::{bytes, c_bytes};
use crate::state::stack::{push_bytes, swap};
use crate::values::arguments::{int, optional_int};
use crate::values::display::push_text;

/// The functions.
pub(crate) const FUNCTIONS: &[Function] = &[
    constant(c"assert", assert),
    bounded(
        c"collectgarbage",
        collect_garbage,
        "one look through the memory that the limit allows",
        Memory::Fixed,
    ),
    constant(c"error", error),
    constant(c"gcinfo", gc_info),
    constant(c"getmetatable", get_metatable),
    constant(c"ipairs", ipairs),
    asked(
        c"load",
        parser::load,
        "bytes, 1 MiB at most",
        Memory::Counted,
    ),
    asked(
        c"loadstring",
        parser::load_string,
        "bytes, 1 MiB at most",
        Memory::Counted,
    ),
    bounded(
        c"next",
        next,
        "the empty places of a table, which the memory limit bounds",
        Memory::Fixed,
    ),
    constant(c"pairs", pairs),
    asked(
        c"pcall",
        protected_call,
        "the function that it calls",
        Memory::Fixed,
    ),
    constant(c"rawequal", raw_equal),
    constant(c"rawget", raw_get),
    bounded(
        c"rawset",
        raw_set,
        "a table that grows, which the memory limit bounds",
        Memory::Counted,
    ),
    constant(c"select", select),
    constant(c"setmetatable", set_metatable),
    bounded(
        c"tonumber",
        to_number,
        "bytes of the text, which the memory limit bounds",
        Memory::Fixed,
    ),
    asked(
        c"tostring",
        to_string,
        "the function `__tostring` that it calls",
        Memory::Counted,
    ),
    constant(c"type", type_of),
    asked(c"unpack", unpack, "results, 8,000 at most", Memory::Counted),
    asked(
        c"xpcall",
        protected_call_with_handler,
        "the functions that it calls",
        Memory::Fixed,
    ),
];

/// The functions that these return.
pub(crate) const RETURNED: &[Function] = &[constant(c"the iterator of ipairs", next_of_array)];

unsafe extern "C-unwind" fn assert(state: *mut lua_State) -> c_int {
    luaL_checkany(state, 1);
    if lua_toboolean(state, 1) == 0 {
        let default = c"assertion failed!".as_ptr();
        let text = luaL_optlstring(state, 2, default, std::ptr::null_mut());
        return luaL_error(state, c"%s".as_ptr(), text);
    }
    lua_gettop(state)
}

/// What a script may set of the collector: with less it collects all at once, with more it does nothing else.
const STEP_MULTIPLIERS: (i64, i64) = (50, 1000);
const PAUSES: (i64, i64) = (0, 1000);

/// `collectgarbage`: how garbage is collected is the script's own while it runs.
unsafe extern "C-unwind" fn collect_garbage(state: *mut lua_State) -> c_int {
    const NAMES: [*const c_char; 8] = [
        c"stop".as_ptr(),
        c"restart".as_ptr(),
        c"collect".as_ptr(),
        c"count".as_ptr(),
        c"step".as_ptr(),
        c"setpause".as_ptr(),
        c"setstepmul".as_ptr(),
        std::ptr::null(),
    ];
    const WHATS: [c_int; 7] = [
        LUA_GCSTOP,
        LUA_GCRESTART,
        LUA_GCCOLLECT,
        LUA_GCCOUNT,
        LUA_GCSTEP,
        LUA_GCSETPAUSE,
        LUA_GCSETSTEPMUL,
    ];
    let option = luaL_checkoption(state, 1, c"collect".as_ptr(), NAMES.as_ptr());
    let number = optional_int(state, 2, 0);
    let what = WHATS[option as usize];
    (*Workspace::of(state)).is_tuned = true;
    let number = match what {
        // Kilobytes that are collected.
        LUA_GCSTEP => number.clamp(0, 1 << 20),
        LUA_GCSETPAUSE => number.clamp(PAUSES.0, PAUSES.1),
        LUA_GCSETSTEPMUL => number.clamp(STEP_MULTIPLIERS.0, STEP_MULTIPLIERS.1),
        _ => 0,
    };
    let result = lua_gc(state, what, number as c_int);
    limits::check_time(state);
    match what {
        LUA_GCCOUNT => {
            let rest = lua_gc(state, LUA_GCCOUNTB, 0);
            lua_pushnumber(state, f64::from(result) + f64::from(rest) / 1024.0);
        }
        LUA_GCSTEP => lua_pushboolean(state, result),
        _ => lua_pushnumber(state, f64::from(result)),
    }
    1
}

unsafe extern "C-unwind" fn gc_info(state: *mut lua_State) -> c_int {
    lua_pushinteger(state, i64::from(lua_gc(state, LUA_GCCOUNT, 0)));
    1
}

unsafe extern "C-unwind" fn error(state: *mut lua_State) -> c_int {
    let level = optional_int(state, 2, 1);
    lua_settop(state, 1);
    if lua_isstring(state, 1) != 0 && level > 0 {
        luaL_where(state, level as c_int);
        lua_pushvalue(state, 1);
        lua_concat(state, 2);
    }
    lua_error(state)
}

unsafe extern "C-unwind" fn get_metatable(state: *mut lua_State) -> c_int {
    luaL_checkany(state, 1);
    if lua_getmetatable(state, 1) == 0 {
        lua_pushnil(state);
        return 1;
    }
    luaL_getmetafield(state, 1, c"__metatable".as_ptr());
    1
}

unsafe extern "C-unwind" fn set_metatable(state: *mut lua_State) -> c_int {
    refuse_proxy(state);
    luaL_checktype(state, 1, LUA_TTABLE);
    if !matches!(lua_type(state, 2), LUA_TNIL | LUA_TTABLE) {
        return luaL_argerror(state, 2, c"nil or table expected".as_ptr());
    }
    if luaL_getmetafield(state, 1, c"__metatable".as_ptr()) != 0 {
        return luaL_error(state, c"cannot change a protected metatable".as_ptr());
    }
    lua_settop(state, 2);
    lua_setmetatable(state, 1);
    1
}

unsafe extern "C-unwind" fn raw_equal(state: *mut lua_State) -> c_int {
    luaL_checkany(state, 1);
    luaL_checkany(state, 2);
    lua_pushboolean(state, lua_rawequal(state, 1, 2));
    1
}

unsafe extern "C-unwind" fn raw_get(state: *mut lua_State) -> c_int {
    replace_proxy(state);
    luaL_checktype(state, 1, LUA_TTABLE);
    luaL_checkany(state, 2);
    lua_settop(state, 2);
    lua_rawget_(state, 1);
    1
}

unsafe extern "C-unwind" fn raw_set(state: *mut lua_State) -> c_int {
    refuse_proxy(state);
    luaL_checktype(state, 1, LUA_TTABLE);
    luaL_checkany(state, 2);
    luaL_checkany(state, 3);
    lua_settop(state, 3);
    lua_rawset(state, 1);
    1
}

unsafe extern "C-unwind" fn next(state: *mut lua_State) -> c_int {
    replace_proxy(state);
    luaL_checktype(state, 1, LUA_TTABLE);
    lua_settop(state, 2);
    if lua_next(state, 1) != 0 {
        return 2;
    }
    lua_pushnil(state);
    1
}

/// `pairs`. Of a protected table it walks over a copy, which the script may have.
unsafe extern "C-unwind" fn pairs(state: *mut lua_State) -> c_int {
    luaL_checktype(state, 1, LUA_TTABLE);
    let workspace = Workspace::of(state);
    if let Some(original) = (*workspace).proxies.original(state, 1) {
        lua_settop(state, 0);
        lua_createtable(state, 0, 32);
        lua_rawgeti_(state, LUA_REGISTRYINDEX, original);
        lua_pushnil(state);
        while lua_next(state, 2) != 0 {
            lua_pushvalue(state, -2);
            swap(state);
            lua_rawset(state, 1);
        }
        lua_settop(state, 1);
    }
    (*workspace).proxies.push_globals(state);
    lua_getfield_(state, -1, c"next".as_ptr());
    lua_remove(state, -2);
    lua_pushvalue(state, 1);
    lua_pushnil(state);
    3
}

unsafe extern "C-unwind" fn ipairs(state: *mut lua_State) -> c_int {
    luaL_checktype(state, 1, LUA_TTABLE);
    lua_pushcclosure(state, next_of_array, 0);
    lua_pushvalue(state, 1);
    lua_pushinteger(state, 0);
    3
}

unsafe extern "C-unwind" fn next_of_array(state: *mut lua_State) -> c_int {
    let index = (int(state, 2) as c_int).wrapping_add(1);
    luaL_checktype(state, 1, LUA_TTABLE);
    lua_pushinteger(state, i64::from(index));
    lua_rawgeti_(state, 1, index);
    match lua_type(state, -1) {
        LUA_TNIL => 0,
        _ => 2,
    }
}

/// `pcall`, which gives the text of an error that is a table with one, as it was before Redis 7. A script that has to end
/// catches nothing.
unsafe extern "C-unwind" fn protected_call(state: *mut lua_State) -> c_int {
    luaL_checkany(state, 1);
    limits::check_stack(state);
    let arguments = lua_gettop(state);
    lua_pushboolean(state, 1);
    lua_insert(state, 1);
    let status = lua_pcall(state, arguments - 1, LUA_MULTRET, 0);
    if status != 0 {
        limits::check_caught(state, status);
        lua_remove(state, 1);
        if lua_istable(state, -1) != 0 {
            lua_getfield_(state, -1, c"err".as_ptr());
            // Of one without a text the nil stays, as in Redis.
            if lua_isstring(state, -1) != 0 {
                lua_replace(state, -2);
            }
        }
        lua_pushboolean(state, 0);
        lua_insert(state, 1);
    }
    lua_gettop(state)
}

/// `xpcall`. The handler is called once the stack is unwound, like any other function: within the error, Lua would run it
/// without the hook that ends scripts. An error of the handler is given to the handler, as Lua does until its stack of C
/// is full.
unsafe extern "C-unwind" fn protected_call_with_handler(state: *mut lua_State) -> c_int {
    const HANDLER: c_int = 1;
    const ROUNDS: usize = 200;
    luaL_checkany(state, 2);
    limits::check_stack(state);
    lua_settop(state, 2);
    lua_insert(state, HANDLER);
    // There before the call, as its results may take all of the stack.
    lua_pushboolean(state, 1);
    lua_insert(state, -2);
    let mut status = lua_pcall(state, 0, LUA_MULTRET, 0);
    if status == 0 {
        lua_remove(state, HANDLER);
        return lua_gettop(state);
    }
    limits::check_caught(state, status);
    lua_remove(state, -2);
    for _ in 0..ROUNDS {
        if status == mlua_sys::LUA_ERRERR || lua_type(state, HANDLER) != mlua_sys::LUA_TFUNCTION {
            break;
        }
        lua_pushvalue(state, HANDLER);
        lua_insert(state, -2);
        status = lua_pcall(state, 1, 1, 0);
        if status == 0 {
            lua_pushboolean(state, 0);
            lua_replace(state, HANDLER);
            return lua_gettop(state);
        }
        limits::check_caught(state, status);
    }
    lua_pushboolean(state, 0);
    push_bytes(state, b"error in error handling");
    2
}

unsafe extern "C-unwind" fn select(state: *mut lua_State) -> c_int {
    let count = i64::from(lua_gettop(state));
    if lua_type(state, 1) == LUA_TSTRING && bytes(state, 1).first() == Some(&b'#') {
        lua_pushinteger(state, count - 1);
        return 1;
    }
    let from = match int(state, 1) {
        from if from < 0 => count + from,
        from => from.min(count),
    };
    if from < 1 {
        return luaL_argerror(state, 1, c"index out of range".as_ptr());
    }
    (count - from) as c_int
}

unsafe extern "C-unwind" fn type_of(state: *mut lua_State) -> c_int {
    luaL_checkany(state, 1);
    lua_pushstring_(state, lua_typename(state, lua_type(state, 1)));
    1
}

unsafe extern "C-unwind" fn to_number(state: *mut lua_State) -> c_int {
    let base = optional_int(state, 2, 10);
    if base == 10 {
        luaL_checkany(state, 1);
        if lua_type(state, 1) == LUA_TSTRING {
            limits::spend_bytes(state, lua_objlen(state, 1));
        }
        if lua_isnumber(state, 1) != 0 {
            lua_pushnumber(state, lua_tonumber(state, 1));
            return 1;
        }
    } else {
        luaL_checklstring(state, 1, std::ptr::null_mut());
        if !(2..=36).contains(&base) {
            return luaL_argerror(state, 2, c"base out of range".as_ptr());
        }
        let text = c_bytes(state, 1);
        limits::spend_bytes(state, text.len());
        if let Some(number) = unsigned(text, base as u64) {
            lua_pushnumber(state, number as f64);
            return 1;
        }
    }
    lua_pushnil(state);
    1
}

/// Whether C takes a byte for a space.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The number that a text is to C's `strtoul`, if it is nothing else.
fn unsigned(text: &[u8], base: u64) -> Option<u64> {
    let last = text.iter().rposition(|byte| !is_space(*byte))?;
    let text = &text[..=last];
    let start = text.iter().position(|byte| !is_space(*byte))?;
    let (is_negative, mut digits) = match &text[start..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if let (16, [b'0', b'x' | b'X', rest @ ..]) = (base, digits)
        && rest.first().is_some_and(u8::is_ascii_hexdigit)
    {
        digits = rest;
    }
    if digits.is_empty() {
        return None;
    }
    let mut value = Some(0_u64);
    for digit in digits {
        let digit = u64::from(char::from(*digit).to_digit(36)?);
        if digit >= base {
            return None;
        }
        value = value
            .and_then(|value| value.checked_mul(base))
            .and_then(|value| value.checked_add(digit));
    }
    Some(match value {
        None => u64::MAX,
        Some(value) if is_negative => value.wrapping_neg(),
        Some(value) => value,
    })
}

unsafe extern "C-unwind" fn to_string(state: *mut lua_State) -> c_int {
    luaL_checkany(state, 1);
    if luaL_callmeta(state, 1, c"__tostring".as_ptr()) != 0 {
        return 1;
    }
    push_text(state, 1);
    1
}

unsafe extern "C-unwind" fn unpack(state: *mut lua_State) -> c_int {
    const TOO_MANY: &CStr = c"too many results to unpack";
    luaL_checktype(state, 1, LUA_TTABLE);
    let first = optional_int(state, 2, 1);
    let last = match lua_type(state, 3) <= LUA_TNIL {
        true => i64::from(lua_objlen(state, 1) as i32),
        false => int(state, 3),
    };
    if first > last {
        return 0;
    }
    let Ok(count) = c_int::try_from(last - first + 1) else {
        return luaL_error(state, TOO_MANY.as_ptr());
    };
    if lua_checkstack(state, count) == 0 {
        return luaL_error(state, TOO_MANY.as_ptr());
    }
    limits::spend(state, count as usize);
    for index in first..=last {
        lua_rawgeti_(state, 1, index as c_int);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::unsigned;

    #[test]
    fn numbers_of_a_base_are_read_as_in_c() {
        for (text, base, expected) in [
            ("ff", 16, Some(255)),
            (" 0xFF ", 16, Some(255)),
            ("0x", 16, None),
            ("0", 16, Some(0)),
            ("-1", 16, Some(u64::MAX)),
            ("zz", 36, Some(35 * 36 + 35)),
            ("12", 2, None),
            ("", 8, None),
            (" ", 8, None),
            ("-", 8, None),
            ("1 1", 8, None),
            ("ffffffffffffffffff", 16, Some(u64::MAX)),
            ("-ffffffffffffffffff", 16, Some(u64::MAX)),
        ] {
            assert_eq!(unsigned(text.as_bytes(), base), expected, "{text}");
        }
    }
}
