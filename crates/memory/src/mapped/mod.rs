//! The mapped file: its layout and every access to its words. All other modules except `probes` may
//! use it.
//!
//! From the lowest-level file to the highest:
//!
//! - `layout`: the offsets and sizes of everything in the file.
//! - `classes`: the size classes of blocks.
//! - `fingerprint`: a hash that shows whether two builds use the same layout.
//! - `platform`: the few system calls that the store needs.
//! - `disk`: the operations on journal files, which tests replace.
//! - `futex`: sleeping until a word changes, and waking sleeping threads.
//! - `map`: mappings of files and of memory.
//! - `fork_mutex`: a mutex for process-private state that never stays locked in a forked child.
//! - `thread_cached`: values that a thread caches between calls.
//! - `words`: locks and other words with a special meaning.
//! - `blocks`: bulk copies of words.
//! - `overlay`: the old values of words that unfinished changes have modified.
//! - `mapping`: bounds-checked access to words.
//! - `reads`: copies out of the file, and comparisons.
//! - `copy_table`: saves pages that a copy of the store still needs, before they change.
//! - `stores`: stores into the file, and copies within it.
//! - `checked_place`: offsets that are checked once and read many times.
//! - `shard_words`: the words that every transaction uses, located and checked once.
//! - `overlaid`: a mapping that reads through an overlay.

mod blocks;
pub(crate) mod checked_place;
pub(crate) mod classes;
pub(crate) mod copy_table;
pub(crate) mod disk;
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
