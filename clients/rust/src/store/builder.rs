//! Opens a store with limits and other options.

use std::path::{Path, PathBuf};
use std::time::Duration;

use undercroft_embedded::{Place, StoreByName};
use undercroft_engine::{self as engine, Terms};

use crate::error::{Error, Result};
use crate::observe;
use crate::store::Store;

/// The policy that selects the keys to evict when a store reaches its memory limit, with the names
/// of Redis' `maxmemory-policy`.
///
/// ```
/// use undercroft::{EvictionPolicy, Store};
/// # let directory = undercroft_testkit::fresh::directory();
/// # let url = format!("undercroft://{}/store", directory.path().display());
/// let store = Store::builder().policy(EvictionPolicy::AllKeysLru).open(&url)?;
/// # Ok::<(), undercroft::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EvictionPolicy {
    /// Evicts no keys; writes fail instead (`noeviction`).
    NoEviction,
    /// Evicts the least recently used keys (`allkeys-lru`).
    AllKeysLru,
    /// Evicts the least frequently used keys (`allkeys-lfu`).
    AllKeysLfu,
    /// Evicts random keys (`allkeys-random`).
    AllKeysRandom,
    /// Evicts the least recently used keys among those with an expiry (`volatile-lru`).
    VolatileLru,
    /// Evicts the least frequently used keys among those with an expiry (`volatile-lfu`).
    VolatileLfu,
    /// Evicts random keys among those with an expiry (`volatile-random`).
    VolatileRandom,
    /// Evicts the keys that expire soonest (`volatile-ttl`).
    VolatileTtl,
}

impl EvictionPolicy {
    fn for_engine(self) -> engine::eviction::EvictionPolicy {
        match self {
            EvictionPolicy::NoEviction => engine::eviction::EvictionPolicy::NoEviction,
            EvictionPolicy::AllKeysLru => engine::eviction::EvictionPolicy::AllKeysLru,
            EvictionPolicy::AllKeysLfu => engine::eviction::EvictionPolicy::AllKeysLfu,
            EvictionPolicy::AllKeysRandom => engine::eviction::EvictionPolicy::AllKeysRandom,
            EvictionPolicy::VolatileLru => engine::eviction::EvictionPolicy::VolatileLru,
            EvictionPolicy::VolatileLfu => engine::eviction::EvictionPolicy::VolatileLfu,
            EvictionPolicy::VolatileRandom => engine::eviction::EvictionPolicy::VolatileRandom,
            EvictionPolicy::VolatileTtl => engine::eviction::EvictionPolicy::VolatileTtl,
        }
    }
}

/// When the changes of a store survive a failure of the machine.
///
/// ```
/// use undercroft::{Durability, Store};
/// # let directory = undercroft_testkit::fresh::directory();
/// # let folder = directory.path().join("journal");
/// # let url = format!("undercroft://{}/store", directory.path().display());
/// let store = Store::builder().durability(Durability::Always).journal(folder).open(&url)?;
/// store.set("key", "on the disk now")?;
/// # Ok::<(), undercroft::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// Never. The store has no journal.
    None,
    /// About once a second.
    EverySecond,
    /// Before the call that makes them returns.
    Always,
}

/// Options for opening a store (see [`Store::builder`]).
///
/// ```
/// use std::time::Duration;
/// use undercroft::{EvictionPolicy, Store};
/// # let directory = undercroft_testkit::fresh::directory();
/// # let url = format!("undercroft://{}/store", directory.path().display());
/// let store = Store::builder()
///     .capacity(256 << 20)
///     .max_memory(64 << 20)
///     .policy(EvictionPolicy::AllKeysLru)
///     .timeout(Duration::from_secs(1))
///     .open(&url)?; // undercroft://sessions, say
/// let limit = store.command(("CONFIG", "GET", "maxmemory"))?.to::<Vec<(String, u64)>>()?;
/// assert_eq!(limit, [("maxmemory".to_owned(), 64 << 20)]);
/// # Ok::<(), undercroft::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct StoreBuilder {
    terms: Terms,
    timeout: Option<Duration>,
}

