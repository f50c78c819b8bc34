//! Lua's state: values on its stack, errors, limits. Every other folder may call it; it calls none.
//!
//! - `calls`: calls of Lua: functions, programs, coroutines, the hook, the collector of garbage.
//! - `context`: what an interpreter has in addition to Lua's state.
//! - `deadline`: the deadline of compiling a program.
//! - `entry`: functions of this crate as Lua calls them.
//! - `interpreter`: an interpreter, which owns Lua's state, and calls of it from outside.
//! - `limits`: limits on the time and memory of a script.
//! - `locale`: the locale in which scripts run.
//! - `pool`: memory of an interpreter.
//! - `raising`: errors, as Redis makes them.
//! - `stack`: a reference to Lua's state, and values on its stack.
//! - `tables`: tables and the registry.
//! - `thread_stack`: the part of a thread's stack that a script may take.

mod calls;
mod context;
mod deadline;
mod entry;
mod interpreter;
mod limits;
mod locale;
mod pool;
mod raising;
mod stack;
mod tables;
mod thread_stack;

pub(crate) use calls::{ALL, Collection, Coroutine, Location, ProgramText, Progress, Status};
pub(crate) use context::{Context, RunStatus};
pub(crate) use deadline::Deadline;
pub(crate) use entry::{Body, Entry, entry};
pub(crate) use interpreter::{HoldsContext, Interpreter};
pub(crate) use limits::{OUT_OF_MEMORY, TABLE_WALK};
pub(crate) use locale::CLocale;
pub(crate) use pool::in_use;
pub(crate) use raising::COUNTED;
pub(crate) use stack::{GLOBALS, Kind, RegistryKey, State, upvalue};
