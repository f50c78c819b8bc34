//! Implements the C interface, whose functions are documented in `undercroft.h`.
//!
//! No panic crosses the C boundary (`border`). Every pointer from C is checked before use, and
//! closed handles are detected (`handle`). The string functions (`strings`) and the most frequently
//! used feed functions (`feed`) call the engine directly. Every other command runs through the
//! command table that all clients share (`session`), and its reply becomes a tree that C reads
//! (`reply`).
//!
//! - `border`: converts C arguments to Rust values, and results to a status.
//! - `channel`: the functions of channels.
//! - `feed`: the most frequently used feed functions.
//! - `feed_values`: the feed functions that identify items by value.
//! - `feed_words`: the feed functions that run one command each.
//! - `handle`: the objects that C programs refer to by address.
//! - `keys`: the functions for keys of any type.
//! - `objects`: the object functions, and the reading of messages of channels.
//! - `options`: options for opening a store and for setting a string.
//! - `race`: test hooks that change data during reads or panic.
//! - `reply`: replies as trees, in memory that is reused.
//! - `session`: commands, pipelines and transactions.
//! - `status`: the results of calls, and error messages.
//! - `store`: opening and closing stores.
//! - `strings`: the string functions.
//! - `subscription`: receivers of messages.
//! - `value`: access to the values of a reply.
//! - `waiting`: the program's callback, which can interrupt waits.

mod border;
mod channel;
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
