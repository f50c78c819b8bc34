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
use undercroft_embedded::{
    ChannelError, ChannelPatience, Delivery as Held, DeliveryError, ValueChannel,
};

use super::remote::{RemoteChannel, RemoteHold};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::store::Store;

/// The bound of a channel whose program sets none.
const BOUND: u64 = 1000;
/// The visibility of a channel whose program sets none.
const VISIBILITY: Duration = Duration::from_secs(60);

/// A bounded queue of messages in a store or on a server. All processes that use the same name and
/// store share one queue, which preserves order. Consumers receive each message once.
///
/// Messages are bytes, text and arrays. In a store, a message of 32 KiB or more is stored once, and
/// read in place. A handle is cheap to clone, and all threads can use it. On a server, the guarantees
/// are weaker: `docs/channels.md` lists them.
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
    place: Place,
    name: Arc<str>,
    settings: Settings,
}

/// The place of a channel's messages.
#[derive(Clone)]
enum Place {
    Store(Store, Arc<ValueChannel>),
    Server(Arc<RemoteChannel>),
}

#[derive(Clone, Copy)]
struct Settings {
    bound: u64,
    ttl: Option<Duration>,
    visibility: Duration,
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("name", &self.name)
            .field("bound", &self.settings.bound)
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
    /// Returns a handle to the channel with a name, in the selected database of a store or a server: a
    /// [`Store`], a [`Pool`](crate::Pool) or a [`Client`]. The first message creates the channel. Its
    /// bound is 1,000 messages.
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
    pub fn new(on: impl Into<Client>, name: &str) -> Result<Channel> {
        if name.is_empty() {
            let text = "expected the name of a channel, got an empty one";
            return Err(Error::argument(text));
        }
        let settings = Settings {
            bound: BOUND,
            ttl: None,
            visibility: VISIBILITY,
        };
        Ok(Channel::with(on.into(), name.into(), settings))
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
        let bound = messages;
        self.set(|settings| Settings { bound, ..settings })
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
        let ttl = Some(ttl);
        self.set(|settings| Settings { ttl, ..settings })
    }

    /// Sets the time after which a message that a consumer on a server holds goes to another one. The
    /// default is 60 seconds. In a store, a consumer holds its message until it dies.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use undercroft::{CacheOptions, Channel, Pool};
    /// # let served = undercroft_served::Served::start();
    /// # let url = served.url();
    /// let pool = Pool::open(&url, CacheOptions::new())?;
    /// let jobs = Channel::new(pool, "jobs")?.visibility(Duration::from_secs(600));
    /// jobs.send("resize")?;
    /// assert!(jobs.recv_held(Duration::ZERO)?.expect("a message").ack()?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    #[must_use]
    pub fn visibility(self, visibility: Duration) -> Channel {
        self.set(|settings| Settings {
            visibility,
            ..settings
        })
    }

    fn set(self, change: impl FnOnce(Settings) -> Settings) -> Channel {
        let client = match self.place {
            Place::Store(store, _) => Client::Store(store),
            Place::Server(remote) => Client::Pool(remote.pool().clone()),
        };
        Channel::with(client, self.name, change(self.settings))
    }

    fn with(client: Client, name: Arc<str>, settings: Settings) -> Channel {
        let place = match client {
            Client::Store(store) => {
                let most = match settings.bound {
                    0 => i64::MAX as u64,
                    bound => bound,
                };
                let shared = ValueChannel::new(name.as_bytes(), most, settings.ttl);
                Place::Store(store, Arc::new(shared))
            }
            Client::Pool(pool) => {
                let (bound, visibility) = (settings.bound, settings.visibility);
                Place::Server(Arc::new(RemoteChannel::new(pool, &name, bound, visibility)))
            }
        };
        Channel {
            place,
            name,
            settings,
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
        match &self.place {
            Place::Store(store, shared) => {
                let number = store.number();
                let sent = store.call(|open| step(shared.send(open, number, value, &patience)))?;
                sent.result()
            }
            Place::Server(remote) => remote.send(value, &patience),
        }
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
        match &self.place {
            Place::Store(store, shared) => {
                let number = store.number();
                let received = store.call(|open| step(shared.receive(open, number, &patience)))?;
                received.result()
            }
            Place::Server(remote) => remote.receive(&patience),
        }
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
        let patience = ChannelPatience::of(timeout);
        let held = match &self.place {
            Place::Store(store, shared) => {
                let number = store.number();
                let held = store.call(|open| step(Held::receive(shared, open, number, &patience)));
                held?.result()?.map(Hold::Store)
            }
            Place::Server(remote) => {
                let held = remote.hold(&patience)?;
                held.map(|hold| Hold::Server(remote.clone(), hold, std::process::id()))
            }
        };
        Ok(held.map(|held| Delivery(Some(held))))
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
        match &self.place {
            Place::Store(store, shared) => {
                let number = store.number();
                store.call(|open| shared.length(open, number))
            }
            Place::Server(remote) => remote.length(),
        }
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
        match &self.place {
            Place::Store(store, shared) => {
                let number = store.number();
                store.call(|open| shared.close(open, number))
            }
            Place::Server(remote) => remote.close(),
        }
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
        match &self.place {
            Place::Store(store, shared) => {
                let number = store.number();
                store.call(|open| shared.is_closed(open, number))
            }
            Place::Server(remote) => remote.is_closed(),
        }
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
        match &self.place {
            Place::Store(store, shared) => {
                let number = store.number();
                store.call(|open| shared.delete(open, number))
            }
            Place::Server(remote) => remote.delete(),
        }
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
pub struct Delivery(Option<Hold>);

enum Hold {
    Store(Held),
    /// The channel, its held message, and the process that received it.
    Server(Arc<RemoteChannel>, RemoteHold, u32),
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("message", &**self)
            .finish()
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
        let inherited = |process| Error::argument(DeliveryError::inherited_text(process));
        match self.0.take() {
            None => Ok(false),
            Some(Hold::Store(mut held)) => {
                let ended = held.end(goes_back);
                ended.map_err(|error| match error {
                    DeliveryError::Inherited(process) => inherited(process),
                    DeliveryError::Failed(error) => Error::engine(&held.open_store().store, error),
                })
            }
            Some(Hold::Server(remote, hold, process)) => match process == std::process::id() {
                true => remote.end(&hold, goes_back),
                false => Err(inherited(process)),
            },
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        // A message on a server that cannot be returned now returns after the visibility. A message
        // in a store is returned by its own hold.
        if let Some(Hold::Server(..)) = &self.0 {
            drop(self.end(true));
        }
    }
}

impl std::ops::Deref for Delivery {
    type Target = ChannelMessage;

    fn deref(&self) -> &ChannelMessage {
        let message = match &self.0 {
            Some(Hold::Store(held)) => held.message(),
            Some(Hold::Server(_, hold, _)) => Some(&hold.message),
            None => None,
        };
        // Only the calls that consume the delivery end the hold.
        message.expect("a held message")
    }
}
