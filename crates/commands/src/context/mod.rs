//! What every command handler is given: the connection, the store, and the process that runs it.
//!
//! Handlers, scripts and what hands commands on to them call this folder. The types of this file name one another: a
//! context leads to its process, that to an interpreter of scripts, and this one calls commands in a context.
//!
//! - `interfaces`: what the process around the commands implements for them.
//! - `pause`: CLIENT PAUSE: commands that are held back for a while.
//! - `redaction`: passwords in arguments, which no log may show.
//! - `reporting`: what the slow log, LATENCY and MONITOR are told of a command.
//! - `scratch`: what the commands of a transaction change outside of the store.
//! - `timing`: how commands are timed as they run.

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

/// Everything a handler may see and change besides its arguments and its reply.
pub struct Context<'a> {
    /// The connection that sent the command; an embedded client has one, too.
    pub session: &'a mut Session,
    /// The server, or the embedding process.
    pub host: Host<'a>,
    /// The store the commands work on, by itself or within MULTI and EXEC.
    pub store: Access<'a>,
    /// What runs each command, by its number.
    pub(crate) handlers: &'static Handlers,
    /// Whether even the fastest commands are timed, for the slow log or for LATENCY.
    pub(crate) timed: bool,
    /// Whether commands are shown to connections that MONITOR.
    pub(crate) shows: bool,
    /// Whether GET and SET may be run at once: they are neither timed nor queued nor shown nor refused for want of
    /// replicas.
    pub(crate) direct: bool,
    /// Whether a script sends the commands.
    pub(crate) scripted: bool,
    /// The fast commands that are being timed together.
    pub(crate) lap: Lap,
}

/// Microseconds below which a slow log's threshold makes every command worth timing. From there on plain SETs and
/// commands in constant time are not timed: they never take so long.
const WORTH_TIMING: i64 = 10_000;

impl<'a> Context<'a> {
    /// See [`Context::new`], which knows the handlers.
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

    /// A context for commands of a transaction that runs.
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

    /// Whether there is no room for more, after what may be evicted was.
    pub(crate) fn is_full(&self) -> Result<bool, Failure> {
        match self.store.check_memory_for(0).map_err(Failure::from) {
            Err(Failure::Reply(_)) => Ok(true),
            room => room.map(|()| false),
        }
    }

    /// What runs a command.
    #[inline(always)]
    pub(crate) fn handler_of(&self, command: &Command) -> Handler {
        self.handlers[usize::from(command.number)]
    }

    /// To be called when the configuration was changed, the connection began to monitor, or a transaction began or ended.
    pub(crate) fn choose_way(&mut self) {
        self.timed = (0..WORTH_TIMING).contains(&self.host.slowlog().threshold())
            || self.host.latency().watches();
        self.shows = self.host.connections.is_monitored();
        self.direct = !self.timed
            && !self.shows
            && self.session.transaction.queue.is_none()
            && !self.host.config().lacks_replicas();
    }

    /// Forgets the commands that were queued since MULTI, and the watched keys.
    pub(crate) fn discard(&mut self) {
        self.session.transaction.queue = None;
        self.session.transaction.watches.clear();
        self.choose_way();
    }

    /// The database that SELECT chose.
    #[inline(always)]
    pub fn database(&self) -> usize {
        self.session.database as usize
    }

    /// Counts a key that was looked up, for INFO.
    #[inline(always)]
    pub(crate) fn count_lookup(&mut self, found: bool) {
        if found {
            self.session.activity.counters.hits += 1;
        } else {
            self.session.activity.counters.misses += 1;
        }
    }

    /// Counts a key that was looked up and ends the look-up, see [`Access::looked_up`].
    #[inline(always)]
    pub(crate) fn looked_up(&mut self, key: &Key<'_>, found: bool) {
        self.count_lookup(found);
        self.store.looked_up(self.database(), key, found);
    }

    /// [`looked_up`](Self::looked_up) where that is no use of the key.
    #[inline(always)]
    pub(crate) fn peeked(&mut self, key: &Key<'_>, found: bool) {
        self.count_lookup(found);
        if !found {
            self.store.missed(self.database(), key);
        }
    }

    /// What `look` finds at a key; none where the key is not there. The look-up is counted, and so is the key's use.
    #[inline]
    pub(crate) fn look_at<R>(
        &mut self,
        key: &[u8],
        look: impl Fn(&Reader<'_, '_>, &Key<'_>) -> Result<Option<R>, Failure> + Sync,
    ) -> Result<Option<R>, Failure> {
        self.look_into(key, &mut (), |reader, key, ()| look(reader, key))
    }

    /// [`look_at`](Self::look_at) that fills memory of the caller's, which is empty where the key is not there.
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

    /// Hashes keys.
    pub(crate) fn keys<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k &'k [u8], IntoIter: Clone>,
    ) -> Vec<Key<'k>> {
        self.store.hash_all(keys)
    }
}

