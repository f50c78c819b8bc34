//! The lines of CLIENT LIST, and the filters of CLIENT KILL.

use std::fmt;
use std::sync::Arc;

use super::parts::Buffers;
use crate::protocol::Protocol;

/// The client's library, as CLIENT SETINFO reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Library {
    /// The value of LIB-NAME.
    pub name: String,
    /// The value of LIB-VER.
    pub version: String,
}

/// One line of CLIENT LIST. Sizes are in bytes, times in seconds.
#[derive(Clone, Debug)]
pub struct ClientInfo {
    /// The connection's number.
    pub id: u64,
    /// The client's address.
    pub address: String,
    /// The server's address.
    pub local_address: String,
    /// The socket's file descriptor.
    pub descriptor: i32,
    /// The connection's name; empty if unset.
    pub name: String,
    /// The client's library.
    pub library: Library,
    /// The time since the client connected.
    pub age: i64,
    /// The time since the last command.
    pub idle: i64,
    /// Whether the client connected through a Unix socket.
    pub unix_socket: bool,
    /// Whether the connection closes once its replies are sent.
    pub closing: bool,
    /// Whether the connection is in MONITOR mode.
    pub monitors: bool,
    /// Whether CLIENT NO-EVICT protects the connection.
    pub no_evict: bool,
    /// Whether CLIENT NO-TOUCH is on, so that lookups do not count as use of the keys.
    pub no_touch: bool,
    /// Whether the current command waits: for keys, for a lock, or for the end of a pause.
    pub blocked: bool,
    /// The number of commands queued since MULTI and their memory, or `None` outside a transaction.
    pub queued: Option<(usize, usize)>,
    /// Whether a watched key has changed. Known only for the connection that asks.
    pub dirty: bool,
    /// The selected database.
    pub database: u32,
    /// The last command, or `NULL` before the first.
    pub command: &'static str,
    /// The authenticated user.
    pub user: Option<Arc<str>>,
    /// The negotiated protocol.
    pub protocol: Protocol,
    /// The number of subscribed channels, patterns and shard channels.
    pub subscribed: [usize; 3],
    /// The size of the current command's arguments. Known only for the connection that asks.
    pub arguments: usize,
    /// The bytes kept between commands.
    pub kept: usize,
    /// The connection's memory in its server.
    pub buffers: Buffers,
}

impl ClientInfo {
    /// The connection's total memory in bytes.
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

    /// The connection's kind.
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

/// A filter for the connections that CLIENT KILL closes: all given conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KillFilter {
    /// The connection has this number.
    pub id: Option<u64>,
    /// The client has this address.
    pub address: Option<String>,
    /// The server's end has this address.
    pub local_address: Option<String>,
    /// The connection is authenticated as this user.
    pub user: Option<String>,
    /// The connection is of this kind.
    pub kind: Option<ClientKind>,
    /// The connection does not have this number, which is the caller's.
    pub except: Option<u64>,
}

/// The kinds of connections in CLIENT LIST and CLIENT KILL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// A connection of no other kind.
    Normal,
    /// The connection to a master. Never occurs, because there is no replication.
    Master,
    /// The connection of a replica. Never occurs, because there is no replication.
    Replica,
    /// A connection that has subscriptions.
    Pubsub,
}

impl KillFilter {
    /// Whether a connection matches the filter.
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
