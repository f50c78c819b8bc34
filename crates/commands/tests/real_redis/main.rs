//! Comparisons with a real redis-server 7.0 and redis-cli. Each is skipped with a printed note if
//! they are not installed.

#[path = "../support/alone.rs"]
mod alone;
mod arguments;
mod command;
mod config;
mod dump;
mod glob;
mod host;
mod info;
mod lcs;
mod number;
mod print;
mod support;
mod table;
