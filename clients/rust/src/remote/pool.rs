//! Connections that threads take turns with.

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

/// A pool of connections to a server, for threads: its calls block, and need no runtime.
///
/// Connections are made when they are needed, and threads get them in the order in which they came. A call ends within
/// its deadline, whatever it waits for but the system's look-up of a host's name. Clones share the connections.
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
    /// Connections that nobody uses, the one used last at the end.
    idle: Vec<Connection>,
    /// Turns that may still be given out.
    free: usize,
    /// Threads that wait for a turn, the first one in front.
    waiting: VecDeque<SyncSender<Turn>>,
}

/// The right to use a connection; dropped, it is the next thread's.
struct Turn {
    /// None once it was given back.
    shared: Option<Arc<Shared>>,
    connection: Option<Connection>,
}

impl Pool {
    /// A pool on the server that a URL names, which is connected to by the first call.
    ///
    /// # Errors
    /// [`Error::Url`].
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

    /// The string that a key holds.
    ///
    /// # Errors
    /// A key that holds something else, and those of connections.
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

    /// The strings of several keys; none where a key is missing or holds something else.
    ///
    /// # Errors
    /// Those of connections.
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

    /// Sets a key to a string, perhaps with an expiry or on a condition. Returns whether it did.
    ///
    /// # Errors
    /// No memory, and those of connections.
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

    /// Removes keys. Returns how many were there.
    ///
    /// # Errors
    /// Those of connections.
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

    /// Sends a message to all who are subscribed to a channel. Returns how many they are.
    ///
    /// # Errors
    /// Those of connections.
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

    /// Runs any command, its name first, but those that change the connection for whoever has it next.
    ///
    /// # Errors
    /// An error reply is an [`Error::Reply`].
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

    /// The messages of some channels, all that are published from the return on, for a loop of a thread.
    ///
    /// # Errors
    /// Those of connections.
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

    /// The messages of all channels that match one of some patterns.
    ///
    /// # Errors
    /// Those of connections.
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

    /// Waits for a turn.
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
        // A turn that is given too late goes on to the next when the channel is dropped.
        let left = until.saturating_duration_since(Instant::now());
        take.recv_timeout(left)
            .map_err(|_| Error::TimedOut(self.0.options.deadline))
    }

    /// A read that took too long is a call that did.
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
    /// Runs a command on the connection, on another one where that is of no use any more.
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
                // That thread has given up.
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
