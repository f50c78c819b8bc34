//! Builds commands from Rust values, runs them, and converts their replies to Rust values.
//!
//! - `args`: the arguments of a command, and the types that can be arguments.
//! - `cmd`: a command under construction, and the types that run it.
//! - `from_reply`: the types that a reply can be converted to.
//! - `pipeline`: several commands that run together.
//! - `reply`: the replies of stores and servers.
//! - `script`: Lua scripts, which run by their digest.

mod args;
mod cmd;
mod from_reply;
mod pipeline;
mod reply;
mod script;

pub use args::{Args, ToArgs, ToSingleArg};
pub(crate) use cmd::sealed;
pub use cmd::{Cmd, ConnectionLike, cmd};
pub use from_reply::FromReply;
pub(crate) use pipeline::Batch;
pub use pipeline::{Pipeline, pipe};
pub use reply::Reply;
#[cfg(feature = "cluster")]
pub(crate) use reply::from_redis;
pub(crate) use reply::{from_tree, from_value, outcome};
#[cfg(feature = "async")]
pub(crate) use script::is_unknown;
pub use script::{Script, ScriptInvocation};
