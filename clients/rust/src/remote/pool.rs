//! Implements a pool of connections for threads.

use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::address::Server;
use crate::error::{Error, Result};
use crate::options::CacheOptions;
use crate::remote::blocking::{Connection, is_late};
use crate::remote::commands::{SetWords, shared, with};
use crate::remote::messages::Messages;
use crate::reply::Reply;
use crate::set_options::SetOptions;

/// A pool of connections to a server, for threads. Its calls block the thread and need no async
/// runtime.
///
/// The pool connects when a connection is needed, and serves threads in first-come, first-served
/// order. A call ends within its deadline, including all waiting except the system's look-up of a
/// host name. Clones share the connections.
///
/// ```
/// # use undercroft_served::Served;
/// use undercroft::{CacheOptions, Pool, SetOptions};
/// # let served = Served::start();
/// # let url = served.url();
/// let pool = Pool::open(&url, CacheOptions::new().connections(4))?; // redis://localhost, say
/// pool.set("key", "value", SetOptions::new())?;
/// assert_eq!(pool.get("key")?.as_deref(), Some(&b"value"[..]));
/// # Ok::<(), undercroft::Error>(())
/// ```
#[derive(Clone)]
pub struct Pool(Arc<Shared>);

struct Shared {
    server: Arc<Server>,
    options: CacheOptions,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The idle connections, most recently used last.
    idle: Vec<Connection>,
    /// The number of available turns, each of which allows one thread to use a connection.
    free: usize,
    /// The threads that wait for a turn, in order of arrival.
    waiting: VecDeque<SyncSender<Turn>>,
}

/// A turn: the right to use a connection. When a turn is dropped, it passes to the next waiting
/// thread.
struct Turn {
    /// The pool that the turn belongs to, or `None` once the turn has been returned.
    shared: Option<Arc<Shared>>,
    connection: Option<Connection>,
}

