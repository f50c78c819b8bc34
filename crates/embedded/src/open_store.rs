//! An open store with the state of its process, and commands on it.

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

/// A store that this process has open. All clients in the process share it.
pub struct OpenStore {
    /// The store.
    pub store: Store,
    embedding: Embedding,
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        // This is the last chance to complete the work that calls postponed.
        let _limited = limit_patience(Duration::ZERO);
        self.store.settle_waits();
    }
}

/// A reference to an open store, for types that need to own one.
pub struct StoreOf(pub Arc<OpenStore>);

impl Deref for StoreOf {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.0.store
    }
}

impl OpenStore {
    /// Returns a store in a process with the default configuration.
    pub fn new(store: Store) -> OpenStore {
        OpenStore {
            store,
            embedding: Embedding::new(),
        }
    }

    /// Returns a store in a process that runs one command and exits.
    pub fn passing(store: Store) -> OpenStore {
        OpenStore {
            store,
            embedding: Embedding::passing(),
        }
    }

    /// Returns the configuration, the clock and the counters of the process.
    #[inline(always)]
    pub fn process(&self) -> &Process {
        self.embedding.process()
    }

    /// Returns the initial state of a new client.
    pub fn session(&self) -> Session {
        let now = self.process().now_microseconds() / 1000;
        Session::new(1, self.embedding.initial_user(), now)
    }

    /// Returns the context of a client's commands. One context can run several commands.
    pub fn context<'a>(&'a self, session: &'a mut Session) -> Context<'a> {
        self.store.look_for_file();
        Context::new(session, self.embedding.host(), &self.store)
    }

    /// Runs a command, given as its name and arguments, and writes its reply.
    ///
    /// # Errors
    /// [`Blocked`] if another process holds a lock for longer than the store's patience. Then
    /// nothing was changed.
    #[inline]
    pub fn execute<R: Reply>(
        &self,
        session: &mut Session,
        words: &[&[u8]],
        reply: &mut R,
    ) -> Result<(), Blocked> {
        self.execute_for(&self.embedding, session, words, reply)
    }

    /// Like [`execute`](Self::execute), for a client with a custom inbox for messages and items.
    ///
    /// # Errors
    /// The errors of [`execute`](Self::execute).
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

    /// Like [`execute_for`](Self::execute_for), for a caller that ends the command itself with
    /// [`Session::finish_command`], which says whether to send the reply.
    ///
    /// # Errors
    /// The errors of [`execute`](Self::execute).
    pub fn execute_unfinished<R: Reply>(
        &self,
        inbox: &dyn Inbox,
        session: &mut Session,
        words: &[&[u8]],
        reply: &mut R,
    ) -> Result<(), Blocked> {
        // Commands that look up no key, such as DBSIZE, learn here that the file was removed.
        self.store.look_for_file();
        let host = self.embedding.host_with(inbox);
        let context = &mut Context::new(session, host, &self.store);
        execute(context, words, reply).or_else(|blocked| run_on(context, blocked, words, reply))
    }
}

/// Continues a command that [`execute`] interrupted. For a script that a signal interrupted, the
/// signal handlers run here, without locks. Then the script starts again, unless a handler ends it.
///
/// # Errors
/// Returns the reason why the command cannot be run.
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
        // The caller restarts the script outside the event loop.
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

/// A mutable [`Inbox`] that one thread uses exclusively while a command runs.
pub trait Receiver: Send {
    /// Implements [`Inbox::take_or_wait`].
    ///
    /// # Errors
    /// The errors of [`Inbox::take_or_wait`].
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

    /// Implements [`Inbox::subscribe`].
    ///
    /// # Errors
    /// The errors of [`Inbox::subscribe`].
    fn subscribe(&mut self, topic: Topic, names: &[&[u8]]) -> Result<(), Error>;

    /// Implements [`Inbox::unsubscribe`].
    ///
    /// # Errors
    /// The errors of [`Inbox::unsubscribe`].
    fn unsubscribe(&mut self, topic: Topic, names: &[&[u8]]) -> Result<(), Error>;
}

/// An [`Inbox`] that wraps a [`Receiver`] for the duration of a command.
pub struct Exclusive<'a, R>(Mutex<&'a mut R>);

impl<'a, R: Receiver> Exclusive<'a, R> {
    /// Wraps a receiver that the caller borrows exclusively.
    pub fn new(receiver: &'a mut R) -> Exclusive<'a, R> {
        Exclusive(Mutex::new(receiver))
    }

    /// The mutex is never contended, because only the thread that runs the command locks it.
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
