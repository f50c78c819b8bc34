//! The file of a store: creating and opening it, and what concerns all of it. No other folder calls it.
//!
//! From the lowest file to the highest:
//!
//! - `header_page`: the header page, at creation and when a store is opened.
//! - `recovery`: recovering all that a dead process left, before its entry is used anew.
//! - `opening`: creating and opening store files.
//! - `sync`: what of a store is on the disk.
//! - `truncation`: how a program ends whose store's file is cut short.

mod header_page;
pub(crate) mod opening;
mod recovery;
mod sync;
mod truncation;
