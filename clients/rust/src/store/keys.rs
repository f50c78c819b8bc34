//! Keys whatever they hold, and messages.

use std::time::Duration;

use undercroft_engine as engine;
use undercroft_engine::messages::Topic;

use crate::error::{Error, Result};
use crate::store::Store;

impl Store {
    /// Removes keys, all at one moment. Returns how many were there.
    ///
    /// # Errors
    /// A store that cannot be written.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.set("key", "value")?;
    /// assert_eq!(store.del(&["key", "other"])?, 1);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn del(&self, keys: &[impl AsRef<[u8]>]) -> Result<u64> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.call(|open| open.store.delete(self.database, &keys))
    }

    /// How many of the keys are there.
    ///
    /// # Errors
    /// A store that cannot be read.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// assert_eq!(store.exists(&["key"])?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn exists(&self, keys: &[impl AsRef<[u8]>]) -> Result<u64> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.call(|open| open.store.exists(self.database, &keys))
    }

    /// Lets a key expire after so long. Returns whether it is there.
    ///
    /// # Errors
    /// A time beyond 2^62 milliseconds.
    ///
    /// ```
    /// use std::time::Duration;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.set("key", "value")?;
    /// assert!(store.expire("key", Duration::from_secs(60))?);
    /// assert!(!store.expire("other", Duration::from_secs(60))?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn expire(&self, key: impl AsRef<[u8]>, after: Duration) -> Result<bool> {
        let after = u64::try_from(after.as_millis())
            .ok()
            .filter(|after| *after < 1 << 62);
        let Some(after) = after else {
            return Err(Error::reply("ERR invalid expire time in 'pexpire' command"));
        };
        let at = self.with(engine::Store::now) + after;
        self.call(|open| open.store.expire_at(self.database, key.as_ref(), at))
    }

    /// How long a key still lives: none where it is not there or does not expire.
    ///
    /// # Errors
    /// A store that cannot be read.
    ///
    /// ```
    /// use std::time::Duration;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.set("key", "value")?;
    /// assert_eq!(store.ttl("key")?, None);
    /// store.expire("key", Duration::from_secs(60))?;
    /// assert!(store.ttl("key")? <= Some(Duration::from_secs(60)));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn ttl(&self, key: impl AsRef<[u8]>) -> Result<Option<Duration>> {
        let at = self.call(|open| open.store.expiry(self.database, key.as_ref()))?;
        let left =
            |at: u64| Duration::from_millis(at.saturating_sub(self.with(engine::Store::now)));
        Ok(at.flatten().map(left))
    }

    /// Takes a key's expiry away. Returns whether it had one.
    ///
    /// # Errors
    /// A store that cannot be written.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.set("key", "value")?;
    /// assert!(!store.persist("key")?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn persist(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.ask(&[b"PERSIST", key.as_ref()])
    }

    /// The type of what a key holds, as Redis names it: `string`, `list`, `hash`, ...; none where it is not there.
    ///
    /// # Errors
    /// A store that cannot be read.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.rpush("queue", &["job"])?;
    /// assert_eq!(store.key_type("queue")?.as_deref(), Some("list"));
    /// assert_eq!(store.key_type("other")?, None);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn key_type(&self, key: impl AsRef<[u8]>) -> Result<Option<String>> {
        let name: String = self.ask(&[b"TYPE", key.as_ref()])?;
        Ok(Some(name).filter(|name| name != "none"))
    }

    /// Sends a message to all who are subscribed to a channel, in whatever process. Returns how many they are.
    ///
    /// # Errors
    /// No memory for a message longer than a quarter of the store's ring.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// assert_eq!(store.publish("news", "hello")?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn publish(&self, channel: impl AsRef<[u8]>, message: impl AsRef<[u8]>) -> Result<u64> {
        let (channel, message) = (channel.as_ref(), message.as_ref());
        self.call(|open| open.store.publish(Topic::Channel, channel, message))
    }
}
