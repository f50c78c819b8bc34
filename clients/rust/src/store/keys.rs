//! Provides commands for keys of any type, and PUBLISH.

use std::time::Duration;

use undercroft_engine as engine;
use undercroft_engine::messages::Topic;

use crate::command::{Args, ToArgs, ToSingleArg};
use crate::error::Result;
use crate::set_options::expiry_milliseconds;
use crate::store::Store;

impl Store {
    /// Deletes keys atomically. Returns the number of keys that existed.
    ///
    /// # Errors
    /// Fails if the store cannot be written.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.set("key", "value")?;
    /// assert_eq!(store.del(["key", "other"])?, 1);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn del(&self, keys: impl ToArgs) -> Result<u64> {
        Args::of(&keys).with(|keys| self.call(|open| open.store.delete(self.database, keys)))
    }

    /// Returns the number of keys that exist. A repeated key counts each time.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert_eq!(store.exists("key")?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn exists(&self, keys: impl ToArgs) -> Result<u64> {
        Args::of(&keys).with(|keys| self.call(|open| open.store.exists(self.database, keys)))
    }

    /// Sets the time after which a key expires. Returns whether the key exists.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the time is 2^62 ms or longer.
    ///
    /// ```
    /// use std::time::Duration;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.set("key", "value")?;
    /// assert!(store.expire("key", Duration::from_secs(60))?);
    /// assert!(!store.expire("other", Duration::from_secs(60))?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn expire(&self, key: impl ToSingleArg, after: Duration) -> Result<bool> {
        let after = expiry_milliseconds(after)?;
        let at = self.with(engine::Store::now) + after;
        key.with_arg(|key| self.call(|open| open.store.expire_at(self.database, key, at)))
    }

    /// Returns the remaining time until a key expires, or `None` if the key is missing or does not
    /// expire.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    ///
    /// ```
    /// use std::time::Duration;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.set("key", "value")?;
    /// assert_eq!(store.ttl("key")?, None);
    /// store.expire("key", Duration::from_secs(60))?;
    /// assert!(store.ttl("key")? <= Some(Duration::from_secs(60)));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn ttl(&self, key: impl ToSingleArg) -> Result<Option<Duration>> {
        let at = key.with_arg(|key| self.call(|open| open.store.expiry(self.database, key)))?;
        let left =
            |at: u64| Duration::from_millis(at.saturating_sub(self.with(engine::Store::now)));
        Ok(at.flatten().map(left))
    }

    /// Removes the expiry of a key. Returns whether the key had an expiry.
    ///
    /// # Errors
    /// Fails if the store cannot be written.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.set("key", "value")?;
    /// assert!(!store.persist("key")?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn persist(&self, key: impl ToSingleArg) -> Result<bool> {
        self.ask("PERSIST", key)
    }

    /// Returns Redis' name for the type of a key (`string`, `list`, `hash`, ...), or `None` if the
    /// key does not exist.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.rpush("queue", &["job"])?;
    /// assert_eq!(store.key_type("queue")?.as_deref(), Some("list"));
    /// assert_eq!(store.key_type("other")?, None);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn key_type(&self, key: impl ToSingleArg) -> Result<Option<String>> {
        let name: String = self.ask("TYPE", key)?;
        Ok(Some(name).filter(|name| name != "none"))
    }

    /// Publishes a message to the subscribers of a channel in all processes. Returns the number of
    /// subscribers.
    ///
    /// # Errors
    /// Fails if the message is longer than a quarter of the store's message ring and the store has
    /// no memory for it.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert_eq!(store.publish("news", "hello")?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn publish(&self, channel: impl ToSingleArg, message: impl ToSingleArg) -> Result<u64> {
        channel.with_arg(|channel| {
            message.with_arg(|message| {
                self.call(|open| open.store.publish(Topic::Channel, channel, message))
            })
        })
    }
}
