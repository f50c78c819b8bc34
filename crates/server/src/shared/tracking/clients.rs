//! The connections that track keys, and the invalidations that changed keys cause.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use undercroft_commands::session::{Moment, Tracking as Options};
use undercroft_engine::messages::TrackedKeys;
use undercroft_engine::{EVICTION, Store};

use crate::shared::tracking::prefixes::Prefixes;
use crate::shared::tracking::push::{Push, Subject};
use crate::shared::tracking::table::Table;

/// The maximum number of keys that one call evicts.
const EVICTED_AT_ONCE: usize = 1000;

/// The route to a connection: the index of its thread, and its token on that thread.
pub(super) type Route = (usize, u64);

/// A connection that reads keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    pub(crate) id: u64,
    pub(crate) moment: Moment,
}

/// A connection that tracks keys.
struct Client {
    route: Route,
    redirect: u64,
    broadcasts: bool,
    /// The number to which the connection's changes are attributed, or 0 without NOLOOP.
    own: u64,
    is_broken: Arc<AtomicBool>,
}

/// The connections that track keys, with the keys and prefixes that they track.
#[derive(Default)]
pub(super) struct Clients {
    clients: HashMap<u64, Client>,
    pub(super) table: Table,
    pub(super) prefixes: Prefixes,
    /// The keys that connections are about to read, and that may change unnoticed.
    doubts: HashMap<u64, Vec<Arc<[u8]>>>,
    /// The keys of the table in the store's filter. `None` while no connection tracks keys, and after
    /// the store was replaced, until all keys are invalidated.
    pub(super) tracked: Option<TrackedKeys<Arc<Store>>>,
}

/// Receives the pushes for connections, and knows the routes to connections.
pub(super) trait Delivery {
    /// Returns the route to a connection, if it exists.
    fn route(&self, id: u64) -> Option<Route>;
    /// Passes a push to the thread of its connection.
    fn post(&mut self, thread: usize, push: Push);
}

impl Client {
    /// Posts a push for the connection to the connection that receives its pushes.
    fn tell(&self, subject: Subject, delivery: &mut impl Delivery) {
        let (route, is_redirected, subject) = match self.redirect {
            0 => (self.route, false, subject),
            other => match delivery.route(other) {
                Some(route) => (route, true, subject),
                None => {
                    self.is_broken.store(true, Ordering::Relaxed);
                    (self.route, false, Subject::Broken(other))
                }
            },
        };
        let (thread, token) = route;
        let push = Push {
            token,
            is_redirected,
            subject,
        };
        delivery.post(thread, push);
    }
}

impl Clients {
    /// Returns the number of connections that track keys.
    pub(super) fn count(&self) -> usize {
        self.clients.len()
    }

    /// Adds a connection, or changes its options. `own` is the number to which its changes are
    /// attributed.
    pub(super) fn begin(&mut self, (id, route): (u64, Route), options: &Options, own: u64) {
        for prefix in options.prefixes.iter().filter(|_| options.broadcasts) {
            self.prefixes.add(prefix, id);
        }
        let client = Client {
            route,
            redirect: options.redirect,
            broadcasts: options.broadcasts,
            own: if options.no_loop { own } else { 0 },
            is_broken: Arc::clone(&options.is_broken),
        };
        self.clients.insert(id, client);
    }

    /// Removes a connection. As in Redis, the keys that it has read stay in the table.
    pub(super) fn end(&mut self, id: u64) {
        self.doubts.remove(&id);
        if self
            .clients
            .remove(&id)
            .is_some_and(|client| client.broadcasts)
        {
            self.prefixes.remove(id);
        }
    }

