//! Manages the buffers of a connection, and executes its commands.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use undercroft_commands::protocol::Protocol;
use undercroft_commands::session::{Buffers, ReplyMode, Session};
use undercroft_commands::{Blocked, Context};
use undercroft_engine::Durability;
use undercroft_engine::waiting::Answer;
use undercroft_resp::{Parsed, RequestParser, encode};

use crate::connection::commands::{Batch, Turn, TurnEnd};
use crate::connection::incoming::Incoming;
use crate::connection::output::{Output, SpareBuffers};
use crate::connection::writer::Writer;
use crate::log::log;
use crate::replicas::serving::ReplicaConnection;
use crate::shared::hub;
use crate::shared::limits::{Limits, OutputLimit};
use crate::shared::registry::Card;
use crate::shared::state::Shared;
use crate::shared::totals::Traffic;
use crate::shared::tracking::Push;
use crate::sockets::poll::Interest;
use crate::sockets::transport::{Received, Transport};

/// While more reply bytes than this are unsent, the server reads no more commands from an
/// unauthenticated client.
const OUTPUT_BEFORE_LOGIN: usize = 64 * 1024;
/// The maximum capacity, in bytes, of a buffer that the next batch reuses.
const KEPT: usize = 64 * 1024;
/// The maximum number of reply bytes to hold back until other connections have received their
/// replies.
const HELD: usize = 16 * 1024;
/// The first bytes of a TLS handshake: its record type, and the higher half of the version.
const TLS_HANDSHAKE: &[u8] = &[0x16, 3];
/// A TLS record with the fatal alert `protocol_version` (RFC 8446, section 6.2).
const PROTOCOL_VERSION_ALERT: &[u8] = &[0x15, 3, 3, 0, 2, 2, 70];
/// The maximum duration of a TLS handshake, including a proxy's header before it, in milliseconds.
const HANDSHAKE_MAX: i64 = 10_000;
/// The number of bytes to read from the socket if the length of the input is unknown.
pub(crate) const READ: usize = 32 * 1024;

/// A connection and the state of its current command.
pub(crate) struct Connection {
    pub(crate) socket: Transport,
    pub(crate) session: Session,
    pub(crate) card: Arc<Card>,
    parser: RequestParser,
    /// Received bytes. Those before `start` have been executed, and a command begins at `start`.
    /// Empty between commands.
    input: Vec<u8>,
    start: usize,
    /// The command whose value is being received directly into the store.
    incoming: Option<Incoming>,
    /// The minimum number of bytes that the current command still needs.
    wanted: usize,
    output: Output,
    /// The events for which the socket is registered with epoll, or `None` if it is no longer
    /// registered.
    pub(crate) registered: Option<Interest>,
    /// Whether the user that a client's certificate names need not be looked up, or has been.
    pub(super) is_identified: bool,
    /// Whether the peer has closed its sending side. Commands that have arrived are still answered.
    ended: bool,
    /// Whether to close the connection as soon as the replies have been sent.
    closing: bool,
    /// The time at which the next command started waiting for a lock or for the end of a pause.
    pub(crate) parked: Option<Instant>,
    /// Whether the next command is waiting for a lock. If not, it is waiting for the end of a
    /// pause.
    pub(crate) locked: bool,
    /// The journal position up to which the connection's changes must be durable before its replies
    /// are sent, or `None` if no reply waits for the disk (J4).
    pub(crate) unsynced: Option<u64>,
    /// Whether the connection is in the queue of connections with unexecuted commands.
    pub(crate) queued: bool,
    /// Whether the next command is a login that must wait, or waits for replicas.
    pub(crate) is_delayed: bool,
    /// Whether the connection counts as blocked because it waits for replicas.
    pub(crate) is_counted: bool,
    /// The time at which the output rose above the soft limit, in Unix milliseconds.
    over_limit_since: Option<i64>,
    /// The number of bytes that the client has received since the last periodic check.
    taken: usize,
    shown: PublishedState,
}

