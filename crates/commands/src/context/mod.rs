//! Defines the environment that every command handler receives: the connection, the store, and the
//! process that runs the command.
//!
//! Handlers, scripts and command dispatch call this module. The types in this file refer to each
//! other: a context refers to its process, the process refers to a script interpreter, and the
//! interpreter calls commands in a context.
//!
//! - `audit`: reports logins, refusals and security-relevant commands to the audit log.
//! - `gate`: checks the rights of users before every command.
//! - `interfaces`: defines the traits through which commands call the host process.
//! - `pause`: implements CLIENT PAUSE, which temporarily suspends commands.
//! - `redaction`: hides passwords in logged arguments.
//! - `reporting`: reports commands to the slow log, LATENCY and MONITOR.
//! - `scratch`: restores the state outside the store that a transaction's commands change.
//! - `timing`: measures the running times of commands.

mod audit;
mod gate;
mod interfaces;
mod pause;
mod redaction;
pub(crate) mod reporting;
mod scratch;
mod timing;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use undercroft_engine::{Access, Key, Reader, Scratch, Store};

use crate::arguments::CommandError;
use crate::audit::AuditLog;
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::reply::Reply;
use crate::scripts::{
    LibraryCache, LibraryFunction, RunningFunctions, Script, ScriptArguments, ScriptCache,
    ScriptError, ScriptLimits, ScriptRun,
};
use crate::session::Session;
use crate::statistics::checkpoints::Checkpoints;
use crate::statistics::latency::Latency;
use crate::statistics::slowlog::SlowLog;
use crate::statistics::{Lap, Statistics};
use crate::table::{Command, Renames, all, find_full};
use crate::users::{AclLog, UserCache};

pub(crate) use gate::{Handlers, Permit, Refusal};
pub use interfaces::{
    Connections, Control, Facts, ForwardedRequest, Inbox, ReplicaFacts, Replicas, ShutdownOptions,
    SnapshotFile, StreamFacts,
};
pub use pause::Pause;
pub(crate) use scratch::SessionScratch;
pub(crate) use timing::Timing;

/// Everything that a command handler can access other than its arguments and its reply.
pub struct Context<'a> {
    /// The session of the connection that sent the command. An embedded client also has a session.
    pub session: &'a mut Session,
    /// The server or embedding process that runs the command.
    pub host: Host<'a>,
    /// The access to the store, either directly or within a transaction.
    pub store: Access<'a>,
    /// The handlers of all commands. Only the gate can call them.
    handlers: &'static Handlers,
    /// Whether even the fastest commands are timed, for the slow log or LATENCY.
    pub(crate) timed: bool,
    /// Whether commands are sent to connections in MONITOR mode.
    pub(crate) shows: bool,
    /// Whether GET and SET can take the fast path, because they are not timed, queued, shown to
    /// monitors, tracked, forwarded to a source, or refused for lack of rights or of replicas.
    pub(crate) direct: bool,
    /// Whether logins, refusals and some commands are reported to the audit log.
    pub(crate) audits: bool,
    /// The names of commands, if clients call some of them by other names.
    pub(crate) renames: Option<&'a Renames>,
    /// Whether the commands are called by a script.
    pub(crate) scripted: bool,
    /// The fast commands that are being timed together.
    pub(crate) lap: Lap,
}

/// The slow log threshold, in microseconds, below which every command is timed. At or above this
/// threshold, plain SETs and constant-time commands are not timed, because they never take that
/// long.
const WORTH_TIMING: i64 = 10_000;

