//! Implements the cache on a pool of connections.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{Manager, Metrics, Object, Pool, PoolError, RecycleError, RecycleResult};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::address::Server;
use crate::command::{Args, Batch, Reply, ToArgs};
use crate::error::{Error, Result};
use crate::options::CacheOptions;
use crate::remote::commands::{Words, remote_cache, shared};
use crate::remote::connection::Connection;
use crate::remote::lease::{Errands, borrowed, run_alone};
use crate::remote::receiver;
use crate::subscription::Subscription;

/// The maximum number of concurrent calls, including calls that wait for a connection.
const CALLS_MAX: u32 = 1 << 20;

/// A cache on a pool of connections to a server, each of which serves one caller at a time.
///
/// Use it for calls that occupy a connection for a long time, such as commands that wait for keys,
/// or transfers of several megabytes. In this cache, such calls do not delay other calls. For many
/// short calls,
/// [`PipelinedCache`](crate::PipelinedCache) has a higher throughput. Callers receive connections
/// in first-come, first-served order, and fail at their deadline.
///
/// ```
/// # use undercroft_served::Served;
/// use undercroft::{Cache, CacheOptions, PooledCache, SetOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> undercroft::Result<()> {
/// # let served = Served::start();
/// # let url = served.url();
/// let cache = PooledCache::open(&url, CacheOptions::new().connections(8))?; // redis://localhost, say
/// cache.set(b"key", b"value").await?;
/// // A call that waits for a job does not block the others.
/// let (job, value) = tokio::join!(cache.command(&["BLPOP", "jobs", "0.01"]), cache.get(b"key"));
/// # assert!(job.is_ok() && value.is_ok());
/// # Ok(())
/// # }
/// ```
pub struct PooledCache {
    pool: Pool<Connections>,
    /// Counts the calls in progress, each of which owns a permit (see `end`).
    calls: Arc<Semaphore>,
    server: Arc<Server>,
    options: CacheOptions,
}

impl PooledCache {
    /// Creates a cache on the server that a URL names. The cache connects when a connection is
    /// needed.
    ///
    /// # Errors
    /// [`Error::Url`] if the URL is invalid.
    ///
    /// ```
    /// # use undercroft_served::Served;
    /// # use undercroft::{Cache, CacheOptions, PooledCache};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let served = Served::start();
    /// # let url = served.url();
    /// let cache = PooledCache::open(&url, CacheOptions::new())?;
    /// assert_eq!(cache.get(b"key").await?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn open(url: &str, options: CacheOptions) -> Result<PooledCache> {
        let server = Arc::new(Server::parse(url)?);
        let manager = Connections {
            server: server.clone(),
            within: options.deadline,
        };
        let pool = Pool::builder(manager).max_size(options.pooled()).build();
        Ok(PooledCache {
            // Building the pool fails only if it has timeouts but no runtime.
            pool: pool.map_err(|error| Error::url(error.to_string()))?,
            calls: Arc::new(Semaphore::new(CALLS_MAX as usize)),
            server,
            options,
        })
    }

    /// Runs any command, given as its name and arguments, except commands that change the state of
    /// the connection for its next user.
    ///
    /// If a call is dropped before its reply arrives, or if its deadline passes, an item that a
    /// command such as LPOP or BLPOP removed is lost. With LMOVE, BLMOVE and XREADGROUP, the item
    /// remains on the server.
    ///
    /// # Errors
    /// An error reply is returned as [`Error::Reply`].
    ///
    /// ```
    /// # use undercroft_served::Served;
    /// # use undercroft::{Cache, CacheOptions, PooledCache};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let served = Served::start();
    /// # let url = served.url();
    /// let cache = PooledCache::open(&url, CacheOptions::new())?;
    /// assert_eq!(cache.command(&["INCR", "visits"]).await?.to::<i64>()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn command(&self, words: impl ToArgs) -> Result<Reply> {
        let args = Args::of(&words);
        self.call(&shared(&args.to_vec())?).await
    }

    async fn fetch(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.call(&[b"GET", key]).await?.to()
    }

    async fn call(&self, words: &[&[u8]]) -> Result<Reply> {
        let deadline = self.options.deadline;
        let call = async {
            let _counted = self.calls.acquire().await;
            let mut used = Used(Some(self.pool.get().await.map_err(refused)?));
            used.connection()?.call(words).await
        };
        match timeout(deadline, call).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::TimedOut(deadline)),
        }
    }

    /// Runs the commands of a pipeline on one connection.
    async fn batch(&self, batch: &Batch<'_>) -> Result<Reply> {
        let deadline = self.options.deadline;
        let call = async {
            let _counted = self.calls.acquire().await;
            let mut used = Used(Some(self.pool.get().await.map_err(refused)?));
            batch.reply(used.connection()?.call_all(&batch.framed()).await?)
        };
        let called = timeout(deadline, call).await;
        called.map_err(|_| Error::TimedOut(deadline))?
    }

    fn errands(&self) -> PoolErrands {
        PoolErrands {
            pool: self.pool.clone(),
            calls: self.calls.clone(),
            server: self.server.clone(),
            options: self.options,
        }
    }

    fn server(&self) -> &Server {
        &self.server
    }

    async fn receive(&self, command: &'static [u8], names: &[&[u8]]) -> Result<Subscription> {
        if self.pool.is_closed() {
            return Err(Error::Closed);
        }
        let servers = vec![self.server.clone()];
        receiver::subscribe(servers, self.options, command, names).await
    }

    async fn end(&self) {
        // Each call in progress returns its permit when it ends.
        self.pool.close();
        let all = self.calls.acquire_many(CALLS_MAX);
        drop(timeout(self.options.deadline, all).await);
    }
}

