//! The mapped file: where things lie in it, and every access to its words.
//!
//! - `blocks`: copies of words, many bytes at once.
//! - `classes`: size classes of blocks.
//! - `fork_mutex`: the mutex of what a process keeps for itself, which a forked child finds open.
//! - `futex`: sleeping until a word changes, and waking.
//! - `layout`: where everything lies in the file.
//! - `lent`: values that a thread keeps from one call to the next.
//! - `mapping`: access to words, copies and comparisons, all of them checked.
//! - `overlay`: what words held before changes that are not finished.
//! - `platform`: the few system calls that the store needs.
//! - `words`: words that every transaction looks at, found and checked once.

mod blocks;
pub(crate) mod classes;
pub(crate) mod fork_mutex;
pub(crate) mod futex;
pub mod layout;
pub(crate) mod lent;
pub(crate) mod mapping;
pub(crate) mod overlay;
pub(crate) mod platform;
pub(crate) mod words;
