//! What all threads of a server share. Connections and workers use it.
//!
//! - `host`: the server as commands see it.
//! - `hub`: messages on their way from the store to the connections of one thread.
//! - `limits`: what connections may take: limits that the configuration sets, and open descriptors.
//! - `long_scripts`: scripts that begin on a thread of their own, as they are long by size or by history.
//! - `monitors`: lines for connections that MONITOR.
//! - `registry`: every connection of the server, as CLIENT LIST and CLIENT KILL see it from any thread.
//! - `state`: the threads, the store, the configuration.
//! - `store_change`: changing to another store, with all threads stopped.
//! - `totals`: figures for INFO.

mod host;
pub(crate) mod hub;
pub(crate) mod limits;
pub(crate) mod long_scripts;
pub(crate) mod monitors;
pub(crate) mod registry;
pub(crate) mod state;
pub(crate) mod store_change;
pub(crate) mod totals;
