//! Manages scripts, function libraries, and the state of a running script.
//!
//! The interpreter is not part of this crate. The process supplies an interpreter
//! ([`Process::with_interpreter`](crate::context::Process::with_interpreter)), so that programs
//! that run no scripts are built without one. The interpreter runs on the thread that received the
//! command, within a single transaction.
//!
//! `context`, `handlers` and interpreters call this module.
//!
//! - `cache`: caches scripts in this process.
//! - `call`: defines the arguments, limits and outcomes of script calls.
//! - `library`: manages function libraries, and caches them in this process.
//! - `progress`: tracks the state of a running script.
//! - `running`: lists the slow functions that are running in this process.
//! - `script`: stores a script's text and the flags in its first line.
//! - `sha`: computes SHA-1 digests, which identify scripts in EVALSHA.
//! - `shebang`: finds the `#!` line of scripts and libraries.

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
