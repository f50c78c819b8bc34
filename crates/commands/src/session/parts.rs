//! The components of a session.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use undercroft_engine::Ranges;
use undercroft_engine::changes::Watch;
use undercroft_engine::feeds::FoundItems;

use super::queue::CommandQueue;
use crate::table::Command;

/// The endpoints of a connection. Times are Unix milliseconds.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The client's address: `ip:port`, or `path:0` for a Unix socket; empty for an embedded
    /// client.
    pub address: String,
    /// The server's address.
    pub local_address: String,
    /// The socket's file descriptor for CLIENT LIST, or -1 if there is none.
    pub descriptor: i32,
    /// Whether the client connected through a Unix socket.
    pub unix_socket: bool,
    /// When the client connected.
    pub created: i64,
    /// The host's route to the connection: its thread, and the connection's number in that thread.
    pub route: (usize, u64),
}

impl Peer {
    /// Returns the endpoints of an embedded client, or of a connection whose addresses are set
    /// later.
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

    /// Whether the client is a process that embeds the store, instead of a connection.
    pub(super) fn is_embedded(&self) -> bool {
        self.address.is_empty()
    }

    /// Whether the client is on this machine: embedded, or connected through a Unix socket or a
    /// loopback address.
    pub(super) fn is_local(&self) -> bool {
        let loopback = |address: SocketAddr| address.ip().to_canonical().is_loopback();
        self.is_embedded() || self.unix_socket || self.address.parse().is_ok_and(loopback)
    }
}

/// The reply mode that CLIENT REPLY sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// Replies are sent.
    #[default]
    On,
    /// No reply is sent until CLIENT REPLY ON.
    Off,
    /// The replies of the current command (CLIENT REPLY SKIP itself) and of the next one are not
    /// sent.
    SkipNext,
    /// The reply of the current command is not sent.
    Skip,
}

impl ReplyMode {
    /// Returns the mode for the command after this one.
    pub const fn after_command(self) -> ReplyMode {
        match self {
            ReplyMode::SkipNext => ReplyMode::Skip,
            ReplyMode::Skip | ReplyMode::On => ReplyMode::On,
            ReplyMode::Off => ReplyMode::Off,
        }
    }
}

/// Which replies are sent, and whether the connection closes after them.
#[derive(Clone, Debug, Default)]
pub struct ReplyControl {
    /// The mode set by CLIENT REPLY.
    pub mode: ReplyMode,
    /// Whether to close the connection once pending output is sent: set by QUIT, or by a CLIENT
    /// KILL of the connection itself.
    pub close_after: bool,
    /// Whether the current command confirmed subscriptions while replies are off.
    pub(crate) confirms: bool,
}

/// The activity of a connection, and its memory in the server. Times are Unix milliseconds.
#[derive(Clone, Debug)]
pub struct Activity {
    /// The last command, or `None` before the first.
    pub last_command: Option<&'static Command>,
    /// When the last command was sent.
    pub last_command_at: i64,
    /// The figures since the server last collected them.
    pub counters: Counters,
    /// The connection's memory outside the session; the server keeps this up to date.
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

/// The figures of a connection's commands. The server periodically takes ([`std::mem::take`]) and
/// sums them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The number of commands run, including failed ones.
    pub commands: u64,
    /// The number of keys that read commands found.
    pub hits: u64,
    /// The number of keys that read commands did not find.
    pub misses: u64,
    /// The number of error replies.
    pub errors: u64,
}

/// A connection's memory in its server, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    /// Input that is received but not yet processed. While commands run, this includes their entire
    /// input.
    pub input: usize,
    /// Free space in the input buffer.
    pub input_free: usize,
    /// The size of the reply buffer.
    pub output: usize,
    /// Peak number of bytes queued for this client in the last sampling window.
    pub output_peak: usize,
    /// The part of the reply buffer that is not sent yet.
    pub output_pending: usize,
    /// The server's other state for the connection.
    pub state: usize,
}

impl Buffers {
    /// The size of Redis' fixed reply buffer per connection. Output beyond it is reported like
    /// Redis' reply list.
    const FIRST: usize = 16 * 1024;

    /// Whether the pending output exceeds Redis' fixed reply buffer.
    pub(super) fn is_long(&self) -> bool {
        self.output_pending > Buffers::FIRST
    }
}

/// The state of a connection that concerns scripts.
#[derive(Clone, Debug, Default)]
pub struct ScriptState {
    /// Whether the commands run on a thread that no other connection waits for, so that a script
    /// may be slow.
    pub has_own_thread: bool,
    /// The number of upcoming scripts that start on a separate thread, because a recent one was
    /// slow.
    pub long_scripts: u16,
    /// The number of kill requests seen when the current script command began. Retries of its
    /// transaction keep it.
    pub(crate) killed: Option<u64>,
    /// The running time of the command's scripts in earlier attempts of its transaction, which
    /// counts toward the next attempt.
    pub(crate) time: Duration,
    /// Whether memory was full when EXEC began, for the scripts in it.
    pub(crate) was_full: bool,
}

impl ScriptState {
    /// Begins a command that runs scripts; `killed` is the current number of kill requests.
    pub(crate) fn begin(&mut self, killed: u64) {
        self.killed = Some(killed);
        self.time = Duration::ZERO;
    }
}

/// The state that MULTI and WATCH set up.
#[derive(Clone, Debug, Default)]
pub(crate) struct TransactionState {
    /// The commands queued since MULTI, or `None` outside a transaction.
    pub(crate) queue: Option<Arc<CommandQueue>>,
    /// The keys that WATCH named, with their state at that time.
    pub(crate) watches: Vec<Watch>,
}

impl TransactionState {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_none() && self.watches.is_empty()
    }

    /// The number of commands queued since MULTI and their memory in bytes, or `None` outside a
    /// transaction.
    pub(super) fn queued(&self) -> Option<(usize, usize)> {
        let queue = self.queue.as_ref()?;
        Some((queue.commands.len(), queue.memory))
    }

    /// Whether a queued command satisfies `is_meant`.
    pub(super) fn has_queued(&self, is_meant: fn(&Command) -> bool) -> bool {
        self.queue.as_ref().is_some_and(|queue| {
            let mut commands = queue.commands.iter();
            commands.any(|queued| is_meant(queued.command))
        })
    }
}

/// The largest capacity in bytes at which a connection keeps a buffer.
const KEPT_MAX: usize = 64 * 1024;

/// Buffers for values on their way to a reply, kept so that a read allocates nothing.
#[derive(Clone, Debug)]
pub(crate) struct ReadBuffers {
    /// A single value.
    pub(crate) text: Vec<u8>,
    /// The items of a list.
    pub(crate) items: Ranges,
    /// The items of a feed.
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

    /// Frees each buffer that a large reply has grown beyond [`KEPT_MAX`].
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

    /// The total capacity in bytes.
    pub(super) fn capacity(&self) -> usize {
        self.text.capacity() + self.items.capacity() + self.feed_items.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skip_applies_to_one_more_command() {
        let mode = ReplyMode::SkipNext;
        assert_eq!(mode.after_command(), ReplyMode::Skip);
        assert_eq!(mode.after_command().after_command(), ReplyMode::On);
        assert_eq!(ReplyMode::Off.after_command(), ReplyMode::Off);
    }
}
