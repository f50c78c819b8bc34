//! `table.sort`, which is asked whether the script may go on where it takes long.
//!
//! Lua's own compares without a word from anybody. Where its work can be much (many elements, or long texts), it is given a
//! function to compare with that does the same and counts.

use std::ffi::c_int;

use mlua_sys::{
    LUA_TSTRING, LUA_TTABLE, lua_CFunction, lua_State, lua_isnoneornil, lua_lessthan, lua_objlen,
    lua_pop, lua_pushboolean, lua_pushcclosure, lua_rawgeti_, lua_settop, lua_tocfunction,
    lua_type,
};

use crate::machine::Machine;
use crate::sandbox;

/// Steps of a sort that is not asked: some milliseconds.
const FEW: usize = 1 << 18;
/// Bytes of texts that are compared in a step.
const BYTES: usize = 64;

/// Calls Lua's own, which is its first upvalue.
pub(crate) unsafe extern "C-unwind" fn sort(state: *mut lua_State) -> c_int {
    if lua_type(state, 1) == LUA_TTABLE && lua_isnoneornil(state, 2) != 0 && takes_long(state) {
        lua_settop(state, 1);
        lua_pushcclosure(state, is_less, 0);
    }
    sandbox::guarded_first(state)
}

/// Whether the value at an index is the function that compares for a sort.
pub(crate) unsafe fn is_comparison(state: *mut lua_State, index: c_int) -> bool {
    let compares: lua_CFunction = is_less;
    lua_tocfunction(state, index).is_some_and(|function| std::ptr::fn_addr_eq(function, compares))
}

/// Whether sorting the first argument may take more than a few steps.
unsafe fn takes_long(state: *mut lua_State) -> bool {
    let elements = lua_objlen(state, 1);
    let rounds = elements.checked_ilog2().unwrap_or(0) as usize + 1;
    let mut longest = 0;
    for index in 1..=elements.min(FEW) {
        lua_rawgeti_(state, 1, index as c_int);
        longest = longest.max(length(state, -1));
        lua_pop(state, 1);
    }
    elements
        .saturating_mul(rounds)
        .saturating_mul(1 + longest / BYTES)
        > FEW
}

/// Bytes of a value that are compared, if it is a text.
unsafe fn length(state: *mut lua_State, index: c_int) -> usize {
    match lua_type(state, index) {
        LUA_TSTRING => lua_objlen(state, index),
        _ => 0,
    }
}

unsafe extern "C-unwind" fn is_less(state: *mut lua_State) -> c_int {
    let compared = length(state, 1).min(length(state, 2));
    (*Machine::of(state))
        .sorted
        .count(state, 1 + compared / BYTES);
    lua_pushboolean(state, lua_lessthan(state, 1, 2));
    1
}