impl Pool {
    /// Creates a pool on the server that a URL names. The first call connects.
    ///
    /// # Errors
    /// [`Error::Url`] if the URL is invalid.
    ///
    /// ```
    /// # use undercroft::{CacheOptions, Pool, SetOptions};
    /// # let served = undercroft_served::Served::start();
    /// # let url = served.url();
    /// let pool = Pool::open(&url, CacheOptions::new())?;
    /// assert_eq!(pool.get("key")?, None);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn open(url: &str, options: CacheOptions) -> Result<Pool> {
        let state = State {
            free: options.pooled(),
            ..State::default()
        };
        Ok(Pool(Arc::new(Shared {
            server: Arc::new(Server::parse(url)?),
            options,
            state: Mutex::new(state),
        })))
    }

    /// Returns the string value of a key.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type, or if the connection fails.
    ///
    /// ```
    /// # use undercroft::{CacheOptions, Pool, SetOptions};
    /// # let served = undercroft_served::Served::start();
    /// # let url = served.url();
    /// let pool = Pool::open(&url, CacheOptions::new())?;
    /// assert_eq!(pool.get("key")?, None);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.call(&[b"GET", key.as_ref()])?.to()
    }

    /// Returns the string values of several keys, with `None` for keys that are missing or hold a
    /// value of another type.
    ///
    /// # Errors
    /// Fails if the connection fails.
    ///
    /// ```
    /// # use undercroft::{CacheOptions, Pool, SetOptions};
    /// # let served = undercroft_served::Served::start();
    /// # let url = served.url();
    /// let pool = Pool::open(&url, CacheOptions::new())?;
    /// assert_eq!(pool.get_many(&["a", "b"])?, [None, None]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn get_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Vec<u8>>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.call(&with(b"MGET", &keys))?.to()
    }

    /// Sets a key to a string, optionally with an expiry or a condition. Returns whether the value
    /// was set.
    ///
    /// # Errors
    /// Fails if the server is out of memory, or if the connection fails.
    ///
    /// ```
    /// # use undercroft::{CacheOptions, Pool, SetOptions};
    /// # let served = undercroft_served::Served::start();
    /// # let url = served.url();
    /// let pool = Pool::open(&url, CacheOptions::new())?;
    /// assert!(pool.set("key", "value", SetOptions::new().if_missing())?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn set(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: SetOptions,
    ) -> Result<bool> {
        let mut words = SetWords::new(key.as_ref(), value.as_ref(), options)?;
        let (words, count) = words.words();
        self.call(&words[..count])?.to()
    }

    /// Sets a key to a string, and returns the previous value, or `None` if the key did not exist.
    /// With a condition, the value is set only if the condition is met.
    ///
    /// # Errors
    /// The errors of `get`. An error reply if the key holds a value of another type. Redis before
    /// 7.0 refuses [`SetOptions::if_missing`] here.
    ///
    /// ```
    /// use undercroft::SetOptions;
    /// # use undercroft::{CacheOptions, Pool};
    /// # let served = undercroft_served::Served::start();
    /// # let pool = Pool::open(&served.url(), CacheOptions::new())?;
    /// assert_eq!(pool.set_get_old("key", "value", SetOptions::new())?, None);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn set_get_old(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: SetOptions,
    ) -> Result<Option<Vec<u8>>> {
        let mut words = SetWords::new(key.as_ref(), value.as_ref(), options)?.getting_old();
        let (words, count) = words.words();
        self.call(&words[..count])?.to()
    }

    /// Deletes keys. Returns the number of keys that existed.
    ///
    /// # Errors
    /// Fails if the connection fails.
    ///
    /// ```
    /// # use undercroft::{CacheOptions, Pool, SetOptions};
    /// # let served = undercroft_served::Served::start();
    /// # let url = served.url();
    /// let pool = Pool::open(&url, CacheOptions::new())?;
    /// assert_eq!(pool.delete(&["key"])?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn delete(&self, keys: &[impl AsRef<[u8]>]) -> Result<u64> {
        if keys.is_empty() {
            return Ok(0);
        }
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.call(&with(b"DEL", &keys))?.to()
    }

    /// Publishes a message to all subscribers of a channel. Returns the number of subscribers that
    /// received it.
    ///
    /// # Errors
    /// Fails if the connection fails.
    ///
    /// ```
    /// # use undercroft::{CacheOptions, Pool, SetOptions};
    /// # let served = undercroft_served::Served::start();
    /// # let url = served.url();
    /// let pool = Pool::open(&url, CacheOptions::new())?;
    /// assert_eq!(pool.publish("news", "hello")?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn publish(&self, channel: impl AsRef<[u8]>, message: impl AsRef<[u8]>) -> Result<u64> {
        let words = [b"PUBLISH", channel.as_ref(), message.as_ref()];
        self.call(&words)?.to()
    }

    /// Runs any command, given as its name and arguments, except commands that change the state of
    /// the connection for its next user.
    ///
    /// # Errors
    /// An error reply is returned as [`Error::Reply`].
    ///
    /// ```
    /// # use undercroft::{CacheOptions, Pool, SetOptions};
    /// # let served = undercroft_served::Served::start();
    /// # let url = served.url();
    /// let pool = Pool::open(&url, CacheOptions::new())?;
    /// assert_eq!(pool.command(&["INCR", "visits"])?.to::<i64>()?, 1);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn command(&self, words: &[impl AsRef<[u8]>]) -> Result<Reply> {
        self.call(&shared(words)?)
    }

    /// Subscribes to channels. The returned iterator receives every message that is published after
    /// the call returns.
    ///
    /// # Errors
    /// Fails if the connection fails.
    ///
    /// ```
    /// use undercroft::Event;
    /// # use undercroft::{CacheOptions, Pool};
    /// # let served = undercroft_served::Served::start();
    /// # let url = served.url();
    /// let pool = Pool::open(&url, CacheOptions::new())?;
    /// let mut news = pool.subscribe(&["news"])?;
    /// pool.publish("news", "hello")?;
    /// let Some(Event::Message(message)) = news.next().transpose()? else { panic!() };
    /// assert_eq!(message.payload, b"hello");
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn subscribe(&self, channels: &[impl AsRef<[u8]>]) -> Result<Messages> {
        self.receive(b"SUBSCRIBE", channels)
    }

    /// Subscribes to all channels that match at least one of the patterns.
    ///
    /// # Errors
    /// Fails if the connection fails.
    ///
    /// ```
    /// use undercroft::Event;
    /// # use undercroft::{CacheOptions, Pool};
    /// # let served = undercroft_served::Served::start();
    /// # let url = served.url();
    /// let pool = Pool::open(&url, CacheOptions::new())?;
    /// let mut news = pool.subscribe_to_patterns(&["news.*"])?;
    /// pool.publish("news.local", "hello")?;
    /// let Some(Event::Message(message)) = news.next().transpose()? else { panic!() };
    /// assert_eq!(message.pattern.as_deref(), Some(&b"news.*"[..]));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn subscribe_to_patterns(&self, patterns: &[impl AsRef<[u8]>]) -> Result<Messages> {
        self.receive(b"PSUBSCRIBE", patterns)
    }

    pub(crate) fn server(&self) -> &Server {
        &self.0.server
    }

    fn receive(&self, command: &'static [u8], names: &[impl AsRef<[u8]>]) -> Result<Messages> {
        let names = names.iter().map(|name| name.as_ref().to_vec()).collect();
        Messages::new(self.0.server.clone(), self.0.options, command, names)
    }

    pub(crate) fn call(&self, words: &[&[u8]]) -> Result<Reply> {
        let until = Instant::now() + self.0.options.deadline;
        let mut turn = self.turn(until)?;
        let outcome = turn.call(&self.0.server, words, until);
        match outcome {
            Ok(_) | Err(Error::Reply(_)) => outcome,
            Err(error) => {
                turn.connection = None;
                Err(self.timed_out(error))
            }
        }
    }

    /// Waits for a turn, which is the right to use a connection.
    fn turn(&self, until: Instant) -> Result<Turn> {
        let mut state = self.0.state();
        if state.free > 0 {
            state.free -= 1;
            let connection = state.idle.pop();
            drop(state);
            return Ok(Turn {
                shared: Some(self.0.clone()),
                connection,
            });
        }
        let (give, take) = sync_channel(1);
        state.waiting.push_back(give);
        drop(state);
        // If this thread times out, dropping the channel passes a turn that arrives late to the
        // next thread.
        let left = until.saturating_duration_since(Instant::now());
        take.recv_timeout(left)
            .map_err(|_| Error::TimedOut(self.0.options.deadline))
    }

    /// Converts a read timeout to the call's timeout.
    fn timed_out(&self, error: Error) -> Error {
        match is_late(&error) {
            true => Error::TimedOut(self.0.options.deadline),
            false => error,
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Runs a command on the connection, after replacing it if it is no longer usable.
    fn call(&mut self, server: &Server, words: &[&[u8]], until: Instant) -> Result<Reply> {
        if !self.connection.as_ref().is_some_and(Connection::is_usable) {
            self.connection = None;
        }
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(Connection::open(server, until)?),
        };
        connection.call(words, until)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(shared) = self.shared.take() else {
            return;
        };
        let mut next = Turn {
            shared: Some(shared.clone()),
            connection: self.connection.take(),
        };
        let mut state = shared.state();
        while let Some(give) = state.waiting.pop_front() {
            match give.try_send(next) {
                Ok(()) => return,
                // That thread is no longer waiting, so the turn is offered to the next thread.
                Err(TrySendError::Full(turn) | TrySendError::Disconnected(turn)) => next = turn,
            }
        }
        next.shared = None;
        state.free += 1;
        state.idle.extend(next.connection.take());
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("server", &self.0.server.name)
            .finish()
    }
}
