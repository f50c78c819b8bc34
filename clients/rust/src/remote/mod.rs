//! Implements connections to servers, and caches on them.
//!
//! - `backoff`: pauses between attempts to connect.
//! - `blocking`: a connection with blocking calls.
//! - `both`: what blocking and async connections have in common.
//! - `cluster`: the cache on a Redis Cluster.
//! - `commands`: the commands that implement the methods of the cache trait.
//! - `connection`: a connection that one caller at a time uses exclusively.
//! - `input`: the receive buffer of a connection, and the parsing of replies in it.
//! - `messages`: subscriptions with blocking calls, for threads.
//! - `models`: tests of the queue with the thread schedules that shuttle generates.
//! - `lease`: leases on a server.
//! - `pipelined`: the cache whose connections are shared by all callers.
//! - `pool`: a pool of connections for threads.
//! - `pool_leases`: leases for the threads of a pool.
//! - `pooled`: the cache on a pool of connections.
//! - `queue`: the commands of many callers on one connection, and the matching of replies to
//!   callers.
//! - `receiver`: subscriptions on a server.
//! - `socket`: TCP, Unix and TLS sockets.
//! - `task`: the task of a shared connection, which connects, writes, reads and reconnects.
//! - `tls`: the TLS handshake on a socket.

mod backoff;
mod blocking;
mod both;
#[cfg(feature = "cluster")]
mod cluster;
mod commands;
#[cfg(feature = "async")]
mod connection;
mod input;
#[cfg(feature = "async")]
mod lease;
mod messages;
#[cfg(all(test, feature = "async"))]
mod models;
#[cfg(feature = "async")]
mod pipelined;
mod pool;
mod pool_leases;
#[cfg(feature = "async")]
mod pooled;
#[cfg(feature = "async")]
mod queue;
#[cfg(feature = "async")]
mod receiver;
#[cfg(feature = "async")]
mod socket;
#[cfg(feature = "async")]
mod task;
#[cfg(feature = "tls")]
mod tls;

/// The queue's mutex. The models replace it with shuttle's mutex.
#[cfg(feature = "async")]
mod sync {
    pub(crate) use std::sync::{Mutex, MutexGuard};
}

#[cfg(feature = "cluster")]
pub use cluster::ClusterCache;
pub(crate) use commands::SetWords;
#[cfg(feature = "async")]
pub(crate) use commands::shared;
pub use messages::Messages;
#[cfg(feature = "async")]
pub use pipelined::PipelinedCache;
pub use pool::Pool;
#[cfg(feature = "async")]
pub use pooled::PooledCache;
