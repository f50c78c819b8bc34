//! What all threads of a server share, and how commands reach it.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicIsize, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use undercroft_commands::config::{Config, Parameter, Value};
use undercroft_commands::info::Facts;
use undercroft_commands::pause::Pause;
use undercroft_commands::session::{
    ClientInfo, Counters, Host, KillFilter, Session, ShutdownOptions,
};
use undercroft_commands::slowlog::SlowLog;
use undercroft_commands::statistics::Statistics;
use undercroft_engine::{Access, Begun, Error, Store, Topic, Waiters, Wanted};

use crate::connection::Moved;
use crate::hub::Hub;
use crate::limits::make_room_for;
use crate::listener::Accepted;
use crate::log::log;
use crate::monitors::Monitors;
use crate::poll::Waker;
use crate::registry::{Card, Registry};

/// How long a command waits for a lock right where it runs (M6).
const PATIENCE: Duration = Duration::from_millis(1);

/// Microseconds between two lines of the log on connections that speak HTTP.
const BETWEEN_SUSPICIONS: i64 = 60_000_000;

/// What one thread tells another.
pub(crate) enum Message {
    /// A connection to serve.
    Serve(Accepted, Box<Session>, Arc<Card>),
    /// Some connection of the thread was killed.
    Kill,
}

/// The way to one thread.
pub(crate) struct Mailbox {
    pub(crate) waker: Waker,
    messages: Mutex<Vec<Message>>,
    /// Connections the thread serves, those on their way to it included.
    pub(crate) connections: AtomicUsize,
}

impl Mailbox {
    pub(crate) fn new(waker: Waker) -> Mailbox {
        Mailbox {
            waker,
            messages: Mutex::default(),
            connections: AtomicUsize::new(0),
        }
    }

    pub(crate) fn send(&self, message: Message) {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        messages.push(message);
        drop(messages);
        self.waker.wake();
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
    pub(crate) expired: AtomicU64,
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
    pub(crate) store: Arc<Store>,
    /// What the connections of each thread are subscribed to.
    hubs: Vec<Mutex<Hub>>,
    /// Whose of each thread's connections wait for keys.
    waiting: Vec<Mutex<Waiting>>,
    /// How many connections do.
    blocked: AtomicIsize,
    pub(crate) config: Config,
    slowlog: SlowLog,
    statistics: Statistics,
    pub(crate) registry: Registry,
    pub(crate) totals: Totals,
    pub(crate) mailboxes: Vec<Mailbox>,
    /// Connections of all threads.
    pub(crate) connected: AtomicUsize,
    /// Connections whose command waits for a lock.
    parked: AtomicUsize,
    stopping: AtomicBool,
    /// When it was last said that a connection spoke HTTP, Unix microseconds.
    told_suspicion: AtomicI64,
    /// Told when the server stops.
    stopped: (Mutex<()>, Condvar),
    /// CLIENT PAUSE.
    pub(crate) pause: Pause,
    pub(crate) monitors: Monitors,
    /// For how many clients there are descriptors.
    room: AtomicU64,
    maxclients: AtomicI64,
    started: i64,
    pub(crate) tcp_port: u16,
    config_file: String,
}

impl Shared {
    pub(crate) fn new(
        store: Store,
        config: Config,
        mailboxes: Vec<Mailbox>,
        tcp_port: u16,
        config_file: String,
    ) -> Shared {
        let slowlog = SlowLog::new();
        slowlog.configure(&config);
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
            slowlog,
            statistics: Statistics::new(mailboxes.len()),
            registry: Registry::default(),
            totals: Totals::default(),
            connected: AtomicUsize::new(0),
            parked: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            told_suspicion: AtomicI64::new(0),
            stopped: Default::default(),
            pause: Pause::default(),
            monitors: Monitors::new(mailboxes.len()),
            room: AtomicU64::new(0),
            maxclients: AtomicI64::new(maxclients),
            started: now_microseconds() / 1000,
            tcp_port,
            config_file,
            store: store.clone(),
            config,
            mailboxes,
        };
        shared
            .room
            .store(make_room_for(maxclients.max(0) as u64), Ordering::Relaxed);
        shared
    }

