//! The state of one connection, and what CLIENT tells of it.
//!
//! The floors from `context` up call it, and so do servers and programs that embed a store.
//!
//! - `client_info`: what CLIENT LIST shows of a connection, and which ones CLIENT KILL closes.
//! - `parts`: the parts of a session, by concern.
//! - `queue`: the commands that a connection queues between MULTI and EXEC.
//! - `subscriptions`: what one connection is subscribed to.
//! - `wait`: commands that wait for keys: what a connection remembers meanwhile, and how it is answered.

mod client_info;
mod parts;
mod queue;
mod subscriptions;
pub mod wait;

use std::sync::Arc;

use undercroft_engine::messages::Topic;

use crate::arguments::{CommandError, is_keyword};
use crate::protocol::Protocol;
use crate::table::Command;

pub use client_info::{ClientInfo, ClientKind, KillFilter, Library};
pub(crate) use parts::ReadBuffers;
use parts::TransactionState;
pub use parts::{Activity, Buffers, Counters, Peer, ReplyControl, ReplyMode, ScriptState};
pub(crate) use queue::{CommandQueue, QueuedCommand};
pub use subscriptions::Subscriptions;
use wait::Wait;

/// One connection, or one embedded client.
#[derive(Clone, Debug)]
pub struct Session {
    /// Unique within the server, never used again.
    pub id: u64,
    /// The ends of the connection.
    pub peer: Peer,
    /// Set by CLIENT SETNAME; empty where it was not.
    pub name: Vec<u8>,
    /// The client library, by CLIENT SETINFO; empty where it was not given.
    pub library: Library,
    /// The user who is logged in; None before AUTH where a password is needed.
    pub user: Option<Arc<str>>,
    /// The database SELECT chose.
    pub database: u32,
    /// Chosen by HELLO.
    pub protocol: Protocol,
    /// Which replies are sent.
    pub replies: ReplyControl,
    /// CLIENT NO-EVICT: its buffers are to be spared where clients are disconnected for want of memory.
    pub no_evict: bool,
    /// CLIENT NO-TOUCH: its look-ups count as no use of the keys.
    pub no_touch: bool,
    /// It is shown every command that is run (MONITOR).
    pub monitors: bool,
    /// What it is subscribed to.
    pub subscriptions: Subscriptions,
    /// The command that waits for keys; until it is answered, no other is to be run.
    pub waiting: Option<Wait>,
    /// What it does.
    pub activity: Activity,
    /// The scripts that it runs.
    pub scripts: ScriptState,
    /// What MULTI and WATCH have begun.
    pub(crate) transaction: TransactionState,
    /// Where values are copied to on their way to a reply.
    pub(crate) read_buffers: ReadBuffers,
}

