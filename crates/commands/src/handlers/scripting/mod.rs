//! Implements scripts and functions, which run in the process's interpreter. A build without an
//! interpreter supports only the scripts that redis-py's locks use. `execute` calls the handlers,
//! and `server` counts functions.
//!
//! - `call`: stores the keys and arguments of a script call.
//! - `calls`: runs the commands that a script calls, and checks the conditions that stop the
//!   script.
//! - `evaluate`: implements EVAL and EVALSHA, their read-only variants, and SCRIPT.
//! - `flags`: decides whether scripts are admitted, and finds the flags that they declare.
//! - `functions`: implements function libraries and function calls.
//! - `locks`: implements the scripts that redis-py's locks use.
//! - `run`: runs scripts in the interpreter, each in a single transaction.

mod call;
mod calls;
pub(crate) mod evaluate;
mod flags;
pub(crate) mod functions;
mod locks;
mod run;

pub(crate) use flags::{admit, flags};
pub(crate) use functions::count as function_count;
