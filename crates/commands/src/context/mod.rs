//! The environment that every command handler receives: the connection, the store, and the process
//! that runs the command.
//!
//! Handlers, scripts and command dispatch call this folder. The types in this file refer to each
//! other: a context leads to its process, the process to an interpreter of scripts, and the
//! interpreter calls commands in a context.
//!
//! - `interfaces`: the traits that the surrounding process implements for commands.
//! - `pause`: CLIENT PAUSE: suspends commands for a time.
//! - `redaction`: hides passwords in logged arguments.
//! - `reporting`: reports commands to the slow log, LATENCY and MONITOR.
//! - `scratch`: the state outside the store that a transaction's commands change.
//! - `timing`: times commands as they run.

mod interfaces;
mod pause;
mod redaction;
pub(crate) mod reporting;
mod scratch;
mod timing;

use std::time::{SystemTime, UNIX_EPOCH};

use undercroft_engine::{Access, Key, Reader, Scratch, Store};

use crate::arguments::CommandError;
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::reply::Reply;
use crate::scripts::{
    LibraryCache, LibraryFunction, RunningFunctions, Script, ScriptArguments, ScriptCache,
    ScriptError, ScriptLimits, ScriptRun,
};
use crate::session::Session;
use crate::statistics::latency::Latency;
use crate::statistics::slowlog::SlowLog;
use crate::statistics::{Lap, Statistics};
use crate::table::{self, Command};

pub use interfaces::{Connections, Control, Facts, Inbox, ShutdownOptions};
pub use pause::Pause;
pub(crate) use scratch::SessionScratch;
pub(crate) use timing::Timing;

/// Everything that a handler can see and change besides its arguments and its reply.
pub struct Context<'a> {
    /// The connection that sent the command; an embedded client has a session, too.
    pub session: &'a mut Session,
    /// The server, or the embedding process.
    pub host: Host<'a>,
    /// The access to the store, alone or within a transaction.
    pub store: Access<'a>,
    /// The handlers, indexed by command number.
    pub(crate) handlers: &'static Handlers,
    /// Whether even the fastest commands are timed, for the slow log or LATENCY.
    pub(crate) timed: bool,
    /// Whether commands are shown to connections in MONITOR mode.
    pub(crate) shows: bool,
    /// Whether GET and SET can run directly: they are neither timed, queued or shown, nor refused
    /// for lack of replicas.
    pub(crate) direct: bool,
    /// Whether a script runs the commands.
    pub(crate) scripted: bool,
    /// The fast commands that are timed together.
    pub(crate) lap: Lap,
}

/// The slow log threshold in microseconds below which every command is timed. At or above it, plain
/// SETs and constant-time commands are not timed, because they never take that long.
const WORTH_TIMING: i64 = 10_000;

