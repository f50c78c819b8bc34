//! Defines the events of a subscription.

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
///         _ => "an event of a later version".to_owned(),
///     }
/// }
/// assert_eq!(text(&Event::Lost(Some(3))), "3 messages lost");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A message.
    Message(Message),
    /// Messages were lost at this point. In a store, the subscriber was too slow, and the number is
    /// an upper bound. On a server, the connection was lost and re-established, so the number is
    /// unknown.
    Lost(Option<u64>),
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
