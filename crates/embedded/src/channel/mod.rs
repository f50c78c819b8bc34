//! Channels: bounded queues of messages between processes. `docs/channels.md` describes them.
//!
//! - `item`: the form of a message in the channel's list, and the reading of messages.
//! - `link`: a client's handle, which sends and receives items and waits for room or items.
//! - `values`: channels of bytes, text and arrays, whose long values are objects.
//! - `waiting`: how long a call waits, and whether it polls before it sleeps.

mod item;
mod link;
mod values;
mod waiting;

pub use item::{
    ChannelMessage, INLINE_MAX, NAME_ITEM, ShortItem, refuses, short_item, short_value,
};
pub use link::{ChannelError, ChannelLink, ChannelStore, HeldItem};
pub use values::{ChannelValue, HeldMessage, ValueChannel};
pub use waiting::ChannelPatience;
