//! Collects changed keys, and passes invalidations to threads.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use undercroft_commands::session::{Session, Tracking as Options};
use undercroft_engine::messages::{ChangedKey, Tracker};
use undercroft_engine::{Error, Store};

use crate::shared::registry::Registry;
use crate::shared::tracking::clients::{Clients, Delivery, Reader, Route};
use crate::shared::tracking::push::{Push, collapse};

/// The maximum number of pushes that wait for a thread. Beyond it, one invalidation of all keys replaces
/// those of each connection.
const PUSHES_MAX: usize = 100_000;

/// The connections of a server that track keys.
///
/// The mutexes are acquired in the order of the fields. A thread that runs a transaction acquires
/// only `clients`, whose holder never waits for a lock of the store.
pub(crate) struct Tracking {
    /// The number of connections that track keys.
    count: AtomicUsize,
    source: Mutex<Source>,
    clients: Mutex<Clients>,
    /// For each thread, the pushes for its connections.
    inboxes: Vec<Inbox>,
}

/// The source of the store's changed keys.
struct Source {
    tracker: Tracker<Arc<Store>>,
    /// The changed keys that were just read, each with the client that changed it.
    changed: Vec<(Vec<u8>, u64)>,
    /// Whether the store was replaced, and the changes of the new store are not collected yet.
    was_replaced: bool,
}

impl Source {
    /// Begins to track all keys, or none until connections read them. If the tracking has begun
    /// already, begins to track all keys if requested.
    fn begin(&mut self, clients: &Mutex<Clients>, tracks_all: bool) -> Result<(), Error> {
        if !self.tracker.is_active() {
            let tracked = self.tracker.begin()?;
            lock(clients).tracked = Some(tracked);
        }
        match tracks_all {
            true => self.tracker.track_all(),
            false => Ok(()),
        }
    }
}

#[derive(Default)]
struct Inbox {
    has_any: AtomicBool,
    pushes: Mutex<Vec<Push>>,
}

/// The numbers that INFO shows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TrackingCounts {
    pub(crate) clients: u64,
    pub(crate) keys: u64,
    pub(crate) items: u64,
    pub(crate) prefixes: u64,
}

/// The parts of the server that deliver pushes.
pub(crate) struct Surroundings<'s> {
    pub(crate) registry: &'s Registry,
    /// `tracking-table-max-keys`, or 0 for no limit.
    pub(crate) most_keys: usize,
    /// Wakes a thread.
    pub(crate) wake: &'s dyn Fn(usize),
}

/// Passes pushes to the inboxes of threads.
struct Posting<'p> {
    inboxes: &'p [Inbox],
    around: &'p Surroundings<'p>,
}

