//! The library `table`.

use std::ffi::{CStr, c_int};

use mlua_sys::{
    LUA_TFUNCTION, LUA_TNIL, LUA_TNUMBER, LUA_TSTRING, LUA_TTABLE, lua_State, lua_call, lua_gettop,
    lua_isstring, lua_lessthan, lua_next, lua_objlen, lua_pop, lua_pushinteger, lua_pushnil,
    lua_pushnumber, lua_pushvalue, lua_rawgeti_, lua_rawseti_, lua_settop, lua_toboolean,
    lua_tonumber, lua_type, lua_typename, luaL_checkstack, luaL_checktype, luaL_error,
};

use super::guards::{refuse_proxy, replace_proxy};
use crate::libraries::function::{Function, Memory, asked, constant};
use crate::state::limits;
use crate::state::stack::bytes;
use crate::values::arguments::{int, optional_int};
use crate::values::buffer::Buffer;

/// The functions.
pub(crate) const FUNCTIONS: &[Function] = &[
    asked(c"concat", concat, "values and their bytes", Memory::Counted),
    asked(c"foreach", for_each, "pairs of the table", Memory::Fixed),
    asked(
        c"foreachi",
        for_each_index,
        "values of the table",
        Memory::Fixed,
    ),
    constant(c"getn", length_of),
    asked(c"insert", insert, "values that move", Memory::Counted),
    asked(c"maxn", greatest, "pairs of the table", Memory::Fixed),
    asked(c"remove", remove, "values that move", Memory::Fixed),
    constant(c"setn", set_length),
    asked(
        c"sort",
        sort,
        "values, times the logarithm of their number",
        Memory::Fixed,
    ),
];

/// Bytes of texts that are compared in a step.
const COMPARED: usize = 64;

/// The length of the first argument, which has to be a table.
unsafe fn length(state: *mut lua_State) -> i64 {
    luaL_checktype(state, 1, LUA_TTABLE);
    i64::from(lua_objlen(state, 1) as i32)
}

/// Pushes a value of the first argument. No table has a value at an index that is no 32-bit integer here: the indices of
/// Lua's own functions are.
unsafe fn push_item(state: *mut lua_State, index: i64) {
    lua_rawgeti_(state, 1, index as c_int);
}

unsafe fn set_item(state: *mut lua_State, index: i64) {
    lua_rawseti_(state, 1, index as c_int);
}

unsafe extern "C-unwind" fn concat(state: *mut lua_State) -> c_int {
    if lua_type(state, 2) > LUA_TNIL {
        mlua_sys::luaL_checklstring(state, 2, std::ptr::null_mut());
    }
    luaL_checktype(state, 1, LUA_TTABLE);
    let first = optional_int(state, 3, 1);
    let last = match lua_type(state, 4) <= LUA_TNIL {
        true => length(state),
        false => int(state, 4),
    };
    let separator = bytes(state, 2);
    let mut text = Buffer::new(state);
    for index in first..=last {
        push_item(state, index);
        if lua_isstring(state, -1) == 0 {
            return luaL_error(
                state,
                c"invalid value (%s) at index %d in table for 'concat'".as_ptr(),
                lua_typename(state, lua_type(state, -1)),
                index as c_int,
            );
        }
        limits::spend(state, 1);
        text.add(bytes(state, -1));
        lua_pop(state, 1);
        if index < last {
            text.add(separator);
        }
    }
    text.push();
    1
}

unsafe extern "C-unwind" fn for_each(state: *mut lua_State) -> c_int {
    replace_proxy(state);
    luaL_checktype(state, 1, LUA_TTABLE);
    luaL_checktype(state, 2, LUA_TFUNCTION);
    lua_pushnil(state);
    while lua_next(state, 1) != 0 {
        limits::spend(state, 1);
        lua_pushvalue(state, 2);
        lua_pushvalue(state, -3);
        lua_pushvalue(state, -3);
        lua_call(state, 2, 1);
        if lua_type(state, -1) != LUA_TNIL {
            return 1;
        }
        lua_pop(state, 2);
    }
    0
}

unsafe extern "C-unwind" fn for_each_index(state: *mut lua_State) -> c_int {
    let length = length(state);
    luaL_checktype(state, 2, LUA_TFUNCTION);
    for index in 1..=length {
        limits::spend(state, 1);
        lua_pushvalue(state, 2);
        lua_pushinteger(state, index);
        push_item(state, index);
        lua_call(state, 2, 1);
        if lua_type(state, -1) != LUA_TNIL {
            return 1;
        }
        lua_pop(state, 1);
    }
    0
}

unsafe extern "C-unwind" fn length_of(state: *mut lua_State) -> c_int {
    let length = length(state);
    lua_pushinteger(state, length);
    1
}

unsafe extern "C-unwind" fn set_length(state: *mut lua_State) -> c_int {
    refuse_proxy(state);
    luaL_checktype(state, 1, LUA_TTABLE);
    luaL_error(state, c"'setn' is obsolete".as_ptr())
}

