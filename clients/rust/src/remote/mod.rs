//! Servers: connections, and caches on them.
//!
//! - `backoff`: pauses between attempts to connect.
//! - `blocking`: a connection whose caller waits.
//! - `commands`: the commands behind the trait's methods.
//! - `connection`: a connection that one caller has to itself at a time.
//! - `input`: bytes from a server, and the replies in them.
//! - `pipelined`: the cache on connections that all callers share.
//! - `pool`: connections that threads take turns with.
//! - `pooled`: the cache on connections that callers take turns with.
//! - `queue`: commands of many callers on one connection: in which order they were sent, and who waits for which reply.
//! - `receiver`: messages of channels from a server.
//! - `socket`: sockets of all kinds.
//! - `task`: the task of one connection that many callers share: it connects, writes, reads, and connects again.
//! - `tls`: TLS on a socket to a server.

mod backoff;
mod blocking;
mod commands;
mod connection;
mod input;
mod pipelined;
mod pool;
mod pooled;
mod queue;
mod receiver;
mod socket;
mod task;
#[cfg(feature = "tls")]
mod tls;

pub use pipelined::PipelinedCache;
pub use pool::Pool;
pub use pooled::PooledCache;
