//! One connection: its buffers, and running the commands in them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::net::{RecvFlags, recv};
use undercroft_commands::protocol::Protocol;
use undercroft_commands::session::{Buffers, ReplyMode, Session};
use undercroft_commands::{Blocked, Context};
use undercroft_engine::waiting::Answer;
use undercroft_resp::{Parsed, RequestParser, encode};

use crate::connection::commands::{Batch, Turn, TurnEnd};
use crate::connection::incoming::Incoming;
use crate::connection::output::{Output, Spares};
use crate::connection::writer::Writer;
use crate::log::log;
use crate::shared::hub;
use crate::shared::limits::{Limits, OutputLimit};
use crate::shared::registry::Card;
use crate::shared::state::Shared;
use crate::shared::totals::Traffic;
use crate::sockets::poll::Interest;

/// Bytes of waiting replies above which a client that has not logged in is not listened to.
const OUTPUT_BEFORE_LOGIN: usize = 64 * 1024;
/// Buffers up to this many bytes are kept from one batch to the next.
const KEPT: usize = 64 * 1024;
/// Replies of so many bytes may wait for those of other connections.
const HELD: usize = 16 * 1024;
/// Bytes read at a time where no more are known to come.
pub(crate) const READ: usize = 32 * 1024;

/// A connection and what it is in the middle of.
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    pub(crate) session: Session,
    pub(crate) card: Arc<Card>,
    parser: RequestParser,
    /// Received; from `start` on, where a command starts, not yet run. Empty between commands.
    input: Vec<u8>,
    start: usize,
    /// A command whose value is received straight into the store.
    incoming: Option<Incoming>,
    /// Bytes that the current command still misses, at least.
    wanted: usize,
    output: Output,
    /// The interest it is registered with; None where it is not registered any more.
    pub(crate) registered: Option<Interest>,
    /// The peer will send nothing more: what has come is still answered.
    ended: bool,
    /// Closed as soon as the replies are sent.
    closing: bool,
    /// Since when the next command has been waiting for a lock.
    pub(crate) parked: Option<Instant>,
    /// Whether it waits for a lock, rather than for the end of a pause.
    pub(crate) locked: bool,
    /// Whether it stands in the queue of those that have commands left.
    pub(crate) queued: bool,
    /// Since when the replies have been above the soft limit, Unix milliseconds.
    over_limit_since: Option<i64>,
    /// Bytes sent since the last look after the connection.
    taken: usize,
    shown: Shown,
}

/// What the card of a connection shows beside its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shown {
    buffers: Buffers,
    parked: bool,
    waiting: bool,
}

/// What a connection needs after its turn.
#[derive(Debug)]
pub(crate) enum Next {
    /// More input, or room for output.
    Wait,
    /// Another turn: it has commands left.
    Turn,
    /// A lock, or the end of a pause: its next command is to be run again later.
    Park(Blocked),
    /// A thread of its own: its next command is a script that takes long.
    OwnThread,
    /// Its replies are to be sent, as soon as other connections have had their turns.
    Send,
    /// Nothing: it is over.
    Close,
}

/// Buffers of a thread that its connections use in turn, so that an idle connection has none; and what went through sockets.
pub(crate) struct Workspace {
    input: Vec<u8>,
    batch: Batch,
    pub(crate) spares: Spares,
    pub(crate) traffic: Traffic,
    /// Whether replies wait for those of other connections, so that a client is woken once for all that it has sent.
    pub(crate) holds: bool,
}

impl Workspace {
    pub(crate) fn new() -> Workspace {
        Workspace {
            input: Vec::with_capacity(READ),
            batch: Batch::default(),
            spares: Spares::default(),
            traffic: Traffic::default(),
            holds: false,
        }
    }
}

impl Connection {
    pub(crate) fn new(socket: OwnedFd, session: Session, card: Arc<Card>, limits: &Limits) -> Self {
        let mut connection = Connection {
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
            queued: false,
            over_limit_since: None,
            taken: 0,
            shown: Shown::default(),
        };
        connection.limit_parser(limits);
        connection
    }

    /// Brings the parser's limits in line with the configuration and the login.
    pub(crate) fn limit_parser(&mut self, limits: &Limits) {
        self.parser.set_limits(limits.of_parser(&self.session));
    }

    /// Whether something is sent to the client that it has not asked for just now.
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

    /// Takes a message to be sent to the client. Returns whether somebody must look after it: it had nothing to be sent
    /// before, or has too much now.
    pub(crate) fn post(&mut self, parcel: &[u8], limits: &Limits, space: &mut Workspace) -> bool {
        let was_idle = self.output.pending() == 0;
        let resp3 = self.session.protocol == Protocol::Resp3;
        self.output.append(&mut space.spares, |out| {
            hub::append(out, parcel, resp3);
        });
        was_idle || self.output.pending() > limits.messages.hard
    }

