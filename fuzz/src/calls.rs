//! Calls every function that a script can reach, with extreme numbers, long strings, deeply nested
//! tables and hostile metatables. The calls are made in loops and within `pcall`, `xpcall`,
//! coroutines and callbacks. Each script must end within twice its time limit and must not exceed
//! its memory limit.

use std::fs;
use std::time::Duration;

use undercroft_commands::scripts::ScriptLimits;
use undercroft_engine::thread_time;

use crate::lua::run_within;

/// The CPU time limit of a script.
const TIME: Duration = Duration::from_millis(40);
const MEMORY: usize = 16 << 20;
/// The number of bytes that the process can use in addition to the script's memory: for the reply,
/// and for memory that the allocator does not return.
const BESIDES: usize = 24 << 20;

/// The first lines of every script.
const PRELUDE: &str = "
local deep = {} for i = 1, 2000 do deep = {deep} end
local long = {} for i = 1, 1e4 do long[i] = i end
local function endless() while true do end end
local function fails() error({}) end
local function same(...) return ... end
local names = {'__index', '__newindex', '__tostring', '__lt', '__le', '__eq', '__concat', '__call', '__len', '__unm', '__add'}
local function made(f) local meta = {} for _, name in ipairs(names) do meta[name] = f end return setmetatable({}, meta) end
local stuck, broken, odd = made(endless), made(fails), made(same)
local co = coroutine.create(function(...) while true do coroutine.yield(...) end end)
";

/// The arguments with which functions are called.
const VALUES: &[&str] = &[
    "0",
    "1",
    "-1",
    "0/0",
    "1/0",
    "-1/0",
    "2^31",
    "-2^31",
    "2^31 - 1",
    "2^32 + 1",
    "2^53",
    "-2^53",
    "2^63",
    "-2^63",
    "1e308",
    "-1e8",
    "1e5",
    "''",
    "'x'",
    "('x'):rep(1e5)",
    "('%d%s'):rep(50)",
    "('('):rep(1e4)",
    "('a?'):rep(30)",
    "'%f[a]'",
    "'%b()'",
    "('.-'):rep(40)",
    "'>I4'",
    "'!8i3'",
    "'c0s'",
    "{}",
    "{1, 2, 3}",
    "deep",
    "long",
    "stuck",
    "broken",
    "odd",
    "same",
    "fails",
    "endless",
    "co",
    "nil",
    "true",
    "redis",
    "_G",
    "string.rep",
    "'[1,2'",
    "('['):rep(2000)",
    "'\\255\\0\\221\\255\\255\\255\\255'",
    "'return 1'",
    "('x = 1 '):rep(1e4)",
    "'__index'",
    "'#'",
];

/// The forms in which a script calls the chosen function.
const WAYS: &[&str] = &[
    "return call()",
    "return pcall(call)",
    "return xpcall(call, endless)",
    "return xpcall(call, call)",
    "return xpcall(endless, call)",
    "while true do pcall(call) end",
    "return coroutine.wrap(call)()",
    "while true do coroutine.wrap(function() pcall(call) end)() end",
    "while true do xpcall(call, call) end",
    "return table.sort({4, 2, 3, 1, 5}, call)",
    "return ('abc'):gsub('.', call)",
    "return tostring(setmetatable({}, {__tostring = call}))",
    "return load(call)",
    "local function deeper(n) if n > 0 then return coroutine.wrap(deeper)(n - 1) end return call() end return deeper(150)",
];

/// Pieces of inputs. Each byte of an input selects a function, an argument or a form of call.
pub(crate) const TOKENS: &[&[u8]] = &[b"\x00", b"\x05", b"\x07", b"\x08", b"\xff"];

/// Returns the item that the next byte of the input selects, or the first item if the input is
/// empty.
fn choose<'a>(input: &mut &[u8], from: &[&'a str]) -> &'a str {
    let (byte, rest) = input.split_first().unwrap_or((&0, &[]));
    *input = rest;
    from[usize::from(*byte) % from.len()]
}

/// Calls the function that the input selects, with the arguments and in the form that it selects.
pub(crate) fn call(mut input: &[u8]) {
    let rows = undercroft_scripts::functions();
    let named = rows.iter().filter(|row| row.is_named);
    let names: Vec<&str> = named.map(|row| row.name.as_str()).collect();
    let name = choose(&mut input, &names);
    let way = choose(&mut input, WAYS);
    let count = input.len().min(5);
    let arguments: Vec<&str> = (0..count).map(|_| choose(&mut input, VALUES)).collect();
    let arguments = arguments.join(", ");
    ends(&format!(
        "{PRELUDE} local f = {name} local function call() return f({arguments}) end {way}"
    ));
}

/// Returns the number of bytes that a line of `/proc/self/status` reports.
fn memory(line: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut found = status.lines().filter_map(|text| text.strip_prefix(line));
    let number = found
        .next()
        .map(|text| text.trim_matches([' ', '\t', ':', 'k', 'B']));
    number
        .and_then(|text| text.parse::<usize>().ok())
        .unwrap_or(0)
        * 1024
}

/// Runs a script, and checks that it ends within its time and memory limits.
fn ends(script: &str) {
    let limits = ScriptLimits {
        memory: MEMORY,
        time: Some(TIME),
        shared_thread_time: None,
        impatient_time: None,
    };
    // Reset the peak of the process's memory use, if the system permits it.
    let resets = fs::write("/proc/self/clear_refs", "5").is_ok();
    let (before, began) = (memory("VmRSS"), thread_time());
    run_within(limits, &[b"EVAL", script.as_bytes(), b"0"]);
    let took = thread_time().saturating_sub(began);
    // With `UNDERCROFT_RERUN`, the first run of every write is rolled back, so a script runs twice.
    // Sanitizers slow scripts down and do not return freed memory immediately.
    let is_set = |name| std::env::var_os(name).is_some();
    let (runs, sanitized) = (
        1 + u32::from(is_set("UNDERCROFT_RERUN")),
        is_set("UNDERCROFT_SANITIZED"),
    );
    let most = 2 * TIME * runs * if sanitized { 4 } else { 1 };
    assert!(took <= most, "{took:?}: {script}");
    if resets && !sanitized {
        let taken = memory("VmHWM").saturating_sub(before);
        assert!(taken <= 2 * MEMORY + BESIDES, "{taken} bytes: {script}");
    }
    let reply = run_within(limits, &[b"EVAL", b"return 1", b"0"]);
    assert_eq!(
        reply,
        undercroft_commands::reply::Tree::Integer(1),
        "after {script}"
    );
}
