//! Strings and counters.

use undercroft_engine as engine;

use crate::error::Result;
use crate::set_options::SetOptions;
use crate::store::Store;

impl Store {
    /// The string that a key holds.
    ///
    /// # Errors
    /// A key that holds something else.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.set("key", "value")?;
    /// assert_eq!(store.get("key")?.as_deref(), Some(&b"value"[..]));
    /// assert_eq!(store.get("other")?, None);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// [`get`](Self::get) into memory that is used again: what was in it is gone. Returns whether the key was there.
    ///
    /// # Errors
    /// As those of `get`.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.set("key", "value")?;
    /// let mut buffer = Vec::with_capacity(1024);
    /// assert!(store.get_into("key", &mut buffer)?);
    /// assert_eq!(buffer, b"value");
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    #[inline]
    pub fn get_into(&self, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        self.call(|open| open.store.get(self.database, key.as_ref(), value))
    }

    /// The strings of several keys, as they were at one moment; none where a key is missing or holds something else.
    ///
    /// # Errors
    /// A store that cannot be read.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.set("a", "1")?;
    /// assert_eq!(store.get_many(&["a", "b"])?, [Some(b"1".to_vec()), None]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn get_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.call(|open| open.store.get_many(self.database, &keys))
    }

    /// Sets a key to a string that does not expire.
    ///
    /// # Errors
    /// No memory: [`Error::is_full`](crate::Error::is_full).
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.set("key", [0, 159, 146, 150])?;
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    #[inline]
    pub fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.call(|open| open.store.set(self.database, key, value))
    }

    /// Sets a key to a string, with an expiry or on a condition. Returns whether it did.
    ///
    /// # Errors
    /// As those of [`set`](Self::set).
    ///
    /// ```
    /// use std::time::Duration;
    /// use undercroft::SetOptions;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// assert!(store.set_with("key", "value", SetOptions::new().ttl(Duration::from_secs(60)))?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn set_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: SetOptions,
    ) -> Result<bool> {
        let options = options.for_engine(self.with(engine::Store::now))?;
        let (key, value) = (key.as_ref(), value.as_ref());
        self.call(|open| open.store.set_with(self.database, key, value, options))
    }

    /// Sets several keys to strings that do not expire, all at one moment.
    ///
    /// # Errors
    /// As those of [`set`](Self::set).
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.set_many(&[("a", "1"), ("b", "2")])?;
    /// assert_eq!(store.exists(&["a", "b"])?, 2);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn set_many(&self, pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> Result<()> {
        let pairs: Vec<(&[u8], &[u8])> = pairs
            .iter()
            .map(|(key, value)| (key.as_ref(), value.as_ref()))
            .collect();
        self.call(|open| open.store.set_many(self.database, &pairs))
    }

    /// Adds to the integer that a key holds, 0 where it is not there. Returns the sum.
    ///
    /// # Errors
    /// A value that is no integer, and a sum beyond 64 bits.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// assert_eq!(store.incr("visits", 1)?, 1);
    /// assert_eq!(store.incr("visits", -3)?, -2);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    #[inline]
    pub fn incr(&self, key: impl AsRef<[u8]>, by: i64) -> Result<i64> {
        self.call(|open| open.store.increment(self.database, key.as_ref(), by))
    }

    /// Appends to the string that a key holds. Returns its length.
    ///
    /// # Errors
    /// As those of [`set`](Self::set), and a key that holds something else.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// assert_eq!(store.append("log", "one ")?, 4);
    /// assert_eq!(store.append("log", "two")?, 7);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn append(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<u64> {
        self.ask(&[b"APPEND", key.as_ref(), value.as_ref()])
    }
}