    /// Takes lines of MONITOR and sends what goes at once.
    pub(crate) fn send_lines(
        &mut self,
        lines: &[u8],
        limits: &Limits,
        space: &mut Workspace,
    ) -> Next {
        // One that ends is not kept by what others do.
        if self.session.replies.mode == ReplyMode::Off || self.closing {
            return Next::Wait;
        }
        self.output
            .append(&mut space.spares, |out| out.extend_from_slice(lines));
        self.send_messages(limits, space)
    }

    /// Sends messages that were taken. A client that does not read them is closed once its limit is reached.
    pub(crate) fn send_messages(&mut self, limits: &Limits, space: &mut Workspace) -> Next {
        if self.send_output(space).is_err() || self.has_too_much(limits) {
            return Next::Close;
        }
        Next::Wait
    }

    /// Whether the client is to be closed for what waits to be sent to it, which is logged.
    fn has_too_much(&self, limits: &Limits) -> bool {
        let limit = self.output_limit(limits).hard;
        let too_much = self.output.pending() > limit;
        if too_much {
            self.log_closing(&format!("more than its limit of {limit} bytes"));
        }
        too_much
    }

    #[cold]
    fn log_closing(&self, reason: &str) {
        log(format_args!(
            "client {} at {} is closed: {} bytes wait to be sent to it, {reason} (client-output-buffer-limit)",
            self.session.id,
            self.session.peer.address,
            self.output.pending()
        ));
    }

    /// Whether the client must read before it is listened to again.
    fn is_full(&self, limits: &Limits) -> bool {
        let most = if self.is_told() {
            // Its messages come whether or not it is listened to.
            return false;
        } else if self.session.user.is_some() {
            limits.output.soft
        } else {
            OUTPUT_BEFORE_LOGIN
        };
        self.output.pending() > most
    }

    /// What the connection waits for. Commands that are parked or queued come before new input.
    pub(crate) fn interest(&self, limits: &Limits) -> Interest {
        let listens = !self.ended && !self.closing && self.parked.is_none() && !self.queued;
        Interest {
            read: listens && !self.is_full(limits),
            write: self.has_output(),
        }
    }

