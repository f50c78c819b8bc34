//! Provides the hash commands.

use crate::command::{ToArgs, ToSingleArg};
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
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.hset("user:1", &[("name", "Ada")])?;
    /// assert_eq!(store.hget("user:1", "name")?.as_deref(), Some(&b"Ada"[..]));
    /// assert_eq!(store.hget("user:1", "age")?, None);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn hget(&self, key: impl ToSingleArg, field: impl ToSingleArg) -> Result<Option<Vec<u8>>> {
        key.with_arg(|key| field.with_arg(|field| self.run(&[b"HGET", key, field])))?
            .to()
    }

    /// Returns the values of several fields in one atomic read.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.hset("user:1", &[("name", "Ada")])?;
    /// assert_eq!(store.hmget("user:1", &["name", "age"])?, [Some(b"Ada".to_vec()), None]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn hmget(
        &self,
        key: impl ToSingleArg,
        fields: impl ToArgs,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        self.ask("HMGET", (key, fields))
    }

    /// Returns all fields and their values, in no particular order.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.hset("user:1", &[("name", "Ada")])?;
    /// assert_eq!(store.hgetall("user:1")?, [(b"name".to_vec(), b"Ada".to_vec())]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn hgetall(&self, key: impl ToSingleArg) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.ask("HGETALL", key)
    }

    /// Sets fields atomically, given as fields and values: `("name", "Ada")`, a list of pairs, or a
    /// map. Returns the number of new fields.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert_eq!(store.hset("user:1", &[("name", "Ada"), ("born", "1815")])?, 2);
    /// assert_eq!(store.hset("user:1", ("name", "Augusta"))?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn hset(&self, key: impl ToSingleArg, fields: impl ToArgs) -> Result<u64> {
        self.ask("HSET", (key, fields))
    }

    /// Sets a field unless it exists. Returns whether the field was set.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert!(store.hset_nx("user:1", "name", "Ada")?);
    /// assert!(!store.hset_nx("user:1", "name", "Grace")?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn hset_nx(
        &self,
        key: impl ToSingleArg,
        field: impl ToSingleArg,
        value: impl ToSingleArg,
    ) -> Result<bool> {
        self.ask("HSETNX", (key, field, value))
    }

    /// Deletes fields. Returns the number of fields that existed.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.hset("user:1", &[("name", "Ada")])?;
    /// assert_eq!(store.hdel("user:1", &["name", "age"])?, 1);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn hdel(&self, key: impl ToSingleArg, fields: impl ToArgs) -> Result<u64> {
        self.ask("HDEL", (key, fields))
    }

    /// Returns whether a hash has the given field.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert!(!store.hexists("user:1", "name")?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn hexists(&self, key: impl ToSingleArg, field: impl ToSingleArg) -> Result<bool> {
        self.ask("HEXISTS", (key, field))
    }

    /// Adds to the integer in a field. A missing field counts as 0. Returns the sum.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type, if the value is not an integer, or if the
    /// sum exceeds 64 bits.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert_eq!(store.hincr("user:1", "visits", 2)?, 2);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn hincr(&self, key: impl ToSingleArg, field: impl ToSingleArg, by: i64) -> Result<i64> {
        self.ask("HINCRBY", (key, field, by))
    }

    /// Returns the number of fields.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.hset("user:1", &[("name", "Ada")])?;
    /// assert_eq!(store.hlen("user:1")?, 1);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn hlen(&self, key: impl ToSingleArg) -> Result<u64> {
        self.ask("HLEN", key)
    }
}
