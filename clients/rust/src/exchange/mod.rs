//! Values that processes pass to each other without copying long ones.
//!
//! - `channel`: bounded queues between processes.
//! - `objects`: bytes and arrays that processes exchange by id.
//! - `remote`: channels on a server.

mod channel;
mod objects;
mod remote;

pub use channel::{Channel, ChannelMessage, ChannelValue, Delivery};
pub use objects::{Object, ObjectKind, Objects};
