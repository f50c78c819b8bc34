//! Scripts: their texts, the libraries of functions, and what one run of a script is about.
//!
//! The interpreter is no part of this crate: the process brings it along
//! ([`Process::with_interpreter`](crate::context::Process::with_interpreter)), so that a program that needs none builds
//! without it. It runs in the thread that sent the command, within one transaction.
//!
//! `context` and `handlers` call it, and so do interpreters.
//!
//! - `cache`: the scripts that this process knows.
//! - `call`: what a script is called with, within which limits, and how it ends.
//! - `library`: libraries of functions, and those that this process knows.
//! - `progress`: one run of a script.
//! - `running`: the functions of this process that take long.
//! - `script`: a script's text, and what its first line says of it.
//! - `sha`: SHA-1s, by which EVALSHA calls scripts.
//! - `shebang`: the first line of scripts and libraries.

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
