//! The mapped file: where things lie in it, and every access to its words. Any folder may call it but `probes`.
//!
//! From the lowest file to the highest:
//!
//! - `layout`: where everything lies in the file.
//! - `classes`: size classes of blocks.
//! - `fingerprint`: whether two builds agree on the layout.
//! - `platform`: the few system calls that the store needs.
//! - `futex`: sleeping until a word changes, and waking.
//! - `map`: mappings of files and of memory.
//! - `fork_mutex`: the mutex of what a process keeps for itself, which a forked child finds open.
//! - `thread_cached`: values that a thread keeps from one call to the next.
//! - `words`: locks and other words with a meaning of their own.
//! - `blocks`: copies of words, many bytes at once.
//! - `overlay`: what words held before changes that are not finished.
//! - `mapping`: access to words, all of it checked.
//! - `reads`: copies out of the file, and comparisons.
//! - `copy_table`: pages that a copy of the store still needs are saved before they change.
//! - `stores`: stores into the file, and copies within it.
//! - `checked_place`: places that are checked once and read many times.
//! - `shard_words`: words that every transaction looks at, found and checked once.
//! - `overlaid`: a mapping that is read through an overlay.

mod blocks;
pub(crate) mod checked_place;
pub(crate) mod classes;
pub(crate) mod copy_table;
pub(crate) mod fingerprint;
pub(crate) mod fork_mutex;
pub(crate) mod futex;
pub mod layout;
pub(crate) mod map;
pub(crate) mod mapping;
pub(crate) mod overlaid;
pub(crate) mod overlay;
pub(crate) mod platform;
mod reads;
pub(crate) mod shard_words;
mod stores;
pub(crate) mod thread_cached;
pub(crate) mod words;
