//! Servers: connections, and caches on them.
//!
//! - `backoff`: pauses between attempts to connect.
//! - `blocking`: a connection whose caller waits.
//! - `cluster`: the cache on a cluster of servers.
//! - `commands`: the commands behind the trait's methods.
//! - `connection`: a connection that one caller has to itself at a time.
//! - `input`: bytes from a server, and the replies in them.
//! - `messages`: messages of channels for threads.
//! - `models`: the queue under every order of its callers' and its connection's steps that shuttle chooses.
//! - `lease`: leases on a server.
//! - `pipelined`: the cache on connections that all callers share.
//! - `pool`: connections that threads take turns with.
//! - `pool_leases`: leases of a pool's threads: who computes a value that is missing on the server.
//! - `pooled`: the cache on connections that callers take turns with.
//! - `queue`: commands of many callers on one connection: in which order they were sent, and who waits for which reply.
//! - `receiver`: messages of channels from a server.
//! - `socket`: sockets of all kinds.
//! - `task`: the task of one connection that many callers share: it connects, writes, reads, and connects again.
//! - `tls`: TLS on a socket to a server.

mod backoff;
mod blocking;
#[cfg(feature = "cluster")]
mod cluster;
mod commands;
mod connection;
mod input;
mod lease;
mod messages;
#[cfg(test)]
mod models;
mod pipelined;
mod pool;
mod pool_leases;
mod pooled;
mod queue;
mod receiver;
mod socket;
mod task;
#[cfg(feature = "tls")]
mod tls;

/// What the queue is locked by; its models have another one.
mod sync {
    pub(crate) use std::sync::{Mutex, MutexGuard};
}

#[cfg(feature = "cluster")]
pub use cluster::ClusterCache;
pub use messages::Messages;
pub use pipelined::PipelinedCache;
pub use pool::Pool;
pub use pooled::PooledCache;
