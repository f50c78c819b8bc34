//! Delivers messages from channels as a stream.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use crate::error::{Error, Result};

/// A published message.
///
/// ```
/// # use undercroft::{Cache, Event};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> undercroft::Result<()> {
/// # let directory = undercroft_testkit::fresh::directory();
/// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
/// let mut news = cache.subscribe(&[b"news"]).await?;
/// cache.publish(b"news", b"hello").await?;
/// let Some(Event::Message(message)) = news.next().await.transpose()? else { panic!() };
/// assert_eq!((&message.channel[..], &message.payload[..]), (&b"news"[..], &b"hello"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// The channel that the message was published to.
    pub channel: Vec<u8>,
    /// The matching pattern, if the subscription was to a pattern.
    pub pattern: Option<Vec<u8>>,
    /// The content of the message.
    pub payload: Vec<u8>,
}

/// An event from a subscription.
///
/// ```
/// use undercroft::Event;
/// fn text(event: &Event) -> String {
///     match event {
///         Event::Message(message) => String::from_utf8_lossy(&message.payload).into_owned(),
///         Event::Lost(Some(count)) => format!("{count} messages lost"),
///         Event::Lost(None) => "messages may be lost".to_owned(),
///     }
/// }
/// assert_eq!(text(&Event::Lost(Some(3))), "3 messages lost");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message.
    Message(Message),
    /// Messages were lost at this point. In a store, the subscriber was too slow, and the number is
    /// an upper bound. On a server, the connection was lost and re-established, so the number is
    /// unknown.
    Lost(Option<u64>),
}

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

/// Refuses a subscription without names, which would wait forever.
pub(crate) fn check_names(names: &[&[u8]]) -> Result<()> {
    match names {
        [] => Err(Error::argument(
            "expected at least one channel or pattern, got none",
        )),
        _ => Ok(()),
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
