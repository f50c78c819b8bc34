//! The store file: creating and opening it, and operations on the entire store. No other module
//! calls it.
//!
//! From the lowest-level file to the highest:
//!
//! - `header_page`: builds the header page of a new store, and checks it when a store is opened.
//! - `recovery`: recovers from a dead process before its process table entry is reused.
//! - `opening`: creates and opens store files.
//! - `replay`: reads a journal's checkpoint and records.
//! - `journal_recovery`: recovers a store from its journal.
//! - `durable_opening`: opens stores that have a journal, and recovers them.
//! - `syncer`: the thread that syncs the journal and begins checkpoints.
//! - `sync`: writes a store to disk.
//! - `truncation`: how a program exits if its store's file is truncated.

pub(crate) mod durable_opening;
mod header_page;
pub(crate) mod journal_recovery;
pub(crate) mod opening;
mod recovery;
pub(crate) mod replay;
mod sync;
mod syncer;
mod truncation;
