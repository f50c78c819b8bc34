//! The state of one connection, and what CLIENT tells of it.
//!
//! The floors from `context` up call it, and so do servers and programs that embed a store.
//!
//! - `queue`: the commands that a connection queues between MULTI and EXEC.
//! - `subscriptions`: what one connection is subscribed to.
//! - `wait`: commands that wait for keys: what a connection remembers meanwhile, and how it is answered.

mod queue;
mod subscriptions;
pub mod wait;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use undercroft_engine::Ranges;
use undercroft_engine::changes::Watch;
use undercroft_engine::feeds::FoundItems;
use undercroft_engine::messages::Topic;

use crate::arguments::{CommandError, is_keyword};
use crate::protocol::Protocol;
use crate::table::Command;

pub(crate) use queue::CommandQueue;
pub use subscriptions::Subscriptions;
use wait::Wait;

/// Whether replies are sent: CLIENT REPLY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// They are.
    #[default]
    On,
    /// None is, until CLIENT REPLY ON.
    Off,
    /// Not that of the command that runs now (CLIENT REPLY SKIP itself), and not the next one's.
    SkipNext,
    /// Not that of the command that runs now.
    Skip,
}

impl ReplyMode {
    /// The mode once a command has run.
    pub const fn after_command(self) -> ReplyMode {
        match self {
            ReplyMode::SkipNext => ReplyMode::Skip,
            ReplyMode::Skip | ReplyMode::On => ReplyMode::On,
            ReplyMode::Off => ReplyMode::Off,
        }
    }
}

/// One connection, or one embedded client. Times are Unix milliseconds.
#[derive(Clone, Debug)]
pub struct Session {
    /// Unique within the server, never used again.
    pub id: u64,
    /// Set by CLIENT SETNAME; empty where it was not.
    pub name: Vec<u8>,
    /// The client library, by CLIENT SETINFO; empty where it was not given.
    pub library: Library,
    /// The database SELECT chose.
    pub database: u32,
    /// Chosen by HELLO.
    pub protocol: Protocol,
    /// The user who is logged in; None before AUTH where a password is needed.
    pub user: Option<Arc<str>>,
    /// Whether replies are sent.
    pub reply_mode: ReplyMode,
    /// The peer: `ip:port`, or `path:0` for a unix socket.
    pub address: String,
    /// Our end.
    pub local_address: String,
    /// The socket's descriptor, for CLIENT LIST; -1 where there is none.
    pub descriptor: i32,
    /// When it connected.
    pub created: i64,
    /// When it last sent a command.
    pub last_command_at: i64,
    /// What it last sent; None before the first.
    pub last_command: Option<&'static Command>,
    /// Whether it came through a unix socket.
    pub unix_socket: bool,
    /// Close the connection once what was written is sent: QUIT, or CLIENT KILL of itself.
    pub close_after_reply: bool,
    /// What it is subscribed to.
    pub subscriptions: Subscriptions,
    /// Where the host finds the connection again, in numbers of its own: the thread, and its place there.
    pub route: (usize, u64),
    /// CLIENT NO-EVICT: its buffers are to be spared where clients are disconnected for want of memory.
    pub no_evict: bool,
    /// CLIENT NO-TOUCH: its look-ups count as no use of the keys.
    pub no_touch: bool,
    /// It is shown every command that is run (MONITOR).
    pub monitors: bool,
    /// Its commands run on a thread that nobody else waits for, so that a script may take long.
    pub apart: bool,
    /// So many of its next scripts begin on a thread of their own, as one of its last took long.
    pub long_scripts: u16,
    /// The command that waits for keys; until it is answered, no other is to be run.
    pub waiting: Option<Wait>,
    /// The command that runs now has confirmed subscriptions, while replies are not sent.
    pub(crate) confirms: bool,
    /// What its commands did since the server last took these figures.
    pub counters: Counters,
    /// Its memory outside of this, which the server keeps up to date.
    pub buffers: Buffers,
    /// What was queued since MULTI; None outside of a transaction.
    pub(crate) multi: Option<Arc<CommandQueue>>,
    /// The keys that WATCH named.
    pub(crate) watches: Vec<Watch>,
    /// How often scripts had been told to end when the command began that runs scripts now, however often its
    /// transaction starts anew.
    pub(crate) scripts_killed: Option<u64>,
    /// For how long scripts of that command ran whose transaction had to start anew: it counts for the next run.
    pub(crate) script_ran: Duration,
    /// Whether there was no room for more when EXEC began, for the scripts in it.
    pub(crate) was_full: bool,
    /// Where values are copied to on their way to a reply; kept so that a read allocates nothing.
    pub(crate) scratch: Vec<u8>,
    /// The same for the items of lists.
    pub(crate) items: Ranges,
    /// The same for the items of feeds.
    pub(crate) found: FoundItems,
}