    /// What the connections of a thread are subscribed to.
    pub(crate) fn hub(&self, thread: usize) -> MutexGuard<'_, Hub> {
        // A panic ends the whole server.
        self.hubs[thread]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Who of a thread's connections waits for keys.
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
    /// many connections that would add up, and who comes back later finds the lock as well.
    pub(crate) fn park(&self) {
        if self.parked.fetch_add(1, Ordering::AcqRel) == 0 {
            self.store.set_patience(Duration::ZERO);
        }
    }

    /// A connection has stopped waiting.
    pub(crate) fn unpark(&self) {
        if self.parked.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.store.set_patience(PATIENCE);
        }
    }

    fn password(&self) -> Vec<u8> {
        self.config.value("requirepass").text()
    }

    /// Whether clients on other machines are turned away: no password is set, and nobody has allowed it.
    pub(crate) fn is_protected(&self) -> bool {
        self.config.boolean("protected-mode") && self.password().is_empty()
    }
}

fn now_microseconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |elapsed| elapsed.as_micros() as i64)
}

/// Whether two texts are equal, in a time that tells of their lengths only.
fn equal_in_constant_time(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differences) == 0
}

impl Host for Shared {
    fn now_microseconds(&self) -> i64 {
        now_microseconds()
    }

    fn suspect(&self, session: &Session) {
        let now = self.now_microseconds();
        let told = self.told_suspicion.load(Ordering::Relaxed);
        let is_told = now.saturating_sub(told) < BETWEEN_SUSPICIONS && told != 0;
        let mine = || {
            let swapped = self.told_suspicion.compare_exchange(
                told,
                now,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            swapped.is_ok()
        };
        if !is_told && mine() {
            log(format_args!(
                "{} was cut off: it sent POST or Host: as a command. Somebody may be trying Cross Protocol Scripting, \
                 which sends commands to this server from a page in a browser",
                session.address
            ));
        }
    }

    fn sleep(&self, time: Duration) {
        let (lock, stopped) = &self.stopped;
        let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        // Whether it was the time or the end makes no difference.
        let _ = stopped.wait_timeout_while(guard, time, |()| !self.stopping());
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn apply(
        &self,
        changes: &[(&'static Parameter, Value)],
    ) -> Result<(), (&'static Parameter, String)> {
        const AT_START: &[&str] = &["port", "bind"];
        let fixed = changes.iter().find(|(parameter, value)| {
            AT_START.contains(&parameter.name) && *value != self.config.value(parameter.name)
        });
        if let Some((parameter, _)) = fixed {
            return Err((parameter, "it can be set at start only".into()));
        }
        // What may be refused comes first, so that all of it happens or none.
        for (parameter, value) in changes {
            if let ("maxclients", Value::Integer(clients)) = (parameter.name, value) {
                let room = make_room_for(*clients as u64);
                if room < *clients as u64 {
                    let text = format!(
                        "The operating system is not able to handle the specified number of clients, try with {room}"
                    );
                    return Err((parameter, text));
                }
                self.room.store(room, Ordering::Relaxed);
                self.maxclients.store(*clients, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn slowlog(&self) -> &SlowLog {
        &self.slowlog
    }

    fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    fn clients(&self) -> Vec<ClientInfo> {
        self.registry.clients(now_microseconds() / 1000)
    }

    fn pause(&self, until: i64, all: bool) -> Result<(), String> {
        self.pause.begin(until, all);
        Ok(())
    }

    fn unpause(&self) {
        self.pause.end();
    }

    fn keeps_expired(&self) -> bool {
        self.pause.lasts(now_microseconds() / 1000)
    }

    fn is_monitored(&self) -> bool {
        self.monitors.any()
    }

    fn monitor(&self, session: &Session) -> Result<(), String> {
        self.monitors.begin(session.route);
        Ok(())
    }

    fn end_monitor(&self, session: &Session) {
        self.monitors.end(session.route);
    }

    fn show(&self, session: &Session, line: &[u8]) {
        self.monitors.show(line, |thread| {
            // The thread that runs the command looks before it sleeps.
            if thread != session.route.0 {
                self.mailboxes[thread].waker.wake();
            }
        });
    }

    fn kill(&self, filter: &KillFilter) -> usize {
        let killed = self.registry.kill(filter, now_microseconds() / 1000);
        for card in &killed {
            self.mailboxes[card.worker].send(Message::Kill);
        }
        killed.len()
    }

    fn take_or_wait(
        &self,
        session: &Session,
        _: Access<'_>,
        wanted: &Wanted<'_>,
        _: Option<Duration>,
    ) -> Result<Begun, Error> {
        // Its thread sees to the timeout.
        self.waiting(session.route.0).begin(wanted)
    }

    fn unblock(&self, id: u64, with_error: bool) -> Result<bool, Error> {
        match self.registry.ticket(id) {
            Some(ticket) => self.store.unblock(ticket, with_error),
            None => Ok(false),
        }
    }

    fn subscribe(&self, session: &Session, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        let (thread, token) = session.route;
        self.hub(thread).subscribe(token, topic, names)
    }

    fn unsubscribe(&self, session: &Session, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        let (thread, token) = session.route;
        self.hub(thread).unsubscribe(token, topic, names);
        Ok(())
    }

    fn authenticate(&self, user: &[u8], password: &[u8]) -> bool {
        let expected = self.password();
        user == b"default" && (expected.is_empty() || equal_in_constant_time(password, &expected))
    }

    fn initial_user(&self) -> Option<String> {
        self.password().is_empty().then(|| "default".to_owned())
    }

    fn facts(&self) -> Facts {
        let totals = &self.totals;
        let total = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let clients = self.clients();
        let largest = |size: fn(&ClientInfo) -> usize| clients.iter().map(size).max().unwrap_or(0);
        Facts {
            tcp_port: self.tcp_port,
            threads: self.mailboxes.len(),
            started: self.started,
            config_file: self.config_file.clone(),
            connected_clients: clients.len() as u64,
            blocked_clients: self.parked.load(Ordering::Relaxed) as u64
                + self.blocked.load(Ordering::Relaxed).max(0) as u64,
            largest_input: largest(|client| client.buffers.input + client.buffers.input_free)
                as u64,
            largest_output: largest(|client| client.buffers.output) as u64,
            connections: total(&totals.connections),
            rejected_connections: total(&totals.rejected),
            commands: total(&totals.commands),
            commands_per_second: total(&totals.commands_per_second),
            input_bytes: total(&totals.input_bytes),
            output_bytes: total(&totals.output_bytes),
            input_per_second: total(&totals.input_per_second),
            output_per_second: total(&totals.output_per_second),
            reads: total(&totals.reads),
            writes: total(&totals.writes),
            client_memory: clients.iter().map(|client| client.memory() as u64).sum(),
            hits: total(&totals.hits),
            misses: total(&totals.misses),
            expired_keys: total(&totals.expired),
            errors: total(&totals.errors),
        }
    }

    fn reset_statistics(&self) {
        let totals = &self.totals;
        for counter in [
            &totals.connections,
            &totals.rejected,
            &totals.commands,
            &totals.input_bytes,
            &totals.output_bytes,
            &totals.reads,
            &totals.writes,
            &totals.hits,
            &totals.misses,
            &totals.errors,
            &totals.expired,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
    }

    fn shutdown(&self, options: ShutdownOptions) -> Result<(), String> {
        if options.abort {
            return Err("ERR No shutdown in progress.".into());
        }
        if options.save == Some(true) {
            return Err(
                "ERR There are no snapshots yet: use undercroft export, or SHUTDOWN NOSAVE".into(),
            );
        }
        self.stop();
        Ok(())
    }
}
