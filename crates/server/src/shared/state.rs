//! What all threads of a server share.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicIsize, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use undercroft_commands::config::Config;
use undercroft_commands::context::{Interpreter, Pause, Process};
use undercroft_commands::scripts::ScriptLimits;
use undercroft_commands::session::Session;
use undercroft_commands::statistics::latency::Event;
use undercroft_engine::Store;
use undercroft_engine::waiting::Waiters;

use crate::shared::hub::Hub;
use crate::shared::limits::make_room_for;
use crate::shared::long_scripts::LongScripts;
use crate::shared::monitors::Monitors;
use crate::shared::registry::Registry;
use crate::shared::store_change::Change;
use crate::shared::totals::Totals;
use crate::sockets::poll::Waker;

/// How long a command waits for a lock right where it runs (M6).
const PATIENCE: Duration = Duration::from_millis(1);

/// One thread, as the others see it.
pub(crate) struct Thread {
    pub(crate) waker: Waker,
    /// Connections the thread serves, those on their way to it included.
    pub(crate) connections: AtomicUsize,
    /// Since when the thread works, in Unix milliseconds; 0 while it waits.
    busy_since: AtomicI64,
    /// Some connection of the thread was killed.
    has_killed: AtomicBool,
}

impl Thread {
    pub(crate) fn new(waker: Waker) -> Thread {
        Thread {
            waker,
            connections: AtomicUsize::new(0),
            busy_since: AtomicI64::new(0),
            has_killed: AtomicBool::new(false),
        }
    }

    /// Says that the thread begins to work at a time, or to wait (0).
    pub(crate) fn set_busy(&self, since: i64) {
        self.busy_since.store(since, Ordering::Relaxed);
    }

    /// Whether the thread has worked on one round for long: what it is given waits.
    pub(crate) fn is_stalled(&self, now: i64) -> bool {
        const LONG: i64 = 10;
        let since = self.busy_since.load(Ordering::Relaxed);
        since != 0 && now - since > LONG
    }

    /// Has the thread close those of its connections whose cards say that they were killed.
    pub(crate) fn close_killed(&self) {
        self.has_killed.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Whether some were killed since the last call.
    pub(crate) fn take_killed(&self) -> bool {
        self.has_killed.swap(false, Ordering::Acquire)
    }
}

/// The connections of one thread that wait for keys, as the store knows them.
pub(crate) type Waiting = Waiters<Arc<Store>>;

/// A server, as its threads and its commands see it.
pub(crate) struct Shared {
    /// The store that is served; another one once its file was removed and the threads have [changed](Change) to it.
    store: ArcSwap<Store>,
    pub(crate) change: Change,
    /// What the connections of each thread are subscribed to.
    hubs: Vec<Mutex<Hub>>,
    /// Whose of each thread's connections wait for keys.
    waiting: Vec<Mutex<Waiting>>,
    /// How many connections do.
    pub(crate) blocked: AtomicIsize,
    pub(crate) process: Process,
    pub(crate) registry: Registry,
    pub(crate) totals: Totals,
    pub(crate) threads: Vec<Thread>,
    /// Connections of all threads.
    pub(crate) connected: AtomicUsize,
    /// Connections whose command waits for a lock.
    pub(crate) parked: AtomicUsize,
    /// Connections whose script runs on a thread of its own.
    on_own_threads: AtomicUsize,
    /// Scripts that begin on threads of their own.
    pub(crate) long: LongScripts,
    stopping: AtomicBool,
    /// When it was last said that a connection spoke HTTP, Unix microseconds.
    pub(crate) told_suspicion: AtomicI64,
    /// Told when the server stops.
    pub(crate) stopped: (Mutex<()>, Condvar),
    /// CLIENT PAUSE.
    pub(crate) pause: Pause,
    pub(crate) monitors: Monitors,
    /// For how many clients there are descriptors.
    pub(crate) room: AtomicU64,
    pub(crate) maxclients: AtomicI64,
    pub(crate) tcp_port: u16,
    pub(crate) config_file: String,
}

/// A script that has written and does not end could be ended only with the server.
const SCRIPT_LIMITS: ScriptLimits = ScriptLimits {
    memory: 256 << 20,
    time: Some(Duration::from_secs(30)),
    shared_thread_time: Some(Duration::from_millis(5)),
    impatient_time: None,
};
/// Scripts that run on threads of their own at the same time, at most.
const OWN_THREADS_MAX: usize = 16;

/// What runs scripts, where the build has it.
fn interpreter() -> Option<&'static dyn Interpreter> {
    #[cfg(feature = "scripts")]
    return Some(undercroft_scripts::interpreter());
    #[cfg(not(feature = "scripts"))]
    return None;
}

