//! The mapped file: where things lie in it, and every access to its words.
//!
//! - `blocks`: copies of words, many bytes at once.
//! - `classes`: size classes of blocks.
//! - `futex`: sleeping until a word changes, and waking.
//! - `layout`: where everything lies in the file.
//! - `mapping`: access to words, copies and comparisons, all of them checked.
//! - `overlay`: what words held before changes that are not finished.
//! - `platform`: the few system calls that the store needs.
//! - `words`: words that every transaction looks at, found and checked once.

mod blocks;
pub(crate) mod classes;
pub(crate) mod futex;
pub mod layout;
pub(crate) mod mapping;
pub(crate) mod overlay;
pub(crate) mod platform;
pub(crate) mod words;