impl Delivery for Posting<'_> {
    fn route(&self, id: u64) -> Option<Route> {
        self.around.registry.route(id)
    }

    fn post(&mut self, thread: usize, push: Push) {
        let inbox = &self.inboxes[thread];
        let mut pushes = lock(&inbox.pushes);
        pushes.push(push);
        if pushes.len() > PUSHES_MAX {
            collapse(&mut pushes);
        }
        drop(pushes);
        if !inbox.has_any.swap(true, Ordering::AcqRel) {
            (self.around.wake)(thread);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic stops the server anyway.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tracking {
    pub(crate) fn new(store: Arc<Store>, threads: usize) -> Tracking {
        Tracking {
            count: AtomicUsize::new(0),
            source: Mutex::new(Source {
                tracker: Tracker::new(store),
                changed: Vec::new(),
                was_replaced: false,
            }),
            clients: Mutex::default(),
            inboxes: (0..threads).map(|_| Inbox::default()).collect(),
        }
    }

    /// Returns whether any connection tracks keys. One load.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    pub(crate) fn counts(&self) -> TrackingCounts {
        let clients = lock(&self.clients);
        TrackingCounts {
            clients: clients.count() as u64,
            keys: clients.table.len() as u64,
            items: clients.table.items(),
            prefixes: clients.prefixes.len() as u64,
        }
    }

    /// Begins to track keys for a connection, or changes its options. Returns the number to which the
    /// connection's changes are attributed.
    pub(crate) fn begin(&self, session: &Session, options: &Options) -> Result<u64, Error> {
        let source = &mut *lock(&self.source);
        let begun = source.begin(&self.clients, options.broadcasts);
        let own = source.tracker.origin_of(session.id);
        let mut clients = lock(&self.clients);
        if begun.is_ok() {
            clients.begin((session.id, session.peer.route), options, own);
        }
        self.settle(source, clients);
        begun.map(|()| own)
    }

    /// Makes the number of connections known, and tracks no more keys than they need.
    fn settle(&self, source: &mut Source, mut clients: MutexGuard<'_, Clients>) {
        self.count.store(clients.count(), Ordering::Release);
        if clients.count() == 0 {
            clients.detach();
            source.tracker.end();
        } else if clients.prefixes.len() == 0 {
            source.tracker.track_fewer();
        }
    }

    /// Ends the tracking of a connection.
    pub(crate) fn end(&self, id: u64) {
        let source = &mut *lock(&self.source);
        let mut clients = lock(&self.clients);
        clients.end(id);
        self.settle(source, clients);
    }

    /// Remembers that a connection is about to read keys.
    pub(crate) fn remember(
        &self,
        reader: Reader,
        keys: &mut dyn Iterator<Item = &[u8]>,
        around: &Surroundings<'_>,
    ) {
        let mut clients = lock(&self.clients);
        let mut posting = self.posting(around);
        keys.for_each(|key| clients.remember(key, reader));
        clients.limit(around.most_keys, &mut posting);
    }

    /// Posts the invalidations of the keys that are in doubt and that a connection has read.
    pub(crate) fn tell_doubts(&self, id: u64, around: &Surroundings<'_>) {
        lock(&self.clients).tell_doubts(id, &mut self.posting(around));
    }

    /// Posts the invalidations of all changes that were committed before this call.
    ///
    /// # Errors
    /// Fails if a writer holds a lock for too long.
    pub(crate) fn collect(&self, around: &Surroundings<'_>) -> Result<(), Error> {
        let source = &mut *lock(&self.source);
        if !self.any() {
            return Ok(());
        }
        if source.was_replaced {
            // Connections may have read keys of the new store.
            let tracks_all = lock(&self.clients).prefixes.len() > 0;
            source.begin(&self.clients, tracks_all)?;
            lock(&self.clients).invalidate_all(&mut self.posting(around));
            source.was_replaced = false;
        }
        let mut invalidates_all = false;
        let changed = &mut source.changed;
        changed.clear();
        source.tracker.collect(|found| match found {
            ChangedKey::Key(key, origin) => changed.push((key.to_vec(), origin)),
            ChangedKey::All => invalidates_all = true,
        })?;
        let mut clients = lock(&self.clients);
        let mut posting = self.posting(around);
        for (key, origin) in changed.drain(..) {
            clients.invalidate(&key, origin, &mut posting);
        }
        if invalidates_all {
            clients.invalidate_all(&mut posting);
        }
        clients.tell_prefixes(&mut posting);
        clients.limit(around.most_keys, &mut posting);
        Ok(())
    }

    /// Returns a descriptor that becomes readable when keys were changed.
    pub(crate) fn descriptor(&self) -> Option<OwnedFd> {
        let mut source = lock(&self.source);
        let descriptor = source.tracker.descriptor().ok()?;
        descriptor.try_clone_to_owned().ok()
    }

    /// Prepares for a wait at the descriptor, which was readable if `rung`. Returns whether the
    /// caller must collect once more before it waits.
    pub(crate) fn arm(&self, rung: bool) -> bool {
        lock(&self.source).tracker.arm(rung)
    }

    /// Returns whether there are pushes for the connections of a thread. One load.
    #[inline(always)]
    pub(crate) fn has_any_for(&self, thread: usize) -> bool {
        self.inboxes[thread].has_any.load(Ordering::Acquire)
    }

    /// Removes and returns the pushes for the connections of a thread.
    pub(crate) fn take(&self, thread: usize) -> Vec<Push> {
        let inbox = &self.inboxes[thread];
        inbox.has_any.store(false, Ordering::Release);
        std::mem::take(&mut lock(&inbox.pushes))
    }

    /// Removes and returns the pushes for one connection.
    pub(crate) fn take_for(&self, (thread, token): Route) -> Vec<Push> {
        if !self.has_any_for(thread) {
            return Vec::new();
        }
        let mut pushes = lock(&self.inboxes[thread].pushes);
        let (own, others) = pushes.drain(..).partition(|push| push.token == token);
        *pushes = others;
        own
    }

    /// Switches to another store, whose keys have nothing in common with the earlier ones.
    pub(crate) fn change_to(&self, store: Arc<Store>, around: &Surroundings<'_>) {
        let mut source = lock(&self.source);
        let mut clients = lock(&self.clients);
        clients.detach();
        source.tracker = Tracker::new(store);
        source.was_replaced = clients.count() > 0;
        clients.invalidate_all(&mut self.posting(around));
    }

    fn posting<'p>(&'p self, around: &'p Surroundings<'p>) -> Posting<'p> {
        Posting {
            inboxes: &self.inboxes,
            around,
        }
    }
}
