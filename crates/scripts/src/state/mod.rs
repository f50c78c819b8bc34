//! Wraps a Lua state: the values on its stack, its errors and its limits. All other folders may use
//! this folder, which uses no other folder.
//!
//! - `calls`: wraps function and coroutine calls, the compiler, the hook and the garbage collector.
//! - `context`: stores an interpreter's state outside Lua.
//! - `deadline`: implements the deadline for compiling a program or loading a library.
//! - `entry`: wraps functions of this crate so that Lua can call them.
//! - `interpreter`: implements an interpreter, which owns a Lua state, and the calls that enter Lua
//!   from outside.
//! - `limits`: enforces the limits on a script's time and memory.
//! - `locale`: switches to the C locale while a script runs.
//! - `pool`: allocates an interpreter's memory.
//! - `raising`: raises errors in Redis' form.
//! - `stack`: defines a reference to a Lua state, and accesses the values on its stack.
//! - `tables`: accesses tables and the registry.
//! - `thread_stack`: limits the part of a thread's stack that a script can use.

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
