//! The trait of all caches.

use std::time::Duration;

use async_trait::async_trait;

use crate::computing;
use crate::error::Result;
use crate::lease::Lease;
use crate::set_options::SetOptions;
use crate::subscription::Subscription;

/// A cache, wherever it is. It is shared by any number of tasks; [`cache`](crate::cache()) finds one by its URL.
///
/// Calls are cancelled by dropping them: the cache stays usable, and nobody gets another's reply. A call that was
/// cancelled, or whose time was up, may have been carried out.
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
    /// The string that a key holds.
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

    /// The strings of several keys, as they were at one moment; none where a key is missing or holds something else.
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

    /// Sets a key to a string, perhaps with an expiry or on a condition. Returns whether it did.
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

    /// Removes keys. Returns how many were there.
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

    /// Takes the lease of a key's value for a term, unless somebody has it. Dropped, it is given back.
    ///
    /// [`GetOrInsert`](crate::GetOrInsert) is made of these; they are for what that cannot do.
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

    /// Stores the value that a lease is about, and gives the lease back, at one moment. Returns false, and stores
    /// nothing, where the lease was over. A condition in the options is not looked at.
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

    /// Sends a message to all who are subscribed to a channel. Returns how many they are.
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

    /// The messages of some channels, all that are published from the return on.
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

    /// The messages of all channels that match one of some patterns.
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

    /// A number that caches with the same keys have in common, so that a computation which asks for its own key is
    /// found.
    #[doc(hidden)]
    fn place(&self) -> u64 {
        computing::keys(std::ptr::from_ref(self).cast::<()>())
    }

    /// Closes the cache: new calls fail with [`Error::Closed`](crate::Error::Closed), those under way end first.
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
