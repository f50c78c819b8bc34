//! Channels: bounded queues between processes.
//!
//! The messages are compatible with Python's `undercroft.Channel`. Python values of other kinds are
//! received as bytes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// ```
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// let jobs = undercroft::Channel::new(store, "jobs")?;
/// jobs.send("resize")?;
/// let message: undercroft::ChannelMessage = jobs.recv()?;
/// assert_eq!((message.text(), &message[..]), (Some("resize"), &b"resize"[..]));
/// # Ok::<(), undercroft::Error>(())
/// ```
#[doc(inline)]
pub use undercroft_embedded::ChannelMessage;
/// ```
/// use undercroft::ChannelValue;
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// let frames = undercroft::Channel::new(store, "frames")?;
/// frames.send(ChannelValue::Array { dtype: "|u1", shape: &[2, 2], items: &[0, 64, 128, 255] })?;
/// assert_eq!(*frames.recv()?, [0, 64, 128, 255]);
/// # Ok::<(), undercroft::Error>(())
/// ```
#[doc(inline)]
pub use undercroft_embedded::ChannelValue;
use undercroft_embedded::{ChannelError, ChannelPatience, DeliveryError, ValueChannel};

use crate::error::{Error, Result};
use crate::store::Store;

/// The bound of a channel whose program sets none.
const BOUND: u64 = 1000;

/// A bounded queue of messages in a store. All processes that use the same name and store share one
/// queue, which preserves order. Consumers receive each message once.
///
/// Messages are bytes, text and arrays. A message of 32 KiB or more is stored once, and read in
/// place. A handle is cheap to clone, and all threads can use it.
///
/// ```
/// use std::time::Duration;
/// use undercroft::{Channel, Error, Store};
/// # let directory = undercroft_testkit::fresh::directory();
/// let jobs = Channel::new(Store::open_path(directory.path().join("store"))?, "jobs")?;
/// jobs.send("resize")?;
/// jobs.send(&[7; 100_000])?;
/// assert_eq!(jobs.recv()?.text(), Some("resize"));
/// assert_eq!(jobs.recv()?.len(), 100_000);
/// assert!(jobs.recv_timeout(Duration::from_millis(1))?.is_none());
/// jobs.close()?;
/// assert!(matches!(jobs.recv(), Err(Error::ChannelClosed)));
/// # Ok::<(), undercroft::Error>(())
/// ```
#[derive(Clone)]
pub struct Channel {
    store: Store,
    shared: Arc<ValueChannel>,
    name: Arc<str>,
    bound: u64,
    ttl: Option<Duration>,
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("name", &self.name)
            .field("bound", &self.bound)
            .finish()
    }
}

/// The result of a step on a store, which is repeated if the store's file was removed.
enum Step<T> {
    Done(T),
    Closed,
    Pickle,
}

/// Turns the errors that only channels have into results, so that the store's call sees its own.
fn step<T>(
    result: std::result::Result<T, ChannelError>,
) -> std::result::Result<Step<T>, undercroft_engine::Error> {
    match result {
        Ok(done) => Ok(Step::Done(done)),
        Err(ChannelError::Closed) => Ok(Step::Closed),
        Err(ChannelError::Pickle) => Ok(Step::Pickle),
        Err(ChannelError::Failed(error)) => Err(error),
    }
}

impl<T> Step<T> {
    fn result(self) -> Result<T> {
        match self {
            Step::Done(done) => Ok(done),
            Step::Closed => Err(Error::ChannelClosed),
            Step::Pickle => Err(Error::reply(
                "ERR the first message is a pickle, which only Python reads; receive it in Python",
            )),
        }
    }
}

impl Channel {
    /// Returns a handle to the channel with a name, in the selected database of a store. The first
    /// message creates the channel. Its bound is 1,000 messages.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the name is empty.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert!(undercroft::Channel::new(store.clone(), "jobs")?.is_empty()?);
    /// assert!(undercroft::Channel::new(store, "").is_err());
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn new(store: Store, name: &str) -> Result<Channel> {
        if name.is_empty() {
            let text = "expected the name of a channel, got an empty one";
            return Err(Error::argument(text));
        }
        Ok(Channel {
            store,
            shared: Arc::new(ValueChannel::new(name.as_bytes(), BOUND, None)),
            name: name.into(),
            bound: BOUND,
            ttl: None,
        })
    }

    /// Sets the number of messages at which this handle's [`send`](Self::send) waits. 0 means no
    /// bound.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let jobs = undercroft::Channel::new(store, "jobs")?.bound(1);
    /// assert!(jobs.try_send("one")?);
    /// assert!(!jobs.try_send("two")?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    #[must_use]
    pub fn bound(self, messages: u64) -> Channel {
        let ttl = self.ttl;
        self.with(messages, ttl)
    }

    /// Sets the time after which the memory of a message of 32 KiB or more is freed if no consumer
    /// receives it. Consumers skip such a message.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let frames = undercroft::Channel::new(store, "frames")?.ttl(Duration::from_secs(60));
    /// frames.send(&[0; 100_000])?;
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Channel {
        let bound = self.bound;
        self.with(bound, Some(ttl))
    }