/// The state that a connection's card publishes to other threads, in addition to the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PublishedState {
    buffers: Buffers,
    parked: bool,
    waiting: bool,
}

/// The next step for a connection after its turn.
#[derive(Debug)]
pub(crate) enum Next {
    /// Wait until the socket has more input or room for more output.
    Wait,
    /// Run another turn, because the input contains more commands.
    Turn,
    /// Retry the next command when a lock is released or a pause ends.
    Park(Blocked),
    /// Run another turn after this time, because a login must wait.
    Delay(Duration),
    /// Run another turn when replicas acknowledge, at the latest after this time.
    Rest(Option<Duration>),
    /// Move the connection to a separate thread, because the next command is a long script.
    OwnThread,
    /// Send the replies after other connections have had their turns.
    Send,
    /// Send the replies when the journal is durable up to this position, then run another turn.
    Sync(u64),
    /// Hand the connection over to the threads that serve replicas.
    Replica,
    /// Close the connection.
    Close,
}

/// Buffers that all connections of a thread share, so that idle connections need no buffers, and
/// the thread's traffic counters.
pub(crate) struct Workspace {
    input: Vec<u8>,
    batch: Batch,
    pub(crate) spares: SpareBuffers,
    pub(crate) traffic: Traffic,
    /// Whether to hold back replies until those of other connections are ready, so that a client is
    /// woken once for all of its requests.
    pub(crate) holds: bool,
}

impl Workspace {
    pub(crate) fn new() -> Workspace {
        Workspace {
            input: Vec::with_capacity(READ),
            batch: Batch::default(),
            spares: SpareBuffers::default(),
            traffic: Traffic::default(),
            holds: false,
        }
    }
}

impl Connection {
    pub(crate) fn new(
        socket: Transport,
        session: Session,
        card: Arc<Card>,
        limits: &Limits,
    ) -> Self {
        let mut connection = Connection {
            is_identified: !socket.is_encrypted(),
            socket,
            session,
            card,
            parser: RequestParser::default(),
            input: Vec::new(),
            start: 0,
            incoming: None,
            wanted: 0,
            output: Output::default(),
            registered: None,
            ended: false,
            closing: false,
            parked: None,
            locked: false,
            unsynced: None,
            queued: false,
            is_delayed: false,
            is_counted: false,
            over_limit_since: None,
            taken: 0,
            shown: PublishedState::default(),
        };
        connection.limit_parser(limits);
        connection
    }

    /// Sets the parser's limits, which depend on the configuration and on whether the client is
    /// authenticated.
    pub(crate) fn limit_parser(&mut self, limits: &Limits) {
        self.parser.set_limits(limits.of_parser(&self.session));
    }

    /// Returns whether the client receives unsolicited data, through a subscription or MONITOR.
    fn is_told(&self) -> bool {
        !self.session.subscriptions.is_empty() || self.session.monitors
    }

    fn output_limit(&self, limits: &Limits) -> OutputLimit {
        if self.is_told() {
            limits.messages
        } else {
            limits.output
        }
    }

    /// Returns the connection as that of a replica.
    pub(crate) fn into_replica(mut self) -> ReplicaConnection {
        let input = self.input.split_off(self.start);
        ReplicaConnection::new(self.socket, self.card, &mut self.session, input)
    }

    /// Queues a message for the client. Returns whether the caller must send the output or close
    /// the connection, because the output was empty before or now exceeds a limit.
    pub(crate) fn post(&mut self, parcel: &[u8], limits: &Limits, space: &mut Workspace) -> bool {
        let was_idle = self.output.pending() == 0;
        let resp3 = self.session.protocol == Protocol::Resp3;
        self.output.append(&mut space.spares, |out| {
            hub::append(out, parcel, resp3);
        });
        was_idle || self.output.pending() > limits.messages.hard
    }

