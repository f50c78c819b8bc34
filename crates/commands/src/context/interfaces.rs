//! Defines the traits through which commands call the host process, which is a server or a program
//! that embeds the store.
//!
//! Commands do not access sockets directly. CLIENT, CONFIG, SLOWLOG, INFO and SHUTDOWN call these
//! traits instead.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use undercroft_engine::messages::Topic;
use undercroft_engine::waiting::{WaitOutcome, Wanted};
use undercroft_engine::{Access, Error, Store};

use crate::arguments::is_keyword;
use crate::config::{Parameter, Value};
use crate::protocol::Protocol;
use crate::reply::Tree;
use crate::session::{ClientInfo, KillFilter, Moment, Session, Tracking};

/// Commands for the source of a replica.
#[derive(Clone, Debug)]
pub struct ForwardedRequest {
    /// The commands, each a name and arguments.
    pub commands: Vec<Vec<Vec<u8>>>,
    /// A key of the commands, which selects the master of a cluster.
    pub key: Option<Vec<u8>>,
    /// The database in which the commands run.
    pub database: usize,
    /// The version of the protocol of the reply.
    pub protocol: Protocol,
}

impl ForwardedRequest {
    /// Returns whether the commands can select another database.
    pub fn selects(&self) -> bool {
        let mut names = self.commands.iter().filter_map(|words| words.first());
        names.any(|name| is_keyword(name, "SELECT"))
    }
}

/// The clients connected to a process, and their authentication. The default implementations suit a
/// process that has no connections.
pub trait Connections: Send + Sync {
    /// Returns all connections, oldest first. Takes time proportional to the number of connections.
    fn clients(&self) -> Vec<ClientInfo> {
        Vec::new()
    }

    /// Reports that the users in the store have changed, so that connections whose user was deleted
    /// are closed.
    fn change_users(&self) {}

    /// Reports that a connection has failed to log in.
    fn fail_login(&self, session: &Session) {
        let _ = session;
    }

    /// Returns how long a login must wait, because earlier logins from the same address have failed.
    fn login_delay(&self, session: &Session) -> Option<Duration> {
        let _ = session;
        None
    }

    /// Suspends either all commands or only writes, on all connections, until a time in Unix
    /// milliseconds.
    ///
    /// # Errors
    /// Returns the complete error reply, including its code, if the process has no connections.
    fn pause(&self, until: i64, all: bool) -> Result<(), String> {
        let _ = (until, all);
        Err("ERR CLIENT PAUSE needs a server: the store is embedded in this process".to_owned())
    }

    /// Resumes suspended commands.
    fn unpause(&self) {}

    /// Closes the matching connections and returns how many were closed. If the caller's own
    /// connection matches, a flag in its session closes it instead.
    fn kill(&self, filter: &KillFilter) -> usize {
        let _ = filter;
        0
    }

    /// Reports that a connection was closed because the client speaks HTTP.
    fn suspect(&self, session: &Session) {
        let _ = session;
    }

    /// Returns whether any connection is in MONITOR mode.
    fn is_monitored(&self) -> bool {
        false
    }

    /// Puts a connection into MONITOR mode, in which it receives every command.
    ///
    /// # Errors
    /// Returns the complete error reply, including its code, if the process has no connections.
    fn monitor(&self, session: &Session) -> Result<(), String> {
        let _ = session;
        Err("ERR MONITOR needs a server: the store is embedded in this process".to_owned())
    }

    /// Ends a connection's MONITOR mode.
    fn end_monitor(&self, session: &Session) {
        let _ = session;
    }

    /// Returns whether the process has a connection with this ID.
    fn is_connected(&self, id: u64) -> bool {
        let _ = id;
        false
    }

