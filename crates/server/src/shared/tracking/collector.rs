//! Collects changed keys, and passes invalidations to threads.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use undercroft_commands::session::{Session, Tracking as Options};
use undercroft_engine::messages::{ChangedKey, Tracker};
use undercroft_engine::{Error, Store};

use crate::shared::registry::Registry;
use crate::shared::tracking::clients::{Clients, Delivery, Route};
use crate::shared::tracking::push::{Push, collapse};

/// The maximum number of pushes that wait for a thread. Beyond it, one invalidation of all keys replaces
/// those of each connection.
const PUSHES_MAX: usize = 100_000;

/// The connections of a server that track keys.
///
/// The mutexes are acquired in the order of the fields. A thread that runs a transaction acquires
/// only `clients`, whose holder never uses the store.
pub(crate) struct Tracking {
    /// The number of connections that track keys.
    count: AtomicUsize,
    reader: Mutex<Reader>,
    clients: Mutex<Clients>,
    /// For each thread, the pushes for its connections.
    inboxes: Vec<Inbox>,
}

/// The reader of the store's changed keys.
struct Reader {
    tracker: Tracker<Arc<Store>>,
    /// The changed keys that were just read, each with the client that changed it.
    changed: Vec<(Vec<u8>, u64)>,
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
            reader: Mutex::new(Reader {
                tracker: Tracker::new(store),
                changed: Vec::new(),
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
        let mut reader = lock(&self.reader);
        reader.tracker.begin()?;
        let own = reader.tracker.origin_of(session.id);
        let mut clients = lock(&self.clients);
        clients.begin((session.id, session.peer.route), options, own);
        self.count.store(clients.count(), Ordering::Release);
        Ok(own)
    }

    /// Ends the tracking of a connection.
    pub(crate) fn end(&self, id: u64) {
        let mut reader = lock(&self.reader);
        let mut clients = lock(&self.clients);
        clients.end(id);
        self.count.store(clients.count(), Ordering::Release);
        if clients.count() == 0 {
            reader.tracker.end();
        }
    }

    /// Remembers that a connection is about to read keys.
    pub(crate) fn remember(
        &self,
        id: u64,
        keys: &mut dyn Iterator<Item = &[u8]>,
        around: &Surroundings<'_>,
    ) {
        let mut clients = lock(&self.clients);
        keys.for_each(|key| clients.remember(key, id));
        clients.limit(around.most_keys, &mut self.posting(around));
    }

    /// Posts the invalidations of all changes that were committed before this call.
    ///
    /// # Errors
    /// Fails if a writer holds a lock for too long.
    pub(crate) fn collect(&self, around: &Surroundings<'_>) -> Result<(), Error> {
        let reader = &mut *lock(&self.reader);
        if !self.any() {
            return Ok(());
        }
        if !reader.tracker.is_active() {
            // The store was replaced. Connections may have read keys of the new one.
            reader.tracker.begin()?;
            lock(&self.clients).invalidate_all(&mut self.posting(around));
        }
        let mut invalidates_all = false;
        let changed = &mut reader.changed;
        changed.clear();
        reader.tracker.collect(|found| match found {
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
        let mut reader = lock(&self.reader);
        let descriptor = reader.tracker.descriptor().ok()?;
        descriptor.try_clone_to_owned().ok()
    }

    /// Prepares for a wait at the descriptor, which was readable if `rung`. Returns whether the
    /// caller must collect once more before it waits.
    pub(crate) fn arm(&self, rung: bool) -> bool {
        lock(&self.reader).tracker.arm(rung)
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
        let mut reader = lock(&self.reader);
        reader.tracker = Tracker::new(store);
        lock(&self.clients).invalidate_all(&mut self.posting(around));
    }

    fn posting<'p>(&'p self, around: &'p Surroundings<'p>) -> Posting<'p> {
        Posting {
            inboxes: &self.inboxes,
            around,
        }
    }
}