remote_cache!(PooledCache);

impl fmt::Debug for PooledCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledCache")
            .field("server", &self.server.name)
            .field("connections", &self.pool.status().max_size)
            .finish()
    }
}

/// A pool connection that a call is using.
///
/// If the call ends before its reply arrives, the connection is closed immediately. If the
/// connection returned to the pool, it would stay open until the next call, and a command that
/// still waits for keys on the server could remove an item that no caller receives.
struct Used(Option<Object<Connections>>);

impl Used {
    fn connection(&mut self) -> Result<&mut Connection> {
        self.0.as_deref_mut().ok_or(Error::Closed)
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take().filter(|connection| !connection.is_idle()) {
            drop(Object::take(connection));
        }
    }
}

/// Runs lease commands on a pool.
#[derive(Clone)]
pub(crate) struct PoolErrands {
    pool: Pool<Connections>,
    calls: Arc<Semaphore>,
    server: Arc<Server>,
    options: CacheOptions,
}

impl Errands for PoolErrands {
    async fn run(&self, words: Words) -> Result<Reply> {
        let CacheOptions {
            deadline, silence, ..
        } = self.options;
        let (words, until) = (borrowed(&words), Instant::now() + deadline);
        let late = |_| Error::TimedOut(deadline);
        let _counted = self.calls.acquire().await;
        let connection = timeout_at(until, self.pool.get()).await.map_err(late)?;
        let mut connection = connection.map_err(refused)?;
        match timeout_at(until, connection.call(&words)).await {
            Ok(outcome) => outcome,
            Err(_) => {
                // The connection leaves the pool, which may open a replacement. Wait for the reply,
                // because the release must be sent after it.
                let mut connection = Object::take(connection);
                let answered = timeout(silence, connection.answer()).await;
                answered.map_err(late)?
            }
        }
    }

    async fn run_last(&self, words: Words) -> Result<Reply> {
        match self.run(words.clone()).await {
            // The pool's other calls may occupy its connections for longer than the deadline.
            Err(Error::Closed | Error::TimedOut(_)) => {
                run_alone(&self.server, self.options, words).await
            }
            outcome => outcome,
        }
    }
}

fn refused(error: PoolError<Error>) -> Error {
    match error {
        PoolError::Backend(error) => error,
        _ => Error::Closed,
    }
}

/// Creates the pool's connections.
struct Connections {
    server: Arc<Server>,
    within: Duration,
}

impl Manager for Connections {
    type Type = Connection;
    type Error = Error;

    async fn create(&self) -> Result<Connection> {
        Connection::open(&self.server, self.within).await
    }

    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<Error> {
        match connection.is_usable() {
            true => Ok(()),
            // The connection cannot be reused: a call on it was cancelled, or the server closed it.
            false => Err(RecycleError::message("not usable")),
        }
    }
}
