//! Lua's state: values on its stack, errors, and what a script may take. Every other folder may call it; it calls none.
//!
//! - `context`: what an interpreter has in addition to Lua's state.
//! - `deadline`: until when a program may be compiled.
//! - `limits`: when a script has to end, and what it may take.
//! - `locale`: the locale in which scripts run.
//! - `pool`: memory of an interpreter.
//! - `raise`: errors, as Redis makes them.
//! - `stack`: values on Lua's stack.
//! - `thread_stack`: what a script may take of its thread's stack.

pub(crate) mod context;
mod deadline;
pub(crate) mod limits;
pub(crate) mod locale;
pub(crate) mod pool;
pub(crate) mod raise;
pub(crate) mod stack;
mod thread_stack;

pub(crate) use deadline::Deadline;
