//! The handle on a mapped store, from its creation to the end of its file.
//!
//! - `file`: creating and opening store files.
//! - `lost`: how a program of its own ends where its file is cut short.
//! - `recovery`: recovering all that a dead process left.
//! - `sync`: what of a store is on the disk.

pub(crate) mod file;
mod lost;
pub(crate) mod recovery;
mod sync;