impl<'a> Context<'a> {
    /// Creates a context with a table of handlers; [`Context::new`] supplies the table.
    #[inline]
    pub(crate) fn with_handlers(
        handlers: &'static Handlers,
        session: &'a mut Session,
        host: Host<'a>,
        store: &'a Store,
    ) -> Context<'a> {
        let mut context = Context {
            store: store.access().leaving_untouched(session.no_touch),
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

    /// Returns a context for commands within a running transaction.
    pub(crate) fn nested<'b>(&'b mut self, store: Access<'b>) -> Context<'b> {
        Context {
            store: store.leaving_untouched(self.session.no_touch),
            session: self.session,
            host: self.host,
            handlers: self.handlers,
            timed: self.timed,
            shows: self.shows,
            direct: false,
            scripted: false,
            lap: Lap::default(),
        }
    }

    /// Whether memory is full even after eviction.
    pub(crate) fn is_full(&self) -> Result<bool, Failure> {
        match self.store.check_memory_for(0).map_err(Failure::from) {
            Err(Failure::Reply(_)) => Ok(true),
            room => room.map(|()| false),
        }
    }

    /// Returns the handler of a command.
    #[inline(always)]
    pub(crate) fn handler_of(&self, command: &Command) -> Handler {
        self.handlers[usize::from(command.number)]
    }

    /// Recomputes the flags that select fast paths. Must be called after the configuration changed,
    /// the connection began to monitor, or a transaction began or ended.
    pub(crate) fn choose_way(&mut self) {
        self.timed = (0..WORTH_TIMING).contains(&self.host.slowlog().threshold())
            || self.host.latency().watches();
        self.shows = self.host.connections.is_monitored();
        self.direct = !self.timed
            && !self.shows
            && self.session.transaction.queue.is_none()
            && !self.host.config().lacks_replicas();
    }

    /// Drops the commands queued since MULTI and the watched keys.
    pub(crate) fn discard(&mut self) {
        self.session.transaction.queue = None;
        self.session.transaction.watches.clear();
        self.choose_way();
    }

    /// The database that SELECT selected.
    #[inline(always)]
    pub fn database(&self) -> usize {
        self.session.database as usize
    }

    /// Counts a lookup of a key for INFO.
    #[inline(always)]
    pub(crate) fn count_lookup(&mut self, found: bool) {
        if found {
            self.session.activity.counters.hits += 1;
        } else {
            self.session.activity.counters.misses += 1;
        }
    }

    /// Counts a lookup of a key for INFO, and reports it to the store ([`Access::looked_up`]).
    #[inline(always)]
    pub(crate) fn looked_up(&mut self, key: &Key<'_>, found: bool) {
        self.count_lookup(found);
        self.store.looked_up(self.database(), key, found);
    }

    /// Does the same as [`looked_up`](Self::looked_up), except that the lookup does not count as a
    /// use of the key.
    #[inline(always)]
    pub(crate) fn peeked(&mut self, key: &Key<'_>, found: bool) {
        self.count_lookup(found);
        if !found {
            self.store.missed(self.database(), key);
        }
    }

    /// Returns what `look` finds at a key, or `None` if the key does not exist. Counts the lookup,
    /// and counts it as a use of the key.
    #[inline]
    pub(crate) fn look_at<R>(
        &mut self,
        key: &[u8],
        look: impl Fn(&Reader<'_, '_>, &Key<'_>) -> Result<Option<R>, Failure> + Sync,
    ) -> Result<Option<R>, Failure> {
        self.look_into(key, &mut (), |reader, key, ()| look(reader, key))
    }

    /// Does the same as [`look_at`](Self::look_at), but fills the caller's buffer, which stays
    /// empty if the key does not exist.
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

    /// Hashes the keys.
    pub(crate) fn keys<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k &'k [u8], IntoIter: Clone>,
    ) -> Vec<Key<'k>> {
        self.store.hash_all(keys)
    }
}

/// A function that runs one command. The arguments start with the command's name, and their number
/// satisfies the arity.
///
/// A handler either writes one complete reply, or fails before writing anything.
pub(crate) type Handler = fn(&mut Context<'_>, &[&[u8]], &mut dyn Reply) -> Outcome;

/// The name of a command and its handler. A container's handler also serves its subcommands that
/// have no entry.
pub(crate) type HandlerEntry = (&'static str, Handler);

/// The handlers of all commands and subcommands, indexed by command number. The table is defined in
/// `execute`, a layer above the handlers. Handlers call each other through the table in their
/// [`Context`].
pub(crate) type Handlers = [Handler; table::COUNT];

/// References to the parts of the process that runs a command. Cheap to copy.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// The process's configuration, clock and counters.
    pub process: &'a Process,
    /// The clients connected to the process.
    pub connections: &'a dyn Connections,
    /// The interface by which messages and items reach the connection that sent the command.
    pub inbox: &'a dyn Inbox,
    /// The controls of the process itself.
    pub control: &'a dyn Control,
}

impl<'a> Host<'a> {
    /// Returns a host whose connections, inbox and control are one object.
    pub fn of<T: Connections + Inbox + Control>(process: &'a Process, rest: &'a T) -> Host<'a> {
        Host {
            process,
            connections: rest,
            inbox: rest,
            control: rest,
        }
    }

    /// The configuration.
    #[inline(always)]
    pub fn config(&self) -> &'a Config {
        &self.process.config
    }

    /// The log of slow commands.
    #[inline(always)]
    pub fn slowlog(&self) -> &'a SlowLog {
        &self.process.slowlog
    }

    /// The latency monitor.
    #[inline(always)]
    pub fn latency(&self) -> &'a Latency {
        &self.process.latency
    }

    /// The counters of commands and errors.
    #[inline(always)]
    pub fn statistics(&self) -> &'a Statistics {
        &self.process.statistics
    }

    /// Returns the current time in Unix microseconds.
    pub fn now_microseconds(&self) -> i64 {
        self.process.now_microseconds()
    }
}

