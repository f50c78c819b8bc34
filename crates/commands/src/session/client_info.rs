//! What CLIENT LIST shows of a connection, and which ones CLIENT KILL closes.

use std::fmt;
use std::sync::Arc;

use super::parts::Buffers;
use crate::protocol::Protocol;

/// The library that a client is written with, as CLIENT SETINFO tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Library {
    /// LIB-NAME.
    pub name: String,
    /// LIB-VER.
    pub version: String,
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