/// Whether CLIENT LIST can show a text: it has no spaces and nothing that could end a line.
fn is_one_word(text: &[u8]) -> bool {
    text.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

/// Whether a connection may have this name.
pub(crate) fn check_name(name: &[u8]) -> Result<(), CommandError> {
    if is_one_word(name) {
        Ok(())
    } else {
        Err(CommandError::fixed(
            "ERR Client names cannot contain spaces, newlines or special characters.",
        ))
    }
}

/// A session's state before a transaction.
#[derive(Clone, Debug)]
pub(crate) struct SavedState {
    name: Vec<u8>,
    database: u32,
    protocol: Protocol,
    user: Option<Arc<str>>,
    counters: Counters,
}

impl Session {
    /// Names the connection, as CLIENT SETNAME does.
    ///
    /// # Errors
    /// For a name with spaces, or anything else that could end a line of CLIENT LIST.
    pub fn set_name(&mut self, name: &[u8]) -> Result<(), CommandError> {
        check_name(name)?;
        self.name = name.to_vec();
        Ok(())
    }

    /// Notes the library that the client is written with, as CLIENT SETINFO does.
    ///
    /// # Errors
    /// For an attribute other than LIB-NAME and LIB-VER, and for a value that CLIENT LIST could not show.
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

    /// A new connection's state; `user` is `default` where no password is needed.
    pub fn new(id: u64, user: Option<Arc<str>>, now: i64) -> Session {
        Session {
            id,
            peer: Peer::new(now),
            name: Vec::new(),
            library: Library::default(),
            user,
            database: 0,
            protocol: Protocol::default(),
            replies: ReplyControl::default(),
            no_evict: false,
            no_touch: false,
            monitors: false,
            subscriptions: Subscriptions::default(),
            waiting: None,
            activity: Activity::new(now),
            scripts: ScriptState::default(),
            transaction: TransactionState::default(),
            read_buffers: ReadBuffers::new(),
        }
    }

    /// To be called after each command: whether its reply is to be sent (CLIENT REPLY). Confirmations of
    /// subscriptions are sent in any case.
    pub fn finish_command(&mut self) -> bool {
        let mode = self.replies.mode;
        if mode == ReplyMode::On {
            return true;
        }
        self.replies.mode = mode.after_command();
        std::mem::take(&mut self.replies.confirms)
    }

    /// Whether it holds nothing of its store: it began no transaction, watches no key, waits for none and is subscribed to
    /// nothing.
    pub fn holds_nothing(&self) -> bool {
        self.transaction.is_empty() && self.waiting.is_none() && self.subscriptions.is_empty()
    }

    /// Whether it watches keys.
    pub fn is_watching(&self) -> bool {
        !self.transaction.watches.is_empty()
    }

    /// Whether what it was told before means nothing to data commands: it holds nothing of its store, and replies are
    /// sent, in the usual form.
    pub fn is_idle(&self) -> bool {
        self.holds_nothing()
            && self.replies.mode == ReplyMode::On
            && self.protocol == Protocol::default()
    }

    /// Whether it is no connection, but a process that embeds the store.
    pub fn is_embedded(&self) -> bool {
        self.peer.is_embedded()
    }

    /// Whether its peer is on this machine: a unix socket, or a loopback address.
    pub(crate) fn is_local(&self) -> bool {
        self.peer.is_local()
    }

    /// The number of commands queued since MULTI, and the memory that they take; None outside of a transaction.
    pub fn queued(&self) -> Option<(usize, usize)> {
        self.transaction.queued()
    }

    /// Bytes that the connection keeps for its next commands.
    fn kept(&self) -> usize {
        self.name.capacity()
            + self.library.name.capacity()
            + self.library.version.capacity()
            + self.read_buffers.capacity()
            + self.peer.address.len()
            + self.peer.local_address.len()
    }

    /// RESET: everything but the connection itself becomes new. `user` is who a new connection would be.
    pub fn reset(&mut self, user: Option<Arc<str>>) {
        self.name.clear();
        self.database = 0;
        self.protocol = Protocol::default();
        self.replies.mode = ReplyMode::default();
        self.no_touch = false;
        self.user = user;
    }

    /// What a command of a transaction may change of it.
    pub(crate) fn save(&self) -> SavedState {
        SavedState {
            name: self.name.clone(),
            database: self.database,
            protocol: self.protocol,
            user: self.user.clone(),
            counters: self.activity.counters,
        }
    }

    /// Undoes what the commands of a transaction changed since the state was saved.
    pub(crate) fn restore(&mut self, saved: &SavedState) {
        self.name.clone_from(&saved.name);
        self.user.clone_from(&saved.user);
        self.database = saved.database;
        self.protocol = saved.protocol;
        self.activity.counters = saved.counters;
    }

    /// Whether something is true of a command that is queued since MULTI.
    pub(crate) fn has_queued(&self, is_meant: fn(&Command) -> bool) -> bool {
        self.transaction.has_queued(is_meant)
    }

    /// What CLIENT LIST shows of it.
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
            blocked: self.waiting.is_some(),
            queued: self.queued(),
            dirty: false,
            database: self.database,
            command: self
                .activity
                .last_command
                .map_or("NULL", |command| command.name),
            user: self.user.clone(),
            protocol: self.protocol,
            subscribed: Topic::ALL.map(|topic| self.subscriptions.count(topic)),
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
    fn a_line_has_redis_fields() {
        let mut session = Session::new(7, Some("default".into()), 1_000);
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
    fn filters_are_joined_by_and() {
        let client = Session::new(7, Some("default".into()), 0).info(0);
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
