//! Provides the list commands. Positions count from 0, or from the end: -1 is the last item.

use std::time::Duration;

use crate::command::{ToArgs, ToSingleArg};
use crate::error::Result;
use crate::store::Store;

/// The minimum timeout that is treated as infinite: 100 years.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

impl Store {
    /// Inserts items at the front, one after another. Returns the new length of the list.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert_eq!(store.lpush("queue", &["a", "b"])?, 2);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn lpush(&self, key: impl ToSingleArg, items: impl ToArgs) -> Result<u64> {
        self.ask("LPUSH", (key, items))
    }

    /// Appends items, one after another. Returns the new length of the list.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert_eq!(store.rpush("queue", &["a", "b"])?, 2);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn rpush(&self, key: impl ToSingleArg, items: impl ToArgs) -> Result<u64> {
        self.ask("RPUSH", (key, items))
    }

    /// Removes and returns the first item.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.rpush("queue", &["a", "b"])?;
    /// assert_eq!(store.lpop("queue")?.as_deref(), Some(&b"a"[..]));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn lpop(&self, key: impl ToSingleArg) -> Result<Option<Vec<u8>>> {
        self.ask("LPOP", key)
    }

    /// Removes and returns the last item.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.rpush("queue", &["a", "b"])?;
    /// assert_eq!(store.rpop("queue")?.as_deref(), Some(&b"b"[..]));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn rpop(&self, key: impl ToSingleArg) -> Result<Option<Vec<u8>>> {
        self.ask("RPOP", key)
    }

    /// Removes and returns the first item. If the list is empty, the calling thread sleeps until an
    /// item is pushed or the timeout expires.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// use std::time::Duration;
    /// store.rpush("queue", &["a"])?;
    /// assert_eq!(store.blpop("queue", Duration::from_secs(1))?.as_deref(), Some(&b"a"[..]));
    /// assert_eq!(store.blpop("queue", Duration::from_millis(5))?, None);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn blpop(&self, key: impl ToSingleArg, timeout: Duration) -> Result<Option<Vec<u8>>> {
        // Redis treats a timeout of 0 as infinite, and refuses a timeout that overflows its clock.
        let seconds = if timeout >= FOREVER {
            "0".to_owned()
        } else {
            timeout.as_secs_f64().max(0.001).to_string()
        };
        let popped: Option<Vec<Vec<u8>>> = self.ask("BLPOP", (key, seconds))?;
        Ok(popped.and_then(|mut pair| pair.pop()))
    }

    /// Returns the items from one position to another, inclusive.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.rpush("queue", &["a", "b", "c"])?;
    /// assert_eq!(store.lrange("queue", 1, -1)?, [b"b", b"c"]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn lrange(&self, key: impl ToSingleArg, first: i64, last: i64) -> Result<Vec<Vec<u8>>> {
        self.ask("LRANGE", (key, first, last))
    }

    /// Returns the item at the given position.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.rpush("queue", &["a", "b"])?;
    /// assert_eq!(store.lindex("queue", -1)?.as_deref(), Some(&b"b"[..]));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn lindex(&self, key: impl ToSingleArg, position: i64) -> Result<Option<Vec<u8>>> {
        self.ask("LINDEX", (key, position))
    }

    /// Removes all items outside a range of positions, which is inclusive.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.rpush("queue", &["a", "b", "c"])?;
    /// store.ltrim("queue", 0, 1)?;
    /// assert_eq!(store.llen("queue")?, 2);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn ltrim(&self, key: impl ToSingleArg, first: i64, last: i64) -> Result<()> {
        self.ask("LTRIM", (key, first, last))
    }

    /// Returns the number of items.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert_eq!(store.llen("queue")?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn llen(&self, key: impl ToSingleArg) -> Result<u64> {
        self.ask("LLEN", key)
    }
}