impl<'a> Context<'a> {
    /// Creates a context with the given table of handlers. [`Context::new`] supplies this table.
    #[inline]
    pub(crate) fn with_handlers(
        handlers: &'static Handlers,
        session: &'a mut Session,
        host: Host<'a>,
        store: &'a Store,
    ) -> Context<'a> {
        let mut context = Context {
            store: store.access().leaving_untouched(session.no_touch),
            // A process that embeds the store, or a followed source, is not audited.
            renames: host.process.renames_of(session),
            audits: host.process.audit.is_some() && !session.login.is_trusted(),
            session,
            host,
            handlers,
            timed: false,
            shows: false,
            direct: false,
            scripted: false,
            lap: Lap::default(),
        };
        context.choose_way();
        context
    }

    /// Returns a context for the commands within a running transaction.
    pub(crate) fn nested<'b>(&'b mut self, store: Access<'b>) -> Context<'b> {
        Context {
            store: store.leaving_untouched(self.session.no_touch),
            session: self.session,
            host: self.host,
            handlers: self.handlers,
            timed: self.timed,
            shows: self.shows,
            audits: self.audits,
            renames: self.renames,
            direct: false,
            scripted: false,
            lap: Lap::default(),
        }
    }

    /// Returns whether the memory limit is still exceeded after eviction.
    pub(crate) fn is_full(&self) -> Result<bool, Failure> {
        match self.store.check_memory_for(0).map_err(Failure::from) {
            Err(Failure::Reply(_)) => Ok(true),
            room => room.map(|()| false),
        }
    }

    /// Returns the error for commands that change keys, if none may: too few replicas are connected,
    /// or the store is a replica.
    #[inline]
    pub(crate) fn write_refusal(&self) -> Option<CommandError> {
        if self.host.config().requires_replicas() && self.lacks_replicas() {
            return Some(CommandError::NO_REPLICAS);
        }
        let store = self.store.store();
        match store.refuses_changes() {
            false => None,
            true if !store.is_replica() => Some(CommandError::NO_REPLICAS),
            true => (!self.host.control.forwards_writes()).then_some(CommandError::READ_ONLY),
        }
    }

    /// Returns whether fewer replicas are connected than the configuration requires.
    #[cold]
    fn lacks_replicas(&self) -> bool {
        let (count, lag) = self.host.config().required_replicas();
        let replicas = self.host.control.replicas();
        replicas.is_none_or(|replicas| replicas.decides() && replicas.count_recent(lag) < count)
    }

    /// Recomputes the flags that select fast paths. Must be called after the configuration or the
    /// user changes, a connection enters MONITOR mode, or a transaction begins or ends, or tracking
    /// begins or ends.
    pub(crate) fn choose_way(&mut self) {
        self.timed = (0..WORTH_TIMING).contains(&self.host.slowlog().threshold())
            || self.host.latency().watches();
        self.shows = self.host.connections.is_monitored();
        let forwards = self.store.store().refuses_changes() && self.host.control.forwards_writes();
        self.direct = !self.timed
            && !self.shows
            && !forwards
            && self.session.transaction.queue.is_none()
            && self.renames.is_none_or(Renames::keeps_get_and_set)
            && self.session.login.is_unrestricted()
            && self.session.tracking.is_none()
            && !self.host.config().requires_replicas();
    }

    /// Ends the tracking of keys for the connection.
    pub(crate) fn end_tracking(&mut self) {
        if self.session.tracking.take().is_some() {
            self.host.connections.end_tracking(self.session);
            self.choose_way();
        }
    }

    /// Returns the words of a call with the true name of the command. The name is empty if clients cannot
    /// call the command by this name.
    pub fn true_words<'w, 'c>(&self, words: &'w [&'c [u8]]) -> Cow<'w, [&'c [u8]]> {
        match self.renames {
            None => Cow::Borrowed(words),
            Some(renames) => renames
                .true_words(words)
                .unwrap_or_else(|| Cow::Owned(vec![&b""[..]])),
        }
    }

    /// Finds a command or subcommand by the full name that clients use.
    pub(crate) fn find_full(&self, name: &[u8]) -> Option<&'static Command> {
        match self.renames {
            None => find_full(name),
            Some(renames) => find_full(&renames.true_full_name(name)?),
        }
    }

    /// Returns all commands, without subcommands, that clients can call.
    pub(crate) fn callable(&self) -> impl Iterator<Item = &'static Command> {
        let is_removed =
            |command: &Command| self.renames.is_some_and(|renames| renames.removes(command));
        all().iter().filter(move |command| !is_removed(command))
    }

    /// Discards the commands queued since MULTI, and forgets the watched keys.
    pub(crate) fn discard(&mut self) {
        self.session.transaction.queue = None;
        self.session.transaction.watches.clear();
        self.session.transaction.applied = None;
        self.choose_way();
    }

    /// Returns the database that the connection has selected.
    #[inline(always)]
    pub fn database(&self) -> usize {
        self.session.database as usize
    }

    /// Counts a key lookup for INFO.
    #[inline(always)]
    pub(crate) fn count_lookup(&mut self, found: bool) {
        if found {
            self.session.activity.counters.hits += 1;
        } else {
            self.session.activity.counters.misses += 1;
        }
    }

    /// Counts a key lookup for INFO, and reports it to the store ([`Access::looked_up`]).
    #[inline(always)]
    pub(crate) fn looked_up(&mut self, key: &Key<'_>, found: bool) {
        self.count_lookup(found);
        self.store.looked_up(self.database(), key, found);
    }

    /// Like [`looked_up`](Self::looked_up), except that the lookup does not count as an access to
    /// the key.
    #[inline(always)]
    pub(crate) fn peeked(&mut self, key: &Key<'_>, found: bool) {
        self.count_lookup(found);
        if !found {
            self.store.missed(self.database(), key);
        }
    }

    /// Returns the result of `look` for a key, or `None` if the key does not exist. Counts the
    /// lookup and treats it as an access to the key.
    #[inline]
    pub(crate) fn look_at<R>(
        &mut self,
        key: &[u8],
        look: impl Fn(&Reader<'_, '_>, &Key<'_>) -> Result<Option<R>, Failure> + Sync,
    ) -> Result<Option<R>, Failure> {
        self.look_into(key, &mut (), |reader, key, ()| look(reader, key))
    }

    /// Like [`look_at`](Self::look_at), but fills the caller's buffer, which remains empty if the
    /// key does not exist.
    #[inline]
    pub(crate) fn look_into<S: Scratch, R>(
        &mut self,
        key: &[u8],
        scratch: &mut S,
        look: impl Fn(&Reader<'_, '_>, &Key<'_>, &mut S) -> Result<Option<R>, Failure> + Sync,
    ) -> Result<Option<R>, Failure> {
        let store = self.store;
        let hashed = store.key(key);
        let found = store.read_into(store.shards_of([&hashed]), scratch, |reader, scratch| {
            look(reader, &hashed, scratch)
        })?;
        self.looked_up(&hashed, found.is_some());
        Ok(found)
    }

    /// Hashes each of the keys.
    pub(crate) fn keys<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k &'k [u8], IntoIter: Clone>,
    ) -> Vec<Key<'k>> {
        self.store.hash_all(keys)
    }
}

