//! Builds commands from Rust values, runs them, and converts their replies to Rust values.
//!
//! - `args`: the arguments of a command, and the types that can be arguments.
//! - `cmd`: a command under construction, and the types that run it.
//! - `from_reply`: the types that a reply can be converted to.
//! - `reply`: the replies of stores and servers.

mod args;
mod cmd;
mod from_reply;
mod reply;

pub use args::{Args, ToArgs, ToSingleArg};
pub(crate) use cmd::sealed;
pub use cmd::{Cmd, ConnectionLike, cmd};
pub use from_reply::FromReply;
pub use reply::Reply;
#[cfg(feature = "cluster")]
pub(crate) use reply::from_redis;
pub(crate) use reply::{from_tree, from_value, outcome};