    /// Reads what has come and runs the commands in it.
    pub(crate) fn read_and_run(
        &mut self,
        shared: &Shared,
        limits: &Limits,
        space: &mut Workspace,
    ) -> Next {
        if !self.input.is_empty() {
            // Grows with what has arrived, not with what was announced: a client pays for its memory in bytes.
            let room = self.wanted.clamp(READ / 4, self.input.len().max(READ));
            self.input.reserve(room);
            let mut input = std::mem::take(&mut self.input);
            let read = self.receive(&mut input, &mut space.traffic);
            self.input = input;
            return match read {
                Read::Nothing => Next::Wait,
                Read::Broken => Next::Close,
                Read::Some => self.run_rest(shared, limits, space),
            };
        }
        let mut input = std::mem::take(&mut space.input);
        input.clear();
        let next = match self.receive(&mut input, &mut space.traffic) {
            Read::Nothing => Next::Wait,
            Read::Broken => Next::Close,
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

    /// Reads what comes while a command waits for keys: it is run later, unless the client is gone.
    pub(crate) fn read_ahead(&mut self, limits: &Limits, space: &mut Workspace) -> Next {
        self.input.reserve(READ / 4);
        let mut input = std::mem::take(&mut self.input);
        let read = self.receive(&mut input, &mut space.traffic);
        self.input = input;
        let too_much = self.input.len() - self.start > limits.input;
        match read {
            Read::Broken => Next::Close,
            _ if self.ended || too_much => Next::Close,
            Read::Some | Read::Nothing => Next::Wait,
        }
    }

    /// Answers the command that waited for keys.
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
        if self.send_output(space).is_err() || self.has_too_much(limits) {
            return Next::Close;
        }
        if self.input.is_empty() {
            self.rest()
        } else {
            Next::Turn
        }
    }

    /// Runs the commands that have been received already.
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
            // Once the rest is the smaller half: each byte is moved once at most.
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
            Some(incoming) => incoming.receive(&self.socket, input),
            None => {
                let buffer = rustix::buffer::spare_capacity(input);
                let received = recv(&self.socket, buffer, RecvFlags::empty());
                received.map(|(bytes, _)| bytes).map_err(io::Error::from)
            }
        };
        match received {
            Ok(0) => {
                self.ended = true;
                Read::Some
            }
            Ok(bytes) => {
                traffic.input += bytes as u64;
                traffic.reads += 1;
                Read::Some
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Read::Nothing,
                _ => Read::Broken,
            },
        }
    }

    /// Runs commands from the start of `input` for one turn and sends the replies. Returns how many bytes are done
    /// with.
    fn run(
        &mut self,
        input: &[u8],
        shared: &Shared,
        limits: &Limits,
        space: &mut Workspace,
    ) -> (usize, Next) {
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
            shared,
        };
        let (used, end) = turn.commands(input, &mut space.batch);
        self.output.put(turn.writer.out);
        match end {
            TurnEnd::Closing => self.closing = true,
            TurnEnd::Used { wanted } => self.wanted = wanted,
            TurnEnd::More | TurnEnd::Blocked(_) | TurnEnd::Waiting => {}
        }
        // A client that has read a reply finds what the command has changed.
        let output_peak = self
            .session
            .activity
            .buffers
            .output_peak
            .max(self.output.pending());
        self.show(Shown {
            buffers: Buffers {
                output_peak,
                ..self.shown.buffers
            },
            parked: false,
            waiting: self.session.waiting.is_some(),
        });
        // Not where something is left to be looked at behind it.
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
            TurnEnd::Blocked(blocked) => Next::Park(blocked),
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

    /// What is next where no command is left.
    fn rest(&self) -> Next {
        if (self.ended || self.closing) && self.output.pending() == 0 {
            Next::Close
        } else {
            Next::Wait
        }
    }

    /// Sends what the socket takes.
    fn send_output(&mut self, space: &mut Workspace) -> Result<(), rustix::io::Errno> {
        let Workspace {
            spares, traffic, ..
        } = space;
        let before = traffic.output;
        let sent = self.output.send(&self.socket, spares, traffic);
        self.taken += (traffic.output - before) as usize;
        sent
    }

    /// Sends the replies that were held back.
    pub(crate) fn send_held(&mut self, limits: &Limits, space: &mut Workspace) -> Next {
        match self.send_messages(limits, space) {
            Next::Wait => self.rest(),
            next => next,
        }
    }

    /// The socket takes output again.
    pub(crate) fn write(&mut self, limits: &Limits, space: &mut Workspace) -> Next {
        if self.send_output(space).is_err() {
            return Next::Close;
        }
        if self.closing || !self.has_commands() {
            return self.rest();
        }
        if self.parked.is_some() || self.session.waiting.is_some() || self.is_full(limits) {
            return Next::Wait;
        }
        // Commands may be left from before the client was full.
        Next::Turn
    }

    /// The peer is gone in both directions while the connection is not read from. Returns whether that is all;
    /// otherwise commands that it sent are still to be run.
    pub(crate) fn hang_up(&mut self) -> bool {
        self.ended = true;
        !self.has_commands() || self.has_output() || self.session.waiting.is_some()
    }

    /// Whether something waits to be sent.
    pub(crate) fn has_output(&self) -> bool {
        self.output.pending() > 0
    }

    /// Whether it holds something of the store: what its session says, or a value on its way into it.
    pub(crate) fn holds_of_store(&self) -> bool {
        !self.session.holds_nothing() || self.incoming.is_some()
    }

    /// Whether something was received that is still to be run.
    fn has_commands(&self) -> bool {
        !self.input.is_empty() || self.incoming.is_some()
    }

    /// Gives up on the command that waits for a lock: its reply is this error.
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

    /// Whether the connection must be closed for having been idle, or for not reading, for too long. Gives back
    /// buffers that it does not need for now.
    pub(crate) fn look_after(&mut self, limits: &Limits, now: i64) -> bool {
        let idle = now - self.session.activity.last_command_at;
        self.session.activity.buffers.output_peak = self.output.pending();
        if idle > 2_000 && self.input.is_empty() {
            self.input = Vec::new();
        }
        let too_idle = limits.idle_seconds > 0
            && idle > limits.idle_seconds.saturating_mul(1000)
            && self.parked.is_none()
            && self.session.waiting.is_none()
            && !self.is_told();
        let limit = self.output_limit(limits);
        let taken = std::mem::take(&mut self.taken);
        // One reply may take longer to send than the limit's time: a client that reads it at the limit's pace may.
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
            self.log_closing("and it has not read for too long");
        }
        too_idle || too_full
    }

    /// Shows other threads how the connection is now, if it is not what they were shown before its replies went out.
    pub(crate) fn update_card(&mut self) {
        let incoming = self.incoming.as_ref();
        let (received, missing) = incoming.map_or((0, 0), Incoming::progress);
        let now = Shown {
            buffers: Buffers {
                input: self.input.len() - self.start + received,
                input_free: self.input.capacity() - self.input.len() + missing,
                output: self.output.memory(),
                output_peak: self.session.activity.buffers.output_peak,
                output_pending: self.output.pending(),
                state: size_of::<Connection>(),
            },
            parked: self.parked.is_some(),
            waiting: self.session.waiting.is_some(),
        };
        if self.shown != now {
            self.show(now);
        }
    }

    fn show(&mut self, shown: Shown) {
        self.shown = shown;
        self.session.activity.buffers = shown.buffers;
        self.card.update(&self.session, shown.parked);
    }
}

/// What a read from the socket brought.
enum Read {
    /// Bytes, or the end.
    Some,
    Nothing,
    Broken,
}
