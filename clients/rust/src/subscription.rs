//! Delivers messages from channels as a stream.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use crate::error::Result;
use crate::message::Event;

/// A stream of messages (see [`Cache::subscribe`](crate::Cache::subscribe)).
///
/// The stream survives the loss of a connection. An error reports why the connection was lost, and
/// the next call tries to reconnect. The stream ends when no further message can arrive, for
/// example because the store was removed. Dropping the stream ends the subscription.
///
/// ```
/// # use undercroft::Cache;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> undercroft::Result<()> {
/// # let directory = undercroft_testkit::fresh::directory();
/// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
/// use futures_util::StreamExt as _;
/// let news = cache.subscribe(&[b"news"]).await?;
/// for text in ["one", "two"] {
///     cache.publish(b"news", text.as_bytes()).await?;
/// }
/// let events: Vec<_> = news.take(2).collect().await;
/// assert!(events.iter().all(Result::is_ok));
/// # Ok(())
/// # }
/// ```
pub struct Subscription(Pin<Box<dyn Stream<Item = Result<Event>> + Send>>);

impl Subscription {
    pub(crate) fn new(stream: impl Stream<Item = Result<Event>> + Send + 'static) -> Subscription {
        Subscription(Box::pin(stream))
    }

    /// Waits for the next event. Cancelling the call loses no event.
    ///
    /// ```
    /// # use undercroft::{Cache, Event};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// let mut news = cache.subscribe(&[b"news"]).await?;
    /// cache.publish(b"news", b"hello").await?;
    /// assert!(matches!(news.next().await, Some(Ok(Event::Message(_)))));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next(&mut self) -> Option<Result<Event>> {
        poll_fn(|cx| self.0.as_mut().poll_next(cx)).await
    }
}

impl Stream for Subscription {
    type Item = Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Event>>> {
        self.0.as_mut().poll_next(cx)
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subscription")
    }
}
