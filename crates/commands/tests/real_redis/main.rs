//! Compares Undercroft with a real redis-server 7.0 and redis-cli. If they are not installed, each
//! test prints a note and is skipped.

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
