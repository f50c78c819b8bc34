//! Sends commands that change keys of a replica to its source, over pooled connections, and waits until
//! the store has the changes. Threads that serve connections never do this; each command does so on a
//! thread of its own.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustls::RootCertStore;
use undercroft_commands::context::ForwardedRequest;
use undercroft_commands::protocol::Protocol;
use undercroft_commands::reply::Tree;
use undercroft_engine::{LinkStatus, Store, key_slot};
use undercroft_links::follow::{Address, Encryption, Stream, Tls};
use undercroft_resp::{ReplyLimits, ReplyReader, Value, encode};

use crate::sockets::certificates;

/// The interval at which a wait looks for the end of the server.
const LOOK: Duration = Duration::from_millis(100);
/// The longest wait for a reply.
const REPLYING: Duration = Duration::from_secs(60);
/// The longest wait until the store has the changes of a command. Afterwards, the reply is sent. A source
/// that has just sent a data set can take a second until it sends changes.
const APPLYING: Duration = Duration::from_secs(10);
/// The maximum number of idle connections to a server.
const IDLE_MAX: usize = 16;
/// The maximum number of servers to which connections are kept.
const TARGETS_MAX: usize = 2 * Store::LANES_MAX;
/// The maximum number of redirections by the nodes of a cluster.
const REDIRECTIONS: usize = 5;
/// The number of bytes to read at once.
const READ: usize = 16 << 10;

/// A server, and how to talk to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Target {
    /// The host, or the path of a unix socket.
    host: String,
    /// The port, or 0 for a unix socket.
    port: u16,
    is_encrypted: bool,
    /// Whether replies have the forms of RESP3.
    is_resp3: bool,
}

impl Target {
    fn address(&self) -> Address {
        match self.port {
            0 => Address::Unix(PathBuf::from(&self.host)),
            port => Address::Tcp {
                host: self.host.clone(),
                port,
            },
        }
    }
}

/// The connections to the source.
#[derive(Default)]
pub(crate) struct Forwarding {
    is_on: AtomicBool,
    idle: Mutex<HashMap<Target, Vec<Connection>>>,
    /// The certificate authorities of the system.
    authorities: OnceLock<RootCertStore>,
}

/// The needs of a request in addition to its commands: the store, the login, and the end of the server.
pub(super) struct Terms<'a> {
    pub(super) store: &'a Store,
    pub(super) user: Vec<u8>,
    pub(super) password: Vec<u8>,
    /// Returns the value of a parameter.
    pub(super) value: &'a dyn Fn(&str) -> String,
    pub(super) stops: &'a dyn Fn() -> bool,
}

