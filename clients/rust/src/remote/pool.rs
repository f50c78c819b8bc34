//! Implements a pool of connections for threads.

use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::address::Server;
use crate::command::{Args, Batch, FromReply, Reply, ToArgs, ToSingleArg, cmd, sealed};
use crate::error::{Error, Result};
use crate::options::CacheOptions;
use crate::remote::blocking::{Connection, is_late};
use crate::remote::commands::{SetWords, remaining, shared};
use crate::remote::messages::Messages;
use crate::set_options::{SetOptions, expiry_milliseconds};

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
/// pool.set("key", "value")?;
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
    pub fn get(&self, key: impl ToSingleArg) -> Result<Option<Vec<u8>>> {
        key.with_arg(|key| self.call(&[b"GET", key]))?.to()
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
    /// assert_eq!(pool.mget(&["a", "b"])?, [None, None]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn mget(&self, keys: impl ToArgs) -> Result<Vec<Option<Vec<u8>>>> {
        self.ask("MGET", keys, Vec::new())
    }

    /// Sets a key to a string that does not expire.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    ///
    /// ```
    /// # use undercroft::{CacheOptions, Pool};
    /// # let served = undercroft_served::Served::start();
    /// # let pool = Pool::open(&served.url(), CacheOptions::new())?;
    /// pool.set("key", 5)?;
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn set(&self, key: impl ToSingleArg, value: impl ToSingleArg) -> Result<()> {
        key.with_arg(|key| value.with_arg(|value| self.call(&[b"SET", key, value])))?
            .to()
    }

    /// Sets a key to a string, with an expiry or a condition. Returns whether the value
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
    /// assert!(pool.set_options("key", "value", SetOptions::new().if_missing())?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn set_options(
        &self,
        key: impl ToSingleArg,
        value: impl ToSingleArg,
        options: SetOptions,
    ) -> Result<bool> {
        key.with_arg(|key| {
            value.with_arg(|value| {
                let mut words = SetWords::new(key, value, options)?;
                let (words, count) = words.words();
                self.call(&words[..count])?.to()
            })
        })
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
        key: impl ToSingleArg,
        value: impl ToSingleArg,
        options: SetOptions,
    ) -> Result<Option<Vec<u8>>> {
        key.with_arg(|key| {
            value.with_arg(|value| {
                let mut words = SetWords::new(key, value, options)?.getting_old();
                let (words, count) = words.words();
                self.call(&words[..count])?.to()
            })
        })
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
    /// assert_eq!(pool.del(&["key"])?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn del(&self, keys: impl ToArgs) -> Result<u64> {
        self.ask("DEL", keys, 0)
    }

    /// Returns the number of keys that exist. A repeated key counts each time.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    ///
    /// ```
    /// # use undercroft::{CacheOptions, Pool};
    /// # let served = undercroft_served::Served::start();
    /// # let pool = Pool::open(&served.url(), CacheOptions::new())?;
    /// assert_eq!(pool.exists("key")?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn exists(&self, keys: impl ToArgs) -> Result<u64> {
        self.ask("EXISTS", keys, 0)
    }

    /// Sets the time after which a key expires, in whole milliseconds. Returns whether the key
    /// exists. A time below 1 ms deletes the key.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the time is 2^62 ms or longer, and the errors of
    /// [`get`](Self::get).
    ///
    /// ```
    /// use std::time::Duration;
    /// # use undercroft::{CacheOptions, Pool};
    /// # let served = undercroft_served::Served::start();
    /// # let pool = Pool::open(&served.url(), CacheOptions::new())?;
    /// assert!(!pool.expire("key", Duration::from_secs(60))?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn expire(&self, key: impl ToSingleArg, after: Duration) -> Result<bool> {
        cmd("PEXPIRE")
            .arg((key, expiry_milliseconds(after)?))
            .query(self)
    }

    /// Returns the remaining time until a key expires, or `None` if the key is missing or does not
    /// expire.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    ///
    /// ```
    /// # use undercroft::{CacheOptions, Pool};
    /// # let served = undercroft_served::Served::start();
    /// # let pool = Pool::open(&served.url(), CacheOptions::new())?;
    /// assert_eq!(pool.ttl("key")?, None);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn ttl(&self, key: impl ToSingleArg) -> Result<Option<Duration>> {
        Ok(remaining(cmd("PTTL").arg(key).query(self)?))
    }

    /// Adds to the integer value of a key. A missing key counts as 0. Returns the sum.
    ///
    /// # Errors
    /// An error reply if the value is not an integer, or if the sum exceeds 64 bits. The errors of
    /// [`get`](Self::get).
    ///
    /// ```
    /// # use undercroft::{CacheOptions, Pool};
    /// # let served = undercroft_served::Served::start();
    /// # let pool = Pool::open(&served.url(), CacheOptions::new())?;
    /// assert_eq!(pool.incr("visits", 1)?, 1);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn incr(&self, key: impl ToSingleArg, delta: i64) -> Result<i64> {
        cmd("INCRBY").arg((key, delta)).query(self)
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
    pub fn publish(&self, channel: impl ToSingleArg, message: impl ToSingleArg) -> Result<u64> {
        let words = ("PUBLISH", channel, message);
        Args::of(&words).with(|words| self.call(words))?.to()
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
    pub fn command(&self, words: impl ToArgs) -> Result<Reply> {
        Args::of(&words).with(|words| self.call(&shared(words)?))
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
    pub fn subscribe(&self, channels: impl ToArgs) -> Result<Messages> {
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
    /// let mut news = pool.psubscribe(&["news.*"])?;
    /// pool.publish("news.local", "hello")?;
    /// let Some(Event::Message(message)) = news.next().transpose()? else { panic!() };
    /// assert_eq!(message.pattern.as_deref(), Some(&b"news.*"[..]));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn psubscribe(&self, patterns: impl ToArgs) -> Result<Messages> {
        self.receive(b"PSUBSCRIBE", patterns)
    }

    /// Runs a command on keys, or returns `none` if there are no keys.
    fn ask<T: FromReply>(&self, name: &str, keys: impl ToArgs, none: T) -> Result<T> {
        let mut args = Args::of(name);
        keys.write_args(&mut args);
        args.with(|words| match words {
            [_] => Ok(none),
            _ => self.call(words)?.to(),
        })
    }

    pub(crate) fn server(&self) -> &Server {
        &self.0.server
    }

    fn receive(&self, command: &'static [u8], names: impl ToArgs) -> Result<Messages> {
        let names = Args::of(&names).with(|names| names.iter().map(|name| name.to_vec()).collect());
        Messages::new(self.0.server.clone(), self.0.options, command, names)
    }

    pub(crate) fn call(&self, words: &[&[u8]]) -> Result<Reply> {
        self.call_blocking(words, Duration::ZERO)
    }

    /// Runs a command that lets the server wait for up to `wait`.
    pub(crate) fn call_blocking(&self, words: &[&[u8]], wait: Duration) -> Result<Reply> {
        let until = Instant::now() + self.0.options.deadline + wait;
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

impl sealed::Run for &Pool {
    fn run_words(self, words: &[&[u8]]) -> Result<Reply> {
        self.call(&shared(words)?)
    }

    fn run_batch(self, batch: &Batch<'_>) -> Result<Reply> {
        for words in &batch.commands {
            shared(words)?;
        }
        let until = Instant::now() + self.0.options.deadline;
        let mut turn = self.turn(until)?;
        match turn.call_all(&self.0.server, &batch.framed(), until) {
            Ok(replies) => batch.reply(replies),
            Err(error) => {
                turn.connection = None;
                Err(self.timed_out(error))
            }
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Returns a usable connection.
    fn connection(&mut self, server: &Server, until: Instant) -> Result<&mut Connection> {
        if !self.connection.as_ref().is_some_and(Connection::is_usable) {
            self.connection = None;
        }
        Ok(match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(Connection::open(server, until)?),
        })
    }

    /// Sends commands together, and returns their replies.
    fn call_all(
        &mut self,
        server: &Server,
        commands: &[Vec<&[u8]>],
        until: Instant,
    ) -> Result<Vec<Result<Reply>>> {
        self.connection(server, until)?.call_all(commands, until)
    }

    /// Runs a command on the connection, after replacing it if it is no longer usable.
    fn call(&mut self, server: &Server, words: &[&[u8]], until: Instant) -> Result<Reply> {
        self.connection(server, until)?.call(words, until)
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