/// The library that a client is written with, as CLIENT SETINFO tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Library {
    /// LIB-NAME.
    pub name: String,
    /// LIB-VER.
    pub version: String,
}

/// Bytes of each buffer that a connection keeps at most.
const KEPT_MAX: usize = 64 * 1024;

/// Memory of a connection as its server knows it, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    /// Received and not done with: while commands are run, all that came with them.
    pub input: usize,
    /// Room left in that buffer.
    pub input_free: usize,
    /// The buffer of replies.
    pub output: usize,
    /// Of which so many waited to be sent at a time, at most, since a while.
    pub output_peak: usize,
    /// Of which so many wait to be sent.
    pub output_pending: usize,
    /// What the server remembers of the connection.
    pub state: usize,
}

impl Buffers {
    /// Replies up to so many bytes go into the buffer that each connection of Redis has; what is larger is told as
    /// Redis tells of the list behind it.
    const FIRST: usize = 16 * 1024;

    /// Whether replies wait that are more than a connection of Redis has a buffer for.
    fn is_long(&self) -> bool {
        self.output_pending > Buffers::FIRST
    }
}

/// What a connection's commands did. The server takes them from time to time ([`std::mem::take`]) and adds them up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Commands run, failed ones included.
    pub commands: u64,
    /// Keys that reading commands found.
    pub hits: u64,
    /// Keys that reading commands did not find.
    pub misses: u64,
    /// Replies that are errors.
    pub errors: u64,
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
    /// Begins a command that runs scripts, where scripts have been told to end so often.
    pub(crate) fn begin_scripts(&mut self, killed: u64) {
        self.scripts_killed = Some(killed);
        self.script_ran = Duration::ZERO;
    }

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
            name: Vec::new(),
            library: Library::default(),
            database: 0,
            protocol: Protocol::default(),
            user,
            reply_mode: ReplyMode::default(),
            address: String::new(),
            local_address: String::new(),
            descriptor: -1,
            created: now,
            last_command_at: now,
            last_command: None,
            unix_socket: false,
            close_after_reply: false,
            subscriptions: Subscriptions::default(),
            route: (0, 0),
            no_evict: false,
            no_touch: false,
            monitors: false,
            apart: false,
            long_scripts: 0,
            waiting: None,
            confirms: false,
            counters: Counters::default(),
            buffers: Buffers::default(),
            multi: None,
            scripts_killed: None,
            script_ran: Duration::ZERO,
            was_full: false,
            watches: Vec::new(),
            scratch: Vec::new(),
            items: Ranges::new(),
            found: FoundItems::new(),
        }
    }

    /// To be called after each command: whether its reply is to be sent (CLIENT REPLY). Confirmations of
    /// subscriptions are sent in any case.
    pub fn finish_command(&mut self) -> bool {
        let mode = self.reply_mode;
        if mode == ReplyMode::On {
            return true;
        }
        self.reply_mode = mode.after_command();
        std::mem::take(&mut self.confirms)
    }

    /// Whether it holds nothing of its store: it began no transaction, watches no key, waits for none and is subscribed to
    /// nothing.
    pub fn holds_nothing(&self) -> bool {
        self.multi.is_none()
            && self.watches.is_empty()
            && self.waiting.is_none()
            && self.subscriptions.is_empty()
    }

    /// Whether it watches keys.
    pub fn is_watching(&self) -> bool {
        !self.watches.is_empty()
    }

    /// Whether what it was told before means nothing to data commands: it holds nothing of its store, and replies are
    /// sent, in the usual form.
    pub fn is_idle(&self) -> bool {
        self.holds_nothing()
            && self.reply_mode == ReplyMode::On
            && self.protocol == Protocol::default()
    }

    /// Whether it is no connection, but a process that embeds the store.
    pub fn is_embedded(&self) -> bool {
        self.address.is_empty()
    }

    /// Whether its peer is on this machine: a unix socket, or a loopback address.
    pub(crate) fn is_local(&self) -> bool {
        let loopback = |address: SocketAddr| address.ip().to_canonical().is_loopback();
        self.is_embedded() || self.unix_socket || self.address.parse().is_ok_and(loopback)
    }

    /// The number of commands queued since MULTI, and the memory that they take; None outside of a transaction.
    pub fn queued(&self) -> Option<(usize, usize)> {
        let multi = self.multi.as_ref()?;
        Some((multi.commands.len(), multi.memory))
    }

    /// Gives back each buffer that one large reply has made larger than [`KEPT_MAX`].
    #[inline(always)]
    pub(crate) fn trim_buffers(&mut self) {
        if self.scratch.capacity() > KEPT_MAX {
            self.scratch = Vec::new();
        }
        if self.items.capacity() > KEPT_MAX {
            self.items = Ranges::new();
        }
        if self.found.capacity() > KEPT_MAX {
            self.found = FoundItems::new();
        }
    }

    /// Bytes that the connection keeps for its next commands.
    fn kept(&self) -> usize {
        self.name.capacity()
            + self.library.name.capacity()
            + self.library.version.capacity()
            + self.scratch.capacity()
            + self.items.capacity()
            + self.found.capacity()
            + self.address.len()
            + self.local_address.len()
    }

    /// RESET: everything but the connection itself becomes new. `user` is who a new connection would be.
    pub fn reset(&mut self, user: Option<Arc<str>>) {
        self.name.clear();
        self.database = 0;
        self.protocol = Protocol::default();
        self.reply_mode = ReplyMode::default();
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
            counters: self.counters,
        }
    }

    /// Undoes what the commands of a transaction changed since the state was saved.
    pub(crate) fn restore(&mut self, saved: &SavedState) {
        self.name.clone_from(&saved.name);
        self.user.clone_from(&saved.user);
        self.database = saved.database;
        self.protocol = saved.protocol;
        self.counters = saved.counters;
    }

    /// Whether something is true of a command that is queued since MULTI.
    pub(crate) fn has_queued(&self, is_meant: fn(&Command) -> bool) -> bool {
        let multi = self.multi.as_ref();
        multi.is_some_and(|multi| {
            let mut queue = multi.commands.iter();
            queue.any(|queued| is_meant(queued.command))
        })
    }

    /// What CLIENT LIST shows of it.
    pub fn info(&self, now: i64) -> ClientInfo {
        ClientInfo {
            id: self.id,
            address: self.address.clone(),
            local_address: self.local_address.clone(),
            descriptor: self.descriptor,
            name: String::from_utf8_lossy(&self.name).into_owned(),
            library: self.library.clone(),
            age: (now - self.created).max(0) / 1000,
            idle: (now - self.last_command_at).max(0) / 1000,
            unix_socket: self.unix_socket,
            closing: self.close_after_reply,
            no_evict: self.no_evict,
            no_touch: self.no_touch,
            monitors: self.monitors,
            blocked: self.waiting.is_some(),
            queued: self.queued(),
            dirty: false,
            database: self.database,
            command: self.last_command.map_or("NULL", |command| command.name),
            user: self.user.clone(),
            protocol: self.protocol,
            subscribed: Topic::ALL.map(|topic| self.subscriptions.count(topic)),
            arguments: 0,
            kept: self.kept(),
            buffers: self.buffers,
        }
    }
}

