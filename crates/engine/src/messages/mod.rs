//! Messages between clients of all processes: publishing, subscribing, and notifications of what becomes of keys. The
//! folders `waiting` (seats only) and `store` use it.
//!
//! - `notify`: keyspace notifications.
//! - `parcel`: messages that are longer than a record of the ring may be.
//! - `publish`: publishing messages.
//! - `receivers`: who is subscribed, over all processes.
//! - `seating`: a seat with its descriptor, where whoever waits is woken.
//! - `subscriber`: receiving messages, at the subscriber's own pace.
//! - `unsent`: messages and departures that a lock stood in the way of.
//! - `subscriptions`: what one subscriber is subscribed to, and which messages are for it.

mod notify;
pub(crate) mod parcel;
pub(crate) mod publish;
pub(crate) mod receivers;
pub(crate) mod seating;
pub(crate) mod subscriber;
mod subscriptions;
pub(crate) mod unsent;

pub use subscriber::{Event, Message, Subscriber, Waiting};

pub use crate::transaction::message::Topic;
