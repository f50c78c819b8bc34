//! The cache on connections that callers take turns with.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{Manager, Metrics, Object, Pool, PoolError, RecycleError, RecycleResult};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::address::Server;
use crate::error::{Error, Result};
use crate::options::CacheOptions;
use crate::remote::commands::{remote_cache, shared};
use crate::remote::connection::Connection;
use crate::remote::lease::{Errands, Words, borrowed, run_alone};
use crate::remote::receiver;
use crate::reply::Reply;
use crate::subscription::Subscription;

/// Calls at a time, those that wait for a connection included.
const CALLS_MAX: u32 = 1 << 20;

/// A cache on a pool of connections to a server, each of which one caller has at a time.
///
/// It is for calls that keep a connection busy for long, such as commands that wait for keys, or values of megabytes:
/// others need not wait behind them. Where calls are short and many, [`PipelinedCache`](crate::PipelinedCache) does
/// more of them. Callers get connections in the order in which they came, within their deadline.
///
/// ```
/// # use undercroft_served::Served;
/// use undercroft::{Cache, CacheOptions, PooledCache, SetOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> undercroft::Result<()> {
/// # let served = Served::start();
/// # let url = served.url();
/// let cache = PooledCache::open(&url, CacheOptions::new().connections(8))?; // redis://localhost, say
/// cache.set(b"key", b"value", SetOptions::new()).await?;
/// // While one waits for a job, the others go on.
/// let (job, value) = tokio::join!(cache.command(&["BLPOP", "jobs", "0.01"]), cache.get(b"key"));
/// # assert!(job.is_ok() && value.is_ok());
/// # Ok(())
/// # }
/// ```
pub struct PooledCache {
    pool: Pool<Connections>,
    /// A permit for each call under way, see `end`.
    calls: Arc<Semaphore>,
    server: Arc<Server>,
    options: CacheOptions,
}

impl PooledCache {
    /// A cache on the server that a URL names. Connections are made when they are needed first.
    ///
    /// # Errors
    /// [`Error::Url`].
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
            // It is only refused where it has time-outs and no runtime.
            pool: pool.map_err(|error| Error::url(error.to_string()))?,
            calls: Arc::new(Semaphore::new(CALLS_MAX as usize)),
            server,
            options,
        })
    }

    /// Runs any command, its name first, but those that change the connection for whoever has it next.
    ///
    /// A call that is dropped before its reply, or whose deadline passes, loses what a command such as LPOP or BLPOP took.
    /// LMOVE, BLMOVE and XREADGROUP leave it on the server.
    ///
    /// # Errors
    /// An error reply is an [`Error::Reply`].
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
    pub async fn command(&self, words: &[impl AsRef<[u8]>]) -> Result<Reply> {
        self.call(&shared(words)?).await
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
        // The permits of the calls under way come back when these have ended.
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

/// A connection of the pool while a call uses it.
///
/// If the call ends before its reply the connection is closed at once. In the pool it would stay open until the next
/// call, and a command that waits for keys on the server would take an item that no caller receives.
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

/// Commands of leases on a pool.
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
                // The pool opens another connection in its place. The release must come after the reply.
                let mut connection = Object::take(connection);
                let answered = timeout(silence, connection.answer()).await;
                answered.map_err(late)?
            }
        }
    }

    async fn run_last(&self, words: Words) -> Result<Reply> {
        match self.run(words.clone()).await {
            // Its own calls may keep the pool busy for longer than the deadline.
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

/// Makes the pool's connections.
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
            // A call on it was cancelled, or the server has closed it meanwhile.
            false => Err(RecycleError::message("not usable")),
        }
    }
}