/// A function that runs one command. The first argument is the command's name, and the number of
/// arguments satisfies the command's arity.
///
/// A handler either writes one complete reply, or fails before it writes anything.
pub(crate) type Handler = fn(&mut Context<'_>, &[&[u8]], &mut dyn Reply) -> Outcome;

/// A command's name and its handler. The handler of a container command also serves the subcommands
/// that have no entry.
pub(crate) type HandlerEntry = (&'static str, Handler);

/// References to the parts of the process that runs a command. Copying a `Host` is cheap.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// The configuration, clock and counters of the process.
    pub process: &'a Process,
    /// The clients connected to the process.
    pub connections: &'a dyn Connections,
    /// The inbox that delivers messages and items to the connection that sent the command.
    pub inbox: &'a dyn Inbox,
    /// The operations on the process itself.
    pub control: &'a dyn Control,
}

impl<'a> Host<'a> {
    /// Returns a host in which a single object implements the connections, the inbox and the
    /// control.
    pub fn of<T: Connections + Inbox + Control>(process: &'a Process, rest: &'a T) -> Host<'a> {
        Host {
            process,
            connections: rest,
            inbox: rest,
            control: rest,
        }
    }

    /// Returns the configuration.
    #[inline(always)]
    pub fn config(&self) -> &'a Config {
        &self.process.config
    }

    /// Returns the log of slow commands.
    #[inline(always)]
    pub fn slowlog(&self) -> &'a SlowLog {
        &self.process.slowlog
    }

    /// Returns the latency monitor.
    #[inline(always)]
    pub fn latency(&self) -> &'a Latency {
        &self.process.latency
    }

    /// Returns the counters of commands and errors.
    #[inline(always)]
    pub fn statistics(&self) -> &'a Statistics {
        &self.process.statistics
    }

    /// Returns the current time in Unix microseconds.
    pub fn now_microseconds(&self) -> i64 {
        self.process.now_microseconds()
    }
}

/// The state of a process that runs commands. All its threads share this state.
pub struct Process {
    /// The configuration. At run time, it changes only through [`Config::set`].
    pub config: Config,
    /// The log of slow commands.
    pub slowlog: SlowLog,
    /// The latency monitor, which records commands and other events.
    pub latency: Latency,
    /// The counters of commands and errors.
    pub statistics: Statistics,
    /// The checkpoints that clients have requested, shared with the threads that write them.
    pub(crate) checkpoints: Arc<Checkpoints>,
    /// The time when the process started, in Unix milliseconds.
    pub started: i64,
    /// The script interpreter, or `None` if scripts are unsupported.
    pub(crate) interpreter: Option<&'static dyn Interpreter>,
    pub(crate) script_limits: ScriptLimits,
    pub(crate) scripts: ScriptCache,
    pub(crate) libraries: LibraryCache,
    pub(crate) running: RunningFunctions,
    /// The users of clients, as read from the store.
    pub users: UserCache,
    /// The log of denied calls.
    pub(crate) acl_log: AclLog,
    audit: Option<Arc<dyn AuditLog>>,
    renames: Renames,
    clock: fn() -> i64,
}

