//! Implements the cache on a Redis Cluster. The redis-rs crate tracks which node serves a key, and
//! follows redirections.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::ErrorKind;
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::timeout;

use crate::address::{Place, Server};
use crate::command::{Args, Batch, Reply, ToArgs, from_redis, outcome};
use crate::error::{Error, Result};
use crate::options::CacheOptions;
use crate::remote::commands::{Words, remote_cache, shared};
use crate::remote::lease::{Errands, borrowed};
use crate::remote::receiver;
use crate::subscription::Subscription;

/// The maximum number of concurrent calls. Further calls wait.
const CALLS_MAX: u32 = 1 << 16;

/// A cache on a Redis Cluster, accessed through the cluster client of the `redis` crate. Requires
/// the `cluster` feature.
///
/// A call may name keys in several slots. It sends one request to each node that serves some of the
/// keys, so `mget` is atomic only per node. If a node fails, the calls for its keys fail with
/// connection errors, and all other calls continue. When the cluster moves slots to another node,
/// calls are redirected to that node. The cache connects to a node when it is first needed, and all
/// callers share that connection, so [`CacheOptions::connections`] has no effect here.
///
/// ```no_run
/// use undercroft::{Cache, CacheOptions, ClusterCache};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> undercroft::Result<()> {
/// let cache = ClusterCache::open("redis+cluster://one:6379,other:6379", CacheOptions::new())?;
/// cache.set(b"key", b"value").await?;
/// assert_eq!(cache.mget(&[b"key", b"other"]).await?.len(), 2);
/// # Ok(())
/// # }
/// ```
pub struct ClusterCache {
    link: Arc<Link>,
    is_closed: AtomicBool,
    options: CacheOptions,
}

/// The connection to a cluster, shared with tasks that outlive their calls.
struct Link {
    servers: Vec<Arc<Server>>,
    connection: OnceCell<ClusterConnection>,
    /// Counts the calls in progress, each of which owns a permit (see `end`).
    calls: Semaphore,
    options: CacheOptions,
}

impl ClusterCache {
    /// Creates a cache on a cluster from a `redis+cluster://` URL that lists some of the cluster's
    /// nodes. The first call connects.
    ///
    /// # Errors
    /// [`Error::Url`] if the URL is invalid, and [`Error::NoRuntime`] outside of a Tokio runtime.
    ///
    /// ```
    /// use undercroft::{CacheOptions, ClusterCache, Error};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// let cache = ClusterCache::open("redis+cluster://:secret@one:6379,other:6379", CacheOptions::new())?;
    /// let error = ClusterCache::open("redis+cluster://one/3", CacheOptions::new()).unwrap_err();
    /// assert!(matches!(error, Error::Url(_)), "clusters have one database");
    /// # Ok(())
    /// # }
    /// ```
    pub fn open(url: &str, options: CacheOptions) -> Result<ClusterCache> {
        ClusterCache::on(Server::parse_cluster(url)?, options)
    }

    pub(crate) fn on(servers: Vec<Server>, options: CacheOptions) -> Result<ClusterCache> {
        Handle::try_current().map_err(|_| Error::NoRuntime)?;
        Ok(ClusterCache {
            link: Arc::new(Link {
                servers: servers.into_iter().map(Arc::new).collect(),
                connection: OnceCell::new(),
                calls: Semaphore::new(CALLS_MAX as usize),
                options,
            }),
            is_closed: AtomicBool::new(false),
            options,
        })
    }

    /// Runs any command, given as its name and arguments, except commands that change the state of
    /// the shared connection. The command is sent to the node that serves its keys. A command
    /// without keys is sent to one node or to all nodes, depending on the command.
    ///
    /// If a call is dropped before its reply arrives, or if its deadline passes, an item that a
    /// command such as LPOP or BLPOP removed is lost. With LMOVE, BLMOVE and XREADGROUP, the item
    /// remains on the server.
    ///
    /// # Errors
    /// An error reply is returned as [`Error::Reply`].
    ///
    /// ```no_run
    /// # use undercroft::{CacheOptions, ClusterCache};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// let cache = ClusterCache::open("redis+cluster://one:6379", CacheOptions::new())?;
    /// assert!(cache.command(&["INCR", "visits"]).await?.to::<i64>()? > 0);
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
        self.link.call(words).await
    }

    /// Runs the commands of a pipeline. A transaction runs on the node that serves its keys, which
    /// must belong to one slot.
    async fn batch(&self, batch: &Batch<'_>) -> Result<Reply> {
        if batch.atomic {
            return self.link.transaction(batch).await;
        }
        // One after another, because commands on different nodes have no order.
        let mut replies = Vec::with_capacity(batch.commands.len());
        for words in &batch.commands {
            replies.push(self.link.call(words).await);
        }
        batch.reply(replies)
    }

    fn errands(&self) -> ClusterErrands {
        ClusterErrands(self.link.clone())
    }

    fn server(&self) -> &Server {
        &self.link.servers[0]
    }

    /// Subscribes on any node. Each node delivers all messages, because a cluster broadcasts
    /// messages to all of its nodes.
    async fn receive(&self, command: &'static [u8], names: &[&[u8]]) -> Result<Subscription> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(Error::Closed);
        }
        receiver::subscribe(self.link.servers.clone(), self.options, command, names).await
    }

    async fn end(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        // Each call in progress returns its permit when it ends.
        let all = self.link.calls.acquire_many(CALLS_MAX);
        let ended = timeout(self.options.deadline, all).await;
        self.link.calls.close();
        drop(ended);
    }
}