/// One line of CLIENT LIST. Sizes are bytes, times seconds.
#[derive(Clone, Debug)]
pub struct ClientInfo {
    /// The connection's number.
    pub id: u64,
    /// The peer.
    pub address: String,
    /// Our end.
    pub local_address: String,
    /// The socket's descriptor.
    pub descriptor: i32,
    /// Its name; empty where it has none.
    pub name: String,
    /// The library that it is written with.
    pub library: Library,
    /// Since it connected.
    pub age: i64,
    /// Since its last command.
    pub idle: i64,
    /// Whether it came through a unix socket.
    pub unix_socket: bool,
    /// Whether it ends once its replies are sent.
    pub closing: bool,
    /// Whether it monitors.
    pub monitors: bool,
    /// Whether CLIENT NO-EVICT protects it.
    pub no_evict: bool,
    /// Whether its look-ups count as no use of the keys (CLIENT NO-TOUCH).
    pub no_touch: bool,
    /// Whether its command waits: for keys, for a lock, or for the end of a pause.
    pub blocked: bool,
    /// Commands queued since MULTI, and the memory that they take; None outside of a transaction.
    pub queued: Option<(usize, usize)>,
    /// Whether a key that it watches was changed. Known of the connection that asks only.
    pub dirty: bool,
    /// Its database.
    pub database: u32,
    /// Its last command, `NULL` before the first.
    pub command: &'static str,
    /// The user who is logged in.
    pub user: Option<Arc<str>>,
    /// The protocol it speaks.
    pub protocol: Protocol,
    /// Number of channels, patterns and shard channels it is subscribed to.
    pub subscribed: [usize; 3],
    /// Bytes of the arguments of the command that runs now. Known of the connection that asks only.
    pub arguments: usize,
    /// Bytes kept for its next commands.
    pub kept: usize,
    /// What the server knows of its memory.
    pub buffers: Buffers,
}