    /// Begins to tell a connection, or another one for it, about changed keys, or changes how it is
    /// told. Returns the number to which the changes of the connection are attributed.
    ///
    /// # Errors
    /// Returns an error if a lock cannot be acquired, or if the process has no connections.
    fn begin_tracking(&self, session: &Session, tracking: &Tracking) -> Result<u64, Error> {
        let _ = (session, tracking);
        Err(Error::Name(
            "CLIENT TRACKING needs a server: the store is embedded in this process".into(),
        ))
    }

    /// Ends the tracking of a connection.
    fn end_tracking(&self, session: &Session) {
        let _ = session;
    }

    /// Remembers that a connection reads keys, so that it is told about the next change of each.
    /// Called within transactions, so it must not wait for a lock of the store.
    fn remember_keys(
        &self,
        session: &Session,
        moment: Moment,
        keys: &mut dyn Iterator<Item = &[u8]>,
    ) {
        let _ = (session, moment, keys);
    }

    /// Sends a line that describes a command to all connections in MONITOR mode. The line includes
    /// its line terminator.
    fn show(&self, session: &Session, line: &[u8]) {
        let _ = (session, line);
    }
}

/// Delivers data from other clients to a connection: messages that it has subscribed to, and items
/// that it is waiting for. The default implementations suit a process that waits on the calling
/// thread and whose subscribers receive messages by other means.
pub trait Inbox: Send + Sync {
    /// Obtains the elements that a command requests, or waits for them. The wait blocks this
    /// thread, unless the reply can be sent later. Without a timeout, the wait is indefinite.
    ///
    /// # Errors
    /// Returns [`Error::WrongType`], or an error if a lock cannot be acquired.
    fn take_or_wait(
        &self,
        session: &Session,
        store: Access<'_>,
        wanted: &Wanted<'_>,
        timeout: Option<Duration>,
    ) -> Result<WaitOutcome, Error> {
        let _ = session;
        store
            .take_or_wait(wanted, timeout)
            .map(WaitOutcome::Answered)
    }

    /// Ends a connection's wait, either as if it had timed out or with an error. Returns whether
    /// the connection was waiting.
    ///
    /// # Errors
    /// Returns an error if a lock cannot be acquired.
    fn unblock(&self, id: u64, with_error: bool) -> Result<bool, Error> {
        let _ = (id, with_error);
        Ok(false)
    }

    /// Subscribes the connection to all the names, or to none of them on error. The connection must
    /// not yet be subscribed to any of the names.
    ///
    /// # Errors
    /// Returns an error if a lock cannot be acquired, or if the process has no connections that
    /// could receive messages.
    fn subscribe(&self, session: &Session, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        let _ = (session, topic, names);
        Err(Error::Name(
            "expected a connection that can receive messages; in an embedded store use a \
             subscriber (pubsub() in Python, uc_subscription_open() in C)"
                .into(),
        ))
    }

    /// Unsubscribes the connection from all the names. The connection must be subscribed to each of
    /// them.
    ///
    /// # Errors
    /// Returns an error if a lock cannot be acquired.
    fn unsubscribe(&self, session: &Session, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        let _ = (session, topic, names);
        Ok(())
    }
}