    fn with(self, bound: u64, ttl: Option<Duration>) -> Channel {
        let most = match bound {
            0 => i64::MAX as u64,
            bound => bound,
        };
        Channel {
            shared: Arc::new(ValueChannel::new(self.name.as_bytes(), most, ttl)),
            bound,
            ttl,
            ..self
        }
    }

    /// Sends a value, and waits while the channel is full. O(bytes).
    ///
    /// # Errors
    /// [`Error::ChannelClosed`] if the channel is closed, also during the wait;
    /// [`Error::InvalidArgument`] if an array's bytes do not match its shape; the errors of
    /// [`Store::set`].
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let jobs = undercroft::Channel::new(store, "jobs")?;
    /// jobs.send("text")?;
    /// jobs.send(b"bytes")?;
    /// assert_eq!(jobs.len()?, 2);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn send<'v>(&self, value: impl Into<ChannelValue<'v>>) -> Result<()> {
        self.send_within(value.into(), ChannelPatience::Ever)
            .map(drop)
    }

    /// Sends a value, and returns false if the channel is full.
    ///
    /// # Errors
    /// The errors of [`send`](Self::send).
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let jobs = undercroft::Channel::new(store, "jobs")?.bound(1);
    /// assert!(jobs.try_send("one")?);
    /// assert!(!jobs.try_send(&[0; 100_000])?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn try_send<'v>(&self, value: impl Into<ChannelValue<'v>>) -> Result<bool> {
        self.send_within(value.into(), ChannelPatience::None)
    }

    /// Sends a value, and returns false if the channel is still full after the timeout.
    ///
    /// # Errors
    /// The errors of [`send`](Self::send).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let jobs = undercroft::Channel::new(store, "jobs")?.bound(1);
    /// jobs.send("one")?;
    /// assert!(!jobs.send_timeout("two", Duration::from_millis(1))?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn send_timeout<'v>(
        &self,
        value: impl Into<ChannelValue<'v>>,
        timeout: Duration,
    ) -> Result<bool> {
        self.send_within(value.into(), ChannelPatience::of(timeout))
    }

    fn send_within(&self, value: ChannelValue<'_>, patience: ChannelPatience) -> Result<bool> {
        value.check().map_err(Error::argument)?;
        let number = self.store.number();
        let sent =
            (self.store).call(|open| step(self.shared.send(open, number, value, &patience)))?;
        sent.result()
    }

    /// Removes and returns the first message, and waits for it. If the process dies before it has
    /// processed the message, the message is lost; see [`recv_held`](Self::recv_held). O(1) for
    /// messages of 32 KiB or more, because only shorter messages are copied.
    ///
    /// # Errors
    /// [`Error::ChannelClosed`] if the channel is closed and empty.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let jobs = undercroft::Channel::new(store, "jobs")?;
    /// jobs.send(b"one")?;
    /// jobs.close()?;
    /// assert_eq!(*jobs.recv()?, *b"one");
    /// assert!(jobs.recv().is_err());
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn recv(&self) -> Result<ChannelMessage> {
        loop {
            if let Some(message) = self.recv_within(ChannelPatience::Ever)? {
                return Ok(message);
            }
        }
    }

    /// Removes and returns the first message, or returns `None` if the channel is empty.
    ///
    /// # Errors
    /// The errors of [`recv`](Self::recv).
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let jobs = undercroft::Channel::new(store, "jobs")?;
    /// assert!(jobs.try_recv()?.is_none());
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn try_recv(&self) -> Result<Option<ChannelMessage>> {
        self.recv_within(ChannelPatience::None)
    }

    /// Removes and returns the first message, or returns `None` if none arrives within the timeout.
    ///
    /// # Errors
    /// The errors of [`recv`](Self::recv).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let jobs = undercroft::Channel::new(store, "jobs")?;
    /// assert!(jobs.recv_timeout(Duration::from_millis(1))?.is_none());
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<ChannelMessage>> {
        self.recv_within(ChannelPatience::of(timeout))
    }

    fn recv_within(&self, patience: ChannelPatience) -> Result<Option<ChannelMessage>> {
        let number = self.store.number();
        let received =
            (self.store).call(|open| step(self.shared.receive(open, number, &patience)))?;
        received.result()
    }

    /// Receives the first message and holds it until the [`Delivery`] is acknowledged, released or
    /// dropped. If this process dies first, another consumer receives the message. Returns `None`
    /// if no message arrives within the timeout; [`Duration::MAX`] waits without a limit.
    ///
    /// # Errors
    /// The errors of [`recv`](Self::recv).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let jobs = undercroft::Channel::new(store, "jobs")?;
    /// jobs.send("resize")?;
    /// drop(jobs.recv_held(Duration::MAX)?);
    /// let delivery = jobs.recv_held(Duration::ZERO)?.expect("it is there again");
    /// assert_eq!(delivery.text(), Some("resize"));
    /// assert!(delivery.ack()?);
    /// assert!(jobs.is_empty()?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn recv_held(&self, timeout: Duration) -> Result<Option<Delivery>> {
        let (number, patience) = (self.store.number(), ChannelPatience::of(timeout));
        let held = (self.store).call(|open| {
            let held =
                undercroft_embedded::Delivery::receive(&self.shared, open, number, &patience);
            step(held)
        })?;
        Ok(held.result()?.map(Delivery))
    }

    /// Iterates over messages until the channel is closed and empty.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let jobs = undercroft::Channel::new(store, "jobs")?;
    /// jobs.send("one")?;
    /// jobs.send("two")?;
    /// jobs.close()?;
    /// let lengths: undercroft::Result<Vec<usize>> = jobs.iter().map(|job| Ok(job?.len())).collect();
    /// assert_eq!(lengths?, [3, 3]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = Result<ChannelMessage>> + '_ {
        std::iter::from_fn(|| match self.recv() {
            Err(Error::ChannelClosed) => None,
            received => Some(received),
        })
    }

    /// Returns the number of messages, without held ones. O(1).
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let jobs = undercroft::Channel::new(store, "jobs")?;
    /// jobs.send("one")?;
    /// assert_eq!(jobs.len()?, 1);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn len(&self) -> Result<u64> {
        let number = self.store.number();
        self.store.call(|open| self.shared.length(open, number))
    }

    /// Returns whether the channel has no messages.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert!(undercroft::Channel::new(store, "jobs")?.is_empty()?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Closes the channel for all processes. Producers get [`Error::ChannelClosed`], also those that
    /// wait. Consumers first receive the remaining messages.
    ///
    /// # Errors
    /// Fails if the store cannot be written.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let jobs = undercroft::Channel::new(store, "jobs")?;
    /// jobs.close()?;
    /// assert!(matches!(jobs.send("late"), Err(undercroft::Error::ChannelClosed)));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn close(&self) -> Result<()> {
        let number = self.store.number();
        self.store.call(|open| self.shared.close(open, number))
    }

    /// Returns whether the channel is closed.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert!(!undercroft::Channel::new(store, "jobs")?.is_closed()?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn is_closed(&self) -> Result<bool> {
        let number = self.store.number();
        self.store.call(|open| self.shared.is_closed(open, number))
    }

    /// Deletes all messages, including held ones. The name then refers to a new, open channel.
    /// O(messages).
    ///
    /// # Errors
    /// Fails if the store cannot be written. Some messages may remain.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let jobs = undercroft::Channel::new(store, "jobs")?;
    /// jobs.close()?;
    /// jobs.del()?;
    /// jobs.send("again")?;
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn del(&self) -> Result<()> {
        let number = self.store.number();
        self.store.call(|open| self.shared.delete(open, number))
    }
}

