//! What the process around the commands implements for them: a server, or a program that embeds the store.
//!
//! Commands know no sockets: CLIENT, CONFIG, SLOWLOG, INFO and SHUTDOWN reach that process through these traits.

use std::sync::Arc;
use std::time::Duration;

use undercroft_engine::messages::Topic;
use undercroft_engine::waiting::{WaitOutcome, Wanted};
use undercroft_engine::{Access, Error};

use crate::config::{Parameter, Value};
use crate::session::{ClientInfo, KillFilter, Session};

/// The clients that are connected to a process, and who may become one. What is not overridden is that of a process
/// that nobody connects to.
pub trait Connections: Send + Sync {
    /// Every connection, oldest first. O(connections).
    fn clients(&self) -> Vec<ClientInfo> {
        Vec::new()
    }

    /// Whether this password is the user's.
    fn authenticate(&self, user: &[u8], password: &[u8]) -> bool {
        let _ = password;
        user == b"default"
    }

    /// Who a new connection is: `default` where no password is needed, None where one is.
    fn initial_user(&self) -> Option<Arc<str>> {
        Some("default".into())
    }

    /// Holds commands of all connections back until a time in Unix milliseconds, or only those that write.
    ///
    /// # Errors
    /// The reply, where there are no connections: a whole error with its code.
    fn pause(&self, until: i64, all: bool) -> Result<(), String> {
        let _ = (until, all);
        Err(
            "ERR there are no connections to pause: the store is embedded in this process"
                .to_owned(),
        )
    }

    /// Ends the pause.
    fn unpause(&self) {}

    /// Closes connections; how many they were. The caller's own is closed by its session's flag instead.
    fn kill(&self, filter: &KillFilter) -> usize {
        let _ = filter;
        0
    }

    /// A connection that speaks HTTP was cut off.
    fn suspect(&self, session: &Session) {
        let _ = session;
    }

    /// Whether some connection wants to see the commands that are run.
    fn is_monitored(&self) -> bool {
        false
    }

    /// From now on a connection is shown every command that is run.
    ///
    /// # Errors
    /// The reply, where there are no connections: a whole error with its code.
    fn monitor(&self, session: &Session) -> Result<(), String> {
        let _ = session;
        Err("ERR there are no connections to monitor: this is no server".to_owned())
    }

    /// It is not any more.
    fn end_monitor(&self, session: &Session) {
        let _ = session;
    }

    /// Shows a command that a connection has run, as a line with its end.
    fn show(&self, session: &Session, line: &[u8]) {
        let _ = (session, line);
    }
}

/// Where what others send reaches a connection: the messages that it subscribes to, the items that it waits for. What
/// is not overridden is that of a process that waits right where the command runs, and has subscribers of its own.
pub trait Inbox: Send + Sync {
    /// Takes what a command wants, or waits until it is there: right here, unless it can be answered later. For ever,
    /// where no timeout is given.
    ///
    /// # Errors
    /// [`Error::WrongType`], and a lock that cannot be had now.
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

    /// Ends the wait of a connection, as if its time were up or with an error. Returns whether it waited.
    ///
    /// # Errors
    /// A lock that cannot be had now.
    fn unblock(&self, id: u64, with_error: bool) -> Result<bool, Error> {
        let _ = (id, with_error);
        Ok(false)
    }

    /// Has the messages of these sent to the connection, from now on; all of them, or none. It is not subscribed to
    /// any of them yet.
    ///
    /// # Errors
    /// A lock that cannot be had now, and where there are no connections that messages could be sent to.
    fn subscribe(&self, session: &Session, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        let _ = (session, topic, names);
        Err(Error::Name(
            "expected a connection that messages can be sent to; embedded, there are subscribers (in Python pubsub(), \
             in C uc_subscription_open())"
                .into(),
        ))
    }

    /// Ends that for these, to all of which it is subscribed.
    ///
    /// # Errors
    /// A lock that cannot be had now.
    fn unsubscribe(&self, session: &Session, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        let _ = (session, topic, names);
        Ok(())
    }
}

/// What a server, or an embedding process, tells of itself. Counters count since the start or CONFIG RESETSTAT.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Its TCP port; 0 where there is none.
    pub tcp_port: u16,
    /// Threads that run commands.
    pub threads: usize,
    /// The configuration file, empty where there is none.
    pub config_file: String,
    /// Connections now.
    pub connected_clients: u64,
    /// Connections that wait for a lock now.
    pub blocked_clients: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections refused, because there were too many.
    pub rejected_connections: u64,
    /// Commands run.
    pub commands: u64,
    /// Commands run in the last second.
    pub commands_per_second: u64,
    /// Bytes read from sockets.
    pub input_bytes: u64,
    /// Bytes written to sockets.
    pub output_bytes: u64,
    /// Bytes read from sockets in the last second.
    pub input_per_second: u64,
    /// Bytes written to sockets in the last second.
    pub output_per_second: u64,
    /// How often bytes were read from a socket.
    pub reads: u64,
    /// How often bytes were written to a socket.
    pub writes: u64,
    /// Keys that reading commands found.
    pub hits: u64,
    /// Keys that reading commands did not find.
    pub misses: u64,
    /// Replies that were errors.
    pub errors: u64,
}

/// How SHUTDOWN ends the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownOptions {
    /// SAVE (true) or NOSAVE (false), where given.
    pub save: Option<bool>,
    /// NOW: do not wait for replicas.
    pub now: bool,
    /// FORCE: errors in saving do not matter.
    pub force: bool,
    /// ABORT: stop a shutdown that is under way.
    pub abort: bool,
}

/// What commands ask of the process itself. What is not overridden is that of a process that embeds the store.
pub trait Control: Send + Sync {
    /// Makes changed parameters take effect, before they are stored. All of them or none.
    ///
    /// # Errors
    /// The parameter that cannot have this value, and why.
    fn apply(
        &self,
        changes: &[(&'static Parameter, Value)],
    ) -> Result<(), (&'static Parameter, String)> {
        let _ = changes;
        Ok(())
    }

    /// What INFO tells of the process itself.
    fn facts(&self) -> Facts {
        Facts {
            threads: 1,
            // The one that asks.
            connected_clients: 1,
            ..Facts::default()
        }
    }

    /// CONFIG RESETSTAT: sets the counters among the [`facts`](Control::facts) to zero.
    fn reset_statistics(&self) {}

    /// Keeps the calling thread from doing anything else for so long, or until the process is told to end.
    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }

    /// Writes what a script says to the log, if there is one. Levels are 0, debug, to 3, warning.
    fn log(&self, level: u8, text: &[u8]) {
        let _ = (level, text);
    }

    /// Begins to stop the server; it ends after the handler has returned.
    ///
    /// # Errors
    /// The reply, where it cannot be stopped so: a whole error with its code.
    fn shutdown(&self, options: ShutdownOptions) -> Result<(), String> {
        let _ = options;
        Err("ERR there is no server to shut down: the store is embedded in this process".to_owned())
    }
}