    /// Queues an invalidation. Returns whether the caller must send the output or close the
    /// connection, because the output was empty before or now exceeds a limit.
    pub(crate) fn push(&mut self, push: &Push, limits: &Limits, space: &mut Workspace) -> bool {
        if self.closing {
            return false;
        }
        let was_idle = self.output.pending() == 0;
        let session = &self.session;
        self.output
            .append(&mut space.spares, |out| push.append(session, out));
        was_idle || self.output.pending() > self.output_limit(limits).hard
    }

    /// Queues MONITOR lines, and sends as many bytes as the socket accepts.
    pub(crate) fn send_lines(
        &mut self,
        lines: &[u8],
        limits: &Limits,
        space: &mut Workspace,
    ) -> Next {
        // Stop sending lines on a closing connection, because they could keep it open forever.
        if self.session.replies.mode == ReplyMode::Off || self.closing {
            return Next::Wait;
        }
        self.output
            .append(&mut space.spares, |out| out.extend_from_slice(lines));
        self.send_messages(limits, space)
    }

    /// Sends queued messages. Closes the connection if its unsent output exceeds the limit.
    pub(crate) fn send_messages(&mut self, limits: &Limits, space: &mut Workspace) -> Next {
        if self.send_output(space).is_err() || self.has_too_much(limits) {
            return Next::Close;
        }
        Next::Wait
    }

    /// Returns whether the output exceeds the hard limit, so that the connection must be closed.
    /// Logs the reason.
    fn has_too_much(&self, limits: &Limits) -> bool {
        let limit = self.output_limit(limits).hard;
        let too_much = self.output.pending() > limit;
        if too_much {
            self.log_closing(&format!("more than the limit of {limit} bytes"));
        }
        too_much
    }

    #[cold]
    fn log_closing(&self, reason: &str) {
        log(format_args!(
            "closed client {} at {}: {} bytes were queued for it, {reason} \
             (client-output-buffer-limit)",
            self.session.id,
            self.session.peer.address,
            self.output.pending()
        ));
    }

    /// Returns whether too much output is unsent to read more of the client's commands.
    fn is_full(&self, limits: &Limits) -> bool {
        let most = if self.is_told() {
            // Not reading the client's commands does not stop its messages.
            return false;
        } else if self.session.login.is_admitted() {
            limits.output.soft
        } else {
            OUTPUT_BEFORE_LOGIN
        };
        self.output.pending() > most
    }

    /// Returns the socket events to wait for. Parked and queued commands run before new input is
    /// read.
    pub(crate) fn interest(&self, limits: &Limits) -> Interest {
        // A client that waits for replicas can disconnect.
        let rests = self.is_delayed && !self.session.waits_for_replicas();
        let waits = self.parked.is_some() || rests || self.queued;
        let listens = !self.ended && !self.closing && !waits;
        let is_synced = self.unsynced.is_none();
        Interest {
            read: listens && is_synced && !self.is_full(limits),
            write: is_synced && self.has_output(),
        }
    }

    /// Reads the available input, and runs the commands in it.
    pub(crate) fn read_and_run(
        &mut self,
        shared: &Shared,
        limits: &Limits,
        space: &mut Workspace,
    ) -> Next {
        if !self.input.is_empty() {
            // Grow the buffer in proportion to the received bytes. Growing it to the length that
            // the client announces would allow a client to reserve memory for bytes that it never
            // sends.
            let room = self.wanted.clamp(READ / 4, self.input.len().max(READ));
            self.input.reserve(room);
            let mut input = std::mem::take(&mut self.input);
            let read = self.receive(&mut input, &mut space.traffic);
            self.input = input;
            return match read {
                Read::Nothing => Next::Wait,
                Read::Broken(error) => self.end_broken(error, shared),
                Read::Some => self.run_rest(shared, limits, space),
            };
        }
        let mut input = std::mem::take(&mut space.input);
        input.clear();
        let read = self.receive(&mut input, &mut space.traffic);
        let announced = self.socket.take_announced();
        let refused = announced.and_then(|announced| self.learn_peer(announced, shared));
        let next = match read {
            _ if refused.is_some() => Next::Close,
            Read::Nothing => Next::Wait,
            Read::Broken(error) => self.end_broken(error, shared),
            Read::Some if input.starts_with(TLS_HANDSHAKE) => self.refuse_tls(shared),
            Read::Some => {
                let (used, next) = self.run(&input, shared, limits, space);
                if used < input.len() && !self.closing {
                    self.input.extend_from_slice(&input[used..]);
                }
                next
            }
        };
        space.input = input;
        next
    }

