//! Provides the sorted set commands. The members of a sorted set are ordered by score.

use crate::error::Result;
use crate::store::Store;

/// Formats a score as an argument. Redis parses `inf` and `-inf` in the form that Rust prints.
fn text(score: f64) -> String {
    score.to_string()
}

impl Store {
    /// Adds members with their scores, or updates the scores. Returns the number of new members.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type, or if a score is not a number.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// assert_eq!(store.zadd("scores", &[("ada", 3.0), ("grace", 5.0)])?, 2);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn zadd(&self, key: impl AsRef<[u8]>, members: &[(impl AsRef<[u8]>, f64)]) -> Result<u64> {
        let texts: Vec<String> = members.iter().map(|(_, score)| text(*score)).collect();
        let pairs: Vec<&[u8]> = texts
            .iter()
            .zip(members)
            .flat_map(|(score, (member, _))| [score.as_bytes(), member.as_ref()])
            .collect();
        self.ask_all(&[b"ZADD", key.as_ref()], &pairs)
    }

    /// Adds to the score of a member. A missing member counts as 0. Returns the sum.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type, or if the sum is not a number.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// assert_eq!(store.zincr("scores", "ada", 1.5)?, 1.5);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn zincr(&self, key: impl AsRef<[u8]>, member: impl AsRef<[u8]>, by: f64) -> Result<f64> {
        self.ask(&[
            b"ZINCRBY",
            key.as_ref(),
            text(by).as_bytes(),
            member.as_ref(),
        ])
    }

    /// Returns the score of a member.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.zadd("scores", &[("ada", 3.0)])?;
    /// assert_eq!(store.zscore("scores", "ada")?, Some(3.0));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn zscore(&self, key: impl AsRef<[u8]>, member: impl AsRef<[u8]>) -> Result<Option<f64>> {
        self.ask(&[b"ZSCORE", key.as_ref(), member.as_ref()])
    }

    /// Returns the position of a member, counted from 0 at the lowest score.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.zadd("scores", &[("ada", 3.0), ("grace", 5.0)])?;
    /// assert_eq!(store.zrank("scores", "grace")?, Some(1));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn zrank(&self, key: impl AsRef<[u8]>, member: impl AsRef<[u8]>) -> Result<Option<i64>> {
        self.ask(&[b"ZRANK", key.as_ref(), member.as_ref()])
    }

    /// Returns the members and scores from one position to another, inclusive. Negative positions
    /// count from the highest score.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.zadd("scores", &[("ada", 3.0), ("grace", 5.0)])?;
    /// assert_eq!(store.zrange("scores", -1, -1)?, [(b"grace".to_vec(), 5.0)]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn zrange(
        &self,
        key: impl AsRef<[u8]>,
        first: i64,
        last: i64,
    ) -> Result<Vec<(Vec<u8>, f64)>> {
        let (mut from, mut to) = (itoa::Buffer::new(), itoa::Buffer::new());
        let (from, to) = (from.format(first).as_bytes(), to.format(last).as_bytes());
        self.ask(&[b"ZRANGE", key.as_ref(), from, to, b"WITHSCORES"])
    }

    /// Returns the members and scores in a range of scores, inclusive.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type, or if a bound is not a number.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.zadd("scores", &[("ada", 3.0), ("grace", 5.0)])?;
    /// assert_eq!(store.zrange_by_score("scores", 4.0, f64::INFINITY)?.len(), 1);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn zrange_by_score(
        &self,
        key: impl AsRef<[u8]>,
        low: f64,
        high: f64,
    ) -> Result<Vec<(Vec<u8>, f64)>> {
        let (low, high) = (text(low), text(high));
        let bounds = [low.as_bytes(), high.as_bytes()];
        self.ask(&[
            b"ZRANGEBYSCORE",
            key.as_ref(),
            bounds[0],
            bounds[1],
            b"WITHSCORES",
        ])
    }

    /// Removes members. Returns the number of members that existed.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// store.zadd("scores", &[("ada", 3.0)])?;
    /// assert_eq!(store.zrem("scores", &["ada"])?, 1);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn zrem(&self, key: impl AsRef<[u8]>, members: &[impl AsRef<[u8]>]) -> Result<u64> {
        self.ask_all(&[b"ZREM", key.as_ref()], members)
    }

    /// Returns the number of members.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// assert_eq!(store.zcard("scores")?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn zcard(&self, key: impl AsRef<[u8]>) -> Result<u64> {
        self.ask(&[b"ZCARD", key.as_ref()])
    }
}
