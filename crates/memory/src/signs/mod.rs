//! Words that processes leave in the file for one another, beside data and locks.
//!
//! - `changes`: modification counters: whether keys changed since somebody looked.
//! - `hints`: the hint table: when keys were last used.
//! - `mark`: marked shards, in which the dead may have left something.
//! - `turn`: whose turn it is to keep the store.

pub(crate) mod changes;
mod hints;
mod mark;
pub(crate) mod turn;