/// Runs one command. The arguments have the command's name first and are as many as its arity says.
///
/// A handler writes one whole reply, or fails before it has written anything.
pub(crate) type Handler = fn(&mut Context<'_>, &[&[u8]], &mut dyn Reply) -> Outcome;

/// A command by its name, and what runs it. A container stands for those of its subcommands that have no entry.
pub(crate) type HandlerEntry = (&'static str, Handler);

/// What runs each command and subcommand, by its number. The list of all is above the handlers, which find one another
/// through their [`Context`].
pub(crate) type Handlers = [Handler; table::COUNT];

/// The process that runs a command, part by part. As cheap to copy as a few references.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// Its configuration, clock and counters.
    pub process: &'a Process,
    /// The clients that are connected to it.
    pub connections: &'a dyn Connections,
    /// Where messages and items reach the connection that sent the command.
    pub inbox: &'a dyn Inbox,
    /// The process itself.
    pub control: &'a dyn Control,
}

impl<'a> Host<'a> {
    /// A process whose other parts are one thing.
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

    /// The commands that took long.
    #[inline(always)]
    pub fn slowlog(&self) -> &'a SlowLog {
        &self.process.slowlog
    }

    /// What took long.
    #[inline(always)]
    pub fn latency(&self) -> &'a Latency {
        &self.process.latency
    }

    /// What is counted of commands and errors.
    #[inline(always)]
    pub fn statistics(&self) -> &'a Statistics {
        &self.process.statistics
    }

    /// The clock, in Unix microseconds.
    pub fn now_microseconds(&self) -> i64 {
        self.process.now_microseconds()
    }
}

/// What belongs to each process that runs commands. Shared between its threads.
pub struct Process {
    /// The configuration; changed only through [`Config::set`].
    pub config: Config,
    /// The commands that took long.
    pub slowlog: SlowLog,
    /// What took long, commands and other things.
    pub latency: Latency,
    /// What is counted of commands and errors.
    pub statistics: Statistics,
    /// When it began, Unix milliseconds.
    pub started: i64,
    /// What runs scripts; none where there are none.
    pub(crate) interpreter: Option<&'static dyn Interpreter>,
    pub(crate) script_limits: ScriptLimits,
    pub(crate) scripts: ScriptCache,
    pub(crate) libraries: LibraryCache,
    pub(crate) running: RunningFunctions,
    clock: fn() -> i64,
}

/// The system's clock, in Unix microseconds.
fn system_time() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    })
}

impl Process {
    /// A process with this configuration, of which so many threads run commands.
    pub fn new(config: Config, threads: usize) -> Process {
        Process::with_clock(config, threads, system_time)
    }

    /// [`new`](Self::new) with another clock, in Unix microseconds. For tests.
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

    /// This process with an interpreter of scripts, and limits on them.
    pub fn with_interpreter(
        mut self,
        interpreter: Option<&'static dyn Interpreter>,
        limits: ScriptLimits,
    ) -> Process {
        self.interpreter = interpreter;
        self.script_limits = limits;
        self
    }

    /// The clock, in Unix microseconds.
    pub fn now_microseconds(&self) -> i64 {
        (self.clock)()
    }
}

/// What runs scripts. One for all threads of a process; what it keeps of a text is its own.
pub trait Interpreter: Send + Sync {
    /// Compiles a script.
    ///
    /// # Errors
    /// What is wrong with its text, and where this takes longer than a script may run.
    fn compile(&self, script: &Script, limits: ScriptLimits) -> Result<(), CommandError>;

    /// Runs the program of a library, which registers its functions, and nothing else.
    ///
    /// # Errors
    /// What is wrong with it.
    fn load(
        &self,
        library: &Script,
        limits: ScriptLimits,
    ) -> Result<Vec<LibraryFunction>, CommandError>;

    /// Runs a script, or a function of a library, to its end and writes one reply: what it returns.
    ///
    /// # Errors
    /// The error that ended it; what it did before stays. Or that it was [stopped](ScriptError::Stopped): then the transaction
    /// is rolled back.
    fn run(
        &self,
        script: &Script,
        called: &ScriptArguments<'_>,
        calls: &mut Calls<'_, '_>,
        reply: &mut dyn Reply,
    ) -> Result<(), ScriptError>;

    /// Bytes of memory that the interpreters of all threads of this process take.
    fn memory(&self) -> u64;
}

/// The store as a script sees it: it calls commands ([`call`](Calls::call)) and asks whether it may go on
/// ([`tick`](Calls::tick)).
pub struct Calls<'c, 'a> {
    pub(crate) context: &'c mut Context<'a>,
    pub(crate) run: ScriptRun<'c>,
}