impl Shared {
    pub(crate) fn new(
        store: Store,
        config: Config,
        threads: Vec<Thread>,
        tcp_port: u16,
        config_file: String,
    ) -> Shared {
        store.set_patience(PATIENCE);
        let maxclients = config.integer("maxclients");
        let store = Arc::new(store);
        let hub = |_: &Thread| Mutex::new(Hub::new(store.clone()));
        let waiting = |_: &Thread| Mutex::new(Waiting::new(store.clone()));
        store.leave_upkeep_to_a_timer();
        let shared = Shared {
            hubs: threads.iter().map(hub).collect(),
            waiting: threads.iter().map(waiting).collect(),
            blocked: AtomicIsize::new(0),
            process: Process::new(config, threads.len())
                .with_interpreter(interpreter(), SCRIPT_LIMITS),
            registry: Registry::default(),
            totals: Totals::default(),
            connected: AtomicUsize::new(0),
            parked: AtomicUsize::new(0),
            on_own_threads: AtomicUsize::new(0),
            long: LongScripts::new(),
            stopping: AtomicBool::new(false),
            told_suspicion: AtomicI64::new(0),
            stopped: Default::default(),
            pause: Pause::default(),
            monitors: Monitors::new(threads.len()),
            room: AtomicU64::new(0),
            maxclients: AtomicI64::new(maxclients),
            tcp_port,
            config_file,
            store: ArcSwap::new(store.clone()),
            change: Change::default(),
            threads,
        };
        shared
            .room
            .store(make_room_for(maxclients.max(0) as u64), Ordering::Relaxed);
        shared
    }

    /// The store that is served.
    #[inline]
    pub(crate) fn store(&self) -> Guard<Arc<Store>> {
        self.store.load()
    }

    /// Changes to another store. Called while all threads have stopped, and no connection holds anything of the old one.
    pub(crate) fn change_to(&self, store: Store) {
        let is_parked = self.parked.load(Ordering::Relaxed) > 0;
        store.set_patience(if is_parked { Duration::ZERO } else { PATIENCE });
        store.leave_upkeep_to_a_timer();
        store.keep_expired_until(self.pause.until());
        let store = Arc::new(store);
        self.store.store(store.clone());
        for thread in 0..self.threads.len() {
            *self.hub(thread) = Hub::new(store.clone());
            *self.waiting(thread) = Waiting::new(store.clone());
        }
    }

    /// Whether no script runs on a thread of its own, and none is on its way back.
    pub(crate) fn has_all_back(&self) -> bool {
        self.on_own_threads.load(Ordering::Acquire) == 0
    }

    /// What the connections of a thread are subscribed to.
    pub(crate) fn hub(&self, thread: usize) -> MutexGuard<'_, Hub> {
        // A panic ends the whole server.
        self.hubs[thread]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The connections of a thread that wait for keys.
    pub(crate) fn waiting(&self, thread: usize) -> MutexGuard<'_, Waiting> {
        self.waiting[thread]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Connections began to wait for keys, or ended it.
    pub(crate) fn block(&self, change: isize) {
        self.blocked.fetch_add(change, Ordering::Relaxed);
    }

    /// For how many clients there is room, and how many are asked for.
    pub(crate) fn room(&self) -> (u64, i64) {
        (
            self.room.load(Ordering::Relaxed),
            self.maxclients.load(Ordering::Relaxed),
        )
    }

    /// Whether one more client may come in.
    pub(crate) fn has_room(&self) -> bool {
        let (room, maxclients) = self.room();
        let most = room.min(maxclients.max(0) as u64);
        (self.connected.load(Ordering::Relaxed) as u64) < most
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Lets all threads end.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        // Taken so that nobody is between a look at the flag and the wait.
        drop(
            self.stopped
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        self.stopped.1.notify_all();
        for thread in &self.threads {
            thread.waker.wake();
        }
    }

    /// Whether some connection waits for a lock.
    pub(crate) fn waits(&self) -> bool {
        self.parked.load(Ordering::Relaxed) > 0
    }

    /// A connection begins to wait for a lock. From now on no command of any thread waits for one in place: with
    /// many connections that would add up, and one that comes back later finds the lock as well.
    pub(crate) fn park(&self) {
        if self.parked.fetch_add(1, Ordering::AcqRel) == 0 {
            self.store().set_patience(Duration::ZERO);
        }
    }

    /// A connection has stopped waiting.
    pub(crate) fn unpark(&self) {
        if self.parked.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.store().set_patience(PATIENCE);
        }
    }

    /// Has LATENCY take note of something that began then, where it took long.
    pub(crate) fn note_latency(&self, event: Event, start: Instant) {
        let now = || self.process.now_microseconds() / 1_000_000;
        self.process.latency.note(event, start.elapsed(), now);
    }

    /// Whether one more script may have a thread of its own; until [`return_own_thread`](Self::return_own_thread) it counts.
    pub(crate) fn take_own_thread(&self) -> bool {
        let more = |count| (count < OWN_THREADS_MAX).then_some(count + 1);
        self.on_own_threads
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    /// Whether it may at this moment.
    pub(crate) fn has_own_thread(&self) -> bool {
        self.on_own_threads.load(Ordering::Relaxed) < OWN_THREADS_MAX
    }

    /// A script that had a thread of its own has come back.
    pub(crate) fn return_own_thread(&self) {
        self.on_own_threads.fetch_sub(1, Ordering::Release);
    }

    /// Counts an error reply that no command wrote.
    pub(crate) fn count_error(&self, session: &mut Session, text: &str) {
        session.activity.counters.errors += 1;
        self.process
            .statistics
            .count_error(session.peer.route.0, text);
    }

    pub(crate) fn password(&self) -> Vec<u8> {
        self.process.config.value("requirepass").text()
    }

    /// Whether clients on other machines are turned away: no password is set, and nobody has allowed it.
    pub(crate) fn is_protected(&self) -> bool {
        self.process.config.boolean("protected-mode") && self.password().is_empty()
    }
}
