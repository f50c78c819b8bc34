//! Stores the state of one connection, and describes the connection for CLIENT.
//!
//! `context`, the modules that build on `context`, and programs that serve or embed a store call
//! this module.
//!
//! - `client_info`: formats the lines of CLIENT LIST, and evaluates the filters of CLIENT KILL.
//! - `login`: stores as which user a connection is logged in.
//! - `parts`: defines the components of a session.
//! - `queue`: stores the commands that a connection queues between MULTI and EXEC.
//! - `replica`: the options with which a connection becomes a replica.
//! - `retried`: the state of a WAIT or REPLICA.WAIT that is retried until it ends.
//! - `subscriptions`: stores the subscriptions of one connection.
//! - `tracking`: the state that CLIENT TRACKING sets up.
//! - `wait`: stores the state of commands that wait for keys, and writes their replies.

mod client_info;
mod login;
mod parts;
mod queue;
mod replica;
pub(crate) mod retried;
mod subscriptions;
mod tracking;
pub mod wait;

use std::time::Instant;

use undercroft_engine::AppliedPosition;
use undercroft_engine::messages::Topic;

use crate::arguments::{CommandError, is_keyword};
use crate::protocol::Protocol;
use crate::table::Command;
use crate::users::User;

pub use client_info::{ClientInfo, ClientKind, KillFilter, Library};
pub use login::Login;
pub(crate) use parts::ReadBuffers;
use parts::TransactionState;
pub use parts::{Activity, Buffers, Counters, Peer, ReplyControl, ReplyMode, ScriptState};
pub(crate) use queue::{CommandQueue, QueuedCommand};
pub use replica::{ReplicaOptions, ReplicaRequest};
pub use subscriptions::Subscriptions;
pub use tracking::{Caching, Moment, Tracking, TrackingInfo};
use wait::Wait;

/// The state of one connection or of one embedded client.
#[derive(Clone, Debug)]
pub struct Session {
    /// A session ID that is unique within the server and never reused.
    pub id: u64,
    /// The endpoints of the connection.
    pub peer: Peer,
    /// The name set by CLIENT SETNAME, or an empty string if no name is set.
    pub name: Vec<u8>,
    /// The client library set by CLIENT SETINFO. Its fields are empty if not set.
    pub library: Library,
    /// The user as which the connection is logged in, and its rights.
    pub login: Login,
    /// The database selected by SELECT.
    pub database: u32,
    /// The protocol negotiated by HELLO.
    pub protocol: Protocol,
    /// The settings that decide which replies are sent.
    pub replies: ReplyControl,
    /// Whether CLIENT NO-EVICT protects the connection from being closed to free buffer memory.
    pub no_evict: bool,
    /// Whether CLIENT NO-TOUCH is on, so that lookups do not count as accesses to the keys.
    pub no_touch: bool,
    /// Whether the connection is in MONITOR mode, in which it receives every command.
    pub monitors: bool,
    /// The connection's subscriptions.
    pub subscriptions: Subscriptions,
    /// The state that CLIENT TRACKING set up, or `None` while tracking is off.
    pub tracking: Option<Box<Tracking>>,
    /// The command that is waiting for keys, if any. No other command can run until it has received
    /// its reply.
    pub waiting: Option<Wait>,
    /// The state of a WAIT or REPLICA.WAIT that is retried until it ends.
    pub(crate) retried: Option<retried::RetriedWait>,
    /// The connection's activity and memory usage.
    pub activity: Activity,
    /// The state that concerns the scripts of this connection.
    pub scripts: ScriptState,
    /// The options of a connection that is about to become a replica.
    pub replica: Option<Box<ReplicaOptions>>,
    /// Whether the audit log has a record that the current command is about to run.
    pub(crate) is_audited: bool,
    /// The state that MULTI and WATCH set up.
    pub(crate) transaction: TransactionState,
    /// Buffers for values that are being copied from the store to a reply.
    pub(crate) read_buffers: ReadBuffers,
}

