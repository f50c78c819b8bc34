//! Implements the `math` library.

use std::cell::Cell;
use std::f64::consts::PI;
use std::ffi::c_int;

use crate::libraries::function::{Function, constant};
use crate::libraries::workspace::Workspace;
use crate::state::State;

unsafe extern "C" {
    safe fn ldexp(number: f64, exponent: c_int) -> f64;
    safe fn frexp(number: f64, exponent: &mut c_int) -> f64;
}

/// The functions of `math`, with the limits on each call's time and memory.
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

/// Adds the constants of `math` to the table on top of the stack.
pub(super) fn add_values(state: &mut State<'_>) {
    state.push_number(PI);
    state.set_field(-2, c"pi");
    state.push_number(f64::INFINITY);
    state.set_field(-2, c"huge");
}

/// Defines Lua functions that take one number.
macro_rules! of_one {
    ($($name:ident => $of:expr,)*) => {
        $(fn $name(state: &mut State<'_>) -> c_int {
            let of: fn(f64) -> f64 = $of;
            state.push_number(of(state.check_number(1)));
            1
        })*
    };
}

/// Defines Lua functions that take two numbers.
macro_rules! of_two {
    ($($name:ident => $of:expr,)*) => {
        $(fn $name(state: &mut State<'_>) -> c_int {
            let of: fn(f64, f64) -> f64 = $of;
            // Check the second argument first: if neither argument is a number, Redis' error names
            // the second one.
            let other = state.check_number(2);
            state.push_number(of(state.check_number(1), other));
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

fn split_exponent(state: &mut State<'_>) -> c_int {
    let mut exponent = 0;
    state.push_number(frexp(state.check_number(1), &mut exponent));
    state.push_integer(i64::from(exponent));
    2
}

fn join_exponent(state: &mut State<'_>) -> c_int {
    let exponent = state.check_int(2) as c_int;
    state.push_number(ldexp(state.check_number(1), exponent));
    1
}

fn modf(state: &mut State<'_>) -> c_int {
    let number = state.check_number(1);
    let whole = number.trunc();
    let rest = match number.is_infinite() {
        true => 0.0,
        false => number - whole,
    };
    state.push_number(whole);
    state.push_number(rest.copysign(number));
    2
}

fn choose(state: &State<'_>, is_better: fn(f64, f64) -> bool) -> c_int {
    let mut best = state.check_number(1);
    for index in 2..=state.top() {
        let number = state.check_number(index);
        if is_better(number, best) {
            best = number;
        }
    }
    state.push_number(best);
    1
}

fn min(state: &mut State<'_>) -> c_int {
    choose(state, |number, best| number < best)
}

fn max(state: &mut State<'_>) -> c_int {
    choose(state, |number, best| number > best)
}

/// Advances the `lrand48` generator, and returns its next 31-bit number.
fn next_random(random: &Cell<u64>) -> u64 {
    const MASK: u64 = (1 << 48) - 1;
    let next = random.get().wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & MASK;
    random.set(next);
    next >> 17
}

/// Implements `math.random`, whose numbers do not depend on the machine.
fn random(state: &mut State<'_>) -> c_int {
    const END: u64 = i32::MAX as u64;
    if !state.context().has_host() {
        state.raise(b"math.random can only be called inside a script invocation");
    }
    let drawn = (next_random(&Workspace::of(state).random) % END) as f64 / END as f64;
    let (least, most) = match state.top() {
        0 => {
            state.push_number(drawn);
            return 1;
        }
        1 => (1, state.check_int(1) as i32),
        2 => (state.check_int(1) as i32, state.check_int(2) as i32),
        _ => state.raise_here(b"wrong number of arguments"),
    };
    if least > most {
        state.raise_argument(state.top(), c"interval is empty");
    }
    let span = f64::from(most.wrapping_sub(least).wrapping_add(1));
    state.push_number((drawn * span).floor() + f64::from(least));
    1
}

fn random_seed(state: &mut State<'_>) -> c_int {
    if !state.context().has_host() {
        state.raise(b"math.randomseed can only be called inside a script invocation");
    }
    let seed = state.check_int(1) as i32 as u32;
    let random = u64::from(seed) << 16 | 0x330e;
    Workspace::of(state).random.set(random);
    0
}
