//! Runs Lua scripts that call commands, as in Redis 7.0. Scripts are written in Lua 5.1, with
//! Redis' sandbox and libraries.
//!
//! A process enables scripts by passing [`interpreter`] to the `Process` that it creates.
//! `undercroft-commands` runs the script commands through it. Each thread that runs scripts has one
//! interpreter, which compiles each script once.
//!
//! Lua is C, and a Lua error is a long jump that skips destructors. `state::State` wraps Lua in
//! safe methods. The documentation of `State` lists the rules that the compiler checks and the
//! rules that every function in this crate must follow.
//!
//! This crate uses only mlua's bindings, `mlua-sys`, which build Lua 5.1. mlua's safe layer is
//! unsuitable: under a memory limit, it creates every string and every table in a separate
//! protected call. Its functions raise errors as userdata, but Redis raises tables. Its memory
//! limit requires mlua's own allocator, which does not pool memory.
//!
//! - `functions`: loads libraries of Redis functions and pushes their functions.
//! - `libraries`: implements every function that a script can reach.
//! - `machine`: implements a thread's interpreter, and runs scripts in it.
//! - `sandbox`: gives scripts globals and libraries that they can read but not change.
//! - `state`: wraps a Lua state, its errors and its limits in safe methods.
//! - `values`: converts between Lua values and numbers, strings and replies.

mod functions;
mod libraries;
mod machine;
mod sandbox;
mod state;
mod values;

use std::cell::RefCell;

use undercroft_commands::arguments::CommandError;
use undercroft_commands::context::{Calls, Interpreter};
use undercroft_commands::reply::Reply;
use undercroft_commands::scripts::{
    LibraryFunction, Script, ScriptArguments, ScriptError, ScriptLimits,
};

use libraries::catalog;
pub use libraries::catalog::FunctionRow;
use machine::Machine;
use state::{CLocale, in_use};

thread_local! {
    /// This thread's interpreter, or `None` before the first script and while a script runs.
    static MACHINE: RefCell<Option<Box<Machine>>> = const { RefCell::new(None) };
}

/// The interpreter that runs scripts on one Lua state per thread.
struct Lua;

/// Returns the Lua interpreter, which enables scripts in a `Process`.
///
/// ```
/// use undercroft_commands::config::Config;
/// use undercroft_commands::context::Process;
/// use undercroft_commands::scripts::ScriptLimits;
/// let process = Process::new(Config::new(), 1);
/// let _process = process.with_interpreter(Some(undercroft_scripts::interpreter()), ScriptLimits::default());
/// ```
pub fn interpreter() -> &'static dyn Interpreter {
    &Lua
}

/// Returns every function that a script can reach, with its limits on time and memory. Interpreters
/// build their libraries from the same table.
///
/// ```
/// let rows = undercroft_scripts::functions();
/// assert!(rows.iter().any(|row| row.name == "string.rep" && row.ends == "interruptible"));
/// ```
pub fn functions() -> Vec<FunctionRow> {
    catalog::rows()
}

/// Calls `body` with this thread's interpreter, which is created on first use.
///
/// # Errors
/// Returns an error if an interpreter cannot be allocated.
fn with_machine<R>(body: impl FnOnce(&mut Machine) -> R) -> Result<R, CommandError> {
    let _locale = CLocale::enter();
    // While a thread exits, destructors of other thread-locals can still run scripts after
    // `MACHINE` is dropped.
    let kept = MACHINE.try_with(|machine| machine.borrow_mut().take());
    let mut machine = match kept.ok().flatten() {
        Some(machine) => machine,
        None => Machine::new().ok_or(CommandError::fixed(
            "OOM no memory for an interpreter of scripts",
        ))?,
    };
    let result = body(&mut machine);
    machine.publish_memory();
    if machine.is_worth_keeping() {
        let _ = MACHINE.try_with(|kept| *kept.borrow_mut() = Some(machine));
    }
    Ok(result)
}

impl Interpreter for Lua {
    fn compile(&self, script: &Script, limits: ScriptLimits) -> Result<(), CommandError> {
        with_machine(|machine| machine.compile(script, limits, None))?
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
        called: &ScriptArguments<'_>,
        calls: &mut Calls<'_, '_>,
        reply: &mut dyn Reply,
    ) -> Result<(), ScriptError> {
        with_machine(|machine| machine.run(script, called, calls, reply))
            .map_err(ScriptError::Error)?
    }

    fn memory(&self) -> u64 {
        in_use() as u64
    }
}
