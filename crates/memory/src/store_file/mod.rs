//! The store file: creating and opening it, and operations on the entire store. Only `recovering`
//! calls it.
//!
//! From the lowest-level file to the highest:
//!
//! - `header_page`: builds the header page of a new store, and checks it when a store is opened.
//! - `recovery`: recovers from a dead process before its process table entry is reused.
//! - `opening`: creates and opens store files.
//! - `syncer`: the thread that syncs the journal and begins checkpoints.
//! - `sync`: writes a store to disk.
//! - `truncation`: how a program exits if its store's file is truncated.

pub(crate) mod header_page;
pub(crate) mod opening;
mod recovery;
mod sync;
mod syncer;
mod truncation;
