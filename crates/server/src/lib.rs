//! Serves a store over the Redis protocol.
//!
//! A [`Server`] is a fixed number of threads, each with its own epoll loop. A connection belongs to one thread, which
//! reads its bytes, runs the commands in them right there and writes the replies: one read and one write for a whole
//! pipeline. Threads share nothing but the store and a few counters.
//!
//! No thread waits for a lock of the store longer than a millisecond (M6): where another process holds one, the
//! connection is parked and tried again, in order with the rest of its input, and others go on. A script that takes longer
//! than a few milliseconds is undone, and starts anew on a thread of its own.
//!
//! From the bottom up:
//!
//! - `error`, `log`: why a server does not start; lines on standard error.
//! - `sockets`: where connections come in, and when they are ready.
//! - `shared`: what all threads share.
//! - `connection`: one connection, and the commands in its input.
//! - `worker`: one thread: an event loop over its connections.
//! - `server`: starting and stopping.

mod connection;
mod error;
mod log;
mod server;
mod shared;
mod sockets;
mod worker;

pub use connection::writer::Writer;
pub use error::Error;
pub use log::log;
pub use server::{Handle, Options, Server, default_config};
pub use shared::store_change::Reopen;
