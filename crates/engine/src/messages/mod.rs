//! Messages between clients of all processes: publishing, subscribing, and keyspace notifications.
//! The folders `waiting` (seats only) and `store` use this module.
//!
//! - `notify`: keyspace notifications.
//! - `parcel`: messages that are too long for a record of the message ring.
//! - `publish`: publishing messages.
//! - `receivers`: the subscribers of all processes.
//! - `seating`: a seat (a futex slot in the store) with its descriptor, on which a waiting thread
//!   sleeps.
//! - `subscriber`: receiving messages at the subscriber's own pace.
//! - `tracked_keys`: the keys of which a tracker finds the changes.
//! - `tracker`: reading the names of changed keys.
//! - `unsent`: messages and unsubscriptions that a lock delayed.
//! - `subscriptions`: the subscriptions of one subscriber, and the messages that match them.

mod notify;
pub(crate) mod parcel;
pub(crate) mod publish;
pub(crate) mod receivers;
pub(crate) mod seating;
pub(crate) mod subscriber;
mod subscriptions;
mod tracked_keys;
mod tracker;
pub(crate) mod unsent;

pub use subscriber::{Event, Message, Subscriber, Waiting};
pub use tracked_keys::TrackedKeys;
pub use tracker::Tracker;
pub use undercroft_memory::ChangedKey;

pub use crate::transaction::message::Topic;
