//! Provides the set commands.

use crate::command::{ToArgs, ToSingleArg};
use crate::error::Result;
use crate::store::Store;

impl Store {
    /// Adds members. Returns the number of new members.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert_eq!(store.sadd("tags", &["a", "b"])?, 2);
    /// assert_eq!(store.sadd("tags", &["b"])?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn sadd(&self, key: impl ToSingleArg, members: impl ToArgs) -> Result<u64> {
        self.ask("SADD", (key, members))
    }

    /// Removes members. Returns the number of members that existed.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.sadd("tags", &["a"])?;
    /// assert_eq!(store.srem("tags", &["a", "b"])?, 1);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn srem(&self, key: impl ToSingleArg, members: impl ToArgs) -> Result<u64> {
        self.ask("SREM", (key, members))
    }

    /// Returns whether a set contains the given member.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.sadd("tags", &["a"])?;
    /// assert!(store.sismember("tags", "a")?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn sismember(&self, key: impl ToSingleArg, member: impl ToSingleArg) -> Result<bool> {
        self.ask("SISMEMBER", (key, member))
    }

    /// Returns all members, in no particular order.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.sadd("tags", &["a"])?;
    /// assert_eq!(store.smembers("tags")?, [b"a"]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn smembers(&self, key: impl ToSingleArg) -> Result<Vec<Vec<u8>>> {
        self.ask("SMEMBERS", key)
    }

    /// Returns the number of members.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert_eq!(store.scard("tags")?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn scard(&self, key: impl ToSingleArg) -> Result<u64> {
        self.ask("SCARD", key)
    }

    /// Removes and returns a random member.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.sadd("tags", &["a"])?;
    /// assert_eq!(store.spop("tags")?.as_deref(), Some(&b"a"[..]));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn spop(&self, key: impl ToSingleArg) -> Result<Option<Vec<u8>>> {
        self.ask("SPOP", key)
    }

    /// Returns the intersection of the sets, in one atomic read.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.sadd("a", &["1", "2"])?;
    /// store.sadd("b", &["2"])?;
    /// assert_eq!(store.sinter(&["a", "b"])?.len(), 1);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn sinter(&self, keys: impl ToArgs) -> Result<Vec<Vec<u8>>> {
        self.ask("SINTER", keys)
    }

    /// Returns the union of the sets, in one atomic read.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.sadd("a", &["1", "2"])?;
    /// store.sadd("b", &["2"])?;
    /// assert_eq!(store.sunion(&["a", "b"])?.len(), 2);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn sunion(&self, keys: impl ToArgs) -> Result<Vec<Vec<u8>>> {
        self.ask("SUNION", keys)
    }

    /// Returns the members of the first set that are in none of the other sets, in one atomic read.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.sadd("a", &["1", "2"])?;
    /// store.sadd("b", &["2"])?;
    /// assert_eq!(store.sdiff(&["a", "b"])?.len(), 1);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn sdiff(&self, keys: impl ToArgs) -> Result<Vec<Vec<u8>>> {
        self.ask("SDIFF", keys)
    }
}
