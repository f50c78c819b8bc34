//! Implements the subcommands. Only `lib.rs` calls this module.
//!
//! - `durability`: implements the subcommands `durability` and `checkpoint`.
//! - `check`, `exec`, `export`, `import`, `recover`, `serve`, `stat`, `sync`: implement the
//!   subcommand of the same name.
//! - `stat_json`: formats the statistics of `stat` as JSON.
//! - `stores`: implements the subcommands `list` and `rm`.

pub(crate) mod check;
pub(crate) mod durability;
pub(crate) mod exec;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod recover;
pub(crate) mod serve;
pub(crate) mod stat;
mod stat_json;
pub(crate) mod stores;
pub(crate) mod sync;
