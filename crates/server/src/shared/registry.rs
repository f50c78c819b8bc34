//! Lists all connections of the server, for CLIENT LIST and CLIENT KILL on any thread.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use undercroft_commands::session::{ClientInfo, KillFilter, Session, TrackingInfo};
use undercroft_engine::messages::Topic;
use undercroft_engine::waiting::Ticket;

/// A connection's card: the state of the connection that other threads can read. The connection's
/// own thread updates the card after each batch of commands.
#[derive(Debug)]
pub(crate) struct Card {
    pub(crate) id: u64,
    /// The index of the thread that serves the connection.
    pub(crate) worker: usize,
    /// The token of the connection on its thread, or [`NO_TOKEN`] until the thread serves it.
    token: AtomicU64,
    /// Whether CLIENT KILL has requested that the connection be closed.
    pub(crate) killed: AtomicBool,
    state: Mutex<State>,
}

/// The token of a connection that no thread serves yet.
const NO_TOKEN: u64 = u64::MAX;

#[derive(Debug)]
struct State {
    info: ClientInfo,
    /// The ticket of the command that is blocked on keys, if there is one.
    ticket: Option<Ticket>,
    /// When the command that waits for replicas began, if there is one.
    wait: Option<Instant>,
    /// The beginning of the wait that CLIENT UNBLOCK has ended, and whether with an error.
    unblocked: Option<(Instant, bool)>,
    /// The time at which the connection was created, in Unix milliseconds.
    created: i64,
    last_command_at: i64,
}

impl Card {
    pub(crate) fn new(session: &Session, worker: usize) -> Card {
        Card {
            id: session.id,
            worker,
            token: AtomicU64::new(NO_TOKEN),
            killed: AtomicBool::new(false),
            state: Mutex::new(State {
                info: session.info(session.peer.created),
                ticket: None,
                wait: None,
                unblocked: None,
                created: session.peer.created,
                last_command_at: session.activity.last_command_at,
            }),
        }
    }

    /// Sets the token of the connection on its thread.
    pub(crate) fn set_token(&self, token: u64) {
        self.token.store(token, Ordering::Release);
    }

    /// Updates the state that may have changed. `parked` indicates whether the next command is
    /// waiting for a lock or for the end of a pause. Takes a few nanoseconds if the names are
    /// unchanged.
    pub(crate) fn update(&self, session: &Session, parked: bool) {
        let mut state = lock(&self.state);
        state.last_command_at = session.activity.last_command_at;
        state.ticket = session.waiting.map(|wait| wait.ticket);
        state.wait = session.wait_began();
        let info = &mut state.info;
        info.database = session.database;
        info.protocol = session.protocol;
        info.subscribed = Topic::ALL.map(|topic| session.subscriptions.count(topic));
        info.tracking = TrackingInfo::of(session.tracking.as_deref());
        info.is_replica = session.becomes_replica();
        info.closing = session.replies.close_after;
        info.no_evict = session.no_evict;
        info.no_touch = session.no_touch;
        info.monitors = session.monitors;
        info.blocked = parked || session.waiting.is_some() || session.waits_for_replicas();
        info.queued = session.queued();
        info.buffers = session.activity.buffers;
        if let Some(command) = session.activity.last_command {
            info.command = command.name;
        }
        if info.name.as_bytes() != session.name {
            info.name = String::from_utf8_lossy(&session.name).into_owned();
        }
        if info.library != session.library {
            info.library.clone_from(&session.library);
        }
        if *info.user != *session.login.name() {
            info.user = session.login.name().into();
        }
    }

    /// Ends the wait for replicas of the session, if CLIENT UNBLOCK has ended it.
    pub(crate) fn end_wait(&self, session: &mut Session) {
        let unblocked = lock(&self.state).unblocked.take();
        // The wait that was meant can have ended by itself, and another one begun.
        if let Some((began, with_error)) = unblocked
            && session.wait_began() == Some(began)
        {
            session.unblock_wait(with_error);
        }
    }

    /// Changes the address of the client, which a proxy has announced.
    pub(crate) fn set_address(&self, address: String) {
        lock(&self.state).info.address = address;
    }

    fn info(&self, now: i64) -> ClientInfo {
        let state = lock(&self.state);
        ClientInfo {
            age: (now - state.created).max(0) / 1000,
            idle: (now - state.last_command_at).max(0) / 1000,
            ..state.info.clone()
        }
    }
}