unsafe extern "C-unwind" fn greatest(state: *mut lua_State) -> c_int {
    let mut greatest = 0.0;
    luaL_checktype(state, 1, LUA_TTABLE);
    lua_pushnil(state);
    while lua_next(state, 1) != 0 {
        limits::spend(state, 1);
        lua_pop(state, 1);
        if lua_type(state, -1) == LUA_TNUMBER {
            let number = lua_tonumber(state, -1);
            if number > greatest {
                greatest = number;
            }
        }
    }
    lua_pushnumber(state, greatest);
    1
}

unsafe extern "C-unwind" fn insert(state: *mut lua_State) -> c_int {
    refuse_proxy(state);
    let end = length(state) + 1;
    let place = match lua_gettop(state) {
        2 => end,
        3 => {
            let place = int(state, 2);
            let mut index = end.max(place);
            while index > place {
                limits::spend(state, 1);
                push_item(state, index - 1);
                set_item(state, index);
                index -= 1;
            }
            place
        }
        _ => {
            return luaL_error(state, c"wrong number of arguments to 'insert'".as_ptr());
        }
    };
    set_item(state, place);
    0
}

unsafe extern "C-unwind" fn remove(state: *mut lua_State) -> c_int {
    refuse_proxy(state);
    let end = length(state);
    let place = optional_int(state, 2, end);
    if !(1..=end).contains(&place) {
        return 0;
    }
    push_item(state, place);
    for index in place..end {
        limits::spend(state, 1);
        push_item(state, index + 1);
        set_item(state, index);
    }
    lua_pushnil(state);
    set_item(state, end);
    1
}

unsafe extern "C-unwind" fn sort(state: *mut lua_State) -> c_int {
    refuse_proxy(state);
    let length = length(state);
    luaL_checkstack(state, 40, c"".as_ptr());
    if lua_type(state, 2) > LUA_TNIL {
        luaL_checktype(state, 2, LUA_TFUNCTION);
    }
    lua_settop(state, 2);
    sort_part(state, 1, length);
    0
}

/// Whether the value at one place of the stack, counted from its top, goes before that at another.
unsafe fn is_less(state: *mut lua_State, one: c_int, other: c_int) -> bool {
    if lua_type(state, 2) != LUA_TNIL {
        limits::spend(state, 1);
        lua_pushvalue(state, 2);
        lua_pushvalue(state, one - 1);
        lua_pushvalue(state, other - 2);
        lua_call(state, 2, 1);
        let is_less = lua_toboolean(state, -1) != 0;
        lua_pop(state, 1);
        return is_less;
    }
    let bytes = |index| match lua_type(state, index) {
        LUA_TSTRING => lua_objlen(state, index),
        _ => 0,
    };
    let compared = bytes(one).min(bytes(other));
    limits::spend(state, 1 + compared / COMPARED);
    lua_lessthan(state, one, other) != 0
}

/// Puts the two values on top into the table, the upper one first.
unsafe fn set_two(state: *mut lua_State, upper: i64, lower: i64) {
    set_item(state, upper);
    set_item(state, lower);
}

const INVALID: &CStr = c"invalid order function for sorting";

/// Lua's own quicksort, which compares in this order: what is equal comes out as it does there.
unsafe fn sort_part(state: *mut lua_State, mut low: i64, mut high: i64) {
    while low < high {
        push_item(state, low);
        push_item(state, high);
        if is_less(state, -1, -2) {
            set_two(state, low, high);
        } else {
            lua_pop(state, 2);
        }
        if high - low == 1 {
            break;
        }
        let middle = (low + high) / 2;
        push_item(state, middle);
        push_item(state, low);
        if is_less(state, -2, -1) {
            set_two(state, middle, low);
        } else {
            lua_pop(state, 1);
            push_item(state, high);
            if is_less(state, -1, -2) {
                set_two(state, middle, high);
            } else {
                lua_pop(state, 2);
            }
        }
        if high - low == 2 {
            break;
        }
        push_item(state, middle);
        lua_pushvalue(state, -1);
        push_item(state, high - 1);
        set_two(state, middle, high - 1);
        let (mut from, mut to) = (low, high - 1);
        loop {
            from += 1;
            push_item(state, from);
            while is_less(state, -1, -2) {
                if from > high {
                    luaL_error(state, INVALID.as_ptr());
                }
                lua_pop(state, 1);
                from += 1;
                push_item(state, from);
            }
            to -= 1;
            push_item(state, to);
            while is_less(state, -3, -1) {
                if to < low {
                    luaL_error(state, INVALID.as_ptr());
                }
                lua_pop(state, 1);
                to -= 1;
                push_item(state, to);
            }
            if to < from {
                lua_pop(state, 3);
                break;
            }
            set_two(state, from, to);
        }
        push_item(state, high - 1);
        push_item(state, from);
        set_two(state, high - 1, from);
        // The smaller half, and then the larger one.
        if from - low < high - from {
            sort_part(state, low, from - 1);
            low = from + 1;
        } else {
            sort_part(state, from + 1, high);
            high = from - 1;
        }
    }
}