remote_cache!(ClusterCache);

impl Link {
    async fn call(&self, words: &[&[u8]]) -> Result<Reply> {
        let counted = async {
            let _counted = self.calls.acquire().await.map_err(|_| Error::Closed)?;
            self.query(words).await
        };
        self.in_time(counted).await
    }

    async fn in_time(&self, call: impl Future<Output = Result<Reply>>) -> Result<Reply> {
        let deadline = self.options.deadline;
        match timeout(deadline, call).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::TimedOut(deadline)),
        }
    }

    async fn query(&self, words: &[&[u8]]) -> Result<Reply> {
        let connected = self.connection.get_or_try_init(|| self.connect()).await;
        let mut connection = connected?.clone();
        let command = command_of(words);
        let value = command.query_async::<redis::Value>(&mut connection).await;
        outcome(from_redis(value.map_err(|error| self.failed(error))?))
    }

    async fn transaction(&self, batch: &Batch<'_>) -> Result<Reply> {
        self.in_time(async {
            let _counted = self.calls.acquire().await.map_err(|_| Error::Closed)?;
            let connected = self.connection.get_or_try_init(|| self.connect()).await;
            let mut connection = connected?.clone();
            let mut pipeline = redis::pipe();
            pipeline.atomic();
            for words in &batch.commands {
                pipeline.add_command(command_of(words));
            }
            pipeline.ignore_errors();
            let replies = pipeline
                .query_async::<Vec<redis::Value>>(&mut connection)
                .await;
            let replies = replies.map_err(|error| self.failed(error))?;
            Ok(Reply::Array(replies.into_iter().map(from_redis).collect()))
        })
        .await
    }

    async fn connect(&self) -> Result<ClusterConnection> {
        let mut nodes = Vec::new();
        for server in &self.servers {
            if let Place::Tcp { host, port, .. } = &server.place {
                nodes.push(redis::ConnectionAddr::Tcp(host.clone(), *port));
            }
        }
        let first = &self.servers[0];
        let mut builder = ClusterClientBuilder::new(nodes)
            .connection_timeout(self.options.deadline)
            .response_timeout(self.options.deadline)
            .overall_response_timeout(Some(self.options.deadline));
        if let Some(password) = &first.password {
            builder = builder.password(password);
        }
        if let Some(user) = &first.user {
            builder = builder.username(user);
        }
        if first.resp3 {
            builder = builder.use_protocol(redis::ProtocolVersion::RESP3);
        }
        let connecting = |error| match self.failed(error) {
            Error::Lost { address, source } => Error::Connect { address, source },
            Error::Reply(reply) => Error::Refused {
                address: first.name.clone(),
                reply: reply.into(),
            },
            other => other,
        };
        let client = builder.build().map_err(connecting)?;
        client.get_async_connection().await.map_err(connecting)
    }

    /// Converts an error from redis-rs.
    fn failed(&self, error: redis::RedisError) -> Error {
        let address = self.servers[0].name.clone();
        match error.kind() {
            _ if error.is_timeout() => Error::TimedOut(self.options.deadline),
            ErrorKind::Server(_) | ErrorKind::Extension => {
                let code = error.code().unwrap_or("ERR");
                Error::reply(format!("{code} {}", error.detail().unwrap_or_default()))
            }
            ErrorKind::AuthenticationFailed => Error::Refused {
                address,
                reply: error.to_string().into(),
            },
            ErrorKind::Parse => Error::protocol(&address, error.to_string()),
            ErrorKind::Io | ErrorKind::ClusterConnectionNotFound
                if error.is_connection_refusal() =>
            {
                Error::connecting(&address, io::Error::other(error.to_string()))
            }
            _ => Error::lost(&address, io::Error::other(error.to_string())),
        }
    }
}

/// Runs lease commands on a cluster. All commands for a key use the same connection, which leads to
/// the key's node.
#[derive(Clone)]
pub(crate) struct ClusterErrands(Arc<Link>);

impl Errands for ClusterErrands {
    async fn run(&self, words: Words) -> Result<Reply> {
        self.0.call(&borrowed(&words)).await
    }

    async fn run_last(&self, words: Words) -> Result<Reply> {
        self.0.in_time(self.0.query(&borrowed(&words))).await
    }
}

fn command_of(words: &[&[u8]]) -> redis::Cmd {
    let mut command = redis::Cmd::with_capacity(words.len(), 0);
    words.iter().for_each(|word| {
        command.arg(word);
    });
    command
}

impl fmt::Debug for ClusterCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<&str> = self
            .link
            .servers
            .iter()
            .map(|server| &*server.name)
            .collect();
        f.debug_struct("ClusterCache")
            .field("nodes", &nodes)
            .finish()
    }
}
