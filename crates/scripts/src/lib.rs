//! Lua scripts over the commands, as in Redis 7.0: Lua 5.1 with its sandbox and its libraries.
//!
//! A process takes [`interpreter`] along where it makes its `Process`; everything else is in `undercroft-commands`. Each
//! thread that runs scripts has an interpreter of its own, which compiles a script once.
//!
//! Lua is C. An error in it is a long jump, past the frames of whatever called it: a function here that calls Lua in a
//! way which may fail has nothing on its stack that needs to be dropped. What it needs lies in the thread's `Machine`.
//!
//! - `answer`: what a script returns, as a reply.
//! - `bits`: the library `bit`.
//! - `functions`: libraries of functions.
//! - `heard`: what a command answers, as values of Lua.
//! - `json`: the library `cjson`.
//! - `library`: every function that a script can reach.
//! - `limits`: when a script has to end, and what it may take.
//! - `locale`: the locale in which scripts run.
//! - `machine`: one thread's interpreter, and a run of a script in it.
//! - `numbers`: numbers as C prints them, and as it makes integers of them.
//! - `packs`: the library `cmsgpack`.
//! - `patterns`: the functions of `string` that look for patterns.
//! - `plain`: scripts that only read what they find.
//! - `pool`: memory of an interpreter.
//! - `raise`: errors, as Redis makes them.
//! - `redis`: the library `redis`.
//! - `sandbox`: what a script finds, and cannot change.
//! - `structs`: the library `struct`.

mod answer;
mod bits;
mod functions;
mod heard;
mod json;
mod library;
mod limits;
mod locale;
mod machine;
mod numbers;
mod packs;
mod patterns;
mod plain;
mod pool;
mod raise;
mod redis;
mod sandbox;
mod structs;

use std::cell::RefCell;

use undercroft_commands::arguments::CommandError;
use undercroft_commands::reply::Reply;
use undercroft_commands::script::{
    Called, Calls, Interpreter, LibraryFunction, Script, ScriptLimits, Stop,
};

pub use library::Row;
use locale::CLocale;
use machine::Machine;

thread_local! {
    /// This thread's interpreter; none before its first script, and while that runs.
    static MACHINE: RefCell<Option<Box<Machine>>> = const { RefCell::new(None) };
}

/// Lua, for the whole process.
struct Lua;

/// The interpreter that a process takes along.
///
/// ```
/// use undercroft_commands::config::Config;
/// use undercroft_commands::host::Process;
/// use undercroft_commands::script::ScriptLimits;
/// let process = Process::new(Config::new(), 1);
/// let _process = process.with_interpreter(Some(undercroft_scripts::interpreter()), ScriptLimits::default());
/// ```
pub fn interpreter() -> &'static dyn Interpreter {
    &Lua
}

/// Every function that a script can reach, and the bounds of a call of it: the libraries are made from this table.
///
/// ```
/// let rows = undercroft_scripts::functions();
/// assert!(rows.iter().any(|row| row.name == "string.rep" && row.ends == "the host is asked"));
/// ```
pub fn functions() -> Vec<Row> {
    library::rows()
}

/// Calls `body` with this thread's interpreter.
///
/// # Errors
/// Where there is no memory for one.
fn with_machine<R>(body: impl FnOnce(&mut Machine) -> R) -> Result<R, CommandError> {
    let _locale = CLocale::begin();
    // A thread that ends has none any more: destructors of its own may still run scripts.
    let kept = MACHINE.try_with(|machine| machine.borrow_mut().take());
    let mut machine = match kept.ok().flatten() {
        Some(machine) => machine,
        None => Machine::new().ok_or(CommandError::fixed(
            "OOM no memory for an interpreter of scripts",
        ))?,
    };
    let result = body(&mut machine);
    machine.memory.tell();
    if machine.is_worth_keeping() {
        let _ = MACHINE.try_with(|kept| *kept.borrow_mut() = Some(machine));
    }
    Ok(result)
}

impl Interpreter for Lua {
    fn compile(&self, script: &Script, limits: ScriptLimits) -> Result<(), CommandError> {
        with_machine(|machine| machine.compile(script, limits))?
    }

    fn load(
        &self,
        library: &Script,
        limits: ScriptLimits,
    ) -> Result<Vec<LibraryFunction>, CommandError> {
        with_machine(|machine| machine.load_library(library, limits))?
    }

    fn run(
        &self,
        script: &Script,
        called: &Called<'_>,
        calls: &mut Calls<'_, '_>,
        reply: &mut dyn Reply,
    ) -> Result<(), Stop> {
        with_machine(|machine| machine.run(script, called, calls, reply)).map_err(Stop::Error)?
    }

    fn memory(&self) -> u64 {
        pool::in_use() as u64
    }
}