    /// Tells a client that begins a TLS handshake on a port without TLS what is wrong, with an alert
    /// of its own protocol, and the operator in the log.
    #[cold]
    fn refuse_tls(&mut self, shared: &Shared) -> Next {
        let reason = "a TLS handshake on a port that does not encrypt";
        shared.audit_connection(&self.session.peer.address, self.session.id, reason);
        log(format_args!(
            "closed client {} at {}: it begins a TLS handshake, but this port does not encrypt (tls-port \
             sets one that does)",
            self.session.id, self.session.peer.address
        ));
        // The connection ends, also if the client is gone.
        let _ = self.socket.send(PROTOCOL_VERSION_ALERT);
        Next::Close
    }

    /// Ends a connection that is broken. Reports a failure of TLS, or a faulty header of a proxy, to the
    /// audit log.
    #[cold]
    fn end_broken(&mut self, error: io::Error, shared: &Shared) -> Next {
        if error.kind() == io::ErrorKind::InvalidData {
            let before = if self.socket.is_encrypted() {
                "TLS failed: "
            } else {
                ""
            };
            let reason = format!("{before}{error}");
            shared.audit_connection(&self.session.peer.address, self.session.id, &reason);
        }
        Next::Close
    }

    /// Reads input while a command is blocked on keys, or waits for replicas. The commands in the input run later, unless
    /// the client disconnects.
    pub(crate) fn read_ahead(&mut self, limits: &Limits, space: &mut Workspace) -> Next {
        self.input.reserve(READ / 4);
        let mut input = std::mem::take(&mut self.input);
        let read = self.receive(&mut input, &mut space.traffic);
        self.input = input;
        let too_much = self.input.len() - self.start > limits.input;
        match read {
            Read::Broken(_) => Next::Close,
            _ if self.ended || too_much => Next::Close,
            Read::Some | Read::Nothing => Next::Wait,
        }
    }

    /// Replies to the command that was blocked on keys.
    pub(crate) fn answer(
        &mut self,
        answer: &Answer,
        shared: &Shared,
        limits: &Limits,
        space: &mut Workspace,
    ) -> Next {
        let Some(wait) = self.session.waiting.take() else {
            return Next::Wait;
        };
        let out = self.output.take(&mut space.spares);
        let before = out.len();
        let mut writer = Writer::new(out, self.session.protocol);
        let is_error = wait.answer(answer, &mut writer);
        let mut out = writer.out;
        if is_error {
            let text = String::from_utf8_lossy(&out[before + 1..]);
            shared.count_error(&mut self.session, &text);
            if let Some(command) = self.session.activity.last_command {
                let statistics = &shared.process.statistics;
                statistics.count_failed(self.session.peer.route.0, command);
            }
        }
        if !self.session.finish_command() {
            out.truncate(before);
        }
        self.output.put(out);
        // Another process may have made the change that the reply reports.
        let store = shared.store();
        if store.durability() == Durability::Always {
            let position = store.journal_head();
            if !store.is_durable(position) {
                self.unsynced = Some(position);
            }
        }
        if let Some(next) = self.next_if_unsynced(limits) {
            return next;
        }
        if self.send_output(space).is_err() || self.has_too_much(limits) {
            return Next::Close;
        }
        if self.input.is_empty() {
            self.rest()
        } else {
            Next::Turn
        }
    }

