//! The thread that serves a replica: it sends a data set, if needed, and then the changes.

use std::io::{self, Write};
use std::sync::Arc;
use std::thread;

use rustix::event::PollFlags;
use undercroft_commands::session::{Login, ReplicaOptions, ReplicaRequest, Session};
use undercroft_engine::rdb::RdbVersion;
use undercroft_engine::{Store, Stream};
use undercroft_links::save::SaveError;
use undercroft_resp::encode;
use undercroft_resp::{Parsed, RequestParser};

use super::socket::Socket;
use super::{data_set, publisher};
use crate::log::log;
use crate::shared::registered::lock;
use crate::shared::registry::Card;
use crate::shared::replica::{Replica, Stage};
use crate::shared::state::Shared;
use crate::sockets::transport::Transport;

/// The maximum number of bytes to read from the backlog at once.
const READ_AT_ONCE: u64 = 256 << 10;
/// The maximum number of bytes of an incomplete command of a replica.
const INPUT_MAX: usize = 64 << 10;

/// The connection of a replica, which no longer belongs to a worker.
pub(crate) struct ReplicaConnection {
    pub(crate) socket: Transport,
    pub(crate) card: Arc<Card>,
    pub(crate) options: ReplicaOptions,
    login: Login,
    /// The address of the replica's end of the connection.
    pub(crate) address: String,
    /// Bytes that arrived after the request.
    pub(crate) input: Vec<u8>,
}

impl ReplicaConnection {
    /// Returns the connection of a session that has sent a request.
    pub(crate) fn new(
        socket: Transport,
        card: Arc<Card>,
        session: &mut Session,
        input: Vec<u8>,
    ) -> Self {
        let options = session.replica.take().unwrap_or_default();
        let address = match options.address.is_empty() {
            true => session
                .peer
                .address
                .rsplit_once(':')
                .map_or("", |parts| parts.0),
            false => &options.address,
        };
        ReplicaConnection {
            socket,
            card,
            address: address.trim_matches(['[', ']']).to_owned(),
            options: *options,
            login: session.login.clone(),
            input,
        }
    }
}

/// Serves a replica on a new thread, which drops `closed` at the end.
pub(crate) fn start(
    server: &Arc<Shared>,
    connection: ReplicaConnection,
    closed: impl Send + 'static,
) {
    let shared = server.clone();
    let thread = thread::Builder::new().name("replica".into());
    let spawned = thread.spawn(move || {
        let _closed = closed;
        serve(&shared, connection);
    });
    if let Err(error) = spawned {
        log(format_args!("a replica cannot be served: {error}"));
    }
}

fn serve(server: &Arc<Shared>, connection: ReplicaConnection) {
    let ReplicaConnection {
        socket,
        card,
        options,
        login,
        address,
        input,
    } = connection;
    let acknowledges = options.request != Some(ReplicaRequest::Everything);
    let now = server.process.now_microseconds() / 1000;
    let replica = match Replica::new((address, options.port), acknowledges, (card, login), now) {
        Ok(replica) => Arc::new(replica),
        Err(error) => return log(format_args!("a replica cannot be served: {error}")),
    };
    let mut socket = Socket {
        socket,
        replica: &replica,
        server,
    };
    if let Err(text) = publisher::start(server) {
        return refuse(&mut socket, &text);
    }
    let name = format!("{}:{}", replica.address, replica.port);
    let registered = RegisteredUntilDrop(server, &replica);
    let served = attend(server, &replica, &mut socket, &options, input);
    drop(registered);
    if let Err(error) = served
        && !options.only_data_set
    {
        log(format_args!("the replica {name} is gone: {error}"));
    }
}

/// Removes a replica from the list of all when it is dropped, also after a panic: the backlog would
/// otherwise be kept for it.
struct RegisteredUntilDrop<'r>(&'r Shared, &'r Arc<Replica>);

impl Drop for RegisteredUntilDrop<'_> {
    fn drop(&mut self) {
        let mut state = self.0.replicas.state();
        state.replicas.retain(|other| !Arc::ptr_eq(other, self.1));
    }
}

/// Sends an error after which a replica tries again every second.
fn refuse(socket: &mut Socket<'_>, reason: &dyn std::fmt::Display) {
    let mut reply = Vec::new();
    encode::error(&mut reply, format!("NOMASTERLINK {reason}").as_bytes());
    // The connection is closed in any case.
    let _ = socket.write_all(&reply);
}

/// Sends the requested part of the stream until the connection ends.
fn attend(
    server: &Shared,
    replica: &Arc<Replica>,
    socket: &mut Socket<'_>,
    options: &ReplicaOptions,
    input: Vec<u8>,
) -> Result<(), SaveError> {
    let path = server.store().path().to_owned();
    let store = Store::open(&path, true)?;
    store.leave_upkeep_to_a_timer();
    let mut acknowledgements = Acknowledgements {
        parser: RequestParser::default(),
        input,
    };
    let position = match continued(server, replica, options) {
        Some((stream, offset)) => {
            socket.write_all(&[b"+CONTINUE ", &stream.id[..], b"\r\n"].concat())?;
            log(format_args!(
                "the replica {}:{} continues at offset {offset}",
                replica.address, replica.port
            ));
            offset
        }
        None => send_data_set(server, &store, replica, socket, options)?,
    };
    if options.only_data_set {
        return Ok(());
    }
    if !replica.is_online() {
        replica.hear(server.process.now_microseconds() / 1000);
        // A replica that looks for the mark at the end of the data set must not receive anything
        // after it before it has found it, which its first acknowledgement tells.
        replica.set_stage(match options.takes_unknown_length {
            true => Stage::Loading,
            false => Stage::Online,
        });
    }
    send_changes(&store, socket, position, &mut acknowledgements)
}