impl Forwarding {
    /// Makes the server forward commands.
    pub(crate) fn turn_on(&self) {
        // The files of the system cannot be read inside the sandbox.
        self.authorities.get_or_init(Tls::authorities_of_system);
        self.is_on.store(true, Ordering::Release);
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<Target, Vec<Connection>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends commands to the source, and returns the reply to the last one.
    pub(super) fn forward(
        &self,
        terms: &Terms<'_>,
        request: &ForwardedRequest,
    ) -> Result<Tree, String> {
        let mut target = target(terms.store, request)?;
        let mut asks = false;
        for _ in 0..=REDIRECTIONS {
            let address = target.address();
            let failed = |error: io::Error| {
                format!(
                    "ERR the source {address} did not reply, so the command may have run: {error}"
                )
            };
            let mut connection = self.connection(&target, terms)?;
            let sent = connection.send(request, asks).map_err(failed)?;
            let mut replies = connection.replies(sent, terms.stops).map_err(failed)?;
            let offset = replies.pop().as_ref().and_then(offset_of);
            // A transaction is redirected by the reply to one of its commands.
            let errors = replies.iter().filter_map(|reply| match reply {
                Value::Error(text) => std::str::from_utf8(text).ok(),
                _ => None,
            });
            let redirection = errors.filter_map(redirection).next();
            let reply = replies.pop();
            // After a SELECT in a transaction, the connection may be in another database.
            if !request.selects() {
                self.keep(target.clone(), connection);
            }
            // Scripts can return any error, so it must not choose the receiver of a password.
            if let Some((host, port, must_ask)) = redirection
                && is_followed(terms.store, &host, port)
            {
                (target.host, target.port, asks) = (host, port, must_ask);
                continue;
            }
            if let Some(offset) = offset {
                await_changes(terms, request.key.as_deref(), offset);
            }
            return Ok(reply.map_or(Tree::Null, tree_of));
        }
        Err("ERR the nodes of the source redirect the command to each other; try again".to_owned())
    }

    /// Keeps a connection for another request.
    fn keep(&self, target: Target, connection: Connection) {
        let mut idle = self.idle();
        idle.retain(|_, connections| !connections.is_empty());
        if idle.len() < TARGETS_MAX || idle.contains_key(&target) {
            let connections = idle.entry(target).or_default();
            if connections.len() < IDLE_MAX {
                connections.push(connection);
            }
        }
    }

    /// Returns the certificates for connections to the source: the authorities of `tls-ca-cert-file`
    /// and `tls-ca-cert-dir`, or those of the system, and the certificate of the server.
    fn tls(&self, terms: &Terms<'_>) -> Result<Tls, String> {
        let of_system = || {
            let found = self.authorities.get();
            found.cloned().unwrap_or_else(RootCertStore::empty)
        };
        certificates::for_source(terms.value, &of_system).map_err(|error| {
            format!("ERR the source needs TLS, so the command did not run: {error}")
        })
    }

    /// Returns a connection to a server.
    fn connection(&self, target: &Target, terms: &Terms<'_>) -> Result<Connection, String> {
        loop {
            let idle = self.idle().get_mut(target).and_then(Vec::pop);
            match idle {
                Some(mut connection) => {
                    if connection.stream.is_idle() {
                        return Ok(connection);
                    }
                }
                None => break,
            }
        }
        let address = target.address();
        let unreachable = |error: io::Error| {
            let remedy = match error.to_string().contains("peer certificate") {
                true => "; name its authority with tls-ca-cert-file",
                false => "",
            };
            format!(
                "ERR the source {address} cannot be reached, so the command did not run: \
                 {error}{remedy}"
            )
        };
        let tls = match target.is_encrypted {
            true => Some(self.tls(terms)?),
            false => None,
        };
        let encryption = tls.as_ref().map_or(Encryption::None, Encryption::Tls);
        let mut connection = Connection::open(&address, encryption).map_err(unreachable)?;
        let mut words: Vec<Vec<Vec<u8>>> = Vec::new();
        if !terms.password.is_empty() {
            let mut login = vec![b"AUTH".to_vec()];
            login.extend((!terms.user.is_empty()).then(|| terms.user.clone()));
            login.push(terms.password.clone());
            words.push(login);
        }
        if target.is_resp3 {
            words.push(vec![b"HELLO".to_vec(), b"3".to_vec()]);
        }
        connection.write(&words).map_err(unreachable)?;
        let replies = connection.replies(words.len(), terms.stops);
        for reply in replies.map_err(unreachable)? {
            if let Value::Error(text) = reply {
                return Err(format!(
                    "ERR the source refused the login of masteruser and masterauth: {}",
                    String::from_utf8_lossy(&text)
                ));
            }
        }
        Ok(connection)
    }
}

/// Returns the source, or the master that has the key of a request.
fn target(store: &Store, request: &ForwardedRequest) -> Result<Target, String> {
    let failed = |error: undercroft_engine::Error| format!("ERR {error}");
    let link = store.source_link().map_err(failed)?;
    let link = link.filter(|link| !link.host.is_empty());
    let Some(mut link) = link else {
        return Err(
            "READONLY You can't write against a read only replica, whose source is not known yet"
                .to_owned(),
        );
    };
    if let Some(cluster) = store.cluster_source().map_err(failed)? {
        let key = request.key.as_deref();
        let owner = key.and_then(|key| cluster.owners.get(key_slot(key)));
        let lane = owner.and_then(|owner| cluster.lane(owner));
        if let Some(lane) = lane.or(cluster.lanes.first()) {
            (link.host, link.port) = (lane.host.clone(), lane.port);
        }
    }
    Ok(Target {
        is_encrypted: link.is_encrypted && link.port != 0,
        host: link.host,
        port: link.port,
        is_resp3: request.protocol == Protocol::Resp3,
    })
}

/// Returns whether the source is a cluster of which this is a followed master.
fn is_followed(store: &Store, host: &str, port: u16) -> bool {
    let cluster = store.cluster_source().ok().flatten();
    cluster.is_some_and(|cluster| {
        let mut lanes = cluster.lanes.iter();
        port != 0 && lanes.any(|lane| lane.host == host && lane.port == port)
    })
}

/// Returns the node to which an error redirects a command, and whether the node must be asked first.
fn redirection(error: &str) -> Option<(String, u16, bool)> {
    let words: Vec<&str> = error.split(' ').collect();
    let (to, asks) = match words[..] {
        ["MOVED", _, to] => (to, false),
        ["ASK", _, to] => (to, true),
        _ => return None,
    };
    let (host, port) = to.rsplit_once(':')?;
    Some((host.to_owned(), port.parse().ok()?, asks))
}

/// Returns the position of the source's stream from the text of INFO.
fn offset_of(reply: &Value) -> Option<u64> {
    let (Value::Bulk(text) | Value::Verbatim(_, text)) = reply else {
        return None;
    };
    let text = String::from_utf8_lossy(text);
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("master_repl_offset:"))?;
    line.trim().parse().ok()
}

