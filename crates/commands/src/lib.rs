//! The Redis commands: arguments in, engine calls, reply out.
//!
//! [`table`] names every command once and says how it is called; a handler parses its [`arguments`], works on the
//! store, and writes to a [`reply::Reply`], whoever reads it. [`session`] holds what a connection remembers, and
//! [`host`] is how commands reach the process around them.

pub mod arguments;
pub mod config;
mod double;
pub mod dump;
mod execute;
mod geohash;
pub mod handler;
mod handlers;
pub mod host;
pub mod hyperloglog;
pub mod info;
pub mod lcs;
mod load;
mod lzf;
mod monitor;
mod multi;
pub mod number;
mod partial_sort;
pub mod pause;
pub mod print;
pub mod reply;
pub mod session;
pub mod slowlog;
pub mod statistics;
pub mod subscriptions;
pub mod table;
mod tape;
pub mod wait;

pub use execute::execute;
pub use handler::{Blocked, Context};
pub use undercroft_engine::glob;