/// Returns the stream and the offset from which on a replica can continue. It is registered, so that
/// the backlog keeps its part.
fn continued(
    server: &Shared,
    replica: &Arc<Replica>,
    options: &ReplicaOptions,
) -> Option<(Stream, u64)> {
    let Some(ReplicaRequest::From { id, offset }) = &options.request else {
        return None;
    };
    let sender = lock(&server.replicas.sender);
    // If the backlog is shortened in between, the replica connects again and receives a data set.
    let stream = *sender.as_ref()?.stream();
    let mut state = server.replicas.state();
    let start = state.stream.map_or(stream.start, |stream| stream.start);
    let stream = Stream { start, ..stream };
    let is_old = server.replica_version() == RdbVersion::V9;
    if stream.is_old != is_old || !stream.continues(id, *offset) {
        return None;
    }
    replica.set_sent(*offset);
    replica.acknowledge(*offset, server.process.now_microseconds() / 1000);
    state.replicas.push(replica.clone());
    server.look_at_waits();
    Some((stream, *offset))
}

/// Sends a data set. Returns the offset of the changes after it.
fn send_data_set(
    server: &Shared,
    store: &Store,
    replica: &Arc<Replica>,
    socket: &mut Socket<'_>,
    options: &ReplicaOptions,
) -> Result<u64, SaveError> {
    let (snapshot, stream) = {
        let mut sender = lock(&server.replicas.sender);
        let Some(sender) = &mut *sender else {
            return Err(io::Error::from(io::ErrorKind::ConnectionAborted).into());
        };
        sender.expect_data_set();
        let stream = *sender.stream();
        replica.set_sent(stream.end);
        server.replicas.state().replicas.push(replica.clone());
        let snapshot = store.take_snapshot();
        (snapshot.inspect_err(|error| refuse(socket, error))?, stream)
    };
    if let Some(ReplicaRequest::From { .. }) = options.request {
        let id = String::from_utf8_lossy(&stream.id);
        write!(socket, "+FULLRESYNC {id} {}\r\n", stream.end)?;
    }
    log(format_args!(
        "the replica {}:{} receives a data set at offset {}",
        replica.address, replica.port, stream.end
    ));
    replica.set_stage(Stage::DataSet);
    data_set::send(store, &snapshot, socket, options)?;
    Ok(stream.end)
}

/// Sends the stream from a position on, until the connection ends.
fn send_changes(
    store: &Store,
    socket: &mut Socket<'_>,
    mut position: u64,
    acknowledgements: &mut Acknowledgements,
) -> Result<(), SaveError> {
    let mut bytes = Vec::new();
    loop {
        if socket.must_close() {
            return Err(io::Error::from(io::ErrorKind::ConnectionAborted).into());
        }
        // Clear the waker before looking, so that changes after the look wake it again.
        socket.replica.waker.clear();
        acknowledgements.receive(socket)?;
        if !socket.replica.is_online() {
            socket.wait(PollFlags::IN)?;
            continue;
        }
        if !store.read_stream(position, READ_AT_ONCE, &mut bytes)? {
            let text = "the backlog no longer contains the next changes";
            return Err(io::Error::other(text).into());
        }
        if bytes.is_empty() {
            socket.wait(PollFlags::IN)?;
            continue;
        }
        socket.write_all(&bytes)?;
        position += bytes.len() as u64;
        socket.replica.set_sent(position);
    }
}

/// Reads the acknowledgements of a replica.
struct Acknowledgements {
    parser: RequestParser,
    input: Vec<u8>,
}

impl Acknowledgements {
    /// Handles the commands that have arrived.
    fn receive(&mut self, socket: &mut Socket<'_>) -> io::Result<()> {
        let before = self.input.len();
        socket.receive(&mut self.input)?;
        if self.input.len() > before {
            socket
                .replica
                .hear(socket.server.process.now_microseconds() / 1000);
        }
        let mut used = 0;
        loop {
            let rest = &self.input[used..];
            match self.parser.parse(rest).map_err(io::Error::other)? {
                Parsed::Command(length) => {
                    let arguments: Vec<&[u8]> = self.parser.args(rest).iter().collect();
                    handle(&arguments, socket);
                    used += length;
                }
                Parsed::Ignored(length) => used += length,
                Parsed::Incomplete { .. } => break,
            }
        }
        self.input.drain(..used);
        match self.input.len() > INPUT_MAX {
            true => Err(io::Error::other(
                "the replica sends more than acknowledgements",
            )),
            false => Ok(()),
        }
    }
}

fn parse_offset(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Handles a command of a replica. All but acknowledgements are ignored, as a reply would be taken
/// for a change.
fn handle(arguments: &[&[u8]], socket: &Socket<'_>) {
    let is = |index: usize, word: &[u8]| {
        arguments
            .get(index)
            .is_some_and(|argument| argument.eq_ignore_ascii_case(word))
    };
    if is(0, b"REPLCONF")
        && is(1, b"ACK")
        && let Some(offset) = arguments.get(2).and_then(|text| parse_offset(text))
    {
        let now = socket.server.process.now_microseconds() / 1000;
        socket.replica.acknowledge(offset, now);
        socket.server.look_at_waits();
    }
}