    /// Remembers that a connection reads a key. If a change of the key may be missed, the key is in
    /// doubt, and [`tell_doubts`](Self::tell_doubts) tells the connection after it has read the key.
    pub(super) fn remember(&mut self, key: &[u8], reader: Reader) {
        let clients = &self.clients;
        let Some(client) = clients.get(&reader.id) else {
            return;
        };
        let mut in_doubt = reader.moment == Moment::After;
        if !client.broadcasts {
            let tracks = |id| clients.contains_key(&id);
            let is_new = self.table.remember(key, reader.id, tracks);
            let is_locked = self
                .tracked
                .as_mut()
                .map(|tracked| tracked.add(key, is_new));
            in_doubt |= match reader.moment {
                Moment::Before => is_locked != Some(false),
                Moment::InTransaction | Moment::After => is_locked.is_none(),
            };
        }
        if in_doubt {
            let doubts = self.doubts.entry(reader.id).or_default();
            doubts.push(key.into());
        }
    }

    /// Tells a connection about the keys that are in doubt, because it has read them now.
    pub(super) fn tell_doubts(&mut self, id: u64, delivery: &mut impl Delivery) {
        let doubts = self.doubts.remove(&id).unwrap_or_default();
        if let Some(client) = self.clients.get(&id) {
            for key in doubts {
                client.tell(Subject::Read(key), delivery);
            }
        }
    }

    /// Removes all keys of the table, and their entries in the store's filter.
    fn clear(&mut self) {
        self.table.clear();
        if let Some(tracked) = &mut self.tracked {
            tracked.clear();
        }
    }

    /// Removes all keys, because the store's changes are no longer collected.
    pub(super) fn detach(&mut self) {
        self.clear();
        self.tracked = None;
    }

    /// Invalidates a key that the client with the number `origin` has changed. The connections in
    /// BCAST mode are told by [`tell_prefixes`](Self::tell_prefixes).
    pub(super) fn invalidate(&mut self, key: &[u8], origin: u64, delivery: &mut impl Delivery) {
        self.prefixes.note(key, origin);
        if let Some((key, ids)) = self.table.take(key) {
            self.forget(&key);
            self.tell_readers(&key, &ids, origin, delivery);
        }
    }

    /// Removes a key that was taken from the table from the store's filter.
    fn forget(&mut self, key: &[u8]) {
        if let Some(tracked) = &mut self.tracked {
            tracked.remove(key);
        }
    }

    fn tell_readers(
        &self,
        key: &Arc<[u8]>,
        ids: &[u64],
        origin: u64,
        delivery: &mut impl Delivery,
    ) {
        let clients = ids.iter().filter_map(|id| self.clients.get(id));
        for client in clients {
            let is_own = client.own != 0 && client.own == origin;
            if !client.broadcasts && !is_own {
                let key = Arc::clone(key);
                let subject = match origin {
                    EVICTION => Subject::Evicted(key),
                    _ => Subject::Read(key),
                };
                client.tell(subject, delivery);
            }
        }
    }

    /// Tells the connections in BCAST mode about the keys that were invalidated since the last call.
    pub(super) fn tell_prefixes(&mut self, delivery: &mut impl Delivery) {
        let clients = &self.clients;
        self.prefixes.tell(|ids, changed| {
            let all: Arc<[Arc<[u8]>]> = changed.keys().cloned().collect();
            for client in ids.iter().filter_map(|id| clients.get(id)) {
                let keys = match client.own {
                    0 => Arc::clone(&all),
                    own => {
                        let others = changed.iter().filter(|(_, origin)| **origin != own);
                        others.map(|(key, _)| Arc::clone(key)).collect()
                    }
                };
                if !keys.is_empty() {
                    client.tell(Subject::Prefixed(keys), delivery);
                }
            }
        });
    }

    /// Invalidates all keys.
    pub(super) fn invalidate_all(&mut self, delivery: &mut impl Delivery) {
        self.clear();
        for client in self.clients.values() {
            client.tell(Subject::All, delivery);
        }
    }

    /// Invalidates random keys until the table has at most `most` keys, but only a limited number. 0
    /// means no limit.
    pub(super) fn limit(&mut self, most: usize, delivery: &mut impl Delivery) {
        for _ in 0..EVICTED_AT_ONCE {
            if most == 0 || self.table.len() <= most {
                return;
            }
            if let Some((key, ids)) = self.table.take_any() {
                self.forget(&key);
                self.tell_readers(&key, &ids, 0, delivery);
            }
        }
    }
}
