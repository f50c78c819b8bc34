//! Serves a store over the Redis protocol.
//!
//! A [`Server`] is a fixed number of threads, each with its own epoll loop. A connection belongs to
//! one thread, which reads its bytes, runs the commands in them and writes the replies: one read
//! and one write for a whole pipeline. Threads share only the store and a few counters.
//!
//! No thread waits for a lock of the store longer than 1 ms (M6). If another process holds a lock,
//! the connection is parked and its command is retried, in order with the rest of its input, while
//! other connections continue. A script that takes longer than a few milliseconds is rolled back
//! and restarts on a separate thread.
//!
//! From the bottom up:
//!
//! - `error`, `log`: the error of a server that cannot start, and lines on standard error.
//! - `sockets`: accepting connections, and readiness of sockets.
//! - `shared`: the state that all threads share.
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
