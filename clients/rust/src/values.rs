//! Stores values of types that implement serde's traits, in JSON format.

#[cfg(feature = "async")]
use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;
use undercroft_engine::leases::Cached;

#[cfg(feature = "async")]
use crate::cache::Cache;
use crate::caching::Caching;
use crate::command::ToSingleArg;
use crate::error::{Error, Result};
#[cfg(feature = "async")]
use crate::get_or_insert::GetOrInsert;
use crate::set_options::SetOptions;
use crate::store::Store;

fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| {
        let name = std::any::type_name::<T>();
        Error::value(format!(
            "expected a {name} that can be written as JSON: {error}"
        ))
    })
}

/// Reads a value, and skips the header of a cached value. JSON never starts with its bytes.
fn from_json<T: DeserializeOwned>(text: &[u8]) -> Result<T> {
    serde_json::from_slice(&text[Cached::of(text).start..]).map_err(|error| {
        let name = std::any::type_name::<T>();
        Error::value(format!("expected a {name} in JSON: {error}"))
    })
}

impl Store {
    /// Returns the value of a key, which is stored as JSON. Requires the crate's `serde` feature.
    /// The header that [`Caching::stale`] and [`early`](Caching::early) add is skipped.
    ///
    /// # Errors
    /// [`Error::Value`] if the string is not JSON or does not have the expected type, and the errors
    /// of [`get`](Self::get).
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.set("sizes", "[1, 2]")?;
    /// assert_eq!(store.get_as::<Vec<u8>>("sizes")?, Some(vec![1, 2]));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn get_as<T: DeserializeOwned>(&self, key: impl ToSingleArg) -> Result<Option<T>> {
        self.get_ref(key, from_json)?.transpose()
    }

    /// Sets a key to a value, which is stored as JSON. Requires the crate's `serde` feature. Returns
    /// whether the value was set.
    ///
    /// # Errors
    /// [`Error::Value`] if the value cannot be written as JSON, and the errors of
    /// [`set_options`](Self::set_options).
    ///
    /// ```
    /// use undercroft::SetOptions;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert!(store.set_as("sizes", &[1, 2], SetOptions::new().if_missing())?);
    /// assert_eq!(store.get("sizes")?.as_deref(), Some(&b"[1,2]"[..]));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn set_as<T: Serialize + ?Sized>(
        &self,
        key: impl ToSingleArg,
        value: &T,
        options: SetOptions,
    ) -> Result<bool> {
        self.set_options(key, to_json(value)?, options)
    }

    /// Returns the value of a key, which is stored as JSON. If the key does not exist, computes the
    /// value with `compute` and stores it, like [`get_or_insert_with`](Self::get_or_insert_with).
    /// Requires the crate's `serde` feature.
    ///
    /// # Errors
    /// [`Error::Value`] if the stored value does not have the expected type, or if the computed value
    /// cannot be written as JSON, and the errors of `get_or_insert_with`.
    ///
    /// ```
    /// use undercroft::Caching;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let caching = Caching::new();
    /// let born: (String, u16) = store.get_or_insert_as("born", &caching, || ("Ada".into(), 1815))?;
    /// assert_eq!(store.get_as("born")?, Some(born));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn get_or_insert_as<T: Serialize + DeserializeOwned>(
        &self,
        key: impl ToSingleArg,
        caching: &Caching,
        compute: impl FnOnce() -> T,
    ) -> Result<T> {
        let text = self.try_get_or_insert_with(key, caching, || to_json(&compute()))?;
        from_json(&text)
    }
}

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
#[cfg(feature = "async")]
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
            self.get(key)
                .await?
                .map(|text| from_json(&text))
                .transpose()
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
            let text = to_json(value)?;
            self.set_options(key, &text, options).await
        }
    }

    /// Returns the value of a key. If the key does not exist, computes the value with `compute` and
    /// stores it, like [`get_or_insert_with`](GetOrInsert::get_or_insert_with).
    ///
    /// # Errors
    /// [`Error::Value`] if the stored value does not have the expected type, or if the computed value
    /// cannot be written as JSON, and the errors of `get_or_insert_with`.
    ///
    /// ```
    /// use undercroft::{CacheExt, Caching};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// let caching = Caching::new();
    /// let sizes = cache.get_or_insert_as(b"sizes", &caching, async || vec![1, 2]);
    /// assert_eq!(sizes.await?, [1, 2]);
    /// assert_eq!(cache.get_as::<Vec<u8>>(b"sizes").await?, Some(vec![1, 2]));
    /// # Ok(())
    /// # }
    /// ```
    fn get_or_insert_as<T, F, M>(
        &self,
        key: &[u8],
        caching: &Caching,
        compute: F,
    ) -> impl Future<Output = Result<T>> + Send
    where
        T: Serialize + DeserializeOwned + Send,
        F: FnOnce() -> M + Send,
        M: Future<Output = T> + Send,
    {
        async move {
            let compute = || async { to_json(&compute().await) };
            let text = self.try_get_or_insert_with(key, caching, compute).await?;
            from_json(&text)
        }
    }
}

#[cfg(feature = "async")]
impl<C: Cache + ?Sized> CacheExt for C {}
