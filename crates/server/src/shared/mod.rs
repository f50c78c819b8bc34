//! Holds the state that all threads of a server share. Used by connections and workers.
//!
//! - `accounts`: connects the server to the users in its store.
//! - `exchange`: sends requests to other servers.
//! - `files`: the files that the server uses.
//! - `following`: the thread that follows a source.
//! - `forwarding`: sends commands that change a replica's keys to its source.
//! - `group_commit`: collects the requests of all threads to sync the journal.
//! - `host`: the server's interface for commands.
//! - `hub`: distributes messages from the store to the connections of one thread.
//! - `limits`: the limits of connections, including the number of open descriptors.
//! - `long_scripts`: predicts which scripts take long and start on a separate thread.
//! - `monitors`: passes lines to connections that use MONITOR.
//! - `registered`: all replicas, and the stream that they receive.
//! - `registry`: all connections of the server, for CLIENT LIST and CLIENT KILL.
//! - `replica`: a replica, as all threads see it.
//! - `replication`: the server's interface for commands about its replicas.
//! - `source`: follows a source with the server's configuration.
//! - `state`: the threads, the store and the configuration.
//! - `store_change`: switches to another store while all threads are stopped.
//! - `totals`: the statistics of INFO.
//! - `tracking`: tells connections which keys have changed.

mod accounts;
mod exchange;
pub(crate) mod files;
pub(crate) mod following;
pub(crate) mod forwarding;
pub(crate) mod group_commit;
pub(crate) mod host;
pub(crate) mod hub;
pub(crate) mod limits;
pub(crate) mod long_scripts;
pub(crate) mod monitors;
pub(crate) mod registered;
pub(crate) mod registry;
pub(crate) mod replica;
pub(crate) mod replication;
mod source;
pub(crate) mod state;
pub(crate) mod store_change;
pub(crate) mod totals;
pub(crate) mod tracking;
