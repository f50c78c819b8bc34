//! Opens a store in this process or a pool of connections to a server, whichever a URL names.

use crate::command::{Batch, Reply, sealed};
use crate::error::Result;
use crate::options::CacheOptions;
use crate::remote::Pool;
use crate::store::Store;

/// A store in this process or a server, for programs whose URL decides which. Clones are cheap.
///
/// Feeds, [`Objects`](crate::Objects) and [`Channel`](crate::Channel)s work on both, as do commands,
/// pipelines and scripts.
///
/// ```
/// use undercroft::{Client, cmd};
/// # let directory = undercroft_testkit::fresh::directory();
/// # let url = format!("undercroft://{}/store", directory.path().display());
/// let client = Client::open(&url)?; // undercroft://sessions, redis://localhost, ...
/// cmd("SET").arg(("greeting", "hello")).exec(&client)?;
/// assert_eq!(cmd("GET").arg("greeting").query::<String>(&client)?, "hello");
/// # Ok::<(), undercroft::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Client {
    /// A store that is mapped into this process.
    Store(Store),
    /// A pool of connections to a server.
    Pool(Pool),
}

impl Client {
    /// Opens the store that a URL or path names (`undercroft://`), or a pool of connections to the
    /// server (`redis://`, `unix://`). The pool connects at its first call.
    ///
    /// # Errors
    /// The errors of [`Store::open`] and [`Pool::open`].
    ///
    /// ```
    /// # let served = undercroft_served::Served::start();
    /// # let url = served.url();
    /// let client = undercroft::Client::open(&url)?; // redis://localhost, say
    /// assert_eq!(undercroft::cmd("PING").query::<String>(&client)?, "PONG");
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn open(url: &str) -> Result<Client> {
        match url.split_once("://") {
            None | Some(("undercroft", _)) => Store::open(url).map(Client::Store),
            Some(_) => Pool::open(url, CacheOptions::new()).map(Client::Pool),
        }
    }
}

impl From<Store> for Client {
    fn from(store: Store) -> Client {
        Client::Store(store)
    }
}

impl From<Pool> for Client {
    fn from(pool: Pool) -> Client {
        Client::Pool(pool)
    }
}

impl sealed::Run for &Client {
    fn run_words(self, words: &[&[u8]]) -> Result<Reply> {
        match self {
            Client::Store(store) => store.run_words(words),
            Client::Pool(pool) => pool.run_words(words),
        }
    }

    fn run_batch(self, batch: &Batch<'_>) -> Result<Reply> {
        match self {
            Client::Store(store) => store.run_batch(batch),
            Client::Pool(pool) => pool.run_batch(batch),
        }
    }
}
