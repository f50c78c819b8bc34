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
//! - `apart`: scripts that take long: each on a thread of its own, so that other connections go on.
//! - `blocked`: connections of one thread whose command waits for keys.
//! - `change`: changing to the store that the name means now, where the file of the served one was removed or replaced.
//! - `connection`: one connection: its buffers, and running the commands in them.
//! - `error`: why a server does not start.
//! - `host`: the server as commands see it.
//! - `hub`: messages on their way from the store to the connections of one thread.
//! - `incoming`: a long value on its way from a socket straight into the store.
//! - `limits`: what connections may take: limits that the configuration sets, and open descriptors.
//! - `listener`: listening sockets: TCP addresses, and a unix socket that nobody else can reach before it is ready.
//! - `log`: the server's log: lines on standard error.
//! - `long`: scripts that begin on a thread of their own, as they are long by size or by history.
//! - `monitors`: lines for connections that MONITOR.
//! - `output`: replies on their way to a client, and the memory that they wait in.
//! - `poll`: readiness of sockets: one epoll instance for each thread, and a way to wake it.
//! - `registry`: every connection of the server, as CLIENT LIST and CLIENT KILL see it from any thread.
//! - `server`: starting and stopping.
//! - `shared`: what all threads of a server share.
//! - `turn`: one turn of a connection: the commands in its input, parsed and run.
//! - `upkeep`: what the first thread does a few times a second for the store and for INFO.
//! - `worker`: one thread: an event loop that runs commands right where their bytes arrive.
//! - `writer`: replies as bytes of the protocol, appended to a connection's output.

mod apart;
mod blocked;
mod change;
mod connection;
mod error;
mod host;
mod hub;
mod incoming;
mod limits;
mod listener;
mod log;
mod long;
mod monitors;
mod output;
mod poll;
mod registry;
mod server;
mod shared;
mod turn;
mod upkeep;
mod worker;
mod writer;

pub use change::Reopen;
pub use error::Error;
pub use log::log;
pub use server::{Handle, Options, Server, default_config};
pub use writer::Writer;
