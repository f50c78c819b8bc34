//! The traits that the surrounding process, a server or a program that embeds the store, implements
//! for commands.
//!
//! Commands do not know sockets: CLIENT, CONFIG, SLOWLOG, INFO and SHUTDOWN reach the process
//! through these traits.

use std::sync::Arc;
use std::time::Duration;

use undercroft_engine::messages::Topic;
use undercroft_engine::waiting::{WaitOutcome, Wanted};
use undercroft_engine::{Access, Error};

use crate::config::{Parameter, Value};
use crate::session::{ClientInfo, KillFilter, Session};

/// The clients connected to a process, and their authentication. The defaults suit a process
/// without connections.
pub trait Connections: Send + Sync {
    /// Returns every connection, oldest first. O(connections).
    fn clients(&self) -> Vec<ClientInfo> {
        Vec::new()
    }

    /// Whether the password is the user's.
    fn authenticate(&self, user: &[u8], password: &[u8]) -> bool {
        let _ = password;
        user == b"default"
    }

    /// The user of a new connection: `default` if no password is required, otherwise `None`.
    fn initial_user(&self) -> Option<Arc<str>> {
        Some("default".into())
    }

    /// Suspends the commands of all connections, or only writes, until a time in Unix milliseconds.
    ///
    /// # Errors
    /// The complete error reply with its code, if there are no connections.
    fn pause(&self, until: i64, all: bool) -> Result<(), String> {
        let _ = (until, all);
        Err("ERR CLIENT PAUSE needs a server: the store is embedded in this process".to_owned())
    }

    /// Ends the pause.
    fn unpause(&self) {}

    /// Closes matching connections and returns their number. The caller's connection is closed
    /// through its session's flag instead.
    fn kill(&self, filter: &KillFilter) -> usize {
        let _ = filter;
        0
    }

    /// Reports that a connection was closed because it speaks HTTP.
    fn suspect(&self, session: &Session) {
        let _ = session;
    }

    /// Whether any connection is in MONITOR mode.
    fn is_monitored(&self) -> bool {
        false
    }

    /// Starts to show every command to a connection.
    ///
    /// # Errors
    /// The complete error reply with its code, if there are no connections.
    fn monitor(&self, session: &Session) -> Result<(), String> {
        let _ = session;
        Err("ERR MONITOR needs a server: the store is embedded in this process".to_owned())
    }

    /// Stops showing commands to a connection.
    fn end_monitor(&self, session: &Session) {
        let _ = session;
    }

    /// Sends a line that describes a command to the connections in MONITOR mode. The line includes
    /// its line end.
    fn show(&self, session: &Session, line: &[u8]) {
        let _ = (session, line);
    }
}

/// The interface by which data from other clients reaches a connection: messages it subscribes to,
/// and items it waits for. The defaults suit a process that waits on the calling thread, and whose
/// subscribers receive messages by other means.
pub trait Inbox: Send + Sync {
    /// Takes the elements that a command wants, or waits for them. The wait blocks this thread,
    /// unless the command can be answered later. Without a timeout, it lasts indefinitely.
    ///
    /// # Errors
    /// [`Error::WrongType`], or a lock that cannot be taken now.
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

    /// Ends the wait of a connection, with a timeout or an error. Returns whether the connection
    /// was waiting.
    ///
    /// # Errors
    /// If a lock cannot be taken now.
    fn unblock(&self, id: u64, with_error: bool) -> Result<bool, Error> {
        let _ = (id, with_error);
        Ok(false)
    }

    /// Subscribes the connection to all the names, or to none of them on error. The connection must
    /// not be subscribed to any of them yet.
    ///
    /// # Errors
    /// If a lock cannot be taken now, or there are no connections that could receive messages.
    fn subscribe(&self, session: &Session, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        let _ = (session, topic, names);
        Err(Error::Name(
            "expected a connection that can receive messages; in an embedded store use a \
             subscriber (pubsub() in Python, uc_subscription_open() in C)"
                .into(),
        ))
    }

    /// Unsubscribes the connection from these names. The connection must be subscribed to all of
    /// them.
    ///
    /// # Errors
    /// If a lock cannot be taken now.
    fn unsubscribe(&self, session: &Session, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        let _ = (session, topic, names);
        Ok(())
    }
}

/// The figures that a server or an embedding process reports about itself. Counters start when the
/// process starts or at CONFIG RESETSTAT.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The TCP port, or 0 if there is none.
    pub tcp_port: u16,
    /// The number of threads that run commands.
    pub threads: usize,
    /// The path of the configuration file; empty if there is none.
    pub config_file: String,
    /// The number of current connections.
    pub connected_clients: u64,
    /// The number of connections that currently wait for a lock.
    pub blocked_clients: u64,
    /// The number of accepted connections.
    pub connections: u64,
    /// The number of connections refused because there were too many.
    pub rejected_connections: u64,
    /// The number of commands run.
    pub commands: u64,
    /// The number of commands run in the last second.
    pub commands_per_second: u64,
    /// The number of bytes read from sockets.
    pub input_bytes: u64,
    /// The number of bytes written to sockets.
    pub output_bytes: u64,
    /// The number of bytes read from sockets in the last second.
    pub input_per_second: u64,
    /// The number of bytes written to sockets in the last second.
    pub output_per_second: u64,
    /// The number of reads from sockets.
    pub reads: u64,
    /// The number of writes to sockets.
    pub writes: u64,
    /// The number of keys that read commands found.
    pub hits: u64,
    /// The number of keys that read commands did not find.
    pub misses: u64,
    /// The number of error replies.
    pub errors: u64,
}

/// The options of SHUTDOWN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownOptions {
    /// SAVE (`true`) or NOSAVE (`false`), if given.
    pub save: Option<bool>,
    /// NOW: does not wait for replicas.
    pub now: bool,
    /// FORCE: ignores errors while saving.
    pub force: bool,
    /// ABORT: cancels a shutdown in progress.
    pub abort: bool,
}

/// The controls of the process itself that commands use. The defaults suit a process that embeds
/// the store.
pub trait Control: Send + Sync {
    /// Puts changed parameters into effect before they are stored: all of them, or none on error.
    ///
    /// # Errors
    /// The parameter that cannot have its new value, and why.
    fn apply(
        &self,
        changes: &[(&'static Parameter, Value)],
    ) -> Result<(), (&'static Parameter, String)> {
        let _ = changes;
        Ok(())
    }

    /// Returns the figures that INFO shows about the process itself.
    fn facts(&self) -> Facts {
        Facts {
            threads: 1,
            // The caller is the only client.
            connected_clients: 1,
            ..Facts::default()
        }
    }

    /// Implements CONFIG RESETSTAT: resets the counters among the [`facts`](Control::facts) to
    /// zero.
    fn reset_statistics(&self) {}

    /// Puts the calling thread to sleep for a time, or until the process is told to end.
    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }

    /// Writes a script's message to the log, if there is one. Levels range from 0 (debug) to 3
    /// (warning).
    fn log(&self, level: u8, text: &[u8]) {
        let _ = (level, text);
    }

    /// Begins a shutdown of the server, which ends after the handler has returned.
    ///
    /// # Errors
    /// The complete error reply with its code, if the server cannot be stopped this way.
    fn shutdown(&self, options: ShutdownOptions) -> Result<(), String> {
        let _ = options;
        Err("ERR there is no server to shut down: the store is embedded in this process".to_owned())
    }
}
