//! Scripts: their texts, the libraries of functions, and the state of a script run.
//!
//! The interpreter is not part of this crate. The process supplies it
//! ([`Process::with_interpreter`](crate::context::Process::with_interpreter)), so that a program
//! that needs none builds without it. It runs on the thread that sent the command, within one
//! transaction.
//!
//! `context`, `handlers` and interpreters call this module.
//!
//! - `cache`: the scripts that this process has cached.
//! - `call`: the arguments, limits and outcomes of a script call.
//! - `library`: libraries of functions, and their cache in this process.
//! - `progress`: the state of one script run.
//! - `running`: the slow functions that run in this process.
//! - `script`: a script's text, and the flags in its first line.
//! - `sha`: SHA-1 digests, which identify scripts in EVALSHA.
//! - `shebang`: the `#!` line of scripts and libraries.

mod cache;
mod call;
mod library;
mod progress;
mod running;
mod script;
mod sha;
mod shebang;

pub(crate) use cache::ScriptCache;
pub(crate) use call::busy;
pub use call::{CallError, ScriptArguments, ScriptError, ScriptLimits};
pub use library::{FunctionFlags, LibraryFunction, is_name};
pub(crate) use library::{Libraries, Library, LibraryCache, name_and_start, new_mark};
pub(crate) use progress::{Permissions, RunClock, ScriptRun};
pub(crate) use running::RunningFunctions;
pub use script::{Script, ScriptFlags};
pub use sha::{IncrementalSha, Sha, ShaBuildHasher, ShaHasher, ShaMap};
