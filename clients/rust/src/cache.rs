//! Defines the trait that all caches implement.

use std::time::Duration;

use async_trait::async_trait;

use crate::command::{Batch, Reply};
use crate::computing;
use crate::error::Result;
use crate::lease::Lease;
use crate::set_options::SetOptions;
use crate::subscription::Subscription;

/// Keeps other crates from implementing [`Cache`].
pub(crate) mod sealed {
    #[allow(
        unnameable_types,
        reason = "the trait is sealed by this type's privacy"
    )]
    pub trait Sealed {}
}

/// A cache in shared memory or on a server. Any number of tasks can share it.
/// [`cache`](crate::cache()) opens the cache that a URL names.
///
/// Dropping a call's future cancels the call: the cache stays usable, and no call receives another
/// call's reply. A call that was cancelled or that timed out may still have been executed.
///
/// ```
/// use undercroft::{Cache, SetOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> undercroft::Result<()> {
/// # let directory = undercroft_testkit::fresh::directory();
/// # let url = format!("undercroft://{}/store", directory.path().display());
/// async fn greet(cache: &dyn Cache) -> undercroft::Result<String> {
///     cache.set(b"greeting", b"hello").await?;
///     let greeting = cache.get(b"greeting").await?.unwrap_or_default();
///     Ok(String::from_utf8_lossy(&greeting).into_owned())
/// }
/// let cache = undercroft::cache(&url)?; // undercroft://sessions, redis://localhost, ...
/// assert_eq!(greet(&*cache).await?, "hello");
/// # Ok(())
/// # }
/// ```
///
/// The trait is sealed: later versions add methods to it. Tests that need a cache without a store or
/// a server use a [`MockCache`](crate::MockCache).
#[async_trait]
pub trait Cache: sealed::Sealed + Send + Sync {
    /// Returns the string value of a key, or `None` if the key does not exist.
    ///
    /// ```
    /// # use undercroft::Cache;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// assert_eq!(cache.get(b"key").await?, None);
    /// # Ok(())
    /// # }
    /// ```
    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Returns the string values of several keys in one atomic read, with `None` for keys that are
    /// missing or hold a value of another type.
    ///
    /// ```
    /// # use undercroft::{Cache, SetOptions};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// cache.set(b"a", b"1").await?;
    /// assert_eq!(cache.mget(&[b"a", b"b"]).await?, [Some(b"1".to_vec()), None]);
    /// # Ok(())
    /// # }
    /// ```
    async fn mget(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>>;

    /// Sets a key to a string that does not expire.
    ///
    /// ```
    /// # use undercroft::Cache;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// cache.set(b"key", b"value").await?;
    /// # Ok(())
    /// # }
    /// ```
    async fn set(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Sets a key to a string, with an expiry or a condition. Returns whether the value
    /// was set.
    ///
    /// ```
    /// use std::time::Duration;
    /// # use undercroft::{Cache, SetOptions};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// let once = SetOptions::new().ttl(Duration::from_secs(60)).if_missing();
    /// assert!(cache.set_options(b"lock", b"mine", once).await?);
    /// assert!(!cache.set_options(b"lock", b"yours", once).await?);
    /// # Ok(())
    /// # }
    /// ```
    async fn set_options(&self, key: &[u8], value: &[u8], options: SetOptions) -> Result<bool>;

    /// Sets a key to a string, and returns the previous value, or `None` if the key did not exist.
    /// With a condition, the value is set only if the condition is met.
    ///
    /// # Errors
    /// An error reply if the key holds a value of another type. Redis before 7.0 refuses
    /// [`SetOptions::if_missing`] here.
    ///
    /// ```
    /// # use undercroft::{Cache, SetOptions};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// assert_eq!(cache.set_get_old(b"key", b"new", SetOptions::new()).await?, None);
    /// let old = cache.set_get_old(b"key", b"newer", SetOptions::new()).await?;
    /// assert_eq!(old.as_deref(), Some(&b"new"[..]));
    /// # Ok(())
    /// # }
    /// ```
    async fn set_get_old(
        &self,
        key: &[u8],
        value: &[u8],
        options: SetOptions,
    ) -> Result<Option<Vec<u8>>>;

    /// Deletes keys. Returns the number of keys that existed.
    ///
    /// ```
    /// # use undercroft::{Cache, SetOptions};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// cache.set(b"key", b"value").await?;
    /// assert_eq!(cache.del(&[b"key", b"other"]).await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    async fn del(&self, keys: &[&[u8]]) -> Result<u64>;

    /// Returns the number of keys that exist. A repeated key counts each time.
    ///
    /// ```
    /// # use undercroft::{Cache, SetOptions};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// cache.set(b"key", b"value").await?;
    /// assert_eq!(cache.exists(&[b"key", b"other", b"key"]).await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    async fn exists(&self, keys: &[&[u8]]) -> Result<u64>;

    /// Sets the time after which a key expires, in whole milliseconds. Returns whether the key
    /// exists. A time below 1 ms deletes the key.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the time is 2^62 ms or longer.
    ///
    /// ```
    /// use std::time::Duration;
    /// # use undercroft::{Cache, SetOptions};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// cache.set(b"key", b"value").await?;
    /// assert!(cache.expire(b"key", Duration::from_secs(60)).await?);
    /// assert!(!cache.expire(b"other", Duration::from_secs(60)).await?);
    /// # Ok(())
    /// # }
    /// ```
    async fn expire(&self, key: &[u8], after: Duration) -> Result<bool>;

    /// Returns the remaining time until a key expires, or `None` if the key is missing or does not
    /// expire.
    ///
    /// ```
    /// use std::time::Duration;
    /// # use undercroft::{Cache, SetOptions};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// let minute = SetOptions::new().ttl(Duration::from_secs(60));
    /// cache.set_options(b"key", b"value", minute).await?;
    /// assert!(cache.ttl(b"key").await?.expect("it expires") <= Duration::from_secs(60));
    /// assert_eq!(cache.ttl(b"other").await?, None);
    /// # Ok(())
    /// # }
    /// ```
    async fn ttl(&self, key: &[u8]) -> Result<Option<Duration>>;

    /// Adds to the integer value of a key. A missing key counts as 0. Returns the sum.
    ///
    /// # Errors
    /// An error reply if the value is not an integer, or if the sum exceeds 64 bits.
    ///
    /// ```
    /// # use undercroft::Cache;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// assert_eq!(cache.incr(b"visits", 1).await?, 1);
    /// assert_eq!(cache.incr(b"visits", -3).await?, -2);
    /// # Ok(())
    /// # }
    /// ```
    async fn incr(&self, key: &[u8], delta: i64) -> Result<i64>;

    /// Runs any command, given as its name and arguments, except commands that change the state of
    /// a connection, such as MULTI, because callers share the connections.
    ///
    /// A command that waits for keys, such as BLPOP, blocks all other calls on the same connection
    /// of a `PipelinedCache`, and a [`StoreCache`](crate::StoreCache) refuses it. A `ClusterCache`
    /// sends a command to the node that serves its keys.
    ///
    /// If a call to a server is dropped before its reply arrives, or if its deadline passes, an item
    /// that a command such as LPOP removed is lost. With LMOVE and XREADGROUP, the item remains on
    /// the server.
    ///
    /// # Errors
    /// An error reply is returned as [`Error::Reply`](crate::Error::Reply).
    ///
    /// ```
    /// # use undercroft::Cache;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// assert_eq!(cache.command(&[b"RPUSH", b"jobs", b"a", b"b"]).await?.to::<i64>()?, 2);
    /// assert!(cache.command(&[b"MULTI"]).await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    async fn command(&self, words: &[&[u8]]) -> Result<Reply>;

    /// Acquires the lease on a key for `term`, unless another caller holds it. The lease is the
    /// right to compute the key's value. Dropping the lease releases it.
    ///
    /// [`GetOrInsert`](crate::GetOrInsert) is built on leases. Use them directly for cases that it
    /// does not cover.
    ///
    /// ```
    /// use std::time::Duration;
    /// # use undercroft::Cache;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// let term = Duration::from_secs(10);
    /// let lease = cache.take_lease(b"page", term).await?;
    /// assert!(lease.is_some());
    /// assert!(cache.take_lease(b"page", term).await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    async fn take_lease(&self, key: &[u8], term: Duration) -> Result<Option<Lease>>;

    /// Atomically stores a leased key's value and releases the lease. Returns false, without
    /// storing anything, if the lease has expired. A condition in the options is ignored.
    ///
    /// ```
    /// use std::time::Duration;
    /// # use undercroft::{Cache, SetOptions};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// if let Some(lease) = cache.take_lease(b"page", Duration::from_secs(10)).await? {
    ///     assert!(cache.set_leased(lease, b"<html>", SetOptions::new()).await?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    async fn set_leased(&self, lease: Lease, value: &[u8], options: SetOptions) -> Result<bool>;

    /// Publishes a message to all subscribers of a channel. Returns the number of subscribers that
    /// received it.
    ///
    /// ```
    /// # use undercroft::Cache;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// assert_eq!(cache.publish(b"news", b"hello").await?, 0);
    /// # Ok(())
    /// # }
    /// ```
    async fn publish(&self, channel: &[u8], message: &[u8]) -> Result<u64>;

    /// Subscribes to channels. The subscription receives every message that is published after the
    /// call returns.
    ///
    /// ```
    /// use undercroft::Event;
    /// # use undercroft::Cache;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// let mut news = cache.subscribe(&[b"news"]).await?;
    /// cache.publish(b"news", b"hello").await?;
    /// let Some(Event::Message(message)) = news.next().await.transpose()? else { panic!() };
    /// assert_eq!(message.payload, b"hello");
    /// # Ok(())
    /// # }
    /// ```
    async fn subscribe(&self, channels: &[&[u8]]) -> Result<Subscription>;

    /// Subscribes to all channels that match at least one of the patterns.
    ///
    /// ```
    /// use undercroft::Event;
    /// # use undercroft::Cache;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// let mut news = cache.psubscribe(&[b"news.*"]).await?;
    /// cache.publish(b"news.local", b"hello").await?;
    /// let Some(Event::Message(message)) = news.next().await.transpose()? else { panic!() };
    /// assert_eq!(message.channel, b"news.local");
    /// assert_eq!(message.pattern.as_deref(), Some(&b"news.*"[..]));
    /// # Ok(())
    /// # }
    /// ```
    async fn psubscribe(&self, patterns: &[&[u8]]) -> Result<Subscription>;

    /// Runs the commands of a pipeline. Returns the array of their replies.
    #[doc(hidden)]
    async fn run_batch(&self, batch: &Batch<'_>) -> Result<Reply>;

    /// Returns a number that identifies the key space of this cache. Calls use it to detect a
    /// computation that requests its own key through another handle.
    #[doc(hidden)]
    fn place(&self) -> u64 {
        computing::keys(std::ptr::from_ref(self).cast::<()>())
    }

    /// Closes the cache: new calls fail with [`Error::Closed`](crate::Error::Closed), and calls in
    /// progress complete first.
    ///
    /// ```
    /// # use undercroft::Cache;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// cache.close().await;
    /// assert!(matches!(cache.get(b"key").await, Err(undercroft::Error::Closed)));
    /// # Ok(())
    /// # }
    /// ```
    async fn close(&self);
}
