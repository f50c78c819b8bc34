//! The library `math`.

use std::f64::consts::PI;
use std::ffi::c_int;

use mlua_sys::{
    lua_State, lua_gettop, lua_pushinteger, lua_pushnumber, lua_setfield, luaL_argerror,
    luaL_checknumber, luaL_error,
};

use crate::libraries::function::{Function, constant};
use crate::libraries::workspace::Workspace;
use crate::state::raise::raise;
use crate::values::arguments::int;

unsafe extern "C" {
    safe fn ldexp(number: f64, exponent: c_int) -> f64;
    fn frexp(number: f64, exponent: *mut c_int) -> f64;
}

/// The functions.
pub(crate) const FUNCTIONS: &[Function] = &[
    constant(c"abs", abs),
    constant(c"acos", acos),
    constant(c"asin", asin),
    constant(c"atan", atan),
    constant(c"atan2", atan2),
    constant(c"ceil", ceil),
    constant(c"cos", cos),
    constant(c"cosh", cosh),
    constant(c"deg", deg),
    constant(c"exp", exp),
    constant(c"floor", floor),
    constant(c"fmod", fmod),
    constant(c"frexp", split_exponent),
    constant(c"ldexp", join_exponent),
    constant(c"log", log),
    constant(c"log10", log10),
    constant(c"max", max),
    constant(c"min", min),
    constant(c"mod", fmod),
    constant(c"modf", modf),
    constant(c"pow", pow),
    constant(c"rad", rad),
    constant(c"random", random),
    constant(c"randomseed", random_seed),
    constant(c"sin", sin),
    constant(c"sinh", sinh),
    constant(c"sqrt", sqrt),
    constant(c"tan", tan),
    constant(c"tanh", tanh),
];

/// Adds what is no function to the table on top.
pub(super) unsafe fn add_values(state: *mut lua_State) {
    lua_pushnumber(state, PI);
    lua_setfield(state, -2, c"pi".as_ptr());
    lua_pushnumber(state, f64::INFINITY);
    lua_setfield(state, -2, c"huge".as_ptr());
}

/// Functions of one number.
macro_rules! of_one {
    ($($name:ident => $of:expr,)*) => {
        $(unsafe extern "C-unwind" fn $name(state: *mut lua_State) -> c_int {
            let of: fn(f64) -> f64 = $of;
            lua_pushnumber(state, of(luaL_checknumber(state, 1)));
            1
        })*
    };
}

/// Functions of two numbers.
macro_rules! of_two {
    ($($name:ident => $of:expr,)*) => {
        $(unsafe extern "C-unwind" fn $name(state: *mut lua_State) -> c_int {
            let of: fn(f64, f64) -> f64 = $of;
            // Of two that are none, Redis names the second.
            let other = luaL_checknumber(state, 2);
            lua_pushnumber(state, of(luaL_checknumber(state, 1), other));
            1
        })*
    };
}

of_one! {
    abs => f64::abs,
    acos => f64::acos,
    asin => f64::asin,
    atan => f64::atan,
    ceil => f64::ceil,
    cos => f64::cos,
    cosh => f64::cosh,
    deg => |number| number / (PI / 180.0),
    exp => f64::exp,
    floor => f64::floor,
    log => f64::ln,
    log10 => f64::log10,
    rad => |number| number * (PI / 180.0),
    sin => f64::sin,
    sinh => f64::sinh,
    sqrt => f64::sqrt,
    tan => f64::tan,
    tanh => f64::tanh,
}

of_two! {
    atan2 => f64::atan2,
    fmod => |one, other| one % other,
    pow => f64::powf,
}

unsafe extern "C-unwind" fn split_exponent(state: *mut lua_State) -> c_int {
    let mut exponent = 0;
    lua_pushnumber(state, frexp(luaL_checknumber(state, 1), &mut exponent));
    lua_pushinteger(state, i64::from(exponent));
    2
}

unsafe extern "C-unwind" fn join_exponent(state: *mut lua_State) -> c_int {
    let exponent = int(state, 2) as c_int;
    lua_pushnumber(state, ldexp(luaL_checknumber(state, 1), exponent));
    1
}

unsafe extern "C-unwind" fn modf(state: *mut lua_State) -> c_int {
    let number = luaL_checknumber(state, 1);
    let whole = number.trunc();
    let rest = match number.is_infinite() {
        true => 0.0,
        false => number - whole,
    };
    lua_pushnumber(state, whole);
    lua_pushnumber(state, rest.copysign(number));
    2
}

unsafe fn choose(state: *mut lua_State, is_better: fn(f64, f64) -> bool) -> c_int {
    let mut best = luaL_checknumber(state, 1);
    for index in 2..=lua_gettop(state) {
        let number = luaL_checknumber(state, index);
        if is_better(number, best) {
            best = number;
        }
    }
    lua_pushnumber(state, best);
    1
}

unsafe extern "C-unwind" fn min(state: *mut lua_State) -> c_int {
    choose(state, |number, best| number < best)
}

unsafe extern "C-unwind" fn max(state: *mut lua_State) -> c_int {
    choose(state, |number, best| number > best)
}

/// The next number of the generator of `lrand48`, of 31 bits.
fn next_random(random: &mut u64) -> u64 {
    const MASK: u64 = (1 << 48) - 1;
    *random = random.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & MASK;
    *random >> 17
}

/// `math.random`, the same on every workspace.
unsafe extern "C-unwind" fn random(state: *mut lua_State) -> c_int {
    const END: u64 = i32::MAX as u64;
    let workspace = Workspace::of(state);
    if (*workspace).context.calls.is_null() {
        return raise(
            state,
            b"math.random can only be called inside a script invocation",
        );
    }
    let drawn = (next_random(&mut (*workspace).random) % END) as f64 / END as f64;
    let (least, most) = match lua_gettop(state) {
        0 => {
            lua_pushnumber(state, drawn);
            return 1;
        }
        1 => (1, int(state, 1) as i32),
        2 => (int(state, 1) as i32, int(state, 2) as i32),
        _ => return luaL_error(state, c"wrong number of arguments".as_ptr()),
    };
    if least > most {
        return luaL_argerror(state, lua_gettop(state), c"interval is empty".as_ptr());
    }
    let span = f64::from(most.wrapping_sub(least).wrapping_add(1));
    lua_pushnumber(state, (drawn * span).floor() + f64::from(least));
    1
}

unsafe extern "C-unwind" fn random_seed(state: *mut lua_State) -> c_int {
    let workspace = Workspace::of(state);
    if (*workspace).context.calls.is_null() {
        return raise(
            state,
            b"math.randomseed can only be called inside a script invocation",
        );
    }
    let seed = int(state, 1) as i32 as u32;
    (*workspace).random = u64::from(seed) << 16 | 0x330e;
    0
}