/// The statistics that a server or an embedding process reports about itself. Counters start at
/// zero when the process starts, and CONFIG RESETSTAT resets them.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The TCP port, or 0 if the process does not listen on TCP.
    pub tcp_port: u16,
    /// How the process is restricted to its files, or an empty string if it is no server.
    pub sandbox: &'static str,
    /// The number of seconds until the certificate for TLS expires, or `None` without TLS.
    pub certificate_seconds_left: Option<i64>,
    /// The number of threads that run commands.
    pub threads: usize,
    /// The path of the configuration file, or an empty string if none was given.
    pub config_file: String,
    /// The number of open connections.
    pub connected_clients: u64,
    /// The number of connections that are currently waiting for a lock.
    pub blocked_clients: u64,
    /// The number of connections that track keys.
    pub tracking_clients: u64,
    /// The number of keys that tracking connections have read.
    pub tracking_keys: u64,
    /// The number of pairs of such a key and a connection.
    pub tracking_items: u64,
    /// The number of prefixes that tracking connections have given.
    pub tracking_prefixes: u64,
    /// The number of connections accepted since the start.
    pub connections: u64,
    /// The number of connections refused because the connection limit was reached.
    pub rejected_connections: u64,
    /// The number of commands that have run.
    pub commands: u64,
    /// The number of commands that ran in the last second.
    pub commands_per_second: u64,
    /// The number of bytes read from sockets.
    pub input_bytes: u64,
    /// The number of bytes written to sockets.
    pub output_bytes: u64,
    /// The number of bytes read from sockets in the last second.
    pub input_per_second: u64,
    /// The number of bytes written to sockets in the last second.
    pub output_per_second: u64,
    /// The number of read calls on sockets.
    pub reads: u64,
    /// The number of write calls on sockets.
    pub writes: u64,
    /// The number of keys that read commands found.
    pub hits: u64,
    /// The number of keys that read commands did not find.
    pub misses: u64,
    /// The number of error replies.
    pub errors: u64,
}

/// The options of the SHUTDOWN command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownOptions {
    /// SAVE (`true`), NOSAVE (`false`), or `None` if neither was given.
    pub save: Option<bool>,
    /// NOW: skip waiting for replicas.
    pub now: bool,
    /// FORCE: ignore errors while saving.
    pub force: bool,
    /// ABORT: cancel a shutdown in progress.
    pub abort: bool,
}

/// The file to which SAVE and BGSAVE write snapshots of a store, in the format of Redis.
pub trait SnapshotFile: Send + Sync {
    /// Replaces the file with a snapshot of the store. Other processes keep reading and writing.
    ///
    /// # Errors
    /// Returns the complete error reply, including its code. The old file then remains.
    fn write(&self, store: &Store) -> Result<(), String>;
}

/// A replica of the server, as INFO and ROLE show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaFacts {
    /// The address of the replica.
    pub address: String,
    /// The port on which the replica listens, or 0 if it has not told.
    pub port: u16,
    /// The state of the connection: `wait_bgsave`, `send_bulk` or `online`.
    pub state: &'static str,
    /// The number of bytes of the stream that the replica has acknowledged.
    pub offset: u64,
    /// The time since the last acknowledgement in seconds.
    pub lag: u64,
}

/// The stream of changes that the server sends to its replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamFacts {
    /// The replication id, or `None` if the server never had a replica.
    pub id: Option<String>,
    /// The id under which the stream was known earlier, and the offset at which that ended.
    pub earlier: Option<(String, u64)>,
    /// The number of bytes in the stream.
    pub offset: u64,
    /// The offset of the first byte that a replica can still receive without a data set.
    pub start: u64,
    /// The replicas.
    pub replicas: Vec<ReplicaFacts>,
}

/// The replicas of a server.
pub trait Replicas: Send + Sync {
    /// Returns the stream and the replicas.
    fn facts(&self) -> StreamFacts;

    /// Returns the number of replicas that have acknowledged all changes that were sent.
    fn count_acknowledged(&self) -> usize;

    /// Asks all replicas to acknowledge the changes that were made before the call. Returns the number
    /// of the request.
    fn request_acknowledgements(&self) -> u64;

    /// Returns a position of the stream that is after all changes before a request, or `None` if the
    /// request has not been sent yet.
    fn requested_position(&self, request: u64) -> Option<u64>;

    /// Returns the number of replicas that have acknowledged the stream up to a position.
    fn count_acknowledged_at(&self, position: u64) -> usize;

    /// Returns whether this process sends the changes of the store to replicas.
    fn is_sending(&self) -> bool;

    /// Returns whether this process decides how many replicas changes require. If not, another process
    /// sends the changes of the store, and decides.
    fn decides(&self) -> bool;

    /// Returns the number of replicas whose last acknowledgement is at most `seconds` old.
    fn count_recent(&self, seconds: u64) -> usize;
}

