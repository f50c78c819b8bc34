//! Holds the state that all threads of a server share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicIsize, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use undercroft_commands::audit::{AuditEvent, AuditLog, AuditResult};
use undercroft_commands::config::{Config, Parameter};
use undercroft_commands::context::{Interpreter, Pause, Process};
use undercroft_commands::scripts::ScriptLimits;
use undercroft_commands::session::Session;
use undercroft_commands::statistics::latency::Event;
use undercroft_commands::table::Renames;
use undercroft_commands::users::UserDefinition;
use undercroft_engine::waiting::Waiters;
use undercroft_engine::{Error, Store};

use crate::log::log;
use crate::shared::accounts::login_delays::LoginDelays;
use crate::shared::files::audit_file::AuditFile;
use crate::shared::files::dump_file::DumpFile;
use crate::shared::files::sandbox::Sandbox;
use crate::shared::following::Following;
use crate::shared::forwarding::Forwarding;
use crate::shared::group_commit::GroupCommit;
use crate::shared::hub::Hub;
use crate::shared::limits::make_room_for;
use crate::shared::long_scripts::LongScripts;
use crate::shared::monitors::Monitors;
use crate::shared::registered::Registered;
use crate::shared::registry::Registry;
use crate::shared::store_change::Change;
use crate::shared::totals::Totals;
use crate::shared::tracking::{Surroundings, Tracking};
use crate::sockets::certificates::Certificates;
use crate::sockets::poll::Waker;
use crate::sockets::proxy::Proxies;

/// How long a thread waits for a lock before it parks the command (M6).
const PATIENCE: Duration = Duration::from_millis(1);

/// The state of one thread that other threads access.
pub(crate) struct Thread {
    pub(crate) waker: Waker,
    /// The number of connections that the thread serves, including connections that are moving to
    /// it.
    pub(crate) connections: AtomicUsize,
    /// The time at which the thread started working, in Unix milliseconds, or 0 while it waits.
    busy_since: AtomicI64,
    /// Whether a connection of the thread was killed and must be closed.
    has_killed: AtomicBool,
    /// The number of connections of the thread that wait for replicas.
    waits: AtomicUsize,
    /// Whether a wait of the thread's connections may have ended.
    has_ended_waits: AtomicBool,
}

impl Thread {
    pub(crate) fn new(waker: Waker) -> Thread {
        Thread {
            waker,
            connections: AtomicUsize::new(0),
            busy_since: AtomicI64::new(0),
            has_killed: AtomicBool::new(false),
            waits: AtomicUsize::new(0),
            has_ended_waits: AtomicBool::new(false),
        }
    }

    /// Records the time at which the thread starts to work, or 0 when it starts to wait.
    pub(crate) fn set_busy(&self, since: i64) {
        self.busy_since.store(since, Ordering::Relaxed);
    }

    /// Returns whether the thread's current round has already taken so long that new connections
    /// would have to wait.
    pub(crate) fn is_stalled(&self, now: i64) -> bool {
        const LONG: i64 = 10;
        self.is_busy_for(now, LONG)
    }

    /// Returns whether the thread's current round has taken more than this number of milliseconds.
    pub(crate) fn is_busy_for(&self, now: i64, milliseconds: i64) -> bool {
        let since = self.busy_since.load(Ordering::Relaxed);
        since != 0 && now - since > milliseconds
    }

