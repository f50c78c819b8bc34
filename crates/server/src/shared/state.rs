//! What all threads of a server share.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicIsize, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use undercroft_commands::config::Config;
use undercroft_commands::host::Process;
use undercroft_commands::latency::Event;
use undercroft_commands::pause::Pause;
use undercroft_commands::script::{Interpreter, ScriptLimits};
use undercroft_commands::session::{Counters, Session};
use undercroft_engine::{Store, Waiters};

use crate::apart::Returned;
use crate::change::Change;
use crate::connection::Moved;
use crate::hub::Hub;
use crate::limits::make_room_for;
use crate::listener::Accepted;
use crate::long::LongScripts;
use crate::monitors::Monitors;
use crate::poll::Waker;
use crate::registry::{Card, Registry};

/// How long a command waits for a lock right where it runs (M6).
const PATIENCE: Duration = Duration::from_millis(1);

/// What one thread tells another.
pub(crate) enum Message {
    /// A connection to serve.
    Serve(Accepted, Box<Session>, Arc<Card>),
    /// Some connection of the thread was killed.
    Kill,
    /// A connection of the thread whose script has run elsewhere.
    Back(Box<Returned>),
}

/// The way to one thread.
pub(crate) struct Mailbox {
    pub(crate) waker: Waker,
    messages: Mutex<Vec<Message>>,
    /// Connections the thread serves, those on their way to it included.
    pub(crate) connections: AtomicUsize,
    /// Since when the thread works, in Unix milliseconds; 0 while it waits.
    busy_since: AtomicI64,
}

impl Mailbox {
    pub(crate) fn new(waker: Waker) -> Mailbox {
        Mailbox {
            waker,
            messages: Mutex::default(),
            connections: AtomicUsize::new(0),
            busy_since: AtomicI64::new(0),
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

    pub(crate) fn send(&self, message: Message) {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        messages.push(message);
        drop(messages);
        self.waker.wake();
    }

    /// Whether a connection is on its way back to the thread.
    fn has_returned(&self) -> bool {
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        messages
            .iter()
            .any(|message| matches!(message, Message::Back(_)))
    }

    pub(crate) fn take(&self) -> Vec<Message> {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *messages)
    }
}

/// Figures for INFO. Each thread adds its own once in each of its rounds.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) connections: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) commands: AtomicU64,
    pub(crate) input_bytes: AtomicU64,
    pub(crate) output_bytes: AtomicU64,
    /// How often bytes were read from sockets, and written to them.
    pub(crate) reads: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) errors: AtomicU64,
    /// What happened in the last second, by the sampler.
    pub(crate) commands_per_second: AtomicU64,
    pub(crate) input_per_second: AtomicU64,
    pub(crate) output_per_second: AtomicU64,
    /// Commands ever run, whatever CONFIG RESETSTAT does.
    pub(crate) commands_ever: AtomicU64,
}

impl Totals {
    #[inline]
    pub(crate) fn add(&self, counters: Counters, moved: Moved) {
        let add = |total: &AtomicU64, count: u64| {
            if count > 0 {
                total.fetch_add(count, Ordering::Relaxed);
            }
        };
        add(&self.commands, counters.commands);
        add(&self.commands_ever, counters.commands);
        add(&self.hits, counters.hits);
        add(&self.misses, counters.misses);
        add(&self.errors, counters.errors);
        add(&self.input_bytes, moved.input);
        add(&self.output_bytes, moved.output);
        add(&self.reads, moved.reads);
        add(&self.writes, moved.writes);
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
    pub(crate) mailboxes: Vec<Mailbox>,
    /// Connections of all threads.
    pub(crate) connected: AtomicUsize,
    /// Connections whose command waits for a lock.
    pub(crate) parked: AtomicUsize,
    /// Connections whose script runs on a thread of its own.
    apart: AtomicUsize,
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
    brief: Some(Duration::from_millis(5)),
    hurried: None,
};
/// Scripts that run on threads of their own at the same time, at most.
const APART_MAX: usize = 16;

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
        mailboxes: Vec<Mailbox>,
        tcp_port: u16,
        config_file: String,
    ) -> Shared {
        store.set_patience(PATIENCE);
        let maxclients = config.integer("maxclients");
        let store = Arc::new(store);
        let hub = |_: &Mailbox| Mutex::new(Hub::new(store.clone()));
        let waiting = |_: &Mailbox| Mutex::new(Waiting::new(store.clone()));
        store.leave_upkeep_to_a_timer();
        let shared = Shared {
            hubs: mailboxes.iter().map(hub).collect(),
            waiting: mailboxes.iter().map(waiting).collect(),
            blocked: AtomicIsize::new(0),
            process: Process::new(config, mailboxes.len())
                .with_interpreter(interpreter(), SCRIPT_LIMITS),
            registry: Registry::default(),
            totals: Totals::default(),
            connected: AtomicUsize::new(0),
            parked: AtomicUsize::new(0),
            apart: AtomicUsize::new(0),
            long: LongScripts::new(),
            stopping: AtomicBool::new(false),
            told_suspicion: AtomicI64::new(0),
            stopped: Default::default(),
            pause: Pause::default(),
            monitors: Monitors::new(mailboxes.len()),
            room: AtomicU64::new(0),
            maxclients: AtomicI64::new(maxclients),
            tcp_port,
            config_file,
            store: ArcSwap::new(store.clone()),
            change: Change::default(),
            mailboxes,
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
        for thread in 0..self.mailboxes.len() {
            *self.hub(thread) = Hub::new(store.clone());
            *self.waiting(thread) = Waiting::new(store.clone());
        }
    }

    /// Whether no script runs on a thread of its own, and none is on its way back.
    pub(crate) fn has_all_back(&self) -> bool {
        self.apart.load(Ordering::Acquire) == 0 && !self.mailboxes.iter().any(Mailbox::has_returned)
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
        for mailbox in &self.mailboxes {
            mailbox.waker.wake();
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

    /// Whether one more script may have a thread of its own; until [`return_apart`](Self::return_apart) it counts.
    pub(crate) fn take_apart(&self) -> bool {
        let more = |count| (count < APART_MAX).then_some(count + 1);
        self.apart
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    /// Whether it may at this moment.
    pub(crate) fn has_apart(&self) -> bool {
        self.apart.load(Ordering::Relaxed) < APART_MAX
    }

    /// A script's own thread has ended.
    pub(crate) fn return_apart(&self) {
        self.apart.fetch_sub(1, Ordering::Release);
    }

    pub(crate) fn password(&self) -> Vec<u8> {
        self.process.config.value("requirepass").text()
    }

    /// Whether clients on other machines are turned away: no password is set, and nobody has allowed it.
    pub(crate) fn is_protected(&self) -> bool {
        self.process.config.boolean("protected-mode") && self.password().is_empty()
    }
}