/// A message that this process holds (see [`Channel::recv_held`]). Dropping it returns the message
/// to the front of the channel, except in a forked child: the message belongs to the parent.
///
/// ```
/// # use std::time::Duration;
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// let jobs = undercroft::Channel::new(store, "jobs")?;
/// jobs.send("resize")?;
/// let delivery: undercroft::Delivery = jobs.recv_held(Duration::MAX)?.expect("no limit");
/// assert!(jobs.is_empty()?);
/// assert!(delivery.release()?);
/// assert_eq!(jobs.len()?, 1);
/// # Ok::<(), undercroft::Error>(())
/// ```
pub struct Delivery(undercroft_embedded::Delivery);

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Delivery {
    /// Acknowledges the message, which deletes it. Returns false if it was no longer held, because
    /// the channel was deleted.
    ///
    /// # Errors
    /// Fails if the store cannot be written, or in a forked child.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let jobs = undercroft::Channel::new(store, "jobs")?;
    /// jobs.send("resize")?;
    /// let delivery = jobs.recv_held(Duration::ZERO)?.expect("a message");
    /// jobs.del()?;
    /// assert!(!delivery.ack()?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn ack(mut self) -> Result<bool> {
        self.end(false)
    }

    /// Returns the message to the front of the channel. Returns false if it was no longer held.
    ///
    /// # Errors
    /// The errors of [`ack`](Self::ack).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let jobs = undercroft::Channel::new(store, "jobs")?;
    /// jobs.send("one")?;
    /// jobs.send("two")?;
    /// assert!(jobs.recv_held(Duration::ZERO)?.expect("a message").release()?);
    /// assert_eq!(jobs.recv()?.text(), Some("one"));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn release(mut self) -> Result<bool> {
        self.end(true)
    }

    fn end(&mut self, goes_back: bool) -> Result<bool> {
        self.0.end(goes_back).map_err(|error| match error {
            DeliveryError::Inherited(process) => {
                Error::argument(DeliveryError::inherited_text(process))
            }
            DeliveryError::Failed(error) => Error::engine(&self.0.open_store().store, error),
        })
    }
}

impl std::ops::Deref for Delivery {
    type Target = ChannelMessage;

    fn deref(&self) -> &ChannelMessage {
        // Only the calls that consume the delivery end the hold.
        self.0.message().expect("a held message")
    }
}