    /// Makes the thread close its killed connections.
    pub(crate) fn close_killed(&self) {
        self.has_killed.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Records the number of connections that wait for replicas. The thread must check
    /// [`has_ended_waits`](Self::has_ended_waits) afterwards, before it sleeps.
    pub(crate) fn set_waits(&self, waits: usize) {
        self.waits.store(waits, Ordering::SeqCst);
    }

    /// Makes the thread look whether waits for replicas have ended. The order of the store and the load
    /// matters, so that either this thread or the thread that sets the number sees the other's store.
    pub(crate) fn look_at_waits(&self) {
        self.has_ended_waits.store(true, Ordering::SeqCst);
        if self.waits.load(Ordering::SeqCst) > 0 {
            self.waker.wake();
        }
    }

    /// Returns whether waits for replicas may have ended since the last call of
    /// [`take_ended_waits`](Self::take_ended_waits).
    pub(crate) fn has_ended_waits(&self) -> bool {
        self.has_ended_waits.load(Ordering::SeqCst)
    }

    /// Returns whether waits for replicas may have ended since the last call.
    pub(crate) fn take_ended_waits(&self) -> bool {
        self.has_ended_waits.swap(false, Ordering::SeqCst)
    }

    /// Returns whether connections were killed since the last call.
    pub(crate) fn take_killed(&self) -> bool {
        self.has_killed.swap(false, Ordering::Acquire)
    }
}

/// The connections of one thread that are blocked on keys, as registered in the store.
pub(crate) type Waiting = Waiters<Arc<Store>>;

/// The state of a server that its threads and its commands share.
pub(crate) struct Shared {
    /// The served store. If its file is removed, the threads [switch](Change) to another store.
    store: ArcSwap<Store>,
    pub(crate) change: Change,
    /// The subscriptions of each thread's connections.
    hubs: Vec<Mutex<Hub>>,
    /// For each thread, the connections that are blocked on keys.
    waiting: Vec<Mutex<Waiting>>,
    /// The connections that track keys.
    pub(crate) tracking: Tracking,
    /// The number of connections that are blocked on keys, or wait for replicas.
    pub(crate) blocked: AtomicIsize,
    pub(crate) process: Process,
    pub(crate) registry: Registry,
    pub(crate) totals: Totals,
    pub(crate) threads: Vec<Thread>,
    /// The requests to sync the journal.
    pub(crate) commits: GroupCommit,
    /// The number of connections on all threads.
    pub(crate) connected: AtomicUsize,
    /// The number of connections whose next command is waiting for a lock.
    pub(crate) parked: AtomicUsize,
    /// The number of connections whose script runs on a separate thread.
    on_own_threads: AtomicUsize,
    /// The history that decides which scripts start on a separate thread.
    pub(crate) long: LongScripts,
    stopping: AtomicBool,
    /// The time of the last log line about an HTTP request, in Unix microseconds.
    pub(crate) told_suspicion: AtomicI64,
    /// A condition variable that is notified when the server stops.
    pub(crate) stopped: (Mutex<()>, Condvar),
    /// The state of CLIENT PAUSE.
    pub(crate) pause: Pause,
    pub(crate) following: Following,
    pub(crate) forwarding: Forwarding,
    pub(crate) replicas: Registered,
    /// The server itself, for threads that it starts later.
    pub(crate) me: Weak<Shared>,
    pub(crate) monitors: Monitors,
    pub(crate) login_delays: LoginDelays,
    /// The stamp of the users of which the threads were last told.
    pub(crate) seen_users: AtomicU64,
    /// The number of clients for which the descriptor limit suffices.
    pub(crate) room: AtomicU64,
    pub(crate) maxclients: AtomicI64,
    pub(crate) tcp_port: u16,
    pub(crate) files: Files,
    /// The TLS configuration of new connections, or `None` if no port is encrypted.
    certificates: ArcSwapOption<Certificates>,
}

/// The files that the user named when the server was started, and the terms that only they can set.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// The path of the configuration file, or an empty string.
    pub(crate) config: String,
    /// The folder in which CONFIG SET begins a journal.
    pub(crate) journal: Option<PathBuf>,
    /// The file to which SAVE and BGSAVE write snapshots. CONFIG SET can change it, if the operator has
    /// allowed this.
    pub(crate) snapshot: ArcSwapOption<DumpFile>,
    /// The users that the configuration file defines.
    pub(crate) users: Vec<UserDefinition>,
    /// The names by which clients call commands.
    pub(crate) renames: Renames,
    /// The proxies that announce their clients.
    pub(crate) proxies: Proxies,
    /// The audit log.
    pub(crate) audit: Option<Arc<AuditFile>>,
    /// The sandbox, once the server has entered it.
    pub(crate) sandbox: OnceLock<Sandbox>,
}

/// The limits of scripts. Without a time limit, an endless script that has written could be stopped
/// only by stopping the server.
const SCRIPT_LIMITS: ScriptLimits = ScriptLimits {
    memory: 256 << 20,
    time: Some(Duration::from_secs(30)),
    shared_thread_time: Some(Duration::from_millis(5)),
    impatient_time: None,
};
/// The maximum number of scripts that run on separate threads at the same time.
const OWN_THREADS_MAX: usize = 16;