impl StoreBuilder {
    /// Sets the size of the store's address space in bytes, which a store keeps from its creation.
    /// The default is 64 GiB, or the size of the file system if that is less.
    ///
    /// ```
    /// let builder = undercroft::Store::builder().capacity(1 << 30);
    /// ```
    #[must_use]
    pub fn capacity(mut self, bytes: u64) -> StoreBuilder {
        self.terms.capacity = Some(bytes);
        self
    }

    /// Sets the memory limit in bytes, which applies to the data of all processes. 0 means no limit
    /// but the capacity. The default is 1 GiB, or five eighths of the file system if that is less.
    ///
    /// ```
    /// let builder = undercroft::Store::builder().max_memory(100 << 20);
    /// ```
    #[must_use]
    pub fn max_memory(mut self, bytes: u64) -> StoreBuilder {
        self.terms.max_memory = Some(bytes);
        self
    }

    /// Sets the eviction policy that applies at the memory limit. The default is
    /// [`EvictionPolicy::NoEviction`].
    ///
    /// ```
    /// use undercroft::EvictionPolicy;
    /// let builder = undercroft::Store::builder().policy(EvictionPolicy::AllKeysLfu);
    /// ```
    #[must_use]
    pub fn policy(mut self, policy: EvictionPolicy) -> StoreBuilder {
        self.terms.policy = Some(policy.for_engine());
        self
    }

    /// Sets when changes survive a failure of the machine. The default for a new store is never; a
    /// store that has a journal keeps its own mode.
    ///
    /// ```
    /// use undercroft::Durability;
    /// let builder = undercroft::Store::builder().durability(Durability::EverySecond);
    /// ```
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> StoreBuilder {
        self.terms.durability = Some(match durability {
            Durability::None => engine::Durability::None,
            Durability::EverySecond => engine::Durability::EverySecond,
            Durability::Always => engine::Durability::Always,
        });
        self
    }

    /// Sets the folder of the journal, which belongs on a disk.
    ///
    /// ```
    /// let builder = undercroft::Store::builder().journal("/var/lib/sessions");
    /// ```
    #[must_use]
    pub fn journal(mut self, folder: impl Into<PathBuf>) -> StoreBuilder {
        self.terms.journal = Some(folder.into());
        self
    }

    /// Makes [`open`](Self::open) fail if the store exists with another memory limit, policy or
    /// durability than the given ones. By default such a store is opened, keeps its own, and the
    /// difference is a warning for the `tracing` feature. Another capacity is always an error.
    ///
    /// ```
    /// use undercroft::{Error, Store};
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let url = format!("undercroft://{}/store", directory.path().display());
    /// let store = Store::builder().max_memory(10 << 20).open(&url)?;
    /// let other = Store::builder().max_memory(20 << 20).strict().open(&url);
    /// assert!(matches!(other, Err(Error::Url(_))));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    #[must_use]
    pub fn strict(mut self) -> StoreBuilder {
        self.terms.strict = true;
        self
    }

    /// Sets how long calls in this process wait for a lock whose holder makes no progress. The
    /// default is 5 seconds.
    ///
    /// ```
    /// use std::time::Duration;
    /// let builder = undercroft::Store::builder().timeout(Duration::from_millis(500));
    /// ```
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> StoreBuilder {
        self.timeout = Some(timeout);
        self
    }

