//! Accepts connections, and waits until sockets are ready. Used by `shared`, connections and
//! workers.
//!
//! - `certificates`: the TLS configuration, from the files that the parameters name.
//! - `listener`: listening sockets: TCP sockets, and a Unix socket that other users can never
//!   connect to.
//! - `poll`: a thread's epoll instance, and a way to wake the thread.
//! - `proxy`: reads the header by which a proxy announces the address of a client.
//! - `transport`: the socket of a connection, with TLS or without it.

pub(crate) mod certificates;
pub(crate) mod listener;
pub(crate) mod poll;
pub(crate) mod proxy;
pub(crate) mod transport;
