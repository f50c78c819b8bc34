//! Channels: bounded queues of messages between processes. `docs/channels.md` describes them.
//!
//! - `delivery`: a held message, which returns to its channel unless it is acknowledged.
//! - `item`: the form of a message in the channel's list, and the reading of messages.
//! - `link`: a client's handle, which sends and receives items and waits for room or items.
//! - `values`: channels of bytes, text and arrays, whose long values are objects.
//! - `waiting`: how long a call waits, and whether it polls before it sleeps.

mod delivery;
mod item;
mod link;
mod values;
mod waiting;

pub use delivery::{Delivery, DeliveryError};
pub use item::{
    ChannelMessage, INLINE_MAX, NAME_ITEM, ShortItem, refuses, short_item, short_value,
};
pub use link::{ChannelError, ChannelLink, ChannelStore, HeldItem};
pub use values::{ChannelValue, ValueChannel};
pub use waiting::ChannelPatience;