    /// Opens the store that a URL names, like [`Store::open`], creating it with these options if it
    /// does not exist.
    ///
    /// # Errors
    /// [`Error::Url`] if the URL or an option is invalid, and [`Error::Open`] if the store cannot be
    /// opened.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let url = format!("undercroft://{}/store", directory.path().display());
    /// let store = undercroft::Store::builder().open(&url)?;
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn open(self, url: &str) -> Result<Store> {
        let place = Place::new(url, self.terms).map_err(|error| Error::opening(&error))?;
        let database = place.database().unwrap_or(0);
        let by_name = StoreByName::open(place, || None);
        let store = Store {
            by_name: by_name.map_err(|error| Error::opening(&error))?,
            database,
        };
        // A store that existed before may have other limits than the given ones.
        let place = store.by_name.place();
        let checked = store.by_name.with(|open| place.check_terms(&open.store));
        if let Some(warning) = checked.map_err(|error| Error::opening(&error))? {
            observe::warned(&warning);
        }
        if let Some(timeout) = self.timeout {
            store.set_timeout(timeout);
        }
        Ok(store)
    }

    /// Opens the store in the file at a path, like [`Store::open_path`].
    ///
    /// # Errors
    /// Fails like [`open`](Self::open), or if the path is not valid UTF-8.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// let store = undercroft::Store::builder().open_path(directory.path().join("store"))?;
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn open_path(self, path: impl AsRef<Path>) -> Result<Store> {
        // An absolute path cannot be confused with a store name.
        let path = std::path::absolute(path.as_ref()).unwrap_or_else(|_| path.as_ref().into());
        match path.to_str() {
            Some(text) => self.open(text),
            None => Err(Error::url(format!(
                "expected a path in UTF-8, got {}",
                path.display()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_limits_are_an_error_if_strict_and_other_capacities_always() -> Result<()> {
        let directory = undercroft_testkit::fresh::directory();
        let path = directory.path().join("store");
        let builder = Store::builder().capacity(64 << 20).max_memory(5 << 20);
        let _store = builder.clone().open_path(&path)?;
        builder.clone().strict().open_path(&path)?;
        let other = builder.clone().max_memory(6 << 20);
        let opened = other.clone().open_path(&path)?;
        let limit = opened.command(("CONFIG", "GET", "maxmemory"))?;
        assert_eq!(
            limit.to::<(String, u64)>()?.1,
            5 << 20,
            "it keeps its limit"
        );
        for wrong in [other.strict(), builder.clone().capacity(128 << 20)] {
            let error = wrong.open_path(&path).expect_err("another limit");
            assert!(matches!(error, Error::Url(_)), "{error:?}");
        }
        Ok(())
    }

    #[test]
    fn limits_and_policies_are_those_of_the_builder() -> Result<()> {
        let policies = [
            (EvictionPolicy::NoEviction, "noeviction"),
            (EvictionPolicy::AllKeysLru, "allkeys-lru"),
            (EvictionPolicy::AllKeysLfu, "allkeys-lfu"),
            (EvictionPolicy::AllKeysRandom, "allkeys-random"),
            (EvictionPolicy::VolatileLru, "volatile-lru"),
            (EvictionPolicy::VolatileLfu, "volatile-lfu"),
            (EvictionPolicy::VolatileRandom, "volatile-random"),
            (EvictionPolicy::VolatileTtl, "volatile-ttl"),
        ];
        for (policy, name) in policies {
            let directory = undercroft_testkit::fresh::directory();
            let builder = Store::builder().capacity(64 << 20).max_memory(5 << 20);
            let builder = builder.policy(policy).timeout(Duration::from_millis(700));
            let store = builder.open_path(directory.path().join("store"))?;
            let words = ("CONFIG", "GET", "maxmemory-policy");
            let found: Vec<(String, String)> = store.command(words)?.to()?;
            assert_eq!(found[0].1, name);
            assert_eq!(
                store.with(|store| store.patience()),
                Duration::from_millis(700)
            );
            let value = vec![0; 100_000];
            let mut filled = (0..100).map(|number| store.set(number, &value));
            let is_evicted = name.starts_with("allkeys");
            assert_eq!(filled.all(|set| set.is_ok()), is_evicted, "{name}");
        }
        Ok(())
    }
}
