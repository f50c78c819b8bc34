//! Serves a store over the Redis protocol.
//!
//! A [`Server`] is a fixed number of threads, each with its own epoll loop. A connection belongs to
//! one thread, which reads its bytes, runs the commands in them and writes the replies. A pipeline
//! takes one read and one write. Threads share only the store and a few counters.
//!
//! No thread waits for a store lock longer than 1 ms (M6). If another process holds a lock, the
//! connection is parked: its command is retried later, before the rest of its input, while other
//! connections continue. A script that takes longer than a few milliseconds is rolled back and
//! restarted on a separate thread.
//!
//! The modules, from the lowest layer up:
//!
//! - `error`: the error that prevents a server from starting or continuing.
//! - `log`: the log on standard error.
//! - `sockets`: accepts connections, and waits until sockets are ready.
//! - `shared`: the state that all threads share.
//! - `replicas`: sends all changes to other servers.
//! - `connection`: a connection, and the commands in its input.
//! - `worker`: a thread, which runs an event loop over its connections.
//! - `server`: starts and stops the server.

mod connection;
mod error;
mod log;
mod replicas;
mod server;
mod shared;
mod sockets;
mod worker;

pub use connection::writer::Writer;
pub use error::Error;
pub use log::log;
pub use server::{Handle, Inherited, Options, Server, default_config};
pub use shared::store_change::Reopen;
pub use sockets::certificates::certificate_seconds_left;
// For the fuzz targets only.
#[doc(hidden)]
pub use sockets::transport::{Received, Transport};
