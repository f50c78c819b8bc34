//! The C interface. `undercroft.h` documents every function; here is what they do.
//!
//! No panic crosses the border (`border`), every pointer that C gives is looked at before it is used, and a handle that
//! was closed is known as such (`handle`). The calls on strings (`strings`), and the hot ones on feeds (`feed`), work on
//! the store directly; every other command goes through the one command table (`session`), and its reply becomes a tree
//! that C reads (`reply`).
//!
//! - `border`: from C's arguments to ours, and back to a status.
//! - `feed`: the calls on feeds.
//! - `feed_values`: those of them that name items by their values.
//! - `feed_words`: those of them that are one command each, by its words.
//! - `handle`: what C holds of ours.
//! - `keys`: the calls on keys whatever they hold.
//! - `objects`: the calls on objects.
//! - `options`: what C may say when it opens a store or sets a string.
//! - `race`: changes in the midst of reads, and a panic, only in a build for tests.
//! - `reply`: replies as trees, in memory that is used again.
//! - `session`: commands by their words, pipelines, transactions.
//! - `status`: how calls end, and the words about it.
//! - `store`: opening and closing.
//! - `strings`: the calls on strings.
//! - `subscription`: receiving messages.
//! - `value`: what C reads of a reply.
//! - `waiting`: how a thread waits, and what interrupts it.

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