/// The operations on the process itself that commands require. The default implementations suit a
/// process that embeds the store.
pub trait Control: Send + Sync {
    /// Applies changed parameters before they are stored: all of them, or none on error.
    ///
    /// # Errors
    /// Returns the parameter that cannot be set to its new value, and the reason.
    fn apply(
        &self,
        changes: &[(&'static Parameter, Value)],
    ) -> Result<(), (&'static Parameter, String)> {
        let _ = changes;
        Ok(())
    }

    /// Returns the statistics that INFO shows about the process itself.
    fn facts(&self) -> Facts {
        Facts {
            threads: 1,
            // The only client is the embedding process itself.
            connected_clients: 1,
            ..Facts::default()
        }
    }

    /// Implements CONFIG RESETSTAT: resets the counters in [`facts`](Control::facts) to zero.
    fn reset_statistics(&self) {}

    /// Returns the folder in which CONFIG SET begins a journal, or `None` for the store's default
    /// folder.
    fn journal_folder(&self) -> Option<PathBuf> {
        None
    }

    /// Returns the file to which SAVE and BGSAVE write snapshots, or `None` if the operator chose no
    /// folder for it.
    fn snapshot_file(&self) -> Option<Arc<dyn SnapshotFile>> {
        None
    }

    /// Begins to follow a source, given as a host and a port, or ends this. Returns false if the
    /// process already follows that source.
    ///
    /// # Errors
    /// Returns the complete error reply, including its code, if the process cannot follow a source.
    fn follow(&self, source: Option<(&str, u16)>) -> Result<bool, String> {
        let _ = source;
        Err(
            "ERR REPLICAOF needs a server: the store is embedded in this process; use 'undercroft \
             follow'"
                .to_owned(),
        )
    }

    /// Sends commands to another server. For each, returns the error with which the server replied,
    /// or `None` for another reply. The timeout applies to each step: connecting, sending, and
    /// receiving.
    ///
    /// # Errors
    /// Returns the complete error reply, including its code, if the process cannot connect or the
    /// replies do not arrive.
    fn exchange(
        &self,
        server: (&str, u16),
        timeout: Duration,
        commands: &[Vec<Vec<u8>>],
    ) -> Result<Vec<Option<String>>, String> {
        let _ = (server, timeout, commands);
        Err("ERR MIGRATE needs a server: the store is embedded in this process".to_owned())
    }

    /// Returns whether commands that change keys of a replica are sent to its source. Otherwise they are
    /// refused.
    fn forwards_writes(&self) -> bool {
        false
    }

    /// Sends commands to the source of a replica, waits until the store has their changes, and returns
    /// the reply to the last command.
    ///
    /// # Errors
    /// Returns the complete error reply, including its code, if the source cannot be reached.
    fn forward(&self, request: &ForwardedRequest) -> Result<Tree, String> {
        let _ = request;
        Err("READONLY You can't write against a read only replica.".to_owned())
    }

    /// Returns the replicas of the server, or `None` if the process cannot have any.
    fn replicas(&self) -> Option<&dyn Replicas> {
        None
    }

    /// Returns whether the process was asked to exit, so that a command should stop waiting.
    fn is_stopping(&self) -> bool {
        false
    }

    /// Puts the calling thread to sleep for the given time, or until the process is asked to exit.
    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }

    /// Writes a script's message to the log, if the process has a log. Levels range from 0 (debug)
    /// to 3 (warning).
    fn log(&self, level: u8, text: &[u8]) {
        let _ = (level, text);
    }

    /// Begins shutting down the server. The shutdown completes after the command's handler has
    /// returned.
    ///
    /// # Errors
    /// Returns the complete error reply, including its code, if a command cannot stop this process.
    fn shutdown(&self, options: ShutdownOptions) -> Result<(), String> {
        let _ = options;
        Err("ERR there is no server to shut down: the store is embedded in this process".to_owned())
    }
}
