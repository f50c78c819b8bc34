//! The thread that appends changes to the stream.

use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use undercroft_commands::context::Control;
use undercroft_commands::statistics::run_id;
use undercroft_engine::rdb::RdbVersion;
use undercroft_engine::{Error, REPLICATION_ID, Store, Stream};
use undercroft_links::send::{Sender, Sent};
use undercroft_resp::encode::command;

use super::messages::Messages;
use crate::log::log;
use crate::shared::limits::{Limits, OutputLimit};
use crate::shared::registered::lock;
use crate::shared::replica::Replica;
use crate::shared::replication::end_requirement;
use crate::shared::state::Shared;

/// The interval between two looks for changes.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);
/// The interval between two looks for changes while there is no replica.
const BETWEEN_IDLE_LOOKS: Duration = Duration::from_millis(100);
/// The interval between two checks of the replicas and of the backlog.
const BETWEEN_CHECKS: Duration = Duration::from_millis(100);

/// Returns a random replication id.
pub(super) fn new_id() -> [u8; REPLICATION_ID] {
    let mut id = [b'0'; REPLICATION_ID];
    for (byte, digit) in id.iter_mut().zip(run_id().bytes()) {
        *byte = digit;
    }
    id
}

/// Starts the thread, unless it runs. Returns once the stream exists.
///
/// # Errors
/// Fails if another process sends the changes of the store, or if the store cannot be changed.
pub(super) fn start(server: &Arc<Shared>) -> Result<(), String> {
    let registered = &server.replicas;
    let mut sender = lock(&registered.sender);
    if registered.state().is_publishing {
        return Ok(());
    }
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let path = server.store().path().to_owned();
    // The served store's handle is impatient.
    let store = Store::open(&path, true).map_err(|error| text(&error))?;
    store.leave_upkeep_to_a_timer();
    let lock = store.lock_sending().map_err(|error| text(&error))?;
    let Some(lock) = lock else {
        return Err("another process sends the changes of this store to replicas".into());
    };
    end_requirement(&store, &server.process.config).map_err(|error| text(&error))?;
    let begun = Sender::new(&store, server.replica_version(), &new_id);
    let begun = begun.map_err(|error| text(&error))?;
    let stream = *begun.stream();
    *sender = Some(begun);
    let shared = server.clone();
    let thread = thread::Builder::new().name("publish".into());
    registered.state().stream = Some(stream);
    registered.state().is_publishing = true;
    let spawned = thread.spawn(move || {
        let _lock = lock;
        let guard = StopOnPanic(&shared);
        run(&shared, &store);
        std::mem::forget(guard);
    });
    if let Err(error) = spawned {
        end(server);
        *sender = None;
        return Err(text(&error));
    }
    Ok(())
}

/// Stops the server if the thread panics, because replicas would otherwise miss changes.
struct StopOnPanic<'s>(&'s Shared);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The parameters that the stream depends on.
struct Terms {
    generation: u64,
    version: RdbVersion,
    /// The maximum length of a transaction in bytes. Replicas would be closed for a longer one.
    most: u64,
}

impl Terms {
    fn of(server: &Shared) -> Terms {
        let config = &server.process.config;
        Terms {
            generation: config.generation(),
            version: server.replica_version(),
            most: Limits::of(config).replicas.hard as u64,
        }
    }
}

fn end(server: &Shared) {
    let mut state = server.replicas.state();
    state.is_publishing = false;
    for replica in &state.replicas {
        replica.drop_connection();
    }
}

fn run(server: &Shared, store: &Store) {
    let registered = &server.replicas;
    let (mut last_ping, mut last_check) = (Instant::now(), Instant::now());
    let mut last_replica = Instant::now();
    let mut failure = None;
    let mut messages = Messages::new(store);
    let mut terms = Terms::of(server);
    while !server.stopping() && !server.change.is_begun() {
        let has_replicas = wait(server);
        if has_replicas {
            last_replica = Instant::now();
        }
        let seconds = |name| Duration::from_secs(server.process.config.integer(name).max(0) as u64);
        if terms.generation != server.process.config.generation() {
            terms = Terms::of(server);
        }
        // Take the messages first, so that replicas receive earlier changes before them.
        let mut after = messages.take(terms.version == RdbVersion::V9);
        let of_messages = after.len();
        if has_replicas && last_ping.elapsed() >= seconds("repl-ping-replica-period") {
            last_ping = Instant::now();
            command(&mut after, &["PING"]);
        }
        let requests = registered.state().requests;
        let is_requested = requests != registered.state().sent_requests;
        if is_requested {
            command(&mut after, &["REPLCONF", "GETACK", "*"]);
        }
        match send(server, store, &after, &terms) {
            Ok(Some((stream, is_sent))) => {
                failure = None;
                if is_sent {
                    messages.forget();
                }
                if is_requested && is_sent {
                    let mut state = registered.state();
                    state.sent_requests = requests;
                    state.requested = stream.end - (after.len() - of_messages) as u64;
                    drop(state);
                    server.look_at_waits();
                }
                registered.announce(stream);
            }
            Ok(None) => failure = None,
            Err(error) => {
                let text = error.to_string();
                if failure.as_ref() != Some(&text) {
                    log(format_args!("changes cannot be sent to replicas: {text}"));
                }
                failure = Some(text);
                server.sleep(BETWEEN_CHECKS);
            }
        }
        if last_check.elapsed() >= BETWEEN_CHECKS {
            last_check = Instant::now();
            check(server, store);
        }
        let ttl = seconds("repl-backlog-ttl");
        if !ttl.is_zero() && last_replica.elapsed() >= ttl && !has_replicas {
            let mut sender = lock(&registered.sender);
            if registered.state().replicas.is_empty() {
                *sender = None;
                end(server);
                // Without the stream, changes cost nothing more. A failure leaves it for later.
                let _ = store.end_stream();
                registered.state().stream = None;
                return;
            }
        }
    }
    *lock(&registered.sender) = None;
    end(server);
}

