//! The file of a store: creating and opening it, and operations on the whole store. No other folder
//! calls it.
//!
//! From the lowest-level file to the highest:
//!
//! - `header_page`: the header page, at creation and when a store is opened.
//! - `recovery`: recovering all that a dead process left, before its entry is reused.
//! - `opening`: creating and opening store files.
//! - `sync`: writing a store to disk.
//! - `truncation`: how a program ends when its store's file is truncated.

mod header_page;
pub(crate) mod opening;
mod recovery;
mod sync;
mod truncation;