/// Returns whether CLIENT LIST can show a text, which must not contain spaces, line breaks or other
/// unprintable bytes.
fn is_one_word(text: &[u8]) -> bool {
    text.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

/// Checks that a name is valid for a connection.
pub(crate) fn check_name(name: &[u8]) -> Result<(), CommandError> {
    if is_one_word(name) {
        Ok(())
    } else {
        Err(CommandError::fixed(
            "ERR Client names cannot contain spaces, newlines or special characters.",
        ))
    }
}

/// A copy of the part of a session that a transaction can change, made before the transaction.
#[derive(Clone, Debug)]
pub(crate) struct SavedState {
    name: Vec<u8>,
    database: u32,
    protocol: Protocol,
    login: Login,
    counters: Counters,
    /// Whether CLIENT CACHING was sent.
    caching_given: bool,
}

impl Session {
    /// Sets the name of the connection, like CLIENT SETNAME.
    ///
    /// # Errors
    /// Returns an error if the name contains spaces, line breaks or other bytes that CLIENT LIST
    /// cannot show.
    pub fn set_name(&mut self, name: &[u8]) -> Result<(), CommandError> {
        check_name(name)?;
        self.name = name.to_vec();
        Ok(())
    }

    /// Records the client library, like CLIENT SETINFO.
    ///
    /// # Errors
    /// Returns an error if the attribute is neither LIB-NAME nor LIB-VER, or if CLIENT LIST cannot
    /// show the value.
    pub(crate) fn set_library(
        &mut self,
        attribute: &[u8],
        value: &[u8],
    ) -> Result<(), CommandError> {
        let place = if is_keyword(attribute, "LIB-NAME") {
            &mut self.library.name
        } else if is_keyword(attribute, "LIB-VER") {
            &mut self.library.version
        } else {
            return Err(CommandError::quoting(
                "ERR Unrecognized option ",
                attribute,
                "",
            ));
        };
        if !is_one_word(value) {
            return Err(CommandError::new(format!(
                "ERR {} cannot contain spaces, newlines or special characters.",
                String::from_utf8_lossy(attribute)
            )));
        }
        *place = String::from_utf8_lossy(value).into_owned();
        Ok(())
    }

    /// Returns the session of a new connection or embedded client.
    pub fn new(id: u64, login: Login, now: i64) -> Session {
        Session {
            id,
            peer: Peer::new(now),
            name: Vec::new(),
            library: Library::default(),
            login,
            database: 0,
            protocol: Protocol::default(),
            replies: ReplyControl::default(),
            no_evict: false,
            no_touch: false,
            monitors: false,
            subscriptions: Subscriptions::default(),
            tracking: None,
            waiting: None,
            retried: None,
            activity: Activity::new(now),
            scripts: ScriptState::default(),
            replica: None,
            is_audited: false,
            transaction: TransactionState::default(),
            read_buffers: ReadBuffers::new(),
        }
    }

    /// Completes a command. Must be called after each command. Returns whether CLIENT REPLY allows
    /// the command's reply to be sent. Confirmations of subscriptions are always sent.
    pub fn finish_command(&mut self) -> bool {
        let mode = self.replies.mode;
        if mode == ReplyMode::On {
            return true;
        }
        self.replies.mode = mode.after_command();
        std::mem::take(&mut self.replies.confirms)
    }

    /// Records that a command has ended. A retried one can also end before its handler runs, for example
    /// because the user has lost the right to it.
    #[inline]
    pub fn end_retries(&mut self) {
        if self.retried.is_some() {
            self.retried = None;
        }
    }

    /// Returns whether a WAIT or REPLICA.WAIT is retried until it ends.
    #[inline]
    pub fn waits_for_replicas(&self) -> bool {
        self.retried.is_some()
    }

    /// Returns when a WAIT or REPLICA.WAIT that is retried began, which identifies it.
    #[inline]
    pub fn wait_began(&self) -> Option<Instant> {
        self.retried.map(|wait| wait.began)
    }

    /// Makes a WAIT or REPLICA.WAIT that is retried end at its next retry, with an error or as if it
    /// had timed out.
    pub fn unblock_wait(&mut self, with_error: bool) {
        if let Some(wait) = &mut self.retried {
            wait.unblocked = Some(with_error);
        }
    }

    /// Returns whether the connection has no state in its store: no transaction, no watched keys,
    /// no waiting command and no subscriptions.
    pub fn holds_nothing(&self) -> bool {
        self.transaction.is_empty() && self.waiting.is_none() && self.subscriptions.is_empty()
    }

    /// Returns whether the connection has sent PSYNC or SYNC, and must be handed to the server's
    /// replicas.
    #[inline]
    pub fn becomes_replica(&self) -> bool {
        let options = self.replica.as_ref();
        options.is_some_and(|options| options.request.is_some())
    }

    /// Makes the next EXEC record a place in the stream of a replica's source, in the transaction
    /// itself. The queued commands must be those before the place. If the source is a cluster, the
    /// stream is that of a lane.
    pub fn set_applied(&mut self, lane: Option<u8>, position: AppliedPosition) {
        self.transaction.applied = Some((lane, position));
    }

    /// Returns whether the connection must be closed after a change of the users: its user was
    /// deleted, or may no longer use one of its subscriptions.
    pub fn loses_rights(&self) -> bool {
        let is_denied = |user: &User| {
            Topic::ALL.into_iter().any(|topic| {
                let mut names = self.subscriptions.names(topic);
                names.any(|name| !user.allows_channel(name, topic == Topic::Pattern))
            })
        };
        self.login.has_ended() || self.login.user().is_some_and(|user| is_denied(user))
    }

    /// Returns whether the connection is watching keys.
    pub fn is_watching(&self) -> bool {
        !self.transaction.watches.is_empty()
    }

    /// Returns whether the session does not affect data commands, because it has no state in its
    /// store and its replies are sent in the default protocol.
    pub fn is_idle(&self) -> bool {
        self.holds_nothing()
            && self.replies.mode == ReplyMode::On
            && self.protocol == Protocol::default()
    }

    /// Returns whether the client is a process that embeds the store rather than a connection.
    pub fn is_embedded(&self) -> bool {
        self.peer.is_embedded()
    }

    /// Returns whether the client is on this machine: either embedded, or connected through a Unix
    /// socket or a loopback address.
    pub(crate) fn is_local(&self) -> bool {
        self.peer.is_local()
    }

    /// Returns the number of commands queued since MULTI and their memory in bytes, or `None`
    /// outside a transaction.
    pub fn queued(&self) -> Option<(usize, usize)> {
        self.transaction.queued()
    }

    /// Returns how much memory the connection retains between commands, in bytes.
    fn kept(&self) -> usize {
        self.name.capacity()
            + self.library.name.capacity()
            + self.library.version.capacity()
            + self.read_buffers.capacity()
            + self.peer.address.len()
            + self.peer.local_address.len()
    }

    /// Implements RESET: resets the session as if the connection were new.
    pub fn reset(&mut self) {
        self.name.clear();
        self.database = 0;
        self.protocol = Protocol::default();
        self.replies.mode = ReplyMode::default();
        self.no_touch = false;
        self.login.reset();
    }

    /// Saves the state that a transaction's commands can change.
    pub(crate) fn save(&self) -> SavedState {
        SavedState {
            name: self.name.clone(),
            database: self.database,
            protocol: self.protocol,
            login: self.login.clone(),
            counters: self.activity.counters,
            caching_given: self.tracking.as_ref().is_some_and(|it| it.caching_given),
        }
    }

    /// Restores the state that was saved before a transaction.
    pub(crate) fn restore(&mut self, saved: &SavedState) {
        self.name.clone_from(&saved.name);
        self.login.clone_from(&saved.login);
        self.database = saved.database;
        self.protocol = saved.protocol;
        self.activity.counters = saved.counters;
        if let Some(tracking) = &mut self.tracking {
            tracking.caching_given = saved.caching_given;
        }
    }

    /// Returns the ID of the connection that receives the invalidations of this one: 0 for the
    /// connection itself, and -1 while tracking is off.
    pub(crate) fn redirection(&self) -> i64 {
        let tracking = self.tracking.as_ref();
        tracking.map_or(-1, |tracking| tracking.redirect as i64)
    }

    /// Returns whether any queued command satisfies `is_meant`.
    pub(crate) fn has_queued(&self, is_meant: fn(&Command) -> bool) -> bool {
        self.transaction.has_queued(is_meant)
    }

    /// Returns a description of the connection for CLIENT LIST.
    pub fn info(&self, now: i64) -> ClientInfo {
        ClientInfo {
            id: self.id,
            address: self.peer.address.clone(),
            local_address: self.peer.local_address.clone(),
            descriptor: self.peer.descriptor,
            name: String::from_utf8_lossy(&self.name).into_owned(),
            library: self.library.clone(),
            age: (now - self.peer.created).max(0) / 1000,
            idle: (now - self.activity.last_command_at).max(0) / 1000,
            unix_socket: self.peer.unix_socket,
            closing: self.replies.close_after,
            no_evict: self.no_evict,
            no_touch: self.no_touch,
            monitors: self.monitors,
            is_replica: false,
            blocked: self.waiting.is_some(),
            queued: self.queued(),
            dirty: false,
            database: self.database,
            command: self
                .activity
                .last_command
                .map_or("NULL", |command| command.name),
            user: self.login.name().into(),
            protocol: self.protocol,
            subscribed: Topic::ALL.map(|topic| self.subscriptions.count(topic)),
            tracking: TrackingInfo::of(self.tracking.as_deref()),
            arguments: 0,
            kept: self.kept(),
            buffers: self.activity.buffers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_list_line_has_redis_fields() {
        let mut session = Session::new(7, Login::trusted(), 1_000);
        session.peer.address = "127.0.0.1:5".into();
        let line = session.info(4_500).to_string();
        assert!(
            line.starts_with("id=7 addr=127.0.0.1:5 laddr= fd=-1 name= age=3 idle=3 flags=N db=0 "),
            "{line}"
        );
        assert!(
            line.ends_with(" cmd=NULL user=default redir=-1 resp=2 lib-name= lib-ver="),
            "{line}"
        );
    }

    #[test]
    fn kill_filter_requires_all_conditions() {
        let client = Session::new(7, Login::trusted(), 0).info(0);
        let by_id = KillFilter {
            id: Some(7),
            ..KillFilter::default()
        };
        assert!(KillFilter::default().matches(&client) && by_id.matches(&client));
        assert!(
            !KillFilter {
                user: Some("other".into()),
                ..by_id.clone()
            }
            .matches(&client)
        );
        assert!(
            !KillFilter {
                except: Some(7),
                ..by_id
            }
            .matches(&client)
        );
    }
}