/// The cards of all connections, ordered by id and therefore by age.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    cards: Mutex<BTreeMap<u64, Arc<Card>>>,
    last_id: AtomicU64,
}

impl Registry {
    /// Returns a new id for a connection.
    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn add(&self, card: Arc<Card>) {
        lock(&self.cards).insert(card.id, card);
    }

    pub(crate) fn remove(&self, id: u64) {
        lock(&self.cards).remove(&id);
    }

    /// Returns the ticket of a connection whose command is blocked on keys.
    pub(crate) fn ticket(&self, id: u64) -> Option<Ticket> {
        let cards = lock(&self.cards);
        let state = lock(&cards.get(&id)?.state);
        state.ticket
    }

    /// Makes the wait for replicas of a connection end. Returns the index of the thread that must end
    /// it, or `None` if the connection does not wait for replicas.
    pub(crate) fn unblock_wait(&self, id: u64, with_error: bool) -> Option<usize> {
        let cards = lock(&self.cards);
        let card = cards.get(&id)?;
        let mut state = lock(&card.state);
        let began = state.wait?;
        if state.unblocked.is_some_and(|(other, _)| other == began) {
            return None;
        }
        state.unblocked = Some((began, with_error));
        Some(card.worker)
    }

    /// Returns the thread of a connection and its token on that thread, if the connection exists.
    pub(crate) fn route(&self, id: u64) -> Option<(usize, u64)> {
        let cards = lock(&self.cards);
        let card = cards.get(&id)?;
        Some((card.worker, card.token.load(Ordering::Acquire)))
    }

    /// Returns the number of connections.
    pub(crate) fn count(&self) -> u64 {
        lock(&self.cards).len() as u64
    }

    /// Returns all connections, oldest first.
    pub(crate) fn clients(&self, now: i64) -> Vec<ClientInfo> {
        let cards = lock(&self.cards);
        cards.values().map(|card| card.info(now)).collect()
    }

    /// Removes and returns the connections that match a filter. They are no longer listed, and the
    /// caller makes their threads close them.
    pub(crate) fn kill(&self, filter: &KillFilter, now: i64) -> Vec<Arc<Card>> {
        let mut cards = lock(&self.cards);
        let meant = |card: &Arc<Card>| filter.matches(&card.info(now));
        let ids: Vec<u64> = cards
            .values()
            .filter(|card| meant(card))
            .map(|card| card.id)
            .collect();
        let killed: Vec<Arc<Card>> = ids.iter().filter_map(|id| cards.remove(id)).collect();
        for card in &killed {
            card.killed.store(true, Ordering::Release);
        }
        killed
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is a plain assignment, so the state is still consistent after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use undercroft_commands::session::Login;

    fn registry(count: u64) -> Registry {
        let registry = Registry::default();
        for _ in 0..count {
            let session = Session::new(registry.next_id(), Login::trusted(), 1_000);
            registry.add(Arc::new(Card::new(&session, 0)));
        }
        registry
    }

    #[test]
    fn cards_show_the_last_update_of_their_thread() {
        let registry = registry(0);
        let mut session = Session::new(registry.next_id(), Login::unknown(), 1_000);
        let card = Arc::new(Card::new(&session, 0));
        registry.add(card.clone());
        session.name = b"worker".to_vec();
        session.database = 3;
        session.activity.last_command_at = 4_000;
        session.activity.buffers.input = 7;
        card.update(&session, true);
        let [client] = registry.clients(9_500)[..]
            .to_vec()
            .try_into()
            .expect("one");
        let ClientInfo {
            name,
            database,
            age,
            idle,
            buffers,
            blocked,
            ..
        } = client;
        assert_eq!(
            (name.as_str(), database, age, idle, buffers.input, blocked),
            ("worker", 3, 8, 5, 7, true)
        );
    }

    #[test]
    fn killed_connections_are_no_longer_listed() {
        let registry = registry(3);
        let filter = KillFilter {
            except: Some(2),
            ..KillFilter::default()
        };
        let killed = registry.kill(&filter, 0);
        assert_eq!(
            killed.iter().map(|card| card.id).collect::<Vec<_>>(),
            [1, 3]
        );
        assert!(
            killed
                .iter()
                .all(|card| card.killed.load(Ordering::Acquire))
        );
        assert_eq!(registry.clients(0).len(), 1);
        assert!(registry.kill(&filter, 0).is_empty());
    }
}
