//! Defines the trait that all caches implement.

use std::time::Duration;

use async_trait::async_trait;

use crate::computing;
use crate::error::Result;
use crate::lease::Lease;
use crate::set_options::SetOptions;
use crate::subscription::Subscription;

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
///     cache.set(b"greeting", b"hello", SetOptions::new()).await?;
///     let greeting = cache.get(b"greeting").await?.unwrap_or_default();
///     Ok(String::from_utf8_lossy(&greeting).into_owned())
/// }
/// let cache = undercroft::cache(&url)?; // undercroft://sessions, redis://localhost, ...
/// assert_eq!(greet(&*cache).await?, "hello");
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Cache: Send + Sync {
    /// Returns the string value of a key, or `None` if the key does not exist.
    ///
    /// ```
    /// # use undercroft::Cache;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::at(directory.path().join("store"))?;
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
    /// # let cache = undercroft::StoreCache::at(directory.path().join("store"))?;
    /// cache.set(b"a", b"1", SetOptions::new()).await?;
    /// assert_eq!(cache.get_many(&[b"a", b"b"]).await?, [Some(b"1".to_vec()), None]);
    /// # Ok(())
    /// # }
    /// ```
    async fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>>;

    /// Sets a key to a string, optionally with an expiry or a condition. Returns whether the value
    /// was set.
    ///
    /// ```
    /// use std::time::Duration;
    /// # use undercroft::{Cache, SetOptions};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::at(directory.path().join("store"))?;
    /// let once = SetOptions::new().ttl(Duration::from_secs(60)).if_missing();
    /// assert!(cache.set(b"lock", b"mine", once).await?);
    /// assert!(!cache.set(b"lock", b"yours", once).await?);
    /// # Ok(())
    /// # }
    /// ```
    async fn set(&self, key: &[u8], value: &[u8], options: SetOptions) -> Result<bool>;

    /// Deletes keys. Returns the number of keys that existed.
    ///
    /// ```
    /// # use undercroft::{Cache, SetOptions};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::at(directory.path().join("store"))?;
    /// cache.set(b"key", b"value", SetOptions::new()).await?;
    /// assert_eq!(cache.delete(&[b"key", b"other"]).await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    async fn delete(&self, keys: &[&[u8]]) -> Result<u64>;

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
    /// # let cache = undercroft::StoreCache::at(directory.path().join("store"))?;
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
    /// # let cache = undercroft::StoreCache::at(directory.path().join("store"))?;
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
    /// # let cache = undercroft::StoreCache::at(directory.path().join("store"))?;
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
    /// # let cache = undercroft::StoreCache::at(directory.path().join("store"))?;
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
    /// # let cache = undercroft::StoreCache::at(directory.path().join("store"))?;
    /// let mut news = cache.subscribe_to_patterns(&[b"news.*"]).await?;
    /// cache.publish(b"news.local", b"hello").await?;
    /// let Some(Event::Message(message)) = news.next().await.transpose()? else { panic!() };
    /// assert_eq!(message.channel, b"news.local");
    /// assert_eq!(message.pattern.as_deref(), Some(&b"news.*"[..]));
    /// # Ok(())
    /// # }
    /// ```
    async fn subscribe_to_patterns(&self, patterns: &[&[u8]]) -> Result<Subscription>;

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
    /// # let cache = undercroft::StoreCache::at(directory.path().join("store"))?;
    /// cache.close().await;
    /// assert!(matches!(cache.get(b"key").await, Err(undercroft::Error::Closed)));
    /// # Ok(())
    /// # }
    /// ```
    async fn close(&self);
}
