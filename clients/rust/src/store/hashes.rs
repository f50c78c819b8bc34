//! Provides the hash commands.

use crate::error::Result;
use crate::store::Store;

impl Store {
    /// Returns the value of a field in a hash.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.hset("user:1", &[("name", "Ada")])?;
    /// assert_eq!(store.hget("user:1", "name")?.as_deref(), Some(&b"Ada"[..]));
    /// assert_eq!(store.hget("user:1", "age")?, None);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn hget(&self, key: impl AsRef<[u8]>, field: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.ask(&[b"HGET", key.as_ref(), field.as_ref()])
    }

    /// Returns the values of several fields in one atomic read.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.hset("user:1", &[("name", "Ada")])?;
    /// assert_eq!(store.hget_many("user:1", &["name", "age"])?, [Some(b"Ada".to_vec()), None]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn hget_many(
        &self,
        key: impl AsRef<[u8]>,
        fields: &[impl AsRef<[u8]>],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        self.ask_all(&[b"HMGET", key.as_ref()], fields)
    }

    /// Returns all fields and their values, in no particular order.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.hset("user:1", &[("name", "Ada")])?;
    /// assert_eq!(store.hgetall("user:1")?, [(b"name".to_vec(), b"Ada".to_vec())]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn hgetall(&self, key: impl AsRef<[u8]>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.ask(&[b"HGETALL", key.as_ref()])
    }

    /// Sets fields atomically. Returns the number of new fields.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// assert_eq!(store.hset("user:1", &[("name", "Ada"), ("born", "1815")])?, 2);
    /// assert_eq!(store.hset("user:1", &[("name", "Augusta")])?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn hset(
        &self,
        key: impl AsRef<[u8]>,
        fields: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
    ) -> Result<u64> {
        let fields: Vec<&[u8]> = fields
            .iter()
            .flat_map(|(field, value)| [field.as_ref(), value.as_ref()])
            .collect();
        self.ask_all(&[b"HSET", key.as_ref()], &fields)
    }

    /// Sets a field unless it exists. Returns whether the field was set.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// assert!(store.hsetnx("user:1", "name", "Ada")?);
    /// assert!(!store.hsetnx("user:1", "name", "Grace")?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn hsetnx(
        &self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool> {
        self.ask(&[b"HSETNX", key.as_ref(), field.as_ref(), value.as_ref()])
    }

    /// Deletes fields. Returns the number of fields that existed.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.hset("user:1", &[("name", "Ada")])?;
    /// assert_eq!(store.hdel("user:1", &["name", "age"])?, 1);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn hdel(&self, key: impl AsRef<[u8]>, fields: &[impl AsRef<[u8]>]) -> Result<u64> {
        self.ask_all(&[b"HDEL", key.as_ref()], fields)
    }

    /// Returns whether a hash has the given field.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// assert!(!store.hexists("user:1", "name")?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn hexists(&self, key: impl AsRef<[u8]>, field: impl AsRef<[u8]>) -> Result<bool> {
        self.ask(&[b"HEXISTS", key.as_ref(), field.as_ref()])
    }

    /// Adds to the integer in a field. A missing field counts as 0. Returns the sum.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type, if the value is not an integer, or if the
    /// sum exceeds 64 bits.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// assert_eq!(store.hincr("user:1", "visits", 2)?, 2);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn hincr(&self, key: impl AsRef<[u8]>, field: impl AsRef<[u8]>, by: i64) -> Result<i64> {
        let mut digits = itoa::Buffer::new();
        let by = digits.format(by).as_bytes();
        self.ask(&[b"HINCRBY", key.as_ref(), field.as_ref(), by])
    }

    /// Returns the number of fields.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.hset("user:1", &[("name", "Ada")])?;
    /// assert_eq!(store.hlen("user:1")?, 1);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn hlen(&self, key: impl AsRef<[u8]>) -> Result<u64> {
        self.ask(&[b"HLEN", key.as_ref()])
    }
}
