//! Computes missing values of caches. Only one caller at a time computes a given value.

use std::convert::Infallible;
use std::future::Future;
use std::time::Instant;

use tokio::time::sleep;

use crate::cache::Cache;
use crate::caching::Caching;
use crate::computed::{Failed, Wait, came_first};
use crate::computing::{expect_other, inside, inside_task};
use crate::error::{Error, Result};

/// Provides [`get_or_insert_with`](crate::Store::get_or_insert_with) for every [`Cache`].
///
/// In a store, the tasks of all processes compete for one lease. On a server, the tasks on all
/// machines compete for a lease that is itself a key: it is set only if missing (NX), it expires
/// (PX), and it is checked before a value is stored (EVAL).
///
/// ```
/// use undercroft::{Caching, GetOrInsert};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> undercroft::Result<()> {
/// # let directory = undercroft_testkit::fresh::directory();
/// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
/// let caching = Caching::new();
/// for made in ["first", "second"] {
///     let found = cache.get_or_insert_with(b"key", &caching, async || made.into());
///     assert_eq!(found.await?, b"first");
/// }
/// # Ok(())
/// # }
/// ```
pub trait GetOrInsert: Cache {
    /// Returns the string value of a key. If the key does not exist, computes the value with
    /// `compute` and stores it.
    ///
    /// Only one caller computes the value at a time. The other callers poll until the value is
    /// stored, initially after 1 ms and eventually every 50 ms. If `compute` panics or is
    /// cancelled, another caller takes over immediately, and in a [`StoreCache`](crate::StoreCache)
    /// also if the process is killed. Otherwise another caller takes over when the
    /// [`Caching::lease`] expires. A value that is computed later is returned to its caller but not
    /// stored.
    ///
    /// # Errors
    /// The errors of [`Store::get_or_insert_with`](crate::Store::get_or_insert_with).
    ///
    /// ```
    /// use std::time::Duration;
    /// use undercroft::{Caching, GetOrInsert};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let url = format!("undercroft://{}/store", directory.path().display());
    /// let cache = undercroft::cache(&url)?; // undercroft://pages, redis://localhost, ...
    /// let minute = Caching::new().ttl(Duration::from_secs(60));
    /// let page = cache.get_or_insert_with(b"page:1", &minute, async || b"<html>".to_vec());
    /// assert_eq!(page.await?, b"<html>");
    /// # Ok(())
    /// # }
    /// ```
    fn get_or_insert_with<F, M>(
        &self,
        key: &[u8],
        caching: &Caching,
        compute: F,
    ) -> impl Future<Output = Result<Vec<u8>>> + Send
    where
        F: FnOnce() -> M + Send,
        M: Future<Output = Vec<u8>> + Send,
    {
        async move {
            let compute = || async { Ok::<_, Infallible>(compute().await) };
            let made = found_or_made(self, key, caching, compute).await;
            made.map_err(Failed::into_own)
        }
    }

    /// Like [`get_or_insert_with`](Self::get_or_insert_with), but `compute` can fail. After a
    /// failure nothing is stored, and the next caller computes the value.
    ///
    /// # Errors
    /// The error of `compute`, and the errors of `get_or_insert_with`.
    ///
    /// ```
    /// use undercroft::{Cache, Caching, GetOrInsert};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// let failing = async || Err::<Vec<u8>, undercroft::Error>(undercroft::Error::Closed);
    /// let failed = cache.try_get_or_insert_with(b"key", &Caching::new(), failing).await;
    /// assert!(failed.is_err());
    /// assert_eq!(cache.get(b"key").await?, None);
    /// # Ok(())
    /// # }
    /// ```
    fn try_get_or_insert_with<F, M, E>(
        &self,
        key: &[u8],
        caching: &Caching,
        compute: F,
    ) -> impl Future<Output = std::result::Result<Vec<u8>, E>> + Send
    where
        F: FnOnce() -> M + Send,
        M: Future<Output = std::result::Result<Vec<u8>, E>> + Send,
        E: From<Error> + Send,
    {
        async move {
            let made = found_or_made(self, key, caching, compute).await;
            made.map_err(Failed::into_error)
        }
    }
}

impl<C: Cache + ?Sized> GetOrInsert for C {}

async fn found_or_made<C, F, M, E>(
    cache: &C,
    key: &[u8],
    caching: &Caching,
    compute: F,
) -> std::result::Result<Vec<u8>, Failed<E>>
where
    C: Cache + ?Sized,
    F: FnOnce() -> M,
    M: Future<Output = std::result::Result<Vec<u8>, E>>,
{
    let reply_polling = caching.reply_polling();
    let mut wait = Wait::new(caching);
    let mut lease = loop {
        let mut stale = cache.get(key).await?;
        if let Some(value) = &mut stale
            && !Caching::open(value, reply_polling)
        {
            return Ok(stale.unwrap_or_default());
        }
        if let Some(lease) = cache.take_lease(key, caching.term()?).await? {
            break lease;
        }
        if let Some(stale) = stale {
            return Ok(stale);
        }
        expect_other(cache.place(), key)?;
        sleep(wait.pause()?).await;
    };
    if let Some(value) = came_first(&mut lease, reply_polling) {
        return Ok(value);
    }
    let begun = Instant::now();
    let keys = cache.place();
    let computing = inside(keys, key, compute);
    let computed = inside_task(keys, key, computing).await;
    let value = computed.map_err(Failed::Computation)?;
    let (stored, options) = caching.close(&value, begun.elapsed());
    cache.set_leased(lease, &stored, options).await?;
    Ok(value)
}
