//! Wraps an open store and the state of its process, and runs commands on the store.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use undercroft_commands::context::{Host, Inbox, Process};
use undercroft_commands::reply::Reply;
use undercroft_commands::session::{Login, Session};
use undercroft_commands::{Blocked, Context, execute};
use undercroft_engine::messages::Topic;
use undercroft_engine::waiting::{WaitOutcome, Wanted};
use undercroft_engine::{Access, Error, Store, is_patience_limited, limit_patience};

use crate::embedding::Embedding;

/// A store that is open in this process. All clients in the process share it.
pub struct OpenStore {
    /// The mapped store.
    pub store: Store,
    embedding: Embedding,
}

/// How long closing a store waits for its journal.
const CLOSING: Duration = Duration::from_secs(1);

impl Drop for OpenStore {
    fn drop(&mut self) {
        // This is the last opportunity to complete work that calls have postponed.
        {
            let _limited = limit_patience(Duration::ZERO);
            self.store.settle_waits();
        }
        // No later thread of this process may sync the journal. The changes stay in the store file
        // in any case, so an error is ignored.
        let _limited = limit_patience(CLOSING);
        let _ = self.store.make_durable();
    }
}

/// A reference to an open store, for types that require an owner of a store.
pub struct StoreOf(pub Arc<OpenStore>);

impl Deref for StoreOf {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.0.store
    }
}

impl OpenStore {
    /// Wraps a store of a process with the default configuration.
    pub fn new(store: Store) -> OpenStore {
        OpenStore {
            store,
            embedding: Embedding::new(),
        }
    }

    /// Wraps a store of a process that exits after a single command.
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
        Session::new(1, Login::trusted(), now)
    }

    /// Returns the process's interface for commands.
    pub fn host(&self) -> Host<'_> {
        self.embedding.host()
    }

    /// Returns a context in which one or several commands of a client run.
    pub fn context<'a>(&'a self, session: &'a mut Session) -> Context<'a> {
        self.store.look_for_file();
        Context::new(session, self.embedding.host(), &self.store)
    }

    /// Runs a command, given as its name and arguments, and writes its reply.
    ///
    /// # Errors
    /// Returns [`Blocked`] if another process holds a lock for longer than the store's patience. In
    /// that case, nothing was changed.
    #[inline]
    pub fn execute<R: Reply>(
        &self,
        session: &mut Session,
        words: &[&[u8]],
        reply: &mut R,
    ) -> Result<(), Blocked> {
        self.execute_for(&self.embedding, session, words, reply)
    }

    /// Runs a command like [`execute`](Self::execute), for a client with a separate inbox for
    /// messages and items.
    ///
    /// # Errors
    /// Returns the same errors as [`execute`](Self::execute).
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

    /// Runs a command like [`execute_for`](Self::execute_for), for a caller that itself ends the
    /// command with [`Session::finish_command`], which returns whether to send the reply.
    ///
    /// # Errors
    /// Returns the same errors as [`execute`](Self::execute).
    pub fn execute_unfinished<R: Reply>(
        &self,
        inbox: &dyn Inbox,
        session: &mut Session,
        words: &[&[u8]],
        reply: &mut R,
    ) -> Result<(), Blocked> {
        // Check for the file here, so that commands that look up no key, such as DBSIZE, notice its
        // removal.
        self.store.look_for_file();
        let host = self.embedding.host_with(inbox);
        let context = &mut Context::new(session, host, &self.store);
        execute(context, words, reply).or_else(|blocked| run_on(context, blocked, words, reply))
    }
}

/// Continues a command that [`execute`] interrupted. If a signal interrupted a script, this
/// function runs the signal handlers without locks, and then restarts the script unless a handler
/// ends it.
///
/// # Errors
/// Returns the reason why the command cannot run.
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
        // In an event loop, the caller restarts the script outside the loop.
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

/// A mutable form of [`Inbox`], which one thread uses exclusively while a command runs.
pub trait Receiver: Send {
    /// Implements [`Inbox::take_or_wait`].
    ///
    /// # Errors
    /// Returns the same errors as [`Inbox::take_or_wait`].
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
    /// Returns the same errors as [`Inbox::subscribe`].
    fn subscribe(&mut self, topic: Topic, names: &[&[u8]]) -> Result<(), Error>;

    /// Implements [`Inbox::unsubscribe`].
    ///
    /// # Errors
    /// Returns the same errors as [`Inbox::unsubscribe`].
    fn unsubscribe(&mut self, topic: Topic, names: &[&[u8]]) -> Result<(), Error>;
}

/// An [`Inbox`] that wraps a mutable [`Receiver`] for the duration of a command.
pub struct Exclusive<'a, R>(Mutex<&'a mut R>);

impl<'a, R: Receiver> Exclusive<'a, R> {
    /// Wraps a receiver that the caller has borrowed exclusively.
    pub fn new(receiver: &'a mut R) -> Exclusive<'a, R> {
        Exclusive(Mutex::new(receiver))
    }

    /// Locks the receiver. The mutex is never contended, because only the thread that runs the
    /// command locks it.
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
