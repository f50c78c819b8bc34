//! Runs commands that were built step by step on caches.

use crate::cache::Cache;
use crate::command::{Cmd, FromReply};
use crate::error::Result;

impl Cmd {
    /// Runs the command on a cache, and converts its reply.
    ///
    /// # Errors
    /// [`Error::Unexpected`](crate::Error::Unexpected) if the reply has another type, and the errors
    /// of [`Cache::command`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let url = format!("undercroft://{}/store", directory.path().display());
    /// let cache = undercroft::cache(&url)?; // undercroft://sessions, redis://localhost, ...
    /// let length = undercroft::cmd("RPUSH").arg("jobs").arg(7).query_async::<u64>(&*cache).await?;
    /// assert_eq!(length, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn query_async<T: FromReply>(&self, cache: &(impl Cache + ?Sized)) -> Result<T> {
        cache.command(&self.words()).await?.to()
    }

    /// Runs the command on a cache, and drops its reply.
    ///
    /// # Errors
    /// The errors of [`query_async`](Self::query_async).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// undercroft::cmd("FLUSHDB").exec_async(&cache).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn exec_async(&self, cache: &(impl Cache + ?Sized)) -> Result<()> {
        self.query_async(cache).await
    }
}
