//! Provides the sorted set commands. The members of a sorted set are ordered by score.

use crate::command::{ToArgs, ToSingleArg};
use crate::error::Result;
use crate::store::Store;

impl Store {
    /// Adds a member with its score, or updates the score. Returns the number of new members.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type, or if the score is not a number.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert_eq!(store.zadd("scores", "ada", 3.0)?, 1);
    /// assert_eq!(store.zadd("scores", "ada", 4)?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn zadd(
        &self,
        key: impl ToSingleArg,
        member: impl ToSingleArg,
        score: impl ToSingleArg,
    ) -> Result<u64> {
        self.ask("ZADD", (key, score, member))
    }

    /// Adds members atomically, given as scores and members, or updates their scores. Returns the
    /// number of new members.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type, or if a score is not a number.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert_eq!(store.zadd_multiple("scores", [(3.0, "ada"), (5.0, "grace")])?, 2);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn zadd_multiple(&self, key: impl ToSingleArg, items: impl ToArgs) -> Result<u64> {
        self.ask("ZADD", (key, items))
    }

    /// Adds to the score of a member. A missing member counts as 0. Returns the sum.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type, or if the sum is not a number.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert_eq!(store.zincr("scores", "ada", 1.5)?, 1.5);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn zincr(
        &self,
        key: impl ToSingleArg,
        member: impl ToSingleArg,
        delta: f64,
    ) -> Result<f64> {
        self.ask("ZINCRBY", (key, delta, member))
    }

    /// Returns the score of a member.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.zadd("scores", "ada", 3.0)?;
    /// assert_eq!(store.zscore("scores", "ada")?, Some(3.0));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn zscore(&self, key: impl ToSingleArg, member: impl ToSingleArg) -> Result<Option<f64>> {
        self.ask("ZSCORE", (key, member))
    }

    /// Returns the position of a member, counted from 0 at the lowest score.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.zadd_multiple("scores", [(3.0, "ada"), (5.0, "grace")])?;
    /// assert_eq!(store.zrank("scores", "grace")?, Some(1));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn zrank(&self, key: impl ToSingleArg, member: impl ToSingleArg) -> Result<Option<i64>> {
        self.ask("ZRANK", (key, member))
    }

    /// Returns the members from one position to another, inclusive. Negative positions
    /// count from the highest score.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.zadd_multiple("scores", [(3.0, "ada"), (5.0, "grace")])?;
    /// assert_eq!(store.zrange("scores", 0, -1)?, [b"ada".to_vec(), b"grace".to_vec()]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn zrange(&self, key: impl ToSingleArg, start: i64, stop: i64) -> Result<Vec<Vec<u8>>> {
        self.ask("ZRANGE", (key, start, stop))
    }

    /// Returns the members and scores from one position to another, inclusive. Negative positions
    /// count from the highest score.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.zadd_multiple("scores", [(3.0, "ada"), (5.0, "grace")])?;
    /// assert_eq!(store.zrange_withscores("scores", -1, -1)?, [(b"grace".to_vec(), 5.0)]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn zrange_withscores(
        &self,
        key: impl ToSingleArg,
        start: i64,
        stop: i64,
    ) -> Result<Vec<(Vec<u8>, f64)>> {
        self.ask("ZRANGE", (key, start, stop, "WITHSCORES"))
    }

    /// Returns the members from one position to another, inclusive, beginning with the
    /// highest score. Position 0 is the member with the highest score.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.zadd_multiple("scores", [(3.0, "ada"), (5.0, "grace")])?;
    /// assert_eq!(store.zrevrange("scores", 0, 0)?, [b"grace".to_vec()]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn zrevrange(&self, key: impl ToSingleArg, start: i64, stop: i64) -> Result<Vec<Vec<u8>>> {
        self.ask("ZREVRANGE", (key, start, stop))
    }

    /// Returns the members and scores from one position to another, inclusive, beginning with the
    /// highest score. Position 0 is the member with the highest score.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.zadd_multiple("scores", [(3.0, "ada"), (5.0, "grace")])?;
    /// assert_eq!(store.zrevrange_withscores("scores", 0, 0)?, [(b"grace".to_vec(), 5.0)]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn zrevrange_withscores(
        &self,
        key: impl ToSingleArg,
        start: i64,
        stop: i64,
    ) -> Result<Vec<(Vec<u8>, f64)>> {
        self.ask("ZREVRANGE", (key, start, stop, "WITHSCORES"))
    }

    /// Returns the members in a range of scores. The bounds are inclusive numbers, or
    /// texts such as `"(5"`, an exclusive bound.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type, or if a bound is not a number.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.zadd_multiple("scores", [(3.0, "ada"), (5.0, "grace")])?;
    /// assert_eq!(store.zrangebyscore("scores", "(3", f64::INFINITY)?, [b"grace".to_vec()]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn zrangebyscore(
        &self,
        key: impl ToSingleArg,
        min: impl ToSingleArg,
        max: impl ToSingleArg,
    ) -> Result<Vec<Vec<u8>>> {
        self.ask("ZRANGEBYSCORE", (key, min, max))
    }

    /// Returns the members and scores in a range of scores. The bounds are inclusive numbers, or
    /// texts such as `"(5"`, an exclusive bound.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type, or if a bound is not a number.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.zadd_multiple("scores", [(3.0, "ada"), (5.0, "grace")])?;
    /// assert_eq!(store.zrangebyscore_withscores("scores", 3, 4)?, [(b"ada".to_vec(), 3.0)]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn zrangebyscore_withscores(
        &self,
        key: impl ToSingleArg,
        min: impl ToSingleArg,
        max: impl ToSingleArg,
    ) -> Result<Vec<(Vec<u8>, f64)>> {
        self.ask("ZRANGEBYSCORE", (key, min, max, "WITHSCORES"))
    }

    /// Removes members. Returns the number of members that existed.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.zadd("scores", "ada", 3.0)?;
    /// assert_eq!(store.zrem("scores", &["ada"])?, 1);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn zrem(&self, key: impl ToSingleArg, members: impl ToArgs) -> Result<u64> {
        self.ask("ZREM", (key, members))
    }

    /// Returns the number of members.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert_eq!(store.zcard("scores")?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn zcard(&self, key: impl ToSingleArg) -> Result<u64> {
        self.ask("ZCARD", key)
    }
}
