//! Implements the subcommands. Only `lib.rs` calls this module.
//!
//! - `doctor`: implements the subcommand `doctor`.
//! - `durability`: implements the subcommands `durability` and `checkpoint`.
//! - `check`, `exec`, `follow`, `recover`, `serve`, `stat`, `sync`: implement the
//!   subcommand of the same name.
//! - `export`, `import`: implement the subcommand of the same name, for each kind of file.
//! - `journal`: implements the subcommand `journal`, except for `journal dump`.
//! - `journal_dump`: implements `journal dump`.
//! - `moment`: parses and formats times.
//! - `point_in_time`: recovers a store as it was at an earlier time, for `recover`.
//! - `promote`: implements `follow --promote`.
//! - `stat_json`: formats the statistics of `stat` as JSON.
//! - `stores`: implements the subcommands `list` and `rm`.
//! - `tls`: implements the subcommand `tls`.

pub(crate) mod check;
pub(crate) mod doctor;
pub(crate) mod durability;
pub(crate) mod exec;
pub(crate) mod export;
pub(crate) mod follow;
pub(crate) mod import;
pub(crate) mod journal;
mod journal_dump;
mod moment;
mod point_in_time;
mod promote;
pub(crate) mod recover;
pub(crate) mod serve;
pub(crate) mod stat;
mod stat_json;
pub(crate) mod stores;
pub(crate) mod sync;
pub(crate) mod tls;
