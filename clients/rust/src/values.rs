//! Stores values of types that implement serde's traits, in JSON format.

use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;
use undercroft_engine::leases::Cached;

use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::set_options::SetOptions;

/// Reads and writes typed values in any cache, including `dyn Cache`. Requires the crate's `serde`
/// feature.
///
/// Values are stored as JSON, which programs in all languages can read. If no other program reads
/// the values, a more compact format, stored with [`Cache::set`], takes less space.
///
/// ```
/// use undercroft::{CacheExt, SetOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> undercroft::Result<()> {
/// # let directory = undercroft_testkit::fresh::directory();
/// # let url = format!("undercroft://{}/store", directory.path().display());
/// let cache = undercroft::cache(&url)?; // undercroft://sessions, redis://localhost, ...
/// cache.set_as(b"born", &("Ada", 1815), SetOptions::new()).await?;
/// let (name, year): (String, u16) = cache.get_as(b"born").await?.expect("it was set");
/// assert_eq!((&*name, year), ("Ada", 1815));
/// # Ok(())
/// # }
/// ```
pub trait CacheExt: Cache {
    /// Returns the value of a key. The header that [`Caching::stale`](crate::Caching::stale) and
    /// [`early`](crate::Caching::early) add is skipped.
    ///
    /// # Errors
    /// [`Error::Value`] if the string is not JSON or does not have the expected type.
    ///
    /// ```
    /// # use undercroft::{Cache, CacheExt, SetOptions};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// cache.set(b"sizes", b"[1, 2]").await?;
    /// assert_eq!(cache.get_as(b"sizes").await?, Some(vec![1, 2]));
    /// let error = cache.get_as::<bool>(b"sizes").await.unwrap_err();
    /// assert!(matches!(error, undercroft::Error::Value(_)));
    /// # Ok(())
    /// # }
    /// ```
    fn get_as<T>(&self, key: &[u8]) -> impl Future<Output = Result<Option<T>>> + Send
    where
        T: DeserializeOwned + Send,
    {
        async move {
            let found = self.get(key).await?;
            let read = |text: Vec<u8>| {
                // JSON never starts with the bytes of the header.
                serde_json::from_slice(&text[Cached::of(&text).start..]).map_err(|error| {
                    Error::value(format!(
                        "expected a {} in JSON: {error}",
                        std::any::type_name::<T>()
                    ))
                })
            };
            found.map(read).transpose()
        }
    }

    /// Sets a key to a value, like [`Cache::set`]. Returns whether the value was set.
    ///
    /// # Errors
    /// [`Error::Value`] if the value cannot be written as JSON. In that case nothing is set.
    ///
    /// ```
    /// # use undercroft::{CacheExt, SetOptions};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// assert!(cache.set_as(b"sizes", &[1, 2], SetOptions::new().if_missing()).await?);
    /// assert!(!cache.set_as(b"sizes", &[3], SetOptions::new().if_missing()).await?);
    /// # Ok(())
    /// # }
    /// ```
    fn set_as<T>(
        &self,
        key: &[u8],
        value: &T,
        options: SetOptions,
    ) -> impl Future<Output = Result<bool>> + Send
    where
        T: Serialize + Sync + ?Sized,
    {
        async move {
            let text = serde_json::to_vec(value).map_err(|error| {
                let name = std::any::type_name::<T>();
                Error::value(format!(
                    "expected a {name} that can be written as JSON: {error}"
                ))
            })?;
            self.set_options(key, &text, options).await
        }
    }
}

impl<C: Cache + ?Sized> CacheExt for C {}
