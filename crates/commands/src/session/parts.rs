//! Defines the components of a session.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use undercroft_engine::AppliedPosition;
use undercroft_engine::Ranges;
use undercroft_engine::changes::Watch;
use undercroft_engine::feeds::FoundItems;

use super::queue::CommandQueue;
use crate::table::Command;

/// The endpoints of a connection. Times are in Unix milliseconds.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The client's address: `ip:port`, `path:0` for a Unix socket, or an empty string for an
    /// embedded client.
    pub address: String,
    /// The address of the server's end of the connection.
    pub local_address: String,
    /// The socket's file descriptor, which CLIENT LIST shows, or -1 if the client has no socket.
    pub descriptor: i32,
    /// Whether the client connected through a Unix socket.
    pub unix_socket: bool,
    /// The time when the client connected.
    pub created: i64,
    /// The host's route to the connection: the index of its thread, and the connection's number
    /// within that thread.
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

    /// Returns whether the client is a process that embeds the store rather than a connection.
    pub(super) fn is_embedded(&self) -> bool {
        self.address.is_empty()
    }

    /// Returns whether the client is on this machine: either embedded, or connected through a Unix
    /// socket or a loopback address.
    pub(super) fn is_local(&self) -> bool {
        let loopback = |address: SocketAddr| address.ip().to_canonical().is_loopback();
        self.is_embedded() || self.unix_socket || self.address.parse().is_ok_and(loopback)
    }
}

/// The reply mode that CLIENT REPLY sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// Every reply is sent.
    #[default]
    On,
    /// No reply is sent until CLIENT REPLY ON.
    Off,
    /// The replies to the current command (CLIENT REPLY SKIP itself) and to the next command are
    /// not sent.
    SkipNext,
    /// The reply to the current command is not sent.
    Skip,
}

impl ReplyMode {
    /// Returns the mode for the next command.
    pub const fn after_command(self) -> ReplyMode {
        match self {
            ReplyMode::SkipNext => ReplyMode::Skip,
            ReplyMode::Skip | ReplyMode::On => ReplyMode::On,
            ReplyMode::Off => ReplyMode::Off,
        }
    }
}

/// Controls which replies are sent, and whether the connection is then closed.
#[derive(Clone, Debug, Default)]
pub struct ReplyControl {
    /// The mode set by CLIENT REPLY.
    pub mode: ReplyMode,
    /// Whether to close the connection once pending output is sent. Set by QUIT, and by a CLIENT
    /// KILL that matches the connection itself.
    pub close_after: bool,
    /// Whether the current command confirmed subscriptions while replies were off.
    pub(crate) confirms: bool,
}

/// The activity of a connection, and its memory usage in the server. Times are in Unix
/// milliseconds.
#[derive(Clone, Debug)]
pub struct Activity {
    /// The last command, or `None` before the first command.
    pub last_command: Option<&'static Command>,
    /// The time when the last command was sent.
    pub last_command_at: i64,
    /// The counters since the server last collected them.
    pub counters: Counters,
    /// The memory that the connection uses outside the session. The server keeps these sizes up to
    /// date.
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

/// Counters of a connection's commands. The server periodically collects and resets the counters
/// with [`std::mem::take`], and adds them up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The number of commands run, including failed commands.
    pub commands: u64,
    /// The number of keys that read commands found.
    pub hits: u64,
    /// The number of keys that read commands did not find.
    pub misses: u64,
    /// The number of error replies.
    pub errors: u64,
}

/// The memory that a connection uses in its server, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    /// The size of input that has been received but not yet processed. While commands run, this
    /// includes all of their input.
    pub input: usize,
    /// The amount of free space in the input buffer.
    pub input_free: usize,
    /// The size of the reply buffer in bytes.
    pub output: usize,
    /// The peak number of bytes that were queued for this client in the last sampling window.
    pub output_peak: usize,
    /// The number of bytes in the reply buffer that have not been sent yet.
    pub output_pending: usize,
    /// The size of all other state that the server stores for the connection.
    pub state: usize,
}

impl Buffers {
    /// The size of Redis' fixed per-connection reply buffer, in bytes. As in Redis, CLIENT LIST
    /// reports output beyond this size as the reply list.
    const FIRST: usize = 16 * 1024;

    /// Returns whether the pending output would exceed Redis' fixed reply buffer.
    pub(super) fn is_long(&self) -> bool {
        self.output_pending > Buffers::FIRST
    }
}

/// The state of a connection that concerns its scripts.
#[derive(Clone, Debug, Default)]
pub struct ScriptState {
    /// Whether commands run on a thread that serves no other connection, so that slow scripts are
    /// acceptable.
    pub has_own_thread: bool,
    /// The number of upcoming scripts that start on a separate thread, because a recent script was
    /// slow.
    pub long_scripts: u16,
    /// The number of kill requests that had been made when the current script command began. It
    /// does not change when the command's transaction is retried.
    pub(crate) killed: Option<u64>,
    /// The total running time of the command's scripts in earlier attempts of its transaction. It
    /// counts toward the time limit of the next attempt.
    pub(crate) time: Duration,
    /// Whether the memory limit was exceeded when EXEC began. Applies to the scripts that EXEC
    /// runs.
    pub(crate) was_full: bool,
}

impl ScriptState {
    /// Begins a command that runs scripts. `killed` is the number of kill requests made so far.
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
    /// The keys named by WATCH, with their state at that time.
    pub(crate) watches: Vec<Watch>,
    /// The place in the stream of a replica's source after the queued commands, which EXEC records. If
    /// the source is a cluster, the stream is that of a lane.
    pub(crate) applied: Option<(Option<u8>, AppliedPosition)>,
}

impl TransactionState {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_none() && self.watches.is_empty()
    }

    /// Returns the number of commands queued since MULTI and their memory in bytes, or `None`
    /// outside a transaction.
    pub(super) fn queued(&self) -> Option<(usize, usize)> {
        let queue = self.queue.as_ref()?;
        Some((queue.commands.len(), queue.memory))
    }

    /// Returns whether any queued command satisfies `is_meant`.
    pub(super) fn has_queued(&self, is_meant: fn(&Command) -> bool) -> bool {
        self.queue.as_ref().is_some_and(|queue| {
            let mut commands = queue.commands.iter();
            commands.any(|queued| is_meant(queued.command))
        })
    }
}

/// The maximum capacity in bytes of a buffer that a connection retains for reuse.
const KEPT_MAX: usize = 64 * 1024;

/// Buffers for values that are being copied from the store to a reply. They are reused, so that
/// reads do not allocate.
#[derive(Clone, Debug)]
pub(crate) struct ReadBuffers {
    /// The buffer for a single value.
    pub(crate) text: Vec<u8>,
    /// The buffer for the items of a list.
    pub(crate) items: Ranges,
    /// The buffer for the items of a feed.
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

    /// Frees each buffer that a large reply has enlarged beyond [`KEPT_MAX`].
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

    /// Returns the total capacity of all buffers in bytes.
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
