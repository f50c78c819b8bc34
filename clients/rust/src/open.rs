//! Opens the cache that a URL names.

use std::sync::Arc;

use crate::address::Address;
use crate::cache::Cache;
use crate::error::Result;
use crate::options::CacheOptions;
#[cfg(feature = "cluster")]
use crate::remote::ClusterCache;
use crate::remote::PipelinedCache;
use crate::store_cache::StoreCache;

/// Opens the cache that a URL names.
///
/// - A store in shared memory (`undercroft://name`, `undercroft:///path` or a path) is a
///   [`StoreCache`].
/// - A server (`redis://`, `rediss://`, `unix://`) is a [`PipelinedCache`], which connects in the
///   background.
/// - A list of cluster nodes (`redis+cluster://host:port,host:port`) is a `ClusterCache`, which
///   requires the `cluster` feature.
///
/// # Errors
/// [`Error::Url`](crate::Error::Url) if the URL is invalid, and [`Error::Open`](crate::Error::Open)
/// if a store cannot be opened.
///
/// ```
/// # use undercroft::SetOptions;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> undercroft::Result<()> {
/// # let directory = undercroft_testkit::fresh::directory();
/// # let url = format!("undercroft://{}/store", directory.path().display());
/// let cache = undercroft::cache(&url)?; // undercroft://sessions, redis://:password@host:6379/0, unix:///run/redis.sock
/// cache.set(b"key", b"value").await?;
/// # Ok(())
/// # }
/// ```
pub fn cache(url: &str) -> Result<Arc<dyn Cache>> {
    cache_with(url, CacheOptions::new())
}

/// Like [`cache`], with options for a server.
///
/// # Errors
/// The errors of [`cache`].
///
/// ```
/// use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> undercroft::Result<()> {
/// let options = undercroft::CacheOptions::new().deadline(Duration::from_millis(50));
/// let cache = undercroft::cache_with("unix:///nowhere/redis.sock", options)?;
/// assert!(cache.get(b"key").await.unwrap_err().is_connection());
/// # Ok(())
/// # }
/// ```
pub fn cache_with(url: &str, options: CacheOptions) -> Result<Arc<dyn Cache>> {
    Ok(match Address::parse(url)? {
        Address::Store => Arc::new(StoreCache::open(url)?),
        #[cfg(feature = "cluster")]
        Address::Cluster(servers) => Arc::new(ClusterCache::on(servers, options)?),
        Address::Server(server) => Arc::new(PipelinedCache::on(server, options)?),
    })
}
