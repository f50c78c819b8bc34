//! Lua scripts over the commands, as in Redis 7.0: Lua 5.1 with its sandbox and its libraries.
//!
//! A process takes [`interpreter`] along where it makes its `Process`; everything else is in `undercroft-commands`. Each
//! thread that runs scripts has an interpreter of its own, which compiles a script once.
//!
//! Lua is C, and an error in it is a long jump that runs no destructors. `state::State` wraps it: its methods are safe, and
//! its documentation says which rules the compiler checks and which ones a function here has to keep.
//!
//! mlua is no substitute. Under a memory limit it makes every string and every table in a protected call of its own. Its
//! functions raise userdata where Redis raises tables, and its limit comes with an allocator that is no pool. So this
//! crate uses its bindings alone, `mlua-sys`, which build Lua 5.1.
//!
//! - `functions`: libraries of functions.
//! - `libraries`: every function that a script can reach.
//! - `machine`: one thread's interpreter, and a run of a script in it.
//! - `sandbox`: the globals and libraries that a script can read and not change.
//! - `state`: Lua's state, errors, limits.
//! - `values`: values of Lua as numbers, texts and replies.

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
    /// This thread's interpreter; none before its first script, and while that runs.
    static MACHINE: RefCell<Option<Box<Machine>>> = const { RefCell::new(None) };
}

/// Lua, for the whole process.
struct Lua;

/// The interpreter that a process takes along.
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

/// Every function that a script can reach, and the bounds of a call of it: the libraries are made from this table.
///
/// ```
/// let rows = undercroft_scripts::functions();
/// assert!(rows.iter().any(|row| row.name == "string.rep" && row.ends == "the host is asked"));
/// ```
pub fn functions() -> Vec<FunctionRow> {
    catalog::rows()
}

/// Calls `body` with this thread's interpreter.
///
/// # Errors
/// Where there is no memory for one.
fn with_machine<R>(body: impl FnOnce(&mut Machine) -> R) -> Result<R, CommandError> {
    let _locale = CLocale::enter();
    // A thread that ends has none any more: destructors of its own may still run scripts.
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
