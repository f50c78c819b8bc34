//! Provides subscriptions with blocking calls.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use undercroft_embedded::{OpenStore, StoreOf};
use undercroft_engine::messages::{Event as Found, Message as Published, Subscriber, Topic};

use crate::command::{Args, ToArgs};
use crate::error::{Error, Result};
use crate::message::{Event, Message, check_names};
use crate::store::Store;

impl Store {
    /// Subscribes to channels. The subscription receives every message that is published after the
    /// call returns.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] without channels. Fails if the store has no memory for the
    /// subscription.
    ///
    /// ```
    /// use undercroft::Event;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let mut news = store.subscribe("news")?;
    /// store.publish("news", "hello")?;
    /// let Some(Event::Message(message)) = news.next().transpose()? else { panic!() };
    /// assert_eq!(message.payload, b"hello");
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn subscribe(&self, channels: impl ToArgs) -> Result<StoreMessages> {
        Args::of(&channels).with(|names| StoreMessages::new(self, Topic::Channel, names))
    }

    /// Subscribes to all channels that match at least one of the patterns.
    ///
    /// # Errors
    /// The errors of [`subscribe`](Self::subscribe).
    ///
    /// ```
    /// use undercroft::Event;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let mut news = store.psubscribe(["news.*", "alerts"])?;
    /// store.publish("news.local", "hello")?;
    /// let Some(Event::Message(message)) = news.next().transpose()? else { panic!() };
    /// assert_eq!(message.pattern.as_deref(), Some(&b"news.*"[..]));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn psubscribe(&self, patterns: impl ToArgs) -> Result<StoreMessages> {
        Args::of(&patterns).with(|names| StoreMessages::new(self, Topic::Pattern, names))
    }
}

/// The messages of a subscription to a store, as a blocking iterator (see [`Store::subscribe`]). It
/// ends after the store's file is removed. Dropping it ends the subscription.
///
/// ```
/// use std::time::Duration;
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// let mut news = store.subscribe(["news", "alerts"])?;
/// assert!(news.next_within(Duration::from_millis(1)).is_none());
/// # Ok::<(), undercroft::Error>(())
/// ```
pub struct StoreMessages {
    open: Arc<OpenStore>,
    subscriber: Subscriber<StoreOf>,
    /// The remaining copies of a message that matches several subscriptions, last first.
    queue: Vec<Message>,
    is_over: bool,
}

impl StoreMessages {
    fn new(store: &Store, topic: Topic, names: &[&[u8]]) -> Result<StoreMessages> {
        check_names(names)?;
        let open = store.current()?;
        let mut names = names.to_vec();
        names.sort_unstable();
        names.dedup();
        let mut subscriber = Subscriber::new(StoreOf(open.clone()));
        let subscribed = subscriber.subscribe(topic, &names);
        subscribed.map_err(|error| Error::engine(&open.store, error))?;
        Ok(StoreMessages {
            open,
            subscriber,
            queue: Vec::new(),
            is_over: false,
        })
    }

    /// Waits for the next event for at most `time`. Returns `None` if none arrives, or if the
    /// subscription is over.
    ///
    /// ```
    /// use std::time::Duration;
    /// use undercroft::Event;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let mut news = store.subscribe("news")?;
    /// store.publish("news", "hello")?;
    /// assert!(matches!(news.next_within(Duration::from_secs(1)), Some(Ok(Event::Message(_)))));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn next_within(&mut self, time: Duration) -> Option<Result<Event>> {
        self.event(Some(time))
    }

    fn event(&mut self, timeout: Option<Duration>) -> Option<Result<Event>> {
        if self.is_over {
            return None;
        }
        if let Some(message) = self.queue.pop() {
            return Some(Ok(Event::Message(message)));
        }
        match self.subscriber.next(timeout) {
            Ok(None) => None,
            Ok(Some(Found::Lost(count))) => Some(Ok(Event::Lost(Some(count)))),
            Ok(Some(Found::Message(message))) => {
                copies(&message, &mut self.queue);
                self.queue.pop().map(|message| Ok(Event::Message(message)))
            }
            Err(error) => {
                let error = Error::engine(&self.open.store, error);
                self.is_over = matches!(error, Error::Removed(_));
                Some(Err(error))
            }
        }
    }
}

/// Adds a message to a queue once for each subscription that it matches, last first.
pub(crate) fn copies(message: &Published<'_>, queue: &mut Vec<Message>) {
    let copy = |pattern: Option<&[u8]>| Message {
        channel: message.channel.to_vec(),
        pattern: pattern.map(<[u8]>::to_vec),
        payload: message.payload.to_vec(),
    };
    let by_pattern = message.patterns.iter().rev();
    queue.extend(by_pattern.map(|pattern| copy(Some(pattern))));
    queue.extend(message.direct.then(|| copy(None)));
}

impl Iterator for StoreMessages {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        loop {
            let event = self.event(None);
            if event.is_some() || self.is_over {
                return event;
            }
        }
    }
}

impl fmt::Debug for StoreMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreMessages")
            .field("path", &self.open.store.path())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_receives_messages_in_order_and_once_per_subscription() -> Result<()> {
        let directory = undercroft_testkit::fresh::directory();
        let path = directory.path().join("store");
        let store = Store::open_path(&path)?;
        assert!(matches!(
            store.subscribe(()),
            Err(Error::InvalidArgument(_))
        ));
        let mut news = store.subscribe(["news", "more", "news"])?;
        let mut all = store.psubscribe(["n*", "*s"])?;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..100 {
                    store.publish("news", number).expect("published");
                }
            });
            for number in 0..100 {
                let text = number.to_string().into_bytes();
                for (events, count) in [(&mut news, 1), (&mut all, 2)] {
                    for _ in 0..count {
                        let Some(Ok(Event::Message(message))) = events.next() else {
                            panic!("message {number} is missing")
                        };
                        assert_eq!(message.payload, text);
                    }
                }
            }
        });
        assert!(news.next_within(Duration::from_millis(1)).is_none());
        std::fs::remove_file(&path).expect("it exists");
        assert!(matches!(news.next(), Some(Err(Error::Removed(_)))));
        assert!(news.next().is_none());
        Ok(())
    }
}
