//! Provides a store in this process, with typed calls and a call that runs any command.
//!
//! - `builder`: limits and other options for opening a store.
//! - `get_or_insert`: the computation of missing values.
//! - `hashes`: the hash commands.
//! - `in_place`: reads of strings without copies.
//! - `keys`: commands for keys of any type, and PUBLISH.
//! - `leases`: leases, whose holders compute the values of keys.
//! - `lists`: the list commands.
//! - `messages`: subscriptions with blocking calls.
//! - `scan`: iterators over the keys.
//! - `second_try`: tests that discarded reads leave nothing in the next attempt's result.
//! - `sets`: the set commands.
//! - `sorted`: the sorted set commands.
//! - `streams`: the stream commands.
//! - `strings`: the commands for strings and counters.
//! - `transaction`: transactions, which run again if a watched key changes.

mod builder;
mod get_or_insert;
mod hashes;
mod in_place;
mod keys;
mod leases;
mod lists;
mod messages;
mod scan;
#[cfg(test)]
mod second_try;
mod sets;
mod sorted;
mod streams;
mod strings;
mod transaction;

pub use builder::{Durability, EvictionPolicy, StoreBuilder};
pub use messages::StoreMessages;
#[cfg(feature = "async")]
pub(crate) use messages::copies;
pub use scan::Scan;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
pub use streams::{StreamEntry, StreamReadOptions};

use undercroft_commands::protocol::Protocol;
use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::session;
use undercroft_embedded::{OpenStore, SessionByName, StoreByName};
use undercroft_engine as engine;

use crate::command::{Args, Batch, FromReply, Reply, ToArgs, from_tree, outcome, sealed};
use crate::computing;
use crate::error::{Error, Result};

/// A store that is mapped into this process, with a selected database.
///
/// A call is a look-up in shared memory, which needs no system call and no other process. Clones
/// share the mapping with all handles on the same store in this process. Any number of threads may
/// use a store. A call waits only for a lock that another process holds. If the holder makes no
/// progress, the call fails with [`Error::Busy`] (see [`set_timeout`](Store::set_timeout)).
///
/// If the store's file is removed or replaced, for example by `undercroft rm`, calls continue in
/// the store that now has the same name. A [`Session`] in a transaction or with watched keys, a
/// [`Lease`](crate::Lease), a wait and a subscription belong to the old store and end with
/// [`Error::Removed`]. An [`Object`](crate::Object) stays readable. With `?on_removed=error` at the
/// end of an `undercroft://` URL, every call fails with that error until the store is opened again.
///
/// ```
/// # let directory = undercroft_testkit::fresh::directory();
/// # let url = directory.path().join("store");
/// # let url = url.to_str().unwrap();
/// let store = undercroft::Store::open(url)?; // undercroft://sessions, say
/// store.set("greeting", "hello")?;
/// assert_eq!(store.get("greeting")?.as_deref(), Some(&b"hello"[..]));
/// # Ok::<(), undercroft::Error>(())
/// ```
#[derive(Clone)]
pub struct Store {
    by_name: StoreByName,
    database: usize,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("path", &self.path())
            .field("database", &self.database)
            .finish()
    }
}

impl Store {
    /// Opens the store with the given name, creating it if it does not exist. `undercroft://name`
    /// is a file in the user's directory in shared memory. `undercroft:///path` or a plain path is
    /// that file.
    ///
    /// # Errors
    /// [`Error::Url`] if the URL is invalid, and [`Error::Open`] if the store cannot be opened.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let url = format!("undercroft://{}/store", directory.path().display());
    /// let store = undercroft::Store::open(&url)?;
    /// let same = undercroft::Store::open(&url)?;
    /// store.set("key", "value")?;
    /// assert!(same.exists(&["key"])? == 1);
    /// assert!(undercroft::Store::open("redis://localhost").is_err());
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn open(url: &str) -> Result<Store> {
        Store::builder().open(url)
    }

    /// Returns the options for opening a store, such as its memory limit.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let url = format!("undercroft://{}/store", directory.path().display());
    /// let store = undercroft::Store::builder().max_memory(100 << 20).open(&url)?;
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn builder() -> StoreBuilder {
        StoreBuilder::default()
    }

