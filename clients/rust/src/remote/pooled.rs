//! The cache on connections that callers take turns with.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{Manager, Metrics, Pool, PoolError, RecycleError, RecycleResult};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::address::Server;
use crate::error::{Error, Result};
use crate::options::CacheOptions;
use crate::remote::commands::{remote_cache, shared};
use crate::remote::connection::Connection;
use crate::remote::lease::Words;
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
    calls: Semaphore,
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
            calls: Semaphore::new(CALLS_MAX as usize),
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
            let mut connection = self.pool.get().await.map_err(refused)?;
            connection.call(words).await
        };
        match timeout(deadline, call).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::TimedOut(deadline)),
        }
    }

    /// What runs a command behind the caller's back, where there is a runtime, and whatever it answers.
    fn background(&self) -> impl Fn(Words) + Send + Sync + 'static {
        let (pool, deadline) = (self.pool.clone(), self.options.deadline);
        move |words| {
            let pool = pool.clone();
            if let Ok(runtime) = Handle::try_current() {
                runtime.spawn(timeout(deadline, async move {
                    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                    if let Ok(mut connection) = pool.get().await {
                        drop(connection.call(&words).await);
                    }
                }));
            }
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