/// Waits until it is time to look for changes. Returns whether there are replicas.
fn wait(server: &Shared) -> bool {
    let state = server.replicas.state();
    let has_replicas = !state.replicas.is_empty();
    if state.requests != state.sent_requests {
        return has_replicas;
    }
    let time = match has_replicas {
        true => BETWEEN_LOOKS,
        false => BETWEEN_IDLE_LOOKS,
    };
    let waited = server.replicas.wanted.wait_timeout(state, time);
    drop(waited.unwrap_or_else(PoisonError::into_inner));
    has_replicas
}

/// Appends the changes since the last call to the stream, and the commands in `after`. If the stream
/// has changed, returns it, and whether the commands are in it.
fn send(
    server: &Shared,
    store: &Store,
    after: &[u8],
    terms: &Terms,
) -> Result<Option<(Stream, bool)>, Error> {
    let registered = &server.replicas;
    let mut sender = lock(&registered.sender);
    let Some(sender) = &mut *sender else {
        return Ok(None);
    };
    sender.set_version(terms.version);
    let sent = sender.send(store, (after, terms.most), &new_id)?;
    if sender.has_left_out_feeds() {
        registered.tell_left_out(format_args!("feeds"));
    }
    match sent {
        Sent::Nothing => Ok(None),
        Sent::Changes => Ok(Some((*sender.stream(), true))),
        Sent::Restarted => {
            log(format_args!(
                "all replicas need a data set again: changes were lost, are more than \
                 client-output-buffer-limit, or concern a complete database, or replica-rdb-version \
                 has changed"
            ));
            registered.drop_all();
            Ok(Some((*sender.stream(), false)))
        }
    }
}

/// Drops the part of the backlog that no replica needs, and the replicas that lag too far or do
/// not answer.
fn check(server: &Shared, store: &Store) {
    let config = &server.process.config;
    let limit = Limits::of(config).replicas;
    let now = server.process.now_microseconds() / 1000;
    let timeout = config.integer("repl-timeout").max(1) as u64;
    let state = server.replicas.state();
    let Some(stream) = state.stream else { return };
    let mut needed = stream.end;
    for replica in &state.replicas {
        let unsent = stream.end.saturating_sub(replica.sent());
        if let Some(reason) = reason_to_drop(replica, &limit, unsent, now, timeout) {
            log(format_args!(
                "closed the replica {}:{}: {reason}",
                replica.address, replica.port
            ));
            replica.drop_connection();
        } else {
            needed = needed.min(replica.sent());
        }
    }
    drop(state);
    let size = config.integer("repl-backlog-size").max(0) as u64;
    let start = needed.min(stream.end.saturating_sub(size));
    if start > stream.start {
        // The backlog is shortened the next time if a lock is taken now.
        let trimmed = store.trim_backlog(start).and_then(|()| store.stream());
        if let Ok(Some(stream)) = trimmed {
            server.replicas.state().stream = Some(stream);
        }
    }
}

fn reason_to_drop(
    replica: &Replica,
    limit: &OutputLimit,
    unsent: u64,
    now: i64,
    timeout: u64,
) -> Option<String> {
    if unsent > limit.hard as u64 || replica.is_above(unsent > limit.soft as u64, limit, now) {
        return Some(format!(
            "{unsent} bytes were not sent yet (client-output-buffer-limit)"
        ));
    }
    let is_silent = replica.should_answer() && replica.lag(now) > timeout;
    is_silent.then(|| format!("no acknowledgement for {timeout} s (repl-timeout)"))
}