/// Returns the system time in Unix microseconds.
fn system_time() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    })
}

impl Process {
    /// Returns the clock, which returns Unix microseconds.
    pub(crate) fn clock(&self) -> fn() -> i64 {
        self.clock
    }

    /// Returns a process with the given configuration and `threads` threads that run commands.
    pub fn new(config: Config, threads: usize) -> Process {
        Process::with_clock(config, threads, system_time)
    }

    /// Like [`new`](Self::new), but with a different clock, which returns Unix microseconds. Meant
    /// for tests.
    pub fn with_clock(config: Config, threads: usize, clock: fn() -> i64) -> Process {
        let slowlog = SlowLog::new();
        slowlog.configure(&config);
        let latency = Latency::default();
        latency.configure(&config);
        Process {
            config,
            slowlog,
            latency,
            statistics: Statistics::new(threads),
            checkpoints: Arc::default(),
            started: clock() / 1000,
            interpreter: None,
            script_limits: ScriptLimits::default(),
            scripts: ScriptCache::default(),
            libraries: LibraryCache::default(),
            running: RunningFunctions::default(),
            users: UserCache::default(),
            acl_log: AclLog::default(),
            audit: None,
            renames: Renames::default(),
            clock,
        }
    }

    /// Adds a script interpreter and the limits that apply to scripts.
    pub fn with_interpreter(
        mut self,
        interpreter: Option<&'static dyn Interpreter>,
        limits: ScriptLimits,
    ) -> Process {
        self.interpreter = interpreter;
        self.script_limits = limits;
        self
    }

    /// Changes the names by which clients call commands. A process that embeds the store, and the
    /// source of a replica, use the true names.
    pub fn with_renames(mut self, renames: Renames) -> Process {
        self.renames = renames;
        self
    }

    /// Returns the changed names of commands for a session, or `None` if all have their true names.
    fn renames_of(&self, session: &Session) -> Option<&Renames> {
        (!self.renames.is_empty() && !session.login.is_trusted()).then_some(&self.renames)
    }

    /// Adds an audit log.
    pub fn with_audit_log(mut self, log: Option<Arc<dyn AuditLog>>) -> Process {
        self.audit = log;
        self
    }

    /// Returns the audit log, if there is one.
    pub fn audit_log(&self) -> Option<&dyn AuditLog> {
        self.audit.as_deref()
    }

    /// Returns the current time in Unix microseconds.
    pub fn now_microseconds(&self) -> i64 {
        (self.clock)()
    }
}

/// A script interpreter that all threads of a process share. It manages its own cache of compiled
/// scripts.
pub trait Interpreter: Send + Sync {
    /// Compiles a script.
    ///
    /// # Errors
    /// Returns an error if the script is invalid, or if compilation exceeds the time limit for
    /// scripts.
    fn compile(&self, script: &Script, limits: ScriptLimits) -> Result<(), CommandError>;

    /// Runs a library's program, which can only register functions.
    ///
    /// # Errors
    /// Returns an error if the program is invalid.
    fn load(
        &self,
        library: &Script,
        limits: ScriptLimits,
    ) -> Result<Vec<LibraryFunction>, CommandError>;

    /// Runs a script or a library function, and writes its return value as one reply.
    ///
    /// # Errors
    /// Returns the error that ended the script. The script's earlier writes remain in effect,
    /// unless the error is [`Stopped`](ScriptError::Stopped), which rolls back the transaction.
    fn run(
        &self,
        script: &Script,
        called: &ScriptArguments<'_>,
        calls: &mut Calls<'_, '_>,
        reply: &mut dyn Reply,
    ) -> Result<(), ScriptError>;

    /// Returns the memory used by the interpreters of all threads in this process, in bytes.
    fn memory(&self) -> u64;
}

/// The interpreter's access to the store. Scripts run commands through [`call`](Calls::call), and
/// the interpreter calls [`tick`](Calls::tick) to check whether the script may continue.
pub struct Calls<'c, 'a> {
    pub(crate) context: &'c mut Context<'a>,
    pub(crate) run: ScriptRun<'c>,
}
