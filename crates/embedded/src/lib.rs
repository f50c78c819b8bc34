//! What every program that embeds a store needs, whatever its language: the store, opened once in a process, and
//! commands that run as on a connection of their own.
//!
//! - `by_name`: the store that a name means, also after its file was removed or replaced.
//! - `embedding`: the process as commands see it.
//! - `feed`: items of feeds that go in and out as they lie there.
//! - `feed_buffer`: a buffer for each thread, for such items.
//! - `objects`: objects, as those languages read and write them that know bytes and arrays.
//! - `open_store`: a store with what belongs to the process around it, and commands on it.
//! - `place`: finding a store by its name; one mapping of each file in a process.
//! - `taken`: what a command took out of the store, to be given back where its caller does not get it.

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
