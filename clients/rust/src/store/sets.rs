//! Provides the set commands.

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
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// assert_eq!(store.sadd("tags", &["a", "b"])?, 2);
    /// assert_eq!(store.sadd("tags", &["b"])?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn sadd(&self, key: impl AsRef<[u8]>, members: &[impl AsRef<[u8]>]) -> Result<u64> {
        self.ask_all(&[b"SADD", key.as_ref()], members)
    }

    /// Removes members. Returns the number of members that existed.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.sadd("tags", &["a"])?;
    /// assert_eq!(store.srem("tags", &["a", "b"])?, 1);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn srem(&self, key: impl AsRef<[u8]>, members: &[impl AsRef<[u8]>]) -> Result<u64> {
        self.ask_all(&[b"SREM", key.as_ref()], members)
    }

    /// Returns whether a set contains the given member.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.sadd("tags", &["a"])?;
    /// assert!(store.sismember("tags", "a")?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn sismember(&self, key: impl AsRef<[u8]>, member: impl AsRef<[u8]>) -> Result<bool> {
        self.ask(&[b"SISMEMBER", key.as_ref(), member.as_ref()])
    }

    /// Returns all members, in no particular order.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.sadd("tags", &["a"])?;
    /// assert_eq!(store.smembers("tags")?, [b"a"]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn smembers(&self, key: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>> {
        self.ask(&[b"SMEMBERS", key.as_ref()])
    }

    /// Returns the number of members.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// assert_eq!(store.scard("tags")?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn scard(&self, key: impl AsRef<[u8]>) -> Result<u64> {
        self.ask(&[b"SCARD", key.as_ref()])
    }

    /// Removes and returns a random member.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.sadd("tags", &["a"])?;
    /// assert_eq!(store.spop("tags")?.as_deref(), Some(&b"a"[..]));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn spop(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.ask(&[b"SPOP", key.as_ref()])
    }

    /// Returns the intersection of the sets, in one atomic read.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.sadd("a", &["1", "2"])?;
    /// store.sadd("b", &["2"])?;
    /// assert_eq!(store.sinter(&["a", "b"])?.len(), 1);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn sinter(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Vec<u8>>> {
        self.ask_all(&[b"SINTER"], keys)
    }

    /// Returns the union of the sets, in one atomic read.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.sadd("a", &["1", "2"])?;
    /// store.sadd("b", &["2"])?;
    /// assert_eq!(store.sunion(&["a", "b"])?.len(), 2);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn sunion(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Vec<u8>>> {
        self.ask_all(&[b"SUNION"], keys)
    }

    /// Returns the members of the first set that are in none of the other sets, in one atomic read.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.sadd("a", &["1", "2"])?;
    /// store.sadd("b", &["2"])?;
    /// assert_eq!(store.sdiff(&["a", "b"])?.len(), 1);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn sdiff(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Vec<u8>>> {
        self.ask_all(&[b"SDIFF"], keys)
    }
}
