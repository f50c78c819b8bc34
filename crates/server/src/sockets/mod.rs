//! Sockets: where connections come in, and when they are ready. `shared`, connections and workers use it.
//!
//! - `listener`: listening sockets: TCP addresses, and a unix socket that cannot be reached before it is ready.
//! - `poll`: readiness of sockets: one epoll instance for each thread, and a way to wake it.

pub(crate) mod listener;
pub(crate) mod poll;