    /// Runs commands that have already been received.
    pub(crate) fn run_rest(
        &mut self,
        shared: &Shared,
        limits: &Limits,
        space: &mut Workspace,
    ) -> Next {
        let mut input = std::mem::take(&mut self.input);
        let (used, next) = self.run(&input[self.start..], shared, limits, space);
        self.start += used;
        if self.start == input.len() || self.closing {
            self.start = 0;
            input.clear();
            if input.capacity() > KEPT {
                input = Vec::new();
            }
        } else if self.start > input.len() / 2 {
            // Remove the executed bytes only if they make up more than half of the input, so that
            // each byte is moved at most once.
            input.drain(..self.start);
            self.start = 0;
        }
        self.input = input;
        if self.input.len() - self.start > limits.input {
            return Next::Close;
        }
        next
    }

    fn receive(&mut self, input: &mut Vec<u8>, traffic: &mut Traffic) -> Read {
        let received = match &mut self.incoming {
            Some(incoming) => match incoming.receive(&self.socket, input) {
                Ok(0) => Ok(Received::End),
                received => received.map(Received::Bytes),
            },
            None => self.socket.receive(input),
        };
        match received {
            Ok(Received::End) => {
                self.ended = true;
                Read::Some
            }
            // A part of a TLS handshake or record.
            Ok(Received::Bytes(0)) => Read::Nothing,
            Ok(Received::Bytes(bytes)) => {
                traffic.input += bytes as u64;
                traffic.reads += 1;
                Read::Some
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Read::Nothing,
                _ => Read::Broken(error),
            },
        }
    }

    /// Runs commands from the start of `input` for one turn, and sends the replies. Returns the
    /// number of consumed bytes and the next step.
    fn run(
        &mut self,
        input: &[u8],
        shared: &Shared,
        limits: &Limits,
        space: &mut Workspace,
    ) -> (usize, Next) {
        if !self.is_identified {
            self.identify(shared, limits);
        }
        self.session.activity.buffers.input = input.len();
        self.session.activity.buffers.input_free = 0;
        let is_behind = self.has_output();
        let out = self.output.take(&mut space.spares);
        let store = shared.store();
        let mut turn = Turn {
            writer: Writer::new(out, self.session.protocol),
            context: Context::new(&mut self.session, shared.host(), &store),
            parser: &mut self.parser,
            incoming: &mut self.incoming,
            limits,
            warms: !shared.waits(),
            is_encrypted: self.socket.is_encrypted(),
            shared,
        };
        let ((used, end), position) = store.deferring(|| turn.commands(input, &mut space.batch));
        self.output.put(turn.writer.out);
        if position != 0 {
            self.unsynced = Some(position);
        }
        match end {
            TurnEnd::Closing => self.closing = true,
            TurnEnd::Used { wanted } => self.wanted = wanted,
            TurnEnd::More | TurnEnd::Blocked(_) | TurnEnd::Waiting | TurnEnd::Replica => {}
        }
        // Update the card before sending the replies, so that a client that has read its reply sees
        // the update.
        let output_peak = self
            .session
            .activity
            .buffers
            .output_peak
            .max(self.output.pending());
        self.show(PublishedState {
            buffers: Buffers {
                output_peak,
                ..self.shown.buffers
            },
            parked: false,
            waiting: self.session.waiting.is_some() || self.session.waits_for_replicas(),
        });
        if let Some(next) = self.next_if_unsynced(limits) {
            return (used, next);
        }
        // Hold back the replies only if the connection has no older unsent output and no further
        // input.
        if space.holds
            && !is_behind
            && matches!(end, TurnEnd::Used { .. })
            && used == input.len()
            && (1..=HELD).contains(&self.output.pending())
        {
            return (used, Next::Send);
        }
        let sent = self.send_output(space);
        let next = match end {
            _ if sent.is_err() => Next::Close,
            TurnEnd::Blocked(Blocked::Long) => Next::OwnThread,
            TurnEnd::Blocked(Blocked::Delayed(delay)) => Next::Delay(delay),
            TurnEnd::Blocked(Blocked::Waits(time)) => Next::Rest(time),
            TurnEnd::Blocked(blocked) => Next::Park(blocked),
            TurnEnd::Replica => self.next_of_replica(),
            TurnEnd::Waiting if self.ended => Next::Close,
            TurnEnd::Waiting => Next::Wait,
            TurnEnd::Closing | TurnEnd::Used { .. } => self.rest(),
            TurnEnd::More if self.is_full(limits) => Next::Wait,
            TurnEnd::More => Next::Turn,
        };
        if self.has_too_much(limits) {
            return (used, Next::Close);
        }
        (used, next)
    }

