//! The parts that every program with an embedded store needs, in any language: the store, mapped
//! once in a process, and commands that run as on a separate connection.
//!
//! - `by_name`: stores by name, which survive the removal of the store's file.
//! - `embedding`: the process as commands see it.
//! - `feed`: items of feeds, copied in the feed's own layout.
//! - `feed_buffer`: a buffer for each thread that holds items of feeds.
//! - `objects`: objects, for languages that exchange bytes and arrays.
//! - `open_store`: an open store with the state of its process, and commands on it.
//! - `place`: finding a store by its name, with one mapping of each file in a process.
//! - `taken`: the items that a command removed from the store, to restore them if they do not reach
//!   the caller.

mod by_name;
mod embedding;
mod feed;
mod feed_buffer;
mod objects;
mod open_store;
mod place;
mod taken;

pub use by_name::{Hook, SessionByName, StoreByName, removed_text};
pub use embedding::Embedding;
pub use feed::{FeedItems, FeedQuery};
pub use feed_buffer::with_feed_buffer;
pub use objects::{FoundObject, Object, ObjectHead, ObjectKind, object_key, object_letter};
pub use open_store::{Exclusive, OpenStore, Receiver, StoreOf, run_on};
pub use place::{OnRemoved, Place};
pub use taken::{Taken, taking};
