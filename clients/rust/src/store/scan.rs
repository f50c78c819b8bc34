//! Iterates over all keys of a database.

use std::vec::IntoIter;

use crate::command::{ToSingleArg, cmd};
use crate::error::Result;
use crate::store::Store;

/// The number of keys that one call inspects.
const COUNT: u32 = 1000;

impl Store {
    /// Returns an iterator over all keys of the database. A key that exists all the time is returned
    /// at least once, and may be returned again if the store grows meanwhile. Each call inspects
    /// about 1,000 keys.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.mset([("a", 1), ("b", 2)])?;
    /// let mut keys = store.scan().collect::<Result<Vec<_>, _>>()?;
    /// keys.sort();
    /// assert_eq!(keys, [b"a", b"b"]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn scan(&self) -> Scan<'_> {
        Scan {
            store: self,
            pattern: None,
            cursor: Some(b"0".to_vec()),
            keys: Vec::new().into_iter(),
        }
    }

    /// Returns an iterator over the keys that match a pattern, such as `user:*`.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.mset([("user:1", "Ada"), ("visits", "2")])?;
    /// assert_eq!(store.scan_match("user:*").next().transpose()?, Some(b"user:1".to_vec()));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn scan_match(&self, pattern: impl ToSingleArg) -> Scan<'_> {
        Scan {
            pattern: Some(pattern.with_arg(<[u8]>::to_vec)),
            ..self.scan()
        }
    }
}

/// An iterator over keys (see [`Store::scan`]). After an error, the next call tries again.
///
/// ```
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// let mut keys: undercroft::Scan<'_> = store.scan();
/// assert!(keys.next().is_none());
/// # Ok::<(), undercroft::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Scan<'s> {
    store: &'s Store,
    pattern: Option<Vec<u8>>,
    /// The position of the next call, or `None` after the last one.
    cursor: Option<Vec<u8>>,
    keys: IntoIter<Vec<u8>>,
}

impl Iterator for Scan<'_> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Result<Vec<u8>>> {
        loop {
            if let Some(key) = self.keys.next() {
                return Some(Ok(key));
            }
            let cursor = self.cursor.as_ref()?;
            let pattern = self.pattern.as_ref().map(|pattern| ("MATCH", pattern));
            let mut scan = cmd("SCAN");
            scan.arg((cursor, pattern, "COUNT", COUNT));
            match scan.query::<(Vec<u8>, Vec<Vec<u8>>)>(self.store) {
                Ok((next, keys)) => {
                    self.keys = keys.into_iter();
                    self.cursor = Some(next).filter(|next| next != b"0");
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn all_keys_are_found_once_in_a_store_that_does_not_change() -> Result<()> {
        let directory = undercroft_testkit::fresh::directory();
        let store = Store::open_path(directory.path().join("store"))?;
        let expected: BTreeSet<Vec<u8>> =
            (0..5000).map(|n| format!("key {n}").into_bytes()).collect();
        for key in &expected {
            store.set(key, "")?;
        }
        store.database(1)?.set("other", "")?;
        let found = store.scan().collect::<Result<Vec<_>>>()?;
        assert_eq!(found.len(), expected.len());
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
        assert_eq!(store.scan_match("key 123*").count(), 11);
        assert_eq!(store.scan_match("none").count(), 0);
        Ok(())
    }
}
