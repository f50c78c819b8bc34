//! Formats the lines of CLIENT LIST, and evaluates the filters of CLIENT KILL.

use std::fmt;
use std::sync::Arc;

use super::parts::Buffers;
use super::tracking::TrackingInfo;
use crate::protocol::Protocol;

/// The client library, as reported by CLIENT SETINFO.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Library {
    /// The library's name, set by LIB-NAME.
    pub name: String,
    /// The library's version, set by LIB-VER.
    pub version: String,
}

/// The fields of one line of CLIENT LIST. Sizes are in bytes, and times are in seconds.
#[derive(Clone, Debug)]
pub struct ClientInfo {
    /// The ID of the connection.
    pub id: u64,
    /// The client's address.
    pub address: String,
    /// The server's address.
    pub local_address: String,
    /// The socket's file descriptor.
    pub descriptor: i32,
    /// The connection's name, or an empty string if no name is set.
    pub name: String,
    /// The client library, as reported by CLIENT SETINFO.
    pub library: Library,
    /// The time since the client connected, in seconds.
    pub age: i64,
    /// The time since the client's last command.
    pub idle: i64,
    /// Whether the client connected through a Unix socket.
    pub unix_socket: bool,
    /// Whether the connection will be closed once its replies are sent.
    pub closing: bool,
    /// Whether the connection is in MONITOR mode.
    pub monitors: bool,
    /// Whether the connection is that of a replica.
    pub is_replica: bool,
    /// Whether CLIENT NO-EVICT protects the connection from being closed to free memory.
    pub no_evict: bool,
    /// Whether CLIENT NO-TOUCH is on, so that lookups do not count as accesses to the keys.
    pub no_touch: bool,
    /// Whether the current command is waiting for keys, for a lock, or for a pause to end.
    pub blocked: bool,
    /// The number of commands queued since MULTI and their memory in bytes, or `None` outside a
    /// transaction.
    pub queued: Option<(usize, usize)>,
    /// Whether a watched key has changed. Known only for the connection that runs CLIENT LIST.
    pub dirty: bool,
    /// The number of the selected database.
    pub database: u32,
    /// The name of the last command, or `NULL` before the first command.
    pub command: &'static str,
    /// The name of the user.
    pub user: Arc<str>,
    /// The negotiated protocol version.
    pub protocol: Protocol,
    /// The numbers of subscribed channels, patterns and shard channels.
    pub subscribed: [usize; 3],
    /// The tracking of the connection.
    pub tracking: TrackingInfo,
    /// The size of the current command's arguments. Known only for the connection that runs CLIENT
    /// LIST.
    pub arguments: usize,
    /// The amount of memory that the connection retains between commands.
    pub kept: usize,
    /// The memory that the connection's buffers use in the server.
    pub buffers: Buffers,
}

impl ClientInfo {
    /// Returns the total memory that the connection uses, in bytes.
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

    /// Returns the kind of the connection.
    pub fn kind(&self) -> ClientKind {
        match self.subscribed {
            _ if self.is_replica => ClientKind::Replica,
            [0, 0, 0] => ClientKind::Normal,
            _ => ClientKind::Pubsub,
        }
    }
}

impl fmt::Display for ClientInfo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all_flags = [
            (self.monitors, 'O'),
            (self.is_replica, 'S'),
            (self.kind() == ClientKind::Pubsub, 'P'),
            (self.queued.is_some(), 'x'),
            (self.blocked, 'b'),
            (self.tracking.is_on(), 't'),
            (self.tracking.is_broken(), 'R'),
            (self.tracking.broadcasts(), 'B'),
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
             events=r cmd={} user={} redir={} resp={} lib-name={} lib-ver={}",
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
            self.user,
            self.tracking.redirection(),
            self.protocol.version(),
            self.library.name,
            self.library.version,
        )
    }
}

/// A filter for the connections that CLIENT KILL closes. A connection must satisfy all given
/// conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KillFilter {
    /// The ID that the connection must have.
    pub id: Option<u64>,
    /// The address that the client must have.
    pub address: Option<String>,
    /// The address that the server's end of the connection must have.
    pub local_address: Option<String>,
    /// The user that must be authenticated on the connection.
    pub user: Option<String>,
    /// The kind that the connection must have.
    pub kind: Option<ClientKind>,
    /// The ID that the connection must not have: the ID of the caller's connection.
    pub except: Option<u64>,
}

/// The kinds of connections that CLIENT LIST and CLIENT KILL distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// A connection of an ordinary client, which has no subscriptions.
    Normal,
    /// A connection to a master. This kind never occurs, because connections to a source are not
    /// listed.
    Master,
    /// A connection from a replica.
    Replica,
    /// A connection that has subscriptions.
    Pubsub,
}

impl KillFilter {
    /// Returns whether a connection matches the filter.
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
            && self.user.as_ref().is_none_or(|user| *client.user == **user)
            && self.kind.is_none_or(|kind| kind == client.kind())
            && self.except.is_none_or(|id| id != client.id)
    }
}
