//! The subcommands. Only `lib.rs` calls this folder.
//!
//! - `check`, `exec`, `export`, `import`, `recover`, `serve`, `stat`, `sync`: one subcommand each.
//! - `stat_json`: the figures of `stat` as JSON.
//! - `stores`: the subcommands `list` and `rm`.

pub(crate) mod check;
pub(crate) mod exec;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod recover;
pub(crate) mod serve;
pub(crate) mod stat;
mod stat_json;
pub(crate) mod stores;
pub(crate) mod sync;
