//! The state that all threads of a server share. Used by connections and workers.
//!
//! - `host`: the server as commands see it.
//! - `hub`: messages from the store to the connections of one thread.
//! - `limits`: limits of connections: those of the configuration, and the number of open
//!   descriptors.
//! - `long_scripts`: scripts that start on a separate thread, because they are long by size or by
//!   history.
//! - `monitors`: lines for connections that use MONITOR.
//! - `registry`: all connections of the server, as seen by CLIENT LIST and CLIENT KILL on any
//!   thread.
//! - `state`: the threads, the store, the configuration.
//! - `store_change`: moving to another store while all threads are stopped.
//! - `totals`: statistics for INFO.

mod host;
pub(crate) mod hub;
pub(crate) mod limits;
pub(crate) mod long_scripts;
pub(crate) mod monitors;
pub(crate) mod registry;
pub(crate) mod state;
pub(crate) mod store_change;
pub(crate) mod totals;
