//! The parts of a session, by concern.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use undercroft_engine::Ranges;
use undercroft_engine::changes::Watch;
use undercroft_engine::feeds::FoundItems;

use super::queue::CommandQueue;
use crate::table::Command;

/// The ends of a connection. Times are Unix milliseconds.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The peer: `ip:port`, or `path:0` for a unix socket; empty for an embedded client.
    pub address: String,
    /// Our end.
    pub local_address: String,
    /// The socket's descriptor, for CLIENT LIST; -1 where there is none.
    pub descriptor: i32,
    /// Whether it came through a unix socket.
    pub unix_socket: bool,
    /// When it connected.
    pub created: i64,
    /// Where the host finds the connection again, in numbers of its own: the thread, and its place there.
    pub route: (usize, u64),
}

impl Peer {
    /// That of an embedded client, or of a connection whose addresses follow.
    pub(super) fn new(now: i64) -> Peer {
        Peer {
            address: String::new(),
            local_address: String::new(),
            descriptor: -1,
            unix_socket: false,
            created: now,
            route: (0, 0),
        }
    }

    /// Whether it is no connection, but a process that embeds the store.
    pub(super) fn is_embedded(&self) -> bool {
        self.address.is_empty()
    }

    /// Whether it is on this machine: a unix socket, or a loopback address.
    pub(super) fn is_local(&self) -> bool {
        let loopback = |address: SocketAddr| address.ip().to_canonical().is_loopback();
        self.is_embedded() || self.unix_socket || self.address.parse().is_ok_and(loopback)
    }
}

/// Whether replies are sent: CLIENT REPLY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// Replies are sent.
    #[default]
    On,
    /// No reply is sent until CLIENT REPLY ON.
    Off,
    /// The replies of the command that runs now (CLIENT REPLY SKIP itself) and of the next one are not sent.
    SkipNext,
    /// The reply of the command that runs now is not sent.
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

/// Which replies are sent, and whether the connection ends after them.
#[derive(Clone, Debug, Default)]
pub struct ReplyControl {
    /// Whether replies are sent.
    pub mode: ReplyMode,
    /// Close the connection once what was written is sent: QUIT, or CLIENT KILL of itself.
    pub close_after: bool,
    /// The command that runs now has confirmed subscriptions, while replies are not sent.
    pub(crate) confirms: bool,
}

/// What a connection does, and the memory that it takes in the server. Times are Unix milliseconds.
#[derive(Clone, Debug)]
pub struct Activity {
    /// What it last sent; None before the first.
    pub last_command: Option<&'static Command>,
    /// When it last sent a command.
    pub last_command_at: i64,
    /// What its commands did since the server last took these figures.
    pub counters: Counters,
    /// Its memory outside of the session, which the server keeps up to date.
    pub buffers: Buffers,
}

impl Activity {
    pub(super) fn new(now: i64) -> Activity {
        Activity {
            last_command: None,
            last_command_at: now,
            counters: Counters::default(),
            buffers: Buffers::default(),
        }
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

/// Memory of a connection as its server knows it, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    /// Received and not done with: while commands are run, all that came with them.
    pub input: usize,
    /// Room left in that buffer.
    pub input_free: usize,
    /// The buffer of replies.
    pub output: usize,
    /// Peak number of bytes queued for this client in the last sampling window.
    pub output_peak: usize,
    /// Bytes of it that wait to be sent.
    pub output_pending: usize,
    /// What the server remembers of the connection.
    pub state: usize,
}

impl Buffers {
    /// Replies up to so many bytes go into the buffer that each connection of Redis has; what is larger is told as
    /// Redis tells of the list behind it.
    const FIRST: usize = 16 * 1024;

    /// Whether replies wait that are more than a connection of Redis has a buffer for.
    pub(super) fn is_long(&self) -> bool {
        self.output_pending > Buffers::FIRST
    }
}

/// The scripts that a connection runs.
#[derive(Clone, Debug, Default)]
pub struct ScriptState {
    /// Its commands run on a thread that no other connection waits for, so that a script may take long.
    pub has_own_thread: bool,
    /// Number of its next scripts that begin on a thread of their own, as one of its last took long.
    pub long_scripts: u16,
    /// How often scripts had been told to end when the command began that runs scripts now, however often its
    /// transaction starts anew.
    pub(crate) killed: Option<u64>,
    /// For how long scripts of that command ran whose transaction had to start anew: it counts for the next run.
    pub(crate) time: Duration,
    /// Whether there was no room for more when EXEC began, for the scripts in it.
    pub(crate) was_full: bool,
}

impl ScriptState {
    /// Begins a command that runs scripts, where scripts have been told to end so often.
    pub(crate) fn begin(&mut self, killed: u64) {
        self.killed = Some(killed);
        self.time = Duration::ZERO;
    }
}

/// What MULTI and WATCH have begun.
#[derive(Clone, Debug, Default)]
pub(crate) struct TransactionState {
    /// What was queued since MULTI; None outside of a transaction.
    pub(crate) queue: Option<Arc<CommandQueue>>,
    /// The keys that WATCH named.
    pub(crate) watches: Vec<Watch>,
}

impl TransactionState {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_none() && self.watches.is_empty()
    }

    /// The number of commands queued since MULTI, and the memory that they take; None outside of a transaction.
    pub(super) fn queued(&self) -> Option<(usize, usize)> {
        let queue = self.queue.as_ref()?;
        Some((queue.commands.len(), queue.memory))
    }

    /// Whether something is true of a command that is queued since MULTI.
    pub(super) fn has_queued(&self, is_meant: fn(&Command) -> bool) -> bool {
        self.queue.as_ref().is_some_and(|queue| {
            let mut commands = queue.commands.iter();
            commands.any(|queued| is_meant(queued.command))
        })
    }
}

/// Most bytes of each buffer that a connection keeps.
const KEPT_MAX: usize = 64 * 1024;

/// Where values are copied to on their way to a reply; kept so that a read allocates nothing.
#[derive(Clone, Debug)]
pub(crate) struct ReadBuffers {
    /// One value.
    pub(crate) text: Vec<u8>,
    /// Items of lists.
    pub(crate) items: Ranges,
    /// Items of feeds.
    pub(crate) feed_items: FoundItems,
}

impl ReadBuffers {
    pub(super) fn new() -> ReadBuffers {
        ReadBuffers {
            text: Vec::new(),
            items: Ranges::new(),
            feed_items: FoundItems::new(),
        }
    }

    /// Gives back each buffer that one large reply has made larger than [`KEPT_MAX`].
    #[inline(always)]
    pub(crate) fn trim(&mut self) {
        if self.text.capacity() > KEPT_MAX {
            self.text = Vec::new();
        }
        if self.items.capacity() > KEPT_MAX {
            self.items = Ranges::new();
        }
        if self.feed_items.capacity() > KEPT_MAX {
            self.feed_items = FoundItems::new();
        }
    }

    /// Bytes that are kept.
    pub(super) fn capacity(&self) -> usize {
        self.text.capacity() + self.items.capacity() + self.feed_items.capacity()
    }
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
}
