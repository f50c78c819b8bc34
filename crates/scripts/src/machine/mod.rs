//! Implements a thread's interpreter, and runs scripts in it. Used by the crate's root.
//!
//! - `error_handler`: converts errors to tables with a message and a location.
//! - `job`: implements the jobs that run inside Lua.
//! - `machine`: implements the interpreter.

mod error_handler;
mod job;
#[allow(clippy::module_inception)]
mod machine;
#[cfg(test)]
mod reachability_tests;

pub(crate) use machine::Machine;
