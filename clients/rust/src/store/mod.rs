//! A store in this process: typed calls, and any command by its words.
//!
//! - `hashes`: hashes.
//! - `keys`: keys whatever they hold, and messages.
//! - `leases`: leases: who has a key's computes its value.
//! - `lists`: lists.
//! - `second_try`: test: reads that are thrown away leave nothing in the next try's answer.
//! - `sets`: sets.
//! - `sorted`: sorted sets.
//! - `strings`: strings and counters.

mod hashes;
mod keys;
mod leases;
mod lists;
#[cfg(test)]
mod second_try;
mod sets;
mod sorted;
mod strings;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use undercroft_commands::protocol::Protocol;
use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::session;
use undercroft_embedded::{OpenStore, Place, SessionByName, StoreByName};
use undercroft_engine as engine;

use crate::computing;
use crate::error::{Error, Result};
use crate::reply::{FromReply, Reply, from_tree, outcome};

/// A store that this process has mapped, and one database of it.
///
/// A call is a look-up in shared memory: no system call, no other process. Clones share the mapping, and so does
/// whoever else opens the same store in this process; any number of threads may use it. A call waits only for a lock
/// that another process holds, and ends with [`Error::Busy`] where that makes no progress (see
/// [`set_patience`](Store::set_patience)).
///
/// Where the store's file was removed or replaced, as by `undercroft rm`, calls go on in the store that the name means now.
/// A [`Session`] in a transaction or with watched keys, a [`Lease`](crate::Lease), a wait and a subscription belong to the
/// old store, and end with [`Error::Removed`]; an [`Object`](crate::Object) stays readable. `?on_removed=error` at the end of
/// an `undercroft://` URL ends every call with that error, until the store is opened again.
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
    /// Opens the store with this name, or creates it: `undercroft://name` lies in shared memory, in a directory of the
    /// user's; `undercroft:///path` or a path is a file.
    ///
    /// # Errors
    /// [`Error::Url`] and [`Error::Open`], which say why.
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
        let place = Place::new(url, engine::Terms::default());
        let place = place.map_err(|error| Error::opening(&error))?;
        let database = place.database().unwrap_or(0);
        let by_name = StoreByName::open(place, || None);
        Ok(Store {
            by_name: by_name.map_err(|error| Error::opening(&error))?,
            database,
        })
    }

    /// [`open`](Self::open) of the file at a path.
    ///
    /// # Errors
    /// As those of `open`, and a path that is not UTF-8.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// let store = undercroft::Store::at(directory.path().join("store"))?;
    /// # assert_eq!(store.path(), directory.path().join("store"));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn at(path: impl AsRef<Path>) -> Result<Store> {
        // A relative one is never a name.
        let path = std::path::absolute(path.as_ref()).unwrap_or_else(|_| path.as_ref().into());
        match path.to_str() {
            Some(text) => Store::open(text),
            None => Err(Error::url(format!(
                "expected a path in UTF-8, got {}",
                path.display()
            ))),
        }
    }

    /// The same store, another of its 16 databases.
    ///
    /// # Errors
    /// A number that no database has.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.database(1)?.set("key", "value")?;
    /// assert_eq!(store.get("key")?, None);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn database(&self, number: usize) -> Result<Store> {
        if number >= engine::DATABASES {
            return Err(Error::reply("ERR DB index is out of range"));
        }
        Ok(Store {
            by_name: self.by_name.clone(),
            database: number,
        })
    }

    /// The store's file.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// assert!(store.path().ends_with("store"));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn path(&self) -> &Path {
        self.by_name.place().path()
    }

    /// How long calls of this process wait for a lock whose holder makes no progress; 5 seconds by default.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.set_patience(std::time::Duration::from_millis(500));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn set_patience(&self, patience: Duration) {
        self.by_name.set_patience(patience);
    }

    /// Runs any command, its name first. Replies have the types of RESP3: HGETALL's is a [`Reply::Map`].
    ///
    /// What a connection remembers from one command to the next is that of a [`Session`].
    ///
    /// # Errors
    /// An error reply is an [`Error::Reply`].
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// let length: i64 = store.command(&["RPUSH", "queue", "a", "b"])?.to()?;
    /// assert_eq!(length, 2);
    /// let error = store.command(&["NOSUCH"]).unwrap_err();
    /// assert_eq!(error.code(), Some("ERR"));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn command(&self, words: &[impl AsRef<[u8]>]) -> Result<Reply> {
        let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        self.run(&words)
    }

    /// What a connection is elsewhere: MULTI, WATCH and SELECT hold from one command of a session to the next.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
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

    /// Sets the database and the protocol of a new connection.
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

    /// A number that handles of the same keys have in common.
    pub(crate) fn keys(&self) -> u64 {
        computing::keys((self.path(), self.database))
    }

    /// Makes a call of the engine. Where it finds that the store's file was removed, it is made again in the store that the
    /// name means now: all calls come this way.
    #[inline]
    pub(crate) fn call<T>(
        &self,
        mut call: impl FnMut(&Arc<OpenStore>) -> std::result::Result<T, engine::Error>,
    ) -> Result<T> {
        self.by_name.call(Error::opening, |open| {
            call(open).map_err(|error| Error::engine(&open.store, error))
        })
    }

    /// Returns the store that the name means now, for a subscription, which outlives a call.
    pub(crate) fn current(&self) -> Result<Arc<OpenStore>> {
        (self.by_name.current()).map_err(|error| Error::opening(&error))
    }

    /// Uses the store that was used last, even if its file was removed.
    #[inline]
    pub(crate) fn with<R>(&self, body: impl FnOnce(&engine::Store) -> R) -> R {
        self.by_name.with(|open| body(&open.store))
    }

    /// Which of its databases it is.
    pub(crate) fn number(&self) -> usize {
        self.database
    }

    /// Runs a command for the type of its reply.
    fn ask<T: FromReply>(&self, words: &[&[u8]]) -> Result<T> {
        self.run(words)?.to()
    }

    /// Runs a command with a list of arguments behind the first ones.
    fn ask_all<T: FromReply>(&self, first: &[&[u8]], rest: &[impl AsRef<[u8]>]) -> Result<T> {
        let rest = rest.iter().map(AsRef::as_ref);
        let words: Vec<&[u8]> = first.iter().copied().chain(rest).collect();
        self.ask(&words)
    }
}