impl ClientInfo {
    /// Bytes of memory that it takes.
    pub fn memory(&self) -> usize {
        let Buffers {
            input,
            input_free,
            output,
            state,
            ..
        } = self.buffers;
        let queued = self.queued.map_or(0, |(_, bytes)| bytes);
        input + input_free + output + state + self.arguments + self.kept + queued
    }

    /// What kind of connection it is.
    pub fn kind(&self) -> ClientKind {
        match self.subscribed {
            [0, 0, 0] => ClientKind::Normal,
            _ => ClientKind::Pubsub,
        }
    }
}

impl fmt::Display for ClientInfo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all_flags = [
            (self.monitors, 'O'),
            (self.kind() == ClientKind::Pubsub, 'P'),
            (self.queued.is_some(), 'x'),
            (self.blocked, 'b'),
            (self.dirty, 'd'),
            (self.closing, 'c'),
            (self.unix_socket, 'U'),
            (self.no_evict, 'e'),
            (self.no_touch, 'T'),
        ];
        let set = all_flags.into_iter().filter(|(set, _)| *set);
        let mut flags: String = set.map(|(_, letter)| letter).collect();
        if flags.is_empty() {
            flags.push('N');
        }
        let commands = self.queued.map_or(-1, |(commands, _)| commands as i64);
        let queue_bytes = self.queued.map_or(0, |(_, bytes)| bytes);
        let [channels, patterns, shards] = self.subscribed;
        let (buffers, is_long) = (&self.buffers, self.buffers.is_long());
        write!(
            out,
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={flags} db={} sub={channels} psub={patterns} ssub={shards} multi={commands} \
             qbuf={} qbuf-free={} argv-mem={} multi-mem={queue_bytes} rbs={} rbp={} obl={} oll={} omem={} tot-mem={} \
             events=r cmd={} user={} redir=-1 resp={} lib-name={} lib-ver={}",
            self.id,
            self.address,
            self.local_address,
            self.descriptor,
            self.name,
            self.age,
            self.idle,
            self.database,
            buffers.input,
            buffers.input_free,
            self.arguments,
            if is_long { 0 } else { buffers.output },
            buffers.output_peak,
            if is_long { 0 } else { buffers.output_pending },
            u8::from(is_long),
            if is_long { buffers.output } else { 0 },
            self.memory(),
            self.command,
            self.user.as_deref().unwrap_or("(superuser)"),
            self.protocol.version(),
            self.library.name,
            self.library.version,
        )
    }
}

/// Which connections CLIENT KILL closes: those for which everything given holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KillFilter {
    /// This number.
    pub id: Option<u64>,
    /// This peer.
    pub address: Option<String>,
    /// This end of ours.
    pub local_address: Option<String>,
    /// This user.
    pub user: Option<String>,
    /// This kind.
    pub kind: Option<ClientKind>,
    /// Not this connection, the caller's own.
    pub except: Option<u64>,
}

/// The kinds of connections that CLIENT LIST and KILL tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// Any that is none of the others.
    Normal,
    /// The server this one copies; there is none yet.
    Master,
    /// A copy of this server; there is none yet.
    Replica,
    /// Subscribed to something.
    Pubsub,
}

impl KillFilter {
    /// Whether a connection is meant.
    pub fn matches(&self, client: &ClientInfo) -> bool {
        self.id.is_none_or(|id| id == client.id)
            && self
                .address
                .as_ref()
                .is_none_or(|address| *address == client.address)
            && self
                .local_address
                .as_ref()
                .is_none_or(|address| *address == client.local_address)
            && self
                .user
                .as_ref()
                .is_none_or(|user| client.user.as_deref() == Some(user))
            && self.kind.is_none_or(|kind| kind == client.kind())
            && self.except.is_none_or(|id| id != client.id)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_lasts_for_one_more_command() {
        let mode = ReplyMode::SkipNext;
        assert_eq!(mode.after_command(), ReplyMode::Skip);
        assert_eq!(mode.after_command().after_command(), ReplyMode::On);
        assert_eq!(ReplyMode::Off.after_command(), ReplyMode::Off);
    }

    #[test]
    fn a_line_has_redis_fields() {
        let mut session = Session::new(7, Some("default".into()), 1_000);
        session.address = "127.0.0.1:5".into();
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
