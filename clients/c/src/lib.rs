//! The C interface. `undercroft.h` documents every function, and this crate implements them.
//!
//! No panic crosses the C boundary (`border`). Every pointer from C is checked before use, and a
//! closed handle is recognized (`handle`). The string calls (`strings`) and the hot feed calls
//! (`feed`) work on the store directly. Every other command runs through the shared command table
//! (`session`), and its reply becomes a tree that C reads (`reply`).
//!
//! - `border`: conversions from C arguments, and from results to a status.
//! - `feed`: the most frequently used feed calls.
//! - `feed_values`: the feed calls that identify items by value.
//! - `feed_words`: the feed calls that run one command each.
//! - `handle`: the objects that C programs hold.
//! - `keys`: the calls on keys of any type.
//! - `objects`: the calls on objects.
//! - `options`: options for opening a store and for setting a string.
//! - `race`: changes during reads, and a panic, only in test builds.
//! - `reply`: replies as trees, in reused memory.
//! - `session`: commands, pipelines and transactions.
//! - `status`: the results of calls, and error messages.
//! - `store`: opening and closing stores.
//! - `strings`: the calls on strings.
//! - `subscription`: receiving messages.
//! - `value`: access to the values of a reply.
//! - `waiting`: how a thread waits, and what interrupts a wait.

mod border;
mod feed;
mod feed_values;
mod feed_words;
mod handle;
mod keys;
mod objects;
mod options;
#[cfg(feature = "races")]
mod race;
mod reply;
mod session;
mod status;
mod store;
mod strings;
mod subscription;
mod value;
mod waiting;
