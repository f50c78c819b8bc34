//! Implements the cache whose connections are shared by all callers.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::address::Server;
use crate::command::{Args, Batch, Reply, ToArgs};
use crate::error::{Error, Result};
use crate::options::CacheOptions;
use crate::remote::commands::{Words, remote_cache, shared};
use crate::remote::connection::Connection;
use crate::remote::lease::{Errands, borrowed, run_alone};
use crate::remote::queue::{Call, Get, Queue, To};
use crate::remote::receiver;
use crate::remote::task::{Times, serve};
use crate::subscription::Subscription;

/// A cache on one or a few connections to a server, each of which is shared by all callers.
///
/// Commands of concurrent callers are sent in one write, and their replies arrive in one read. The
/// more callers there are, the less each call costs. One connection suffices for most loads. Use
/// several connections if one core cannot process all of the data. Commands beyond
/// [`CacheOptions::queue`] wait in first-come, first-served order.
///
/// A lost connection ends each call in progress with an error. The cache reconnects immediately,
/// and new calls wait for the new connection.
///
/// ```
/// # use undercroft_served::Served;
/// use undercroft::{Cache, CacheOptions, PipelinedCache, SetOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> undercroft::Result<()> {
/// # let served = Served::start();
/// # let url = served.url();
/// let cache = PipelinedCache::open(&url, CacheOptions::new())?; // redis://localhost, say
/// cache.set(b"key", b"value").await?;
/// let (one, other) = tokio::join!(cache.get(b"key"), cache.get(b"other"));
/// # Ok(())
/// # }
/// ```
pub struct PipelinedCache {
    lines: Box<[Arc<Queue>]>,
    turn: AtomicUsize,
    server: Arc<Server>,
    options: CacheOptions,
}

