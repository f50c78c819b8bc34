//! Embeds a store in a program, for bindings in any language. A process maps each store once, and
//! each client runs commands as on a separate connection.
//!
//! - `by_name`: stores by name, so that calls survive the removal of the store's file.
//! - `channel`: bounded queues of messages between processes.
//! - `embedding`: the commands' interface to the process.
//! - `feed`: feed calls that copy items in the feed's own layout.
//! - `feed_buffer`: a thread-local buffer for feed items.
//! - `objects`: bytes and arrays that processes exchange.
//! - `open_store`: an open store with the state of its process, and its commands.
//! - `place`: finds a store by its name, and maps each file once per process.
//! - `taken`: records the items that a command removes, to restore them if they do not reach the
//!   caller.

mod by_name;
mod channel;
mod embedding;
mod feed;
mod feed_buffer;
mod objects;
mod open_store;
mod place;
mod taken;

pub use by_name::{Hook, SessionByName, StoreByName, removed_text};
pub use channel::{
    ChannelError, ChannelLink, ChannelMessage, ChannelPatience, ChannelStore, ChannelValue,
    Delivery, DeliveryError, HeldItem, INLINE_MAX, NAME_ITEM, ShortItem, ValueChannel, refuses,
    short_item, short_value,
};
pub use embedding::Embedding;
pub use feed::{FeedItems, FeedQuery};
pub use feed_buffer::with_feed_buffer;
pub use objects::{
    FoundObject, Object, ObjectHead, ObjectKind, new_object_id, object_key, object_letter,
};
pub use open_store::{Exclusive, OpenStore, Receiver, StoreOf, run_on};
pub use place::{OnRemoved, Place, durability_from_name};
pub use taken::{Taken, taking};
