//! What every command handler is given.
//!
//! - `pause`: CLIENT PAUSE: commands that are held back for a while.

mod pause;

use undercroft_engine::{Access, Key, Reader, Scratch, Store};

use crate::failure::{Failure, Outcome};
use crate::host::Host;
use crate::reply::Reply;
use crate::session::Session;
use crate::statistics::Lap;
use crate::table::{self, Command};

pub use pause::Pause;

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
            && self.session.multi.is_none()
            && !self.host.config().lacks_replicas();
    }

    /// Forgets the commands that were queued since MULTI, and the watched keys.
    pub(crate) fn discard(&mut self) {
        self.session.multi = None;
        self.session.watches.clear();
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
            self.session.counters.hits += 1;
        } else {
            self.session.counters.misses += 1;
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