impl PipelinedCache {
    /// Creates a cache on the server that a URL names. The cache connects in the background, on the
    /// current Tokio runtime.
    ///
    /// # Errors
    /// [`Error::Url`] if the URL is invalid, and [`Error::NoRuntime`] outside of a Tokio runtime.
    ///
    /// ```
    /// # use undercroft_served::Served;
    /// # use undercroft::{Cache, CacheOptions, PipelinedCache};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let served = Served::start();
    /// # let url = served.url();
    /// let cache = PipelinedCache::open(&url, CacheOptions::new().connections(2))?;
    /// assert_eq!(cache.get(b"key").await?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn open(url: &str, options: CacheOptions) -> Result<PipelinedCache> {
        PipelinedCache::on(Server::parse(url)?, options)
    }

    pub(crate) fn on(server: Server, options: CacheOptions) -> Result<PipelinedCache> {
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let server = Arc::new(server);
        let times = Times {
            connect: options.deadline,
            silence: options.silence,
        };
        let line = |_| {
            let queue = Arc::new(Queue::new(options.queue, options.deadline));
            runtime.spawn(serve(queue.clone(), server.clone(), times));
            queue
        };
        Ok(PipelinedCache {
            lines: (0..options.connections.max(1)).map(line).collect(),
            turn: AtomicUsize::new(0),
            server: server.clone(),
            options,
        })
    }

    /// Runs any command, given as its name and arguments, except commands that change the state of
    /// the shared connection.
    ///
    /// A command that waits for keys, such as BLPOP, blocks all other calls on the same connection.
    ///
    /// If a call is dropped before its reply arrives, or if its deadline passes, an item that a
    /// command such as LPOP or BLPOP removed is lost. With LMOVE, BLMOVE and XREADGROUP, the item
    /// remains on the server.
    ///
    /// # Errors
    /// An error reply is returned as [`Error::Reply`].
    ///
    /// ```
    /// # use undercroft_served::Served;
    /// # use undercroft::{Cache, CacheOptions, PipelinedCache};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let served = Served::start();
    /// # let url = served.url();
    /// let cache = PipelinedCache::open(&url, CacheOptions::new())?;
    /// assert_eq!(cache.command(&["INCR", "visits"]).await?.to::<i64>()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn command(&self, words: impl ToArgs) -> Result<Reply> {
        let args = Args::of(&words);
        self.call(&shared(&args.to_vec())?).await
    }

    /// Returns the connection for the next call, in round-robin order.
    fn line(&self) -> &Arc<Queue> {
        match &*self.lines {
            [line] => line,
            lines => &lines[self.turn.fetch_add(1, Ordering::Relaxed) % lines.len()],
        }
    }

    async fn call(&self, words: &[&[u8]]) -> Result<Reply> {
        self.line().call(words).await
    }

    fn fetch<'a>(&'a self, key: &'a [u8]) -> To<Call<'a, Get<'a>>, Option<Vec<u8>>> {
        To::new(self.line().call(Get(key)))
    }

    /// Runs the commands of a pipeline. A transaction gets a connection of its own, because commands
    /// of other callers could come between its commands.
    async fn batch(&self, batch: &Batch<'_>) -> Result<Reply> {
        if batch.atomic {
            let deadline = self.options.deadline;
            let call = async {
                let mut connection = Connection::open(&self.server, deadline).await?;
                batch.reply(connection.call_all(&batch.framed()).await?)
            };
            let called = timeout(deadline, call).await;
            return called.map_err(|_| Error::TimedOut(deadline))?;
        }
        // All commands use one connection, on which they run in this order.
        let line = self.line();
        let mut calls = Vec::with_capacity(batch.commands.len());
        for words in &batch.commands {
            calls.push((line.call(&words[..]), None));
        }
        // The first round of polls sends the commands in their order.
        poll_fn(|cx| {
            let mut is_done = true;
            for (call, reply) in calls.iter_mut().filter(|(_, reply)| reply.is_none()) {
                match Pin::new(call).poll(cx) {
                    Poll::Ready(outcome) => *reply = Some(outcome),
                    Poll::Pending => is_done = false,
                }
            }
            if is_done {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        batch.reply(calls.into_iter().filter_map(|(_, reply)| reply).collect())
    }

    fn errands(&self) -> LineErrands {
        LineErrands {
            line: self.line().clone(),
            server: self.server.clone(),
            options: self.options,
        }
    }

    fn server(&self) -> &Server {
        &self.server
    }

    async fn receive(&self, command: &'static [u8], names: &[&[u8]]) -> Result<Subscription> {
        let servers = vec![self.server.clone()];
        receiver::subscribe(servers, self.options, command, names).await
    }

    async fn end(&self) {
        self.lines.iter().for_each(|line| line.close());
        for line in &self.lines {
            line.ended().await;
        }
    }
}

remote_cache!(PipelinedCache);

/// Runs all commands for a lease on the same connection, so that the server executes them in order,
/// even if the deadline of the first command passes.
#[derive(Clone)]
pub(crate) struct LineErrands {
    line: Arc<Queue>,
    server: Arc<Server>,
    options: CacheOptions,
}

impl Errands for LineErrands {
    async fn run(&self, words: Words) -> Result<Reply> {
        self.line.call(&borrowed(&words)[..]).await
    }

    async fn run_last(&self, words: Words) -> Result<Reply> {
        match self.run(words.clone()).await {
            Err(Error::Closed) => run_alone(&self.server, self.options, words).await,
            outcome => outcome,
        }
    }
}

impl Drop for PipelinedCache {
    fn drop(&mut self) {
        self.lines.iter().for_each(|line| line.close());
    }
}

impl fmt::Debug for PipelinedCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipelinedCache")
            .field("server", &self.server.name)
            .field("connections", &self.lines.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_call_is_small() {
        let bytes = size_of::<To<Call<'_, Get<'_>>, Option<Vec<u8>>>>();
        assert!(bytes <= 40, "expected at most 40 bytes, got {bytes}");
    }
}
