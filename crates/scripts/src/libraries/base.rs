//! Implements Lua's global functions.

use std::ffi::{CStr, c_int};

use super::guards::{refuse_proxy, replace_proxy};
use crate::libraries::function::{Function, Memory, asked, bounded, constant};
use crate::libraries::parser;
use crate::libraries::workspace::Workspace;
use crate::state::{ALL, Collection, Kind, State, Status};
use crate::values::display::push_text;

/// The global functions, with the limits on each call's time and memory.
pub(crate) const FUNCTIONS: &[Function] = &[
    constant(c"assert", assert),
    bounded(
        c"collectgarbage",
        collect_garbage,
        "memory in use, up to the memory limit",
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
        "empty slots of the table, up to the memory limit",
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
        "size of a growing table, up to the memory limit",
        Memory::Counted,
    ),
    constant(c"select", select),
    constant(c"setmetatable", set_metatable),
    bounded(
        c"tonumber",
        to_number,
        "bytes of the text, up to the memory limit",
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

/// Functions that scripts can obtain only as results of the global functions.
pub(crate) const RETURNED: &[Function] = &[constant(c"the iterator of ipairs", next_of_array)];

fn assert(state: &mut State<'_>) -> c_int {
    state.check_any(1);
    if !state.boolean(1) {
        if state.is_none_or_nil(2) {
            state.raise_here(b"assertion failed!");
        }
        state.check_bytes(2);
        state.raise_here(state.c_bytes(2));
    }
    state.top()
}

/// The ranges to which scripts' garbage collector settings are clamped. They rule out a complete
/// collection in one step, and a collector that takes nearly all of the time.
const STEP_MULTIPLIERS: (i64, i64) = (50, 1000);
const PAUSES: (i64, i64) = (0, 1000);

/// Implements `collectgarbage`. Collector settings that a script changes are reset when it ends.
fn collect_garbage(state: &mut State<'_>) -> c_int {
    const OPTIONS: [(&CStr, Collection); 7] = [
        (c"stop", Collection::Stop),
        (c"restart", Collection::Restart),
        (c"collect", Collection::All),
        (c"count", Collection::Count),
        (c"step", Collection::Step),
        (c"setpause", Collection::SetPause),
        (c"setstepmul", Collection::SetStepMultiplier),
    ];
    let what = match state.is_none_or_nil(1) {
        true => Collection::All,
        false => OPTIONS[state.check_word(1, &OPTIONS.map(|(name, _)| name))].1,
    };
    let number = state.optional_int(2, 0);
    Workspace::of(state).is_tuned.set(true);
    let number = match what {
        // A step's size is in kilobytes.
        Collection::Step => number.clamp(0, 1 << 20),
        Collection::SetPause => number.clamp(PAUSES.0, PAUSES.1),
        Collection::SetStepMultiplier => number.clamp(STEP_MULTIPLIERS.0, STEP_MULTIPLIERS.1),
        _ => 0,
    };
    let result = state.collect(what, number as c_int);
    state.check_time();
    match what {
        Collection::Count => {
            let remainder = state.collect(Collection::CountRemainder, 0);
            state.push_number(f64::from(result) + f64::from(remainder) / 1024.0);
        }
        Collection::Step => state.push_boolean(result != 0),
        _ => state.push_number(f64::from(result)),
    }
    1
}

fn gc_info(state: &mut State<'_>) -> c_int {
    state.push_integer(i64::from(state.collect(Collection::Count, 0)));
    1
}

fn error(state: &mut State<'_>) -> c_int {
    let level = state.optional_int(2, 1);
    state.set_top(1);
    if state.is_string(1) && level > 0 {
        state.push_location(level as c_int);
        state.push_value(1);
        state.concatenate(2);
    }
    state.raise_top()
}

fn get_metatable(state: &mut State<'_>) -> c_int {
    state.check_any(1);
    if !state.push_metatable(1) {
        state.push_nil();
        return 1;
    }
    state.push_metafield(1, c"__metatable");
    1
}

fn set_metatable(state: &mut State<'_>) -> c_int {
    refuse_proxy(state);
    state.check_kind(1, Kind::TABLE);
    if !matches!(state.kind(2), Kind::NIL | Kind::TABLE) {
        state.raise_argument(2, c"nil or table expected");
    }
    if state.push_metafield(1, c"__metatable") {
        state.raise_here(b"cannot change a protected metatable");
    }
    state.set_top(2);
    state.set_metatable(1);
    1
}

fn raw_equal(state: &mut State<'_>) -> c_int {
    state.check_any(1);
    state.check_any(2);
    state.push_boolean(state.raw_equal(1, 2));
    1
}

fn raw_get(state: &mut State<'_>) -> c_int {
    replace_proxy(state);
    state.check_kind(1, Kind::TABLE);
    state.check_any(2);
    state.set_top(2);
    state.raw_get(1);
    1
}

fn raw_set(state: &mut State<'_>) -> c_int {
    refuse_proxy(state);
    state.check_kind(1, Kind::TABLE);
    state.check_any(2);
    state.check_any(3);
    state.set_top(3);
    state.raw_set(1);
    1
}

fn next(state: &mut State<'_>) -> c_int {
    replace_proxy(state);
    state.check_kind(1, Kind::TABLE);
    state.set_top(2);
    if state.next(1) {
        return 2;
    }
    state.push_nil();
    1
}

/// Implements `pairs`. For a proxy, it iterates over a copy of the proxied table, which the script
/// is free to change.
fn pairs(state: &mut State<'_>) -> c_int {
    state.check_kind(1, Kind::TABLE);
    let proxies = &Workspace::of(state).proxies;
    if let Some(original) = proxies.original(state, 1) {
        state.set_top(0);
        state.push_table(0, 32);
        state.push_kept(original);
        state.push_nil();
        while state.next(2) {
            state.push_value(-2);
            state.swap();
            state.raw_set(1);
        }
        state.set_top(1);
    }
    proxies.push_globals(state);
    state.push_field(-1, c"next");
    state.remove(-2);
    state.push_value(1);
    state.push_nil();
    3
}

fn ipairs(state: &mut State<'_>) -> c_int {
    state.check_kind(1, Kind::TABLE);
    state.push_function(next_of_array);
    state.push_value(1);
    state.push_integer(0);
    3
}

fn next_of_array(state: &mut State<'_>) -> c_int {
    let index = (state.check_int(2) as c_int).wrapping_add(1);
    state.check_kind(1, Kind::TABLE);
    state.push_integer(i64::from(index));
    state.push_item(1, index);
    match state.kind(-1) {
        Kind::NIL => 0,
        _ => 2,
    }
}

/// Implements `pcall`. If the error is a table, returns its `err` string, like Redis before version
/// 7. The error that ends a script is not caught.
fn protected_call(state: &mut State<'_>) -> c_int {
    state.check_any(1);
    state.check_stack();
    let arguments = state.top();
    state.push_boolean(true);
    state.insert(1);
    let status = state.call_protected(arguments - 1, ALL, 0);
    if status != Status::DONE {
        state.check_caught(status);
        state.remove(1);
        if state.is_table(-1) {
            state.push_field(-1, c"err");
            // If the error table has no `err` string, return nil, as Redis does.
            if state.is_string(-1) {
                state.replace(-2);
            }
        }
        state.push_boolean(false);
        state.insert(1);
    }
    state.top()
}

/// Implements `xpcall`. Calls the error handler after the stack has been unwound: before that, Lua
/// runs handlers without the hook that ends scripts. If the handler raises an error, it is called
/// again with the new error, up to 200 times.
fn protected_call_with_handler(state: &mut State<'_>) -> c_int {
    const HANDLER: c_int = 1;
    const ROUNDS: usize = 200;
    state.check_any(2);
    state.check_stack();
    state.set_top(2);
    state.insert(HANDLER);
    // Push `true` before the call, because the call's results can fill the stack.
    state.push_boolean(true);
    state.insert(-2);
    let mut status = state.call_protected(0, ALL, 0);
    if status == Status::DONE {
        state.remove(HANDLER);
        return state.top();
    }
    state.check_caught(status);
    state.remove(-2);
    for _ in 0..ROUNDS {
        if status == Status::HANDLER || state.kind(HANDLER) != Kind::FUNCTION {
            break;
        }
        state.push_value(HANDLER);
        state.insert(-2);
        status = state.call_protected(1, 1, 0);
        if status == Status::DONE {
            state.push_boolean(false);
            state.replace(HANDLER);
            return state.top();
        }
        state.check_caught(status);
    }
    state.push_boolean(false);
    state.push_bytes(b"error in error handling");
    2
}

fn select(state: &mut State<'_>) -> c_int {
    let count = i64::from(state.top());
    if state.kind(1) == Kind::STRING && state.bytes(1).first() == Some(&b'#') {
        state.push_integer(count - 1);
        return 1;
    }
    let from = match state.check_int(1) {
        from if from < 0 => count + from,
        from => from.min(count),
    };
    if from < 1 {
        state.raise_argument(1, c"index out of range");
    }
    (count - from) as c_int
}

fn type_of(state: &mut State<'_>) -> c_int {
    state.check_any(1);
    state.push_bytes(state.kind(1).name().as_bytes());
    1
}

fn to_number(state: &mut State<'_>) -> c_int {
    let base = state.optional_int(2, 10);
    if base == 10 {
        state.check_any(1);
        if state.kind(1) == Kind::STRING {
            state.spend_bytes(state.length(1));
        }
        if state.is_number(1) {
            state.push_number(state.number(1));
            return 1;
        }
    } else {
        state.check_bytes(1);
        if !(2..=36).contains(&base) {
            state.raise_argument(2, c"base out of range");
        }
        let text = state.c_bytes(1);
        state.spend_bytes(text.len());
        if let Some(number) = unsigned(text, base as u64) {
            state.push_number(number as f64);
            return 1;
        }
    }
    state.push_nil();
    1
}

/// Returns whether C's `isspace` accepts the byte.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Parses a string like C's `strtoul`. Returns `None` unless the entire string is a number.
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

fn to_string(state: &mut State<'_>) -> c_int {
    state.check_any(1);
    if state.call_metafield(1, c"__tostring") {
        return 1;
    }
    push_text(state, 1);
    1
}

fn unpack(state: &mut State<'_>) -> c_int {
    const TOO_MANY: &[u8] = b"too many results to unpack";
    state.check_kind(1, Kind::TABLE);
    let first = state.optional_int(2, 1);
    let last = match state.is_none_or_nil(3) {
        true => i64::from(state.length(1) as i32),
        false => state.check_int(3),
    };
    if first > last {
        return 0;
    }
    let Ok(count) = c_int::try_from(last - first + 1) else {
        state.raise_here(TOO_MANY);
    };
    if !state.has_room(count) {
        state.raise_here(TOO_MANY);
    }
    state.spend(count as usize);
    for index in first..=last {
        state.push_item(1, index as c_int);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::unsigned;

    #[test]
    fn numbers_in_any_base_parse_as_in_c() {
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