    /// Opens the store in the file at a path, creating it if it does not exist.
    ///
    /// # Errors
    /// Fails like `open`, or if the path is not valid UTF-8.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// # assert_eq!(store.path(), directory.path().join("store"));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn open_path(path: impl AsRef<Path>) -> Result<Store> {
        Store::builder().open_path(path)
    }

    /// Returns a handle on the same store with another of its 16 databases selected.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the number is not below 16.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.database(1)?.set("key", "value")?;
    /// assert_eq!(store.get("key")?, None);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn database(&self, number: usize) -> Result<Store> {
        if number >= engine::DATABASES {
            return Err(Error::argument(format!(
                "expected a database below {}, got {number}",
                engine::DATABASES
            )));
        }
        Ok(Store {
            by_name: self.by_name.clone(),
            database: number,
        })
    }

    /// Returns the path of the store's file.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert!(store.path().ends_with("store"));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn path(&self) -> &Path {
        self.by_name.place().path()
    }

    /// Sets how long calls in this process wait for a lock whose holder makes no progress. The
    /// default is 5 seconds.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.set_timeout(std::time::Duration::from_millis(500));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn set_timeout(&self, timeout: Duration) {
        self.by_name.set_patience(timeout);
    }

    /// Runs any command, given as its name and arguments. Replies have the types of RESP3: HGETALL
    /// returns a [`Reply::Map`].
    ///
    /// Commands that change the state of a connection, such as MULTI, need a [`Session`].
    ///
    /// # Errors
    /// An error reply is returned as [`Error::Reply`].
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let length: i64 = store.command(&["RPUSH", "queue", "a", "b"])?.to()?;
    /// assert_eq!(length, 2);
    /// let error = store.command(&["NOSUCH"]).unwrap_err();
    /// assert_eq!(error.code(), Some("ERR"));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn command(&self, words: impl ToArgs) -> Result<Reply> {
        Args::of(&words).with(|words| self.run(words))
    }

    /// Starts a session, which corresponds to a connection to a server: the effects of MULTI, WATCH
    /// and SELECT persist between commands.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let mut session = store.session();
    /// session.command(&["MULTI"])?;
    /// session.command(&["INCR", "a"])?;
    /// session.command(&["INCR", "b"])?;
    /// assert_eq!(session.command(&["EXEC"])?.to::<Vec<i64>>()?, [1, 1]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn session(&self) -> Session {
        let mut by_name = SessionByName::new(&self.by_name);
        self.begin(by_name.session());
        Session { by_name }
    }

    /// Sets the database and the protocol of a new session.
    fn begin(&self, session: &mut session::Session) {
        session.database = self.database as u32;
        session.protocol = Protocol::Resp3;
    }

    fn run(&self, words: &[&[u8]]) -> Result<Reply> {
        self.by_name
            .command(words, Error::opening, |open, session| {
                self.begin(session);
                run(open, session, words)
            })
    }

    /// Returns a number that identifies the key space. All handles that access the same keys get
    /// the same number.
    pub(crate) fn keys(&self) -> u64 {
        computing::keys((self.path(), self.database))
    }

    /// Makes a call to the engine. If the store's file was removed, the call is repeated in the
    /// store that now has the same name. Every call uses this function.
    #[inline]
    pub(crate) fn call<T>(
        &self,
        mut call: impl FnMut(&Arc<OpenStore>) -> std::result::Result<T, engine::Error>,
    ) -> Result<T> {
        self.by_name.call(Error::opening, |open| {
            call(open).map_err(|error| Error::engine(&open.store, error))
        })
    }

    /// Returns the store that the name currently refers to. A subscription uses it because it
    /// outlives a call.
    pub(crate) fn current(&self) -> Result<Arc<OpenStore>> {
        (self.by_name.current()).map_err(|error| Error::opening(&error))
    }

    /// Calls `body` with the store that the last call used, even if its file was removed.
    #[inline]
    pub(crate) fn with<R>(&self, body: impl FnOnce(&engine::Store) -> R) -> R {
        self.by_name.with(|open| body(&open.store))
    }

    /// Returns the number of the selected database.
    pub(crate) fn number(&self) -> usize {
        self.database
    }

    /// Runs a command and converts its reply.
    fn ask<T: FromReply>(&self, name: &'static str, arguments: impl ToArgs) -> Result<T> {
        let mut args = Args::new();
        args.push(name.as_bytes());
        arguments.write_args(&mut args);
        args.with(|words| self.run(words))?.to()
    }
}

impl sealed::Run for &Store {
    fn run_words(self, words: &[&[u8]]) -> Result<Reply> {
        self.run(words)
    }

    fn run_batch(self, batch: &Batch<'_>) -> Result<Reply> {
        (&mut self.session()).run_batch(batch)
    }
}

impl sealed::Run for &mut Session {
    fn run_words(self, words: &[&[u8]]) -> Result<Reply> {
        self.run(words)
    }

    fn run_batch(self, batch: &Batch<'_>) -> Result<Reply> {
        let framed = batch.framed();
        batch.reply(framed.iter().map(|words| self.run(words)).collect())
    }
}

/// A session, which runs commands with the state of a connection (see [`Store::session`]).
///
/// ```
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// let mut session = store.session();
/// session.command(&["SELECT", "3"])?;
/// session.command(&["SET", "key", "value"])?;
/// assert_eq!(store.database(3)?.exists(&["key"])?, 1);
/// # Ok::<(), undercroft::Error>(())
/// ```
pub struct Session {
    by_name: SessionByName,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (open, session) = self.by_name.get();
        f.debug_struct("Session")
            .field("path", &open.store.path())
            .field("database", &session.database)
            .finish()
    }
}

impl Session {
    /// Runs any command, given as its name and arguments.
    ///
    /// # Errors
    /// An error reply is returned as [`Error::Reply`].
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let mut session = store.session();
    /// session.command(&["WATCH", "key"])?;
    /// store.set("key", "changed meanwhile")?;
    /// session.command(&["MULTI"])?;
    /// session.command(&["SET", "key", "mine"])?;
    /// assert_eq!(session.command(&["EXEC"])?, undercroft::Reply::Nil);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn command(&mut self, words: impl ToArgs) -> Result<Reply> {
        Args::of(&words).with(|words| self.run(words))
    }

    fn run(&mut self, words: &[&[u8]]) -> Result<Reply> {
        self.by_name.run(words, Error::opening, |open, session| {
            run(open, session, words)
        })
    }
}

/// Runs a command in a session.
fn run(open: &OpenStore, session: &mut session::Session, words: &[&[u8]]) -> Result<Reply> {
    if words.is_empty() {
        return Err(Error::argument("expected the name of a command, got none"));
    }
    let mut recorder = Recorder::new();
    open.execute(session, words, &mut recorder)?;
    // Tests ensure that each command writes exactly one complete reply.
    let mut replies = recorder.finish().unwrap_or_default();
    match replies.pop().unwrap_or(Tree::Null) {
        Tree::Error(text) => Err(Error::answer(&open.store, &text)),
        tree => outcome(from_tree(tree)),
    }
}