/// Returns the script interpreter, if the build includes one.
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
        files: Files,
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
            tracking: Tracking::new(store.clone(), threads.len()),
            blocked: AtomicIsize::new(0),
            process: Process::new(config, threads.len())
                .with_interpreter(interpreter(), SCRIPT_LIMITS)
                .with_renames(files.renames.clone())
                .with_audit_log(files.audit.clone().map(|file| file as Arc<dyn AuditLog>)),
            registry: Registry::default(),
            totals: Totals::default(),
            commits: GroupCommit::default(),
            connected: AtomicUsize::new(0),
            parked: AtomicUsize::new(0),
            on_own_threads: AtomicUsize::new(0),
            long: LongScripts::new(),
            stopping: AtomicBool::new(false),
            told_suspicion: AtomicI64::new(0),
            stopped: Default::default(),
            pause: Pause::default(),
            following: Following::default(),
            forwarding: Forwarding::default(),
            replicas: Registered::default(),
            me: Weak::new(),
            monitors: Monitors::new(threads.len()),
            login_delays: LoginDelays::default(),
            seen_users: AtomicU64::new(0),
            room: AtomicU64::new(0),
            maxclients: AtomicI64::new(maxclients),
            tcp_port,
            files,
            certificates: ArcSwapOption::empty(),
            store: ArcSwap::new(store.clone()),
            change: Change::default(),
            threads,
        };
        shared
            .room
            .store(make_room_for(maxclients.max(0) as u64), Ordering::Relaxed);
        shared
    }

    /// Makes the server shareable with the threads that it starts.
    pub(crate) fn share(mut self) -> Arc<Shared> {
        Arc::new_cyclic(|me| {
            self.me = me.clone();
            self
        })
    }

    /// Returns the served store.
    #[inline]
    pub(crate) fn store(&self) -> Guard<Arc<Store>> {
        self.store.load()
    }

    /// Replaces the served store. The caller must have stopped all threads, and no connection may
    /// reference state in the old store.
    pub(crate) fn change_to(&self, store: Store) {
        let is_parked = self.parked.load(Ordering::Relaxed) > 0;
        store.set_patience(if is_parked { Duration::ZERO } else { PATIENCE });
        store.leave_upkeep_to_a_timer();
        store.keep_expired_until(self.pause.until());
        let store = Arc::new(store);
        self.store.store(store.clone());
        self.process.users.forget();
        self.commits.forget();
        for thread in 0..self.threads.len() {
            *self.hub(thread) = Hub::new(store.clone());
            *self.waiting(thread) = Waiting::new(store.clone());
        }
        self.with_surroundings(|around| self.tracking.change_to(store, around));
    }

    /// Posts the invalidations of all changes that were committed before this call to the threads of
    /// the connections that track keys.
    ///
    /// # Errors
    /// Fails if a writer holds a lock for too long.
    pub(crate) fn collect_changes(&self) -> Result<(), Error> {
        self.with_surroundings(|around| self.tracking.collect(around))
    }

    /// Posts the invalidations of keys that a connection has read, and that may have changed unnoticed.
    pub(crate) fn tell_doubts(&self, id: u64) {
        self.with_surroundings(|around| self.tracking.tell_doubts(id, around));
    }

    /// Calls `body` with the parts of the server that deliver invalidations.
    pub(crate) fn with_surroundings<R>(&self, body: impl FnOnce(&Surroundings<'_>) -> R) -> R {
        const MOST_KEYS: usize = Parameter::place("tracking-table-max-keys");
        let most_keys = self.process.config.number_at(MOST_KEYS);
        body(&Surroundings {
            registry: &self.registry,
            most_keys: usize::try_from(most_keys).unwrap_or(0),
            wake: &|thread| self.threads[thread].waker.wake(),
        })
    }

    /// Returns whether no connection is on a separate thread or moving back from one.
    pub(crate) fn has_all_back(&self) -> bool {
        self.on_own_threads.load(Ordering::Acquire) == 0
    }

    /// Returns the subscriptions of a thread's connections.
    pub(crate) fn hub(&self, thread: usize) -> MutexGuard<'_, Hub> {
        // Ignore a poisoned lock, because a panic stops the server anyway.
        self.hubs[thread]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the connections of a thread that are blocked on keys.
    pub(crate) fn waiting(&self, thread: usize) -> MutexGuard<'_, Waiting> {
        self.waiting[thread]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes all threads look whether waits for replicas have ended.
    pub(crate) fn look_at_waits(&self) {
        for thread in &self.threads {
            thread.look_at_waits();
        }
    }

    /// Adds `change` to the number of connections that are blocked on keys, or wait for replicas.
    pub(crate) fn block(&self, change: isize) {
        self.blocked.fetch_add(change, Ordering::Relaxed);
    }

    /// Returns the number of clients for which the descriptor limit suffices, and the configured
    /// maximum.
    pub(crate) fn room(&self) -> (u64, i64) {
        (
            self.room.load(Ordering::Relaxed),
            self.maxclients.load(Ordering::Relaxed),
        )
    }

    /// Removes a closed connection of a thread from the lists and counts of all connections.
    pub(crate) fn count_closed(&self, id: u64, thread: usize) {
        self.registry.remove(id);
        self.threads[thread]
            .connections
            .fetch_sub(1, Ordering::Relaxed);
        self.connected.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns whether another client can connect.
    pub(crate) fn has_room(&self) -> bool {
        let (room, maxclients) = self.room();
        let most = room.min(maxclients.max(0) as u64);
        (self.connected.load(Ordering::Relaxed) as u64) < most
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Asks all threads to stop.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        // Acquire the lock, so that no thread is between checking the flag and waiting.
        drop(
            self.stopped
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        self.stopped.1.notify_all();
        self.commits.stop();
        for thread in &self.threads {
            thread.waker.wake();
        }
    }

    /// Returns whether any connection is waiting for a lock.
    pub(crate) fn waits(&self) -> bool {
        self.parked.load(Ordering::Relaxed) > 0
    }

    /// Records that a connection is waiting for a lock. From then on, commands on all threads are
    /// parked without waiting, because the waits of many connections would add up. A later retry is
    /// just as likely to acquire the lock.
    pub(crate) fn park(&self) {
        if self.parked.fetch_add(1, Ordering::AcqRel) == 0 {
            self.store().set_patience(Duration::ZERO);
        }
    }

    /// Records that a connection is no longer waiting for a lock.
    pub(crate) fn unpark(&self) {
        if self.parked.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.store().set_patience(PATIENCE);
        }
    }

    /// Reports an event to LATENCY, which records slow events.
    pub(crate) fn note_latency(&self, event: Event, start: Instant) {
        let now = || self.process.now_microseconds() / 1_000_000;
        self.process.latency.note(event, start.elapsed(), now);
    }

    /// Reserves a separate thread for a script, if one is available. The reservation lasts until
    /// [`return_own_thread`](Self::return_own_thread).
    pub(crate) fn take_own_thread(&self) -> bool {
        let more = |count| (count < OWN_THREADS_MAX).then_some(count + 1);
        self.on_own_threads
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    /// Returns whether a separate thread is available.
    pub(crate) fn has_own_thread(&self) -> bool {
        self.on_own_threads.load(Ordering::Relaxed) < OWN_THREADS_MAX
    }

    /// Ends the reservation of a separate thread after its script has ended.
    pub(crate) fn return_own_thread(&self) {
        self.on_own_threads.fetch_sub(1, Ordering::Release);
    }

    /// Counts an error reply that was not written by a command.
    pub(crate) fn count_error(&self, session: &mut Session, text: &str) {
        session.activity.counters.errors += 1;
        self.process
            .statistics
            .count_error(session.peer.route.0, text);
    }

    /// Returns the TLS configuration of new connections, or `None` if no port is encrypted.
    pub(crate) fn certificates(&self) -> Option<Arc<Certificates>> {
        self.certificates.load_full()
    }

    /// Replaces the TLS configuration of new connections. Existing ones keep theirs. Logs a warning
    /// if the certificate expires soon.
    pub(crate) fn set_certificates(&self, certificates: Certificates) {
        if let Some(warning) = certificates.warning() {
            log(format_args!("{warning}"));
        }
        self.certificates.store(Some(Arc::new(certificates)));
    }

    /// Reports a connection that is refused or fails to the audit log. `client` is 0 if the connection
    /// has no ID yet. In a flood of connections, most are only counted.
    #[cold]
    pub(crate) fn audit_connection(&self, address: &str, client: u64, reason: &str) {
        let now = self.process.now_microseconds();
        if let Some(log) = &self.files.audit
            && let Some(omitted) = log.refusals.count(now)
        {
            let mut reason = reason.to_owned();
            if omitted > 0 {
                reason += &format!("; {omitted} refused connections before it were not recorded");
            }
            let event = AuditEvent {
                time: now,
                event: "connection",
                user: Vec::new(),
                address: address.to_owned(),
                client,
                command: "",
                arguments: Vec::new(),
                result: AuditResult::Refused,
                reason,
            };
            // The log counts the failure, and no command waits for it.
            let _ = log.record(&event);
        }
    }

    /// Returns whether clients on other machines are rejected, because no password is set and
    /// protected mode is on.
    pub(crate) fn is_protected(&self) -> bool {
        self.process.config.boolean("protected-mode") && self.needs_no_password()
    }
}
