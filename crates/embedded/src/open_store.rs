//! A store with what belongs to the process around it, and commands on it.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use undercroft_commands::context::{Connections, Inbox, Process};
use undercroft_commands::reply::Reply;
use undercroft_commands::session::Session;
use undercroft_commands::{Blocked, Context, execute};
use undercroft_engine::messages::Topic;
use undercroft_engine::waiting::{WaitOutcome, Wanted};
use undercroft_engine::{Access, Error, Store, is_patience_limited, limit_patience};

use crate::embedding::Embedding;

/// A store that this process has open. Shared by all its clients.
pub struct OpenStore {
    /// The store.
    pub store: Store,
    embedding: Embedding,
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        // What was left to be done behind calls is done now or never.
        let _limited = limit_patience(Duration::ZERO);
        self.store.settle_waits();
    }
}

/// The store of a process, for a holder that must not lose it.
pub struct StoreOf(pub Arc<OpenStore>);

impl Deref for StoreOf {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.0.store
    }
}

impl OpenStore {
    /// A store with a process around it that has the default configuration.
    pub fn new(store: Store) -> OpenStore {
        OpenStore {
            store,
            embedding: Embedding::new(),
        }
    }

    /// A store for a process that runs one command and ends.
    pub fn passing(store: Store) -> OpenStore {
        OpenStore {
            store,
            embedding: Embedding::passing(),
        }
    }

    /// The configuration, the clock and the counters of the process.
    #[inline(always)]
    pub fn process(&self) -> &Process {
        self.embedding.process()
    }

    /// What a new client begins with.
    pub fn session(&self) -> Session {
        let now = self.process().now_microseconds() / 1000;
        Session::new(1, self.embedding.initial_user(), now)
    }

    /// What commands of a client work with. Where there are several to run, this is made once.
    pub fn context<'a>(&'a self, session: &'a mut Session) -> Context<'a> {
        self.store.look_for_file();
        Context::new(session, self.embedding.host(), &self.store)
    }

    /// Runs a command, its name first, and writes its reply.
    ///
    /// # Errors
    /// [`Blocked`] where another process holds a lock for longer than the store's patience. Nothing was changed.
    #[inline]
    pub fn execute<R: Reply>(
        &self,
        session: &mut Session,
        words: &[&[u8]],
        reply: &mut R,
    ) -> Result<(), Blocked> {
        self.execute_for(&self.embedding, session, words, reply)
    }

    /// [`execute`](Self::execute) for a client that messages and items reach in its own way.
    ///
    /// # Errors
    /// As those of [`execute`](Self::execute).
    pub fn execute_for<R: Reply>(
        &self,
        inbox: &dyn Inbox,
        session: &mut Session,
        words: &[&[u8]],
        reply: &mut R,
    ) -> Result<(), Blocked> {
        let outcome = self.execute_unfinished(inbox, session, words, reply);
        session.finish_command();
        outcome
    }

    /// [`execute_for`](Self::execute_for) for a caller that ends the command itself, with
    /// [`Session::finish_command`], which says whether the reply is to be sent.
    ///
    /// # Errors
    /// As those of [`execute`](Self::execute).
    pub fn execute_unfinished<R: Reply>(
        &self,
        inbox: &dyn Inbox,
        session: &mut Session,
        words: &[&[u8]],
        reply: &mut R,
    ) -> Result<(), Blocked> {
        // Commands that neither find nor miss a key, such as DBSIZE, learn here that the file was removed.
        self.store.look_for_file();
        let host = self.embedding.host_with(inbox);
        let context = &mut Context::new(session, host, &self.store);
        execute(context, words, reply).or_else(|blocked| run_on(context, blocked, words, reply))
    }
}

/// Goes on with a command that [`execute`] has left: where it is a script that a signal has stopped, the handlers run
/// here, without locks, and it starts anew unless one of them ends it.
///
/// # Errors
/// Why it could not be run.
#[cold]
pub fn run_on<R: Reply>(
    context: &mut Context<'_>,
    blocked: Blocked,
    words: &[&[u8]],
    reply: &mut R,
) -> Result<(), Blocked> {
    let mut left = blocked;
    while let Blocked::Long = left {
        if context.store.store().is_interrupted() {
            return Err(Blocked::Lock(Error::interrupted()));
        }
        // The caller starts it anew where it may take long.
        if is_patience_limited() {
            break;
        }
        match execute(context, words, reply) {
            Ok(()) => return Ok(()),
            Err(blocked) => left = blocked,
        }
    }
    Err(left)
}

/// An [`Inbox`] that changes, and that one thread has for itself while a command runs.
pub trait Receiver: Send {
    /// As [`Inbox::take_or_wait`].
    ///
    /// # Errors
    /// As there.
    fn take_or_wait(
        &mut self,
        store: Access<'_>,
        wanted: &Wanted<'_>,
        timeout: Option<Duration>,
    ) -> Result<WaitOutcome, Error> {
        store
            .take_or_wait(wanted, timeout)
            .map(WaitOutcome::Answered)
    }

    /// As [`Inbox::subscribe`].
    ///
    /// # Errors
    /// As there.
    fn subscribe(&mut self, topic: Topic, names: &[&[u8]]) -> Result<(), Error>;

    /// As [`Inbox::unsubscribe`].
    ///
    /// # Errors
    /// As there.
    fn unsubscribe(&mut self, topic: Topic, names: &[&[u8]]) -> Result<(), Error>;
}

/// A [`Receiver`] for the time of a command.
pub struct Exclusive<'a, R>(Mutex<&'a mut R>);

impl<'a, R: Receiver> Exclusive<'a, R> {
    /// Has it to itself.
    pub fn new(receiver: &'a mut R) -> Exclusive<'a, R> {
        Exclusive(Mutex::new(receiver))
    }

    /// Only the thread that runs the command comes here.
    fn receiver(&self) -> MutexGuard<'_, &'a mut R> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Receiver> Inbox for Exclusive<'_, R> {
    fn take_or_wait(
        &self,
        _: &Session,
        store: Access<'_>,
        wanted: &Wanted<'_>,
        timeout: Option<Duration>,
    ) -> Result<WaitOutcome, Error> {
        self.receiver().take_or_wait(store, wanted, timeout)
    }

    fn subscribe(&self, _: &Session, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        self.receiver().subscribe(topic, names)
    }

    fn unsubscribe(&self, _: &Session, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        self.receiver().unsubscribe(topic, names)
    }
}
