//! One thread's interpreter, and runs of scripts in it. The crate's root may call it.
//!
//! - `error_handler`: the handler of errors.
//! - `job`: the functions that run within Lua.
//! - `machine`: the interpreter.

mod error_handler;
mod job;
#[allow(clippy::module_inception)]
mod machine;
#[cfg(test)]
mod reachability_tests;

pub(crate) use machine::Machine;
