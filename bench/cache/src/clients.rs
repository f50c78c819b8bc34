//! The measured clients, from the undercroft crate and from its competitors, each used as its
//! documentation recommends.

use std::future::Future;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use fred::bytes::Bytes;
use fred::interfaces::{ClientLike, KeysInterface};
use redis::AsyncCommands;
use undercroft::{Cache, CacheOptions, PipelinedCache, PooledCache, StoreCache};

use crate::{Failure, Server};

/// The key that all callers request.
pub const KEY: &str = "bench:value";
/// The number of connections in each pool.
const POOLED: usize = 16;
/// The number of connections in each fixed set.
const FIXED: usize = 4;

/// A measured client that can request the benchmark's value.
pub trait Client: Send + Sync + 'static {
    /// Requests the value and returns its length.
    fn get(&self) -> impl Future<Output = Result<usize, Failure>> + Send;
}

/// The names of all measured clients.
pub const NAMES: &[&str] = &[
    "PipelinedCache",
    "PipelinedCache, 4",
    "PooledCache",
    "StoreCache",
    "redis-rs multiplexed",
    "fred",
    "redis-async",
    "redis-async, 4",
    "deadpool-redis",
    "bb8-redis",
    "r2d2",
];

/// Connects the named client and evaluates an expression with it.
#[macro_export]
macro_rules! with_client {
    ($name:expr, $server:expr, $store:expr, $client:ident => $body:expr) => {{
        use $crate::clients as all;
        let (server, store): (&$crate::Server, &std::path::Path) = ($server, $store);
        match $name {
            "PipelinedCache" => with_client!(@ all::pipelined(server, 1)?, $client, $body),
            "PipelinedCache, 4" => with_client!(@ all::pipelined(server, 4)?, $client, $body),
            "PooledCache" => with_client!(@ all::pooled(server)?, $client, $body),
            "StoreCache" => with_client!(@ all::store(store)?, $client, $body),
            "redis-rs multiplexed" => with_client!(@ all::multiplexed(server).await?, $client, $body),
            "fred" => with_client!(@ all::fred(server).await?, $client, $body),
            "redis-async" => with_client!(@ all::redis_async(server, false).await?, $client, $body),
            "redis-async, 4" => with_client!(@ all::redis_async(server, true).await?, $client, $body),
            "deadpool-redis" => with_client!(@ all::deadpool(server)?, $client, $body),
            "bb8-redis" => with_client!(@ all::bb8(server).await?, $client, $body),
            "r2d2" => with_client!(@ all::r2d2(server)?, $client, $body),
            other => Err(format!("expected a client's name, got {other}").into()),
        }
    }};
    (@ $make:expr, $client:ident, $body:expr) => {{
        let $client = std::sync::Arc::new($make);
        $body
    }};
}

/// Sets the value in the store and on the server.
pub async fn fill(server: &Server, store: &Path, value: &[u8]) -> Result<(), Failure> {
    let cache = StoreCache::open_path(store)?;
    cache.set(KEY.as_bytes(), value).await?;
    let cache = undercroft::cache(&server.url())?;
    cache.set(KEY.as_bytes(), value).await?;
    Ok(())
}

fn length<T: AsRef<[u8]>>(value: Option<T>) -> usize {
    value.map_or(0, |value| value.as_ref().len())
}

/// A cache of the `undercroft` crate.
pub struct Ours<C>(C);

impl<C: Cache + 'static> Client for Ours<C> {
    async fn get(&self) -> Result<usize, Failure> {
        Ok(length(self.0.get(KEY.as_bytes()).await?))
    }
}

/// Opens Undercroft's pipelined cache with this number of shared connections.
pub fn pipelined(server: &Server, connections: usize) -> Result<Ours<PipelinedCache>, Failure> {
    let options = CacheOptions::new().connections(connections);
    Ok(Ours(PipelinedCache::open(&server.url(), options)?))
}

/// Opens Undercroft's pooled cache, in which each connection serves one caller at a time.
pub fn pooled(server: &Server) -> Result<Ours<PooledCache>, Failure> {
    let options = CacheOptions::new().connections(POOLED);
    Ok(Ours(PooledCache::open(&server.url(), options)?))
}

/// Opens Undercroft's cache in shared memory.
pub fn store(path: &Path) -> Result<Ours<StoreCache>, Failure> {
    Ok(Ours(StoreCache::open_path(path)?))
}

