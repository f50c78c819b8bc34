//! Provides the commands for strings and counters.

use undercroft_engine as engine;

use crate::command::{Args, ToArgs, ToSingleArg};
use crate::error::{Error, Result};
use crate::remote::SetWords;
use crate::set_options::SetOptions;
use crate::store::Store;

impl Store {
    /// Returns the string value of a key.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.set("key", "value")?;
    /// assert_eq!(store.get("key")?.as_deref(), Some(&b"value"[..]));
    /// assert_eq!(store.get("other")?, None);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    #[inline]
    pub fn get(&self, key: impl ToSingleArg) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Reads the string value of a key into a buffer, replacing the buffer's contents. Returns
    /// whether the key exists.
    ///
    /// # Errors
    /// The errors of `get`.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.set("key", "value")?;
    /// let mut buffer = Vec::with_capacity(1024);
    /// assert!(store.get_into("key", &mut buffer)?);
    /// assert_eq!(buffer, b"value");
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    #[inline]
    pub fn get_into(&self, key: impl ToSingleArg, value: &mut Vec<u8>) -> Result<bool> {
        key.with_arg(|key| self.call(|open| open.store.get(self.database, key, value)))
    }

    /// Returns the string values of several keys in one atomic read, with `None` for keys that are
    /// missing or hold a value of another type.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.set("a", "1")?;
    /// assert_eq!(store.mget(&["a", "b"])?, [Some(b"1".to_vec()), None]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn mget(&self, keys: impl ToArgs) -> Result<Vec<Option<Vec<u8>>>> {
        Args::of(&keys).with(|keys| self.call(|open| open.store.get_many(self.database, keys)))
    }

    /// Sets a key to a string that does not expire.
    ///
    /// # Errors
    /// Fails if the store is full (see [`Error::is_full`](crate::Error::is_full)).
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.set("key", [0, 159, 146, 150_u8])?;
    /// store.set("visits", 0)?;
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    #[inline]
    pub fn set(&self, key: impl ToSingleArg, value: impl ToSingleArg) -> Result<()> {
        key.with_arg(|key| {
            value.with_arg(|value| self.call(|open| open.store.set(self.database, key, value)))
        })
    }

    /// Sets a key to a string, with an expiry or a condition. Returns whether the value was set.
    ///
    /// # Errors
    /// The errors of [`set`](Self::set).
    ///
    /// ```
    /// use std::time::Duration;
    /// use undercroft::SetOptions;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert!(store.set_options("key", "value", SetOptions::new().ttl(Duration::from_secs(60)))?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn set_options(
        &self,
        key: impl ToSingleArg,
        value: impl ToSingleArg,
        options: SetOptions,
    ) -> Result<bool> {
        let options = options.for_engine(self.with(engine::Store::now))?;
        key.with_arg(|key| {
            value.with_arg(|value| {
                self.call(|open| open.store.set_with(self.database, key, value, options))
            })
        })
    }

    /// Sets a key to a string, and returns the previous value, or `None` if the key did not exist.
    /// With a condition, the value is set only if the condition is met.
    ///
    /// # Errors
    /// Fails like [`set`](Self::set), or if the key holds a value of another type.
    ///
    /// ```
    /// use undercroft::SetOptions;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.set("key", "old")?;
    /// let old = store.set_get_old("key", "new", SetOptions::new().keep_ttl())?;
    /// assert_eq!(old.as_deref(), Some(&b"old"[..]));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn set_get_old(
        &self,
        key: impl ToSingleArg,
        value: impl ToSingleArg,
        options: SetOptions,
    ) -> Result<Option<Vec<u8>>> {
        key.with_arg(|key| {
            value.with_arg(|value| {
                let mut words = SetWords::new(key, value, options)?.getting_old();
                let (words, count) = words.words();
                self.run(&words[..count])?.to()
            })
        })
    }

    /// Sets several keys atomically to strings that do not expire, given as keys and values: a list of
    /// pairs, or a map.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if a key has no value, and the errors of [`set`](Self::set).
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.mset([("a", "1"), ("b", "2")])?;
    /// assert_eq!(store.exists(["a", "b"])?, 2);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn mset(&self, pairs: impl ToArgs) -> Result<()> {
        Args::of(&pairs).with(|words| {
            let (pairs, rest) = words.as_chunks::<2>();
            if !rest.is_empty() {
                return Err(Error::argument(
                    "expected a value for each key, got one less",
                ));
            }
            let pairs: Vec<(&[u8], &[u8])> =
                pairs.iter().map(|[key, value]| (*key, *value)).collect();
            self.call(|open| open.store.set_many(self.database, &pairs))
        })
    }

    /// Adds to the integer value of a key. A missing key counts as 0. Returns the sum.
    ///
    /// # Errors
    /// Fails if the value is not an integer, or if the sum exceeds 64 bits.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert_eq!(store.incr("visits", 1)?, 1);
    /// assert_eq!(store.incr("visits", -3)?, -2);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    #[inline]
    pub fn incr(&self, key: impl ToSingleArg, by: i64) -> Result<i64> {
        key.with_arg(|key| self.call(|open| open.store.increment(self.database, key, by)))
    }

    /// Appends to the string value of a key. Returns the new length.
    ///
    /// # Errors
    /// Fails like [`set`](Self::set), or if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert_eq!(store.append("log", "one ")?, 4);
    /// assert_eq!(store.append("log", "two")?, 7);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn append(&self, key: impl ToSingleArg, value: impl ToSingleArg) -> Result<u64> {
        self.ask("APPEND", (key, value))
    }
}
