//! Accepts connections, and waits until sockets are ready. Used by `shared`, connections and
//! workers.
//!
//! - `listener`: listening sockets: TCP sockets, and a Unix socket that other users can never
//!   connect to.
//! - `poll`: a thread's epoll instance, and a way to wake the thread.

pub(crate) mod listener;
pub(crate) mod poll;
