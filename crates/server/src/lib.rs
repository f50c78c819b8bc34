//! Serves a store over the Redis protocol.
//!
//! A [`Server`] is a fixed number of threads, each with its own epoll loop. A connection belongs to one thread, which
//! reads its bytes, runs the commands in them right there and writes the replies: one read and one write for a whole
//! pipeline. Threads share nothing but the store and a few counters.
//!
//! No thread waits for a lock of the store longer than a millisecond (M6): where another process holds one, the
//! connection is parked and tried again, in order with the rest of its input, and others go on.

mod blocked;
mod connection;
mod error;
mod host;
mod hub;
mod limits;
mod listener;
mod log;
mod monitors;
mod poll;
mod registry;
mod server;
mod shared;
mod turn;
mod upkeep;
mod worker;
mod writer;

pub use error::Error;
pub use log::log;
pub use server::{Handle, Options, Server, default_config};
