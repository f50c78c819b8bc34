//! Scripts and functions. The interpreter of the process runs them. A build without an interpreter
//! knows only the scripts of redis-py's locks. `execute` calls these handlers, and `server` counts
//! functions.
//!
//! - `call`: the keys and arguments of a script call.
//! - `calls`: the commands that a script runs, and the conditions that end the script.
//! - `evaluate`: EVAL, EVALSHA, their read-only variants, and SCRIPT.
//! - `flags`: admission checks for scripts, and the flags that scripts and functions declare.
//! - `functions`: libraries of functions, and function calls.
//! - `locks`: the scripts of redis-py's locks.
//! - `run`: scripts that the interpreter runs, each in one transaction.

mod call;
mod calls;
pub(crate) mod evaluate;
mod flags;
pub(crate) mod functions;
mod locks;
mod run;

pub(crate) use flags::{admit, flags};
pub(crate) use functions::count as function_count;