    /// Returns the next step for a connection whose replies must wait for the disk.
    fn next_if_unsynced(&self, limits: &Limits) -> Option<Next> {
        let position = self.unsynced?;
        Some(match self.has_too_much(limits) {
            true => Next::Close,
            false => Next::Sync(position),
        })
    }

    /// Sends the replies whose changes have become durable. A command that was left unexecuted runs
    /// in the next turn.
    pub(crate) fn synced(&mut self, limits: &Limits, space: &mut Workspace) -> Next {
        self.unsynced = None;
        if self.send_output(space).is_err() || self.session.waiting.is_some() && self.ended {
            return Next::Close;
        }
        if self.session.becomes_replica() {
            return self.next_of_replica();
        }
        if self.closing || !self.has_commands() {
            return self.rest();
        }
        match self.session.waiting.is_some() || self.is_full(limits) {
            true => Next::Wait,
            false => Next::Turn,
        }
    }

    /// Returns the next step for a connection that has become a replica.
    fn next_of_replica(&self) -> Next {
        // The replies to the commands before PSYNC are so short that they were sent.
        match self.has_output() || !self.session.holds_nothing() {
            true => Next::Close,
            false => Next::Replica,
        }
    }

    /// Returns the next step for a connection whose commands have all run.
    fn rest(&self) -> Next {
        if (self.ended || self.closing) && !self.has_output() {
            Next::Close
        } else {
            Next::Wait
        }
    }

    /// Sends as many bytes as the socket accepts, unless the replies wait for the disk.
    fn send_output(&mut self, space: &mut Workspace) -> Result<(), rustix::io::Errno> {
        if self.unsynced.is_some() {
            return Ok(());
        }
        let Workspace {
            spares, traffic, ..
        } = space;
        let before = traffic.output;
        let sent = self.output.send(&mut self.socket, spares, traffic);
        self.taken += (traffic.output - before) as usize;
        sent
    }

    /// Sends replies that were held back.
    pub(crate) fn send_held(&mut self, limits: &Limits, space: &mut Workspace) -> Next {
        match self.send_messages(limits, space) {
            Next::Wait => self.rest(),
            next => next,
        }
    }

    /// Sends output to a socket that can accept bytes again.
    pub(crate) fn write(&mut self, limits: &Limits, space: &mut Workspace) -> Next {
        if self.send_output(space).is_err() {
            return Next::Close;
        }
        if self.closing || !self.has_commands() {
            return self.rest();
        }
        let must_wait = self.parked.is_some() || self.is_delayed || self.unsynced.is_some();
        if must_wait || self.session.waiting.is_some() || self.is_full(limits) {
            return Next::Wait;
        }
        // Commands may have been left unexecuted because the output was full.
        Next::Turn
    }

    /// Handles a peer that has closed both directions of a connection from which the server is not
    /// reading. Returns whether the connection can be closed immediately. Otherwise, commands from
    /// the peer must still run.
    pub(crate) fn hang_up(&mut self) -> bool {
        self.ended = true;
        let waits = self.session.waiting.is_some() || self.session.waits_for_replicas();
        !self.has_commands() || self.has_output() || waits
    }

    /// Returns whether there are unsent bytes.
    pub(crate) fn has_output(&self) -> bool {
        self.output.pending() > 0 || self.socket.has_unsent()
    }

    /// Returns whether the connection's session, a value that is being received, or an unsent reply
    /// depends on the store.
    pub(crate) fn holds_of_store(&self) -> bool {
        !self.session.holds_nothing() || self.incoming.is_some() || self.unsynced.is_some()
    }