/// A redis-rs client with one connection that all callers share.
pub struct Multiplexed(redis::aio::MultiplexedConnection);

impl Client for Multiplexed {
    async fn get(&self) -> Result<usize, Failure> {
        let value: Option<Vec<u8>> = self.0.clone().get(KEY).await?;
        Ok(length(value))
    }
}

/// Connects redis-rs to the server.
pub async fn multiplexed(server: &Server) -> Result<Multiplexed, Failure> {
    let client = redis::Client::open(server.url())?;
    let connection = client.get_multiplexed_async_connection().await?;
    Ok(Multiplexed(connection))
}

/// A fred client with one connection that all callers share.
pub struct Fred(fred::clients::Client);

impl Client for Fred {
    async fn get(&self) -> Result<usize, Failure> {
        let value: Option<Bytes> = self.0.get(KEY).await?;
        Ok(length(value))
    }
}

/// Connects fred to the server.
pub async fn fred(server: &Server) -> Result<Fred, Failure> {
    let config = fred::types::config::Config::from_url(&server.fred_url())?;
    let client = fred::types::Builder::from_config(config).build()?;
    client.init().await?;
    Ok(Fred(client))
}

/// A redis-async client with one shared connection or a fixed set of connections.
pub struct RedisAsync {
    connections: Vec<redis_async::client::PairedConnection>,
    turn: AtomicUsize,
}

impl Client for RedisAsync {
    async fn get(&self) -> Result<usize, Failure> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.connections.len();
        let command = redis_async::resp_array!["GET", KEY];
        let value: Option<Vec<u8>> = self.connections[turn].send(command).await?;
        Ok(length(value))
    }
}

/// Connects redis-async, which does not support unix sockets.
pub async fn redis_async(server: &Server, is_set: bool) -> Result<RedisAsync, Failure> {
    let port = server.port.ok_or("redis-async knows TCP only")?;
    let mut connections = Vec::new();
    for _ in 0..if is_set { FIXED } else { 1 } {
        connections.push(redis_async::client::paired_connect("127.0.0.1", port).await?);
    }
    Ok(RedisAsync {
        connections,
        turn: AtomicUsize::new(0),
    })
}

/// A deadpool-redis connection pool.
pub struct Deadpool(deadpool_redis::Pool);

impl Client for Deadpool {
    async fn get(&self) -> Result<usize, Failure> {
        let mut connection = self.0.get().await?;
        let value: Option<Vec<u8>> = connection.get(KEY).await?;
        Ok(length(value))
    }
}

/// Creates a deadpool-redis connection pool.
pub fn deadpool(server: &Server) -> Result<Deadpool, Failure> {
    let mut config = deadpool_redis::Config::from_url(server.url());
    config.pool = Some(deadpool_redis::PoolConfig::new(POOLED));
    let pool = config.create_pool(Some(deadpool_redis::Runtime::Tokio1))?;
    Ok(Deadpool(pool))
}

/// A bb8-redis connection pool.
pub struct Bb8(bb8_redis::bb8::Pool<bb8_redis::RedisConnectionManager>);

impl Client for Bb8 {
    async fn get(&self) -> Result<usize, Failure> {
        let mut connection = self.0.get().await?;
        let value: Option<Vec<u8>> = connection.get(KEY).await?;
        Ok(length(value))
    }
}

/// Creates a bb8-redis connection pool.
pub async fn bb8(server: &Server) -> Result<Bb8, Failure> {
    let manager = bb8_redis::RedisConnectionManager::new(server.url())?;
    let pool = bb8_redis::bb8::Pool::builder().max_size(POOLED as u32);
    Ok(Bb8(pool.build(manager).await?))
}

/// An r2d2 pool of redis-rs connections, whose calls run on the runtime's blocking threads.
pub struct R2d2(r2d2::Pool<redis::Client>);

impl Client for R2d2 {
    async fn get(&self) -> Result<usize, Failure> {
        let pool = self.0.clone();
        let call = move || -> Result<Option<Vec<u8>>, Failure> {
            let mut connection = pool.get()?;
            Ok(redis::Commands::get(&mut *connection, KEY)?)
        };
        Ok(length(tokio::task::spawn_blocking(call).await??))
    }
}

/// Creates an r2d2 connection pool.
pub fn r2d2(server: &Server) -> Result<R2d2, Failure> {
    let client = redis::Client::open(server.url())?;
    let pool = r2d2::Pool::builder().max_size(POOLED as u32);
    Ok(R2d2(pool.build(client)?))
}