/// The state of a process that runs commands, shared by its threads.
pub struct Process {
    /// The configuration; at run time changed only through [`Config::set`].
    pub config: Config,
    /// The log of slow commands.
    pub slowlog: SlowLog,
    /// The latency monitor, for commands and other events.
    pub latency: Latency,
    /// The counters of commands and errors.
    pub statistics: Statistics,
    /// When the process started, in Unix milliseconds.
    pub started: i64,
    /// The interpreter of scripts, or `None` if scripts are unsupported.
    pub(crate) interpreter: Option<&'static dyn Interpreter>,
    pub(crate) script_limits: ScriptLimits,
    pub(crate) scripts: ScriptCache,
    pub(crate) libraries: LibraryCache,
    pub(crate) running: RunningFunctions,
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
    /// Returns a process with this configuration, in which `threads` threads run commands.
    pub fn new(config: Config, threads: usize) -> Process {
        Process::with_clock(config, threads, system_time)
    }

    /// Does the same as [`new`](Self::new), but with another clock in Unix microseconds. For tests.
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
            started: clock() / 1000,
            interpreter: None,
            script_limits: ScriptLimits::default(),
            scripts: ScriptCache::default(),
            libraries: LibraryCache::default(),
            running: RunningFunctions::default(),
            clock,
        }
    }

    /// Adds an interpreter of scripts and limits on them.
    pub fn with_interpreter(
        mut self,
        interpreter: Option<&'static dyn Interpreter>,
        limits: ScriptLimits,
    ) -> Process {
        self.interpreter = interpreter;
        self.script_limits = limits;
        self
    }

    /// Returns the current time in Unix microseconds.
    pub fn now_microseconds(&self) -> i64 {
        (self.clock)()
    }
}

/// An interpreter of scripts, shared by all threads of a process. It manages its own cache of
/// compiled texts.
pub trait Interpreter: Send + Sync {
    /// Compiles a script.
    ///
    /// # Errors
    /// If the text is invalid, or compiling takes longer than a script may run.
    fn compile(&self, script: &Script, limits: ScriptLimits) -> Result<(), CommandError>;

    /// Runs the program of a library, which registers its functions and may do nothing else.
    ///
    /// # Errors
    /// If the program is invalid.
    fn load(
        &self,
        library: &Script,
        limits: ScriptLimits,
    ) -> Result<Vec<LibraryFunction>, CommandError>;

    /// Runs a script, or a function of a library, and writes its return value as one reply.
    ///
    /// # Errors
    /// The error that ended the script; its earlier writes stay. Or
    /// [`Stopped`](ScriptError::Stopped), in which case the transaction is rolled back.
    fn run(
        &self,
        script: &Script,
        called: &ScriptArguments<'_>,
        calls: &mut Calls<'_, '_>,
        reply: &mut dyn Reply,
    ) -> Result<(), ScriptError>;

    /// The bytes of memory that the interpreters of all threads of this process use.
    fn memory(&self) -> u64;
}

/// The store as a script sees it: a script calls commands ([`call`](Calls::call)), and the
/// interpreter asks whether the script may continue ([`tick`](Calls::tick)).
pub struct Calls<'c, 'a> {
    pub(crate) context: &'c mut Context<'a>,
    pub(crate) run: ScriptRun<'c>,
}