    /// Returns whether the input contains unexecuted commands.
    fn has_commands(&self) -> bool {
        !self.input.is_empty() || self.incoming.is_some()
    }

    /// Abandons the command that is waiting for a lock, and replies with an error.
    pub(crate) fn refuse_parked(
        &mut self,
        blocked: &Blocked,
        shared: &Shared,
        space: &mut Workspace,
    ) {
        let length = match self.incoming.take() {
            Some(_) => Some(0),
            None => match self.parser.parse(&self.input[self.start..]) {
                Ok(Parsed::Command(length)) => Some(length),
                _ => None,
            },
        };
        self.session.end_retries();
        if let Some(length) = length {
            let text = format!("BUSY {blocked}");
            if self.session.finish_command() {
                self.output.append(&mut space.spares, |out| {
                    encode::error(out, text.as_bytes());
                });
            }
            self.session.activity.counters.commands += 1;
            shared.count_error(&mut self.session, &text);
            self.start += length;
        }
    }

    /// Returns whether the connection must be closed, because it was idle for too long or has
    /// exceeded its output limit for too long. Frees the buffers of an idle connection.
    pub(crate) fn look_after(&mut self, shared: &Shared, limits: &Limits, now: i64) -> bool {
        let idle = now - self.session.activity.last_command_at;
        self.session.activity.buffers.output_peak = self.output.pending();
        if idle > 2_000 && self.input.is_empty() {
            self.input = Vec::new();
        }
        if self.socket.is_handshaking() && now - self.session.peer.created > HANDSHAKE_MAX {
            let reason = "the TLS handshake or a proxy's header took longer than 10 seconds";
            shared.audit_connection(&self.session.peer.address, self.session.id, reason);
            return true;
        }
        let too_idle = limits.idle_seconds > 0
            && idle > limits.idle_seconds.saturating_mul(1000)
            && self.parked.is_none()
            && !self.is_delayed
            && self.unsynced.is_none()
            && self.session.waiting.is_none()
            && !self.is_told();
        let limit = self.output_limit(limits);
        let taken = std::mem::take(&mut self.taken);
        // Sending a single long reply can take more than `seconds`, so do not close a client that
        // reads at least `soft / seconds` bytes between two checks.
        let keeps_pace = !self.is_told() && taken >= limit.soft / limit.seconds.max(1) as usize;
        let is_over = self.output.pending() > limit.soft && !keeps_pace;
        self.over_limit_since = match (is_over, self.over_limit_since) {
            (false, _) => None,
            (true, None) => Some(now),
            (true, since) => since,
        };
        let too_long = limit.seconds.saturating_mul(1000);
        let too_full = self
            .over_limit_since
            .is_some_and(|since| now - since > too_long);
        if too_full {
            self.log_closing("and it did not read for too long");
        }
        too_idle || too_full
    }

    /// Updates the connection's card if its state has changed since the last update.
    pub(crate) fn update_card(&mut self) {
        let incoming = self.incoming.as_ref();
        let (received, missing) = incoming.map_or((0, 0), Incoming::progress);
        let now = PublishedState {
            buffers: Buffers {
                input: self.input.len() - self.start + received,
                input_free: self.input.capacity() - self.input.len() + missing,
                output: self.output.memory(),
                output_peak: self.session.activity.buffers.output_peak,
                output_pending: self.output.pending(),
                state: size_of::<Connection>(),
            },
            parked: self.parked.is_some(),
            waiting: self.session.waiting.is_some() || self.session.waits_for_replicas(),
        };
        if self.shown != now {
            self.show(now);
        }
    }

    fn show(&mut self, shown: PublishedState) {
        self.shown = shown;
        self.session.activity.buffers = shown.buffers;
        self.card.update(&self.session, shown.parked);
    }
}

/// The outcome of reading from the socket.
enum Read {
    /// Bytes were read, or the peer has closed its sending side.
    Some,
    Nothing,
    Broken(io::Error),
}