/// Commands that belong together, see [`Store::session`].
///
/// ```
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::at(directory.path().join("store"))?;
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
    /// Runs any command, its name first.
    ///
    /// # Errors
    /// An error reply is an [`Error::Reply`].
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// let mut session = store.session();
    /// session.command(&["WATCH", "key"])?;
    /// store.set("key", "changed meanwhile")?;
    /// session.command(&["MULTI"])?;
    /// session.command(&["SET", "key", "mine"])?;
    /// assert_eq!(session.command(&["EXEC"])?, undercroft::Reply::Nil);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn command(&mut self, words: &[impl AsRef<[u8]>]) -> Result<Reply> {
        let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        self.run(&words)
    }

    fn run(&mut self, words: &[&[u8]]) -> Result<Reply> {
        self.by_name.run(words, Error::opening, |open, session| {
            run(open, session, words)
        })
    }
}

/// Runs a command on a connection.
fn run(open: &OpenStore, session: &mut session::Session, words: &[&[u8]]) -> Result<Reply> {
    if words.is_empty() {
        return Err(Error::reply("ERR expected the name of a command, got none"));
    }
    let mut recorder = Recorder::new();
    open.execute(session, words, &mut recorder)?;
    // The tests of the commands see to it that each writes one whole reply.
    let mut replies = recorder.finish().unwrap_or_default();
    match replies.pop().unwrap_or(Tree::Null) {
        Tree::Error(text) => Err(Error::answer(&open.store, &text)),
        tree => outcome(from_tree(tree)),
    }
}
