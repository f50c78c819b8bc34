//! Hashes.

use crate::error::Result;
use crate::store::Store;

impl Store {
    /// The value of a hash's field.
    ///
    /// # Errors
    /// A key that holds something else.
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

    /// The values of several fields, as they were at one moment.
    ///
    /// # Errors
    /// A key that holds something else.
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

    /// All fields and their values, in no order.
    ///
    /// # Errors
    /// A key that holds something else.
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

    /// Sets fields, all at one moment. Returns how many are new.
    ///
    /// # Errors
    /// A key that holds something else.
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

    /// Sets a field that is not there. Returns whether it did.
    ///
    /// # Errors
    /// A key that holds something else.
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

    /// Removes fields. Returns how many were there.
    ///
    /// # Errors
    /// A key that holds something else.
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

    /// Whether a hash has a field.
    ///
    /// # Errors
    /// A key that holds something else.
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

    /// Adds to the integer in a field, 0 where it is not there. Returns the sum.
    ///
    /// # Errors
    /// A key that holds something else, a value that is no integer, a sum beyond 64 bits.
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

    /// The number of fields.
    ///
    /// # Errors
    /// A key that holds something else.
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
