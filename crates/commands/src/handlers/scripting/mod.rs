//! Scripts and functions. The interpreter that the process brings along runs them; a build without it knows the scripts
//! of redis-py's locks only. `execute` calls them, and `server` counts functions.
//!
//! - `call`: the keys and arguments that a script is called with.
//! - `calls`: the commands that a script runs, and when it has to end.
//! - `evaluate`: EVAL and its like, and SCRIPT.
//! - `flags`: which scripts may be run or queued, and what they say of themselves.
//! - `functions`: libraries of functions, and calls of these.
//! - `locks`: the scripts of redis-py's locks.
//! - `run`: scripts of any text, which the interpreter of the process runs.

mod call;
mod calls;
pub(crate) mod evaluate;
mod flags;
pub(crate) mod functions;
mod locks;
mod run;

pub(crate) use flags::{admit, flags};
pub(crate) use functions::count as function_count;
