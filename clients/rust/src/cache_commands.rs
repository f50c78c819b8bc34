//! Runs commands, pipelines and scripts on caches.

use crate::cache::Cache;
use crate::command::{Cmd, FromReply, Pipeline, Reply, ScriptInvocation, is_unknown};
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

impl Pipeline {
    /// Runs the commands on a cache, and converts the list of their replies.
    ///
    /// An atomic pipeline on a `PipelinedCache` connects for each call, and on a `ClusterCache` all of
    /// its keys must be in one slot.
    ///
    /// # Errors
    /// The error of the first command that failed, and the errors of [`Cmd::query_async`].
    ///
    /// ```
    /// use undercroft::pipe;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// let mut pipeline = pipe();
    /// pipeline.atomic().cmd("SET").arg(("key", 1)).ignore().cmd("INCR").arg("key");
    /// assert_eq!(pipeline.query_async::<(u8,)>(&cache).await?, (2,));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn query_async<T: FromReply>(&self, cache: &(impl Cache + ?Sized)) -> Result<T> {
        if self.is_empty() {
            return Reply::Array(Vec::new()).to();
        }
        self.result(cache.run_batch(&self.batch()).await?)
    }

    /// Runs the commands on a cache, and drops their replies.
    ///
    /// # Errors
    /// The errors of [`query_async`](Self::query_async).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// undercroft::pipe().cmd("INCR").arg("a").cmd("INCR").arg("b").exec_async(&cache).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn exec_async(&self, cache: &(impl Cache + ?Sized)) -> Result<()> {
        self.query_async(cache).await
    }
}

impl ScriptInvocation<'_> {
    /// Runs the script on a cache, and converts its result.
    ///
    /// # Errors
    /// The error that the script raises, and the errors of [`Cmd::query_async`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// let script = undercroft::Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    /// assert_eq!(script.key("n").arg(5).invoke_async::<u8>(&cache).await?, 5);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn invoke_async<T: FromReply>(&self, cache: &(impl Cache + ?Sized)) -> Result<T> {
        match self.by_digest().query_async(cache).await {
            Err(error) if is_unknown(&error) => self.by_code().query_async(cache).await,
            done => done,
        }
    }
}