/// Waits until the store has the changes up to a position, so that the client reads its own writes.
fn await_changes(terms: &Terms<'_>, key: Option<&[u8]>, offset: u64) {
    let lane = || {
        let cluster = terms.store.cluster_source().ok().flatten()?;
        let owner = cluster.owners.get(key_slot(key?))?;
        let moved = cluster
            .moving
            .iter()
            .any(|&(slot, _)| key.map(key_slot) == Some(slot));
        // The changes of a slot that moves can be those of two masters.
        (!moved).then_some(owner)
    };
    let is_cluster = matches!(terms.store.cluster_source(), Ok(Some(_)));
    let lane = match is_cluster {
        true => match lane() {
            None => return,
            lane => lane,
        },
        false => None,
    };
    let is_followed = || {
        let link = match lane {
            Some(lane) => terms.store.lane_link(lane),
            None => terms.store.source_link(),
        };
        let link = link.ok().flatten();
        link.is_some_and(|link| link.status != LinkStatus::Down)
    };
    let start = Instant::now();
    while start.elapsed() < APPLYING && is_followed() && !(terms.stops)() {
        match terms.store.wait_until_applied_in(lane, offset, LOOK) {
            Ok(false) => {}
            // Without a source, there is nothing to wait for.
            Ok(true) | Err(_) => return,
        }
    }
}

/// A connection to the source.
struct Connection {
    stream: Stream,
    reader: ReplyReader,
    /// The database that the connection has selected.
    database: usize,
}

impl Connection {
    fn open(address: &Address, encryption: Encryption<'_>) -> io::Result<Connection> {
        let stream = Stream::connect(address, encryption)?;
        stream.set_timeout(LOOK)?;
        Ok(Connection {
            stream,
            reader: ReplyReader::new(ReplyLimits::default()),
            database: 0,
        })
    }

    fn write(&mut self, commands: &[Vec<Vec<u8>>]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for command in commands {
            encode::command(&mut bytes, command);
        }
        let start = Instant::now();
        let mut left = &bytes[..];
        loop {
            let done = match left.is_empty() {
                true => self.stream.flush().map(|()| 0),
                false => self.stream.write(left),
            };
            match done {
                Ok(0) if left.is_empty() => return Ok(()),
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => left = &left[written..],
                Err(error) if is_timeout(&error) && start.elapsed() < REPLYING => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends the commands of a request and a question for the position after them. Returns the number
    /// of replies, of which those to the commands and to the question are the last ones.
    fn send(&mut self, request: &ForwardedRequest, asks: bool) -> io::Result<usize> {
        let mut commands = Vec::new();
        let word = |text: &str| text.as_bytes().to_vec();
        if request.database != self.database {
            commands.push(vec![
                word("SELECT"),
                request.database.to_string().into_bytes(),
            ]);
        }
        if asks {
            commands.push(vec![word("ASKING")]);
        }
        commands.extend(request.commands.iter().cloned());
        commands.push(vec![word("INFO"), word("replication")]);
        self.write(&commands)?;
        self.database = request.database;
        Ok(commands.len())
    }

    /// Receives replies.
    fn replies(&mut self, count: usize, stops: &dyn Fn() -> bool) -> io::Result<Vec<Value>> {
        let (mut replies, mut buffer) = (Vec::new(), vec![0; READ]);
        let start = Instant::now();
        while replies.len() < count {
            let read = match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => read,
                Err(error) if is_timeout(&error) && start.elapsed() < REPLYING && !stops() => {
                    continue;
                }
                Err(error) => return Err(error),
            };
            let mut input = &buffer[..read];
            while let Some(reply) = self
                .reader
                .read(&mut input)
                .map_err(|error| io::Error::other(format!("{error:?}")))?
            {
                replies.push(reply);
            }
        }
        Ok(replies)
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// Returns a source's reply as one of this server.
fn tree_of(value: Value) -> Tree {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let all = |items: Vec<Value>| items.into_iter().map(tree_of).collect();
    match value {
        Value::Simple(bytes) => Tree::Simple(bytes),
        Value::Error(bytes) | Value::BulkError(bytes) => Tree::Error(text(bytes)),
        Value::Integer(number) => Tree::Integer(number),
        Value::Bulk(bytes) => Tree::Bulk(bytes),
        Value::Null(_) => Tree::Null,
        Value::Double(number) => Tree::Double(number),
        Value::Boolean(value) => Tree::Boolean(value),
        Value::BigNumber(digits) => Tree::BigNumber(text(digits)),
        Value::Verbatim(format, bytes) => Tree::Verbatim {
            format: text(format.to_vec()),
            text: bytes,
        },
        Value::Array(items) => Tree::Array(all(items)),
        Value::Set(items) => Tree::Set(all(items)),
        Value::Push(items) => Tree::Push(all(items)),
        Value::Map(pairs) => {
            let pairs = pairs.into_iter();
            Tree::Map(
                pairs
                    .map(|(key, value)| (tree_of(key), tree_of(value)))
                    .collect(),
            )
        }
        Value::Attributed(_, value) => tree_of(*value),
    }
}
