//! Accepting connections, and readiness of sockets. Used by `shared`, connections and workers.
//!
//! - `listener`: listening sockets: TCP addresses, and a unix socket that no other user can reach
//!   before it is ready.
//! - `poll`: readiness of sockets: one epoll instance for each thread, and a way to wake it.

pub(crate) mod listener;
pub(crate) mod poll;
