//! Append-only files of Redis and Valkey: a manifest that names the files, and the commands in them.
//!
//! ```text
//! folder   = manifest, base, increments        (since Redis 7.0; before, a single file)
//! manifest = | file NAME seq NUMBER type b, i or h | ...   (base, increment, history)
//! base     = an RDB file, or commands
//! file     = an RDB file or nothing, then commands
//! command  = | *COUNT | $LENGTH | bytes | ... |            each followed by CR LF
//! ```
//!
//! - `manifest`: the list of a folder's files.
//! - `reader`: the commands in a file.

mod manifest;
mod reader;

pub use manifest::{Manifest, ManifestError};
pub use reader::{AofError, Replay, Tail, read_aof};
