//! What somebody asks of a store who opens it: it is for the store's creation.
//!
//! Several processes may begin at once, with the same words. One of them creates
//! the store, whole from its first moment; the others find what they ask for.
//! A limit that is changed later is changed for everybody, so nobody
//! does it by the way of opening the store.

use undercroft_memory::{Initially, Setting, capacity_made};

use crate::error::Error;
use crate::store::Store;
use crate::upkeep::eviction::EvictionPolicy;

/// A new store's `maxmemory`, on a file system that is large enough for it.
const MAX_MEMORY: u64 = 1 << 30;

/// Limits that a store is created with, and that one which is there has to have.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// Address space for the heap in bytes.
    pub capacity: Option<u64>,
    /// The limit on what all processes store in it; 0 is none. The default is
    /// 1 GiB, or three quarters of the file system if that is less.
    pub max_memory: Option<u64>,
    /// Which keys make room at that limit.
    pub policy: Option<EvictionPolicy>,
}

impl Terms {
    /// Calls `create` with what a new store is to say of itself.
    pub(crate) fn initially<R>(&self, create: impl FnOnce(Initially<'_>) -> R) -> R {
        let policy = self.policy.unwrap_or_default();
        create(Initially {
            max_memory: self.max_memory.unwrap_or(MAX_MEMORY),
            max_memory_is_default: self.max_memory.is_none(),
            settings: &[(Setting::EvictionPolicy, policy as u64)],
        })
    }
}

impl Store {
    /// Whether the store has what somebody asks for.
    ///
    /// # Errors
    /// [`Error::Terms`], which names both values and how to change it.
    pub fn agrees_with(&self, terms: &Terms) -> Result<(), Error> {
        let path = self.path().display();
        let differs = |what: &str, found: &dyn std::fmt::Display, asked: &dyn std::fmt::Display| {
            format!("the store {path} has {what} {found}, not {asked} as asked for")
        };
        let by_command =
            |what: &str, found: &dyn std::fmt::Display, asked: &dyn std::fmt::Display| {
                let text = differs(what, found, asked);
                let set = format!("undercroft exec --store {path} CONFIG SET {what} {asked}");
                Err(Error::Terms(
                    format!("{text}; for all its users it is changed by: {set}").into(),
                ))
            };
        let capacity = || self.statistics().capacity;
        if let Some(asked) = terms
            .capacity
            .filter(|asked| capacity_made(*asked) != capacity())
        {
            let text = differs("a capacity of", &capacity(), &asked);
            let way = "it is set for good when a store is created: undercroft export, and import with --capacity, \
                       make a new one";
            return Err(Error::Terms(format!("{text}; {way}").into()));
        }
        let limit = self.max_memory();
        if let Some(asked) = terms.max_memory.filter(|asked| *asked != limit) {
            return by_command("maxmemory", &limit, &asked);
        }
        let policy = self.eviction().policy;
        match terms.policy.filter(|asked| *asked != policy) {
            Some(asked) => by_command("maxmemory-policy", &policy.name(), &asked.name()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use undercroft_memory::Options;

    use super::*;

    fn open(path: &std::path::Path, terms: &Terms) -> Result<Store, Error> {
        let options = Options {
            capacity: terms.capacity,
            ..Options::default()
        };
        let store = Store::open_or_create_so(path, &options, terms)?;
        store.agrees_with(terms)?;
        Ok(store)
    }

    #[test]
    fn whoever_comes_first_makes_the_store_that_all_ask_for() {
        const WORKERS: usize = 8;
        let terms = Terms {
            capacity: Some((64 << 20) + 1),
            max_memory: Some(1 << 20),
            policy: Some(EvictionPolicy::AllKeysLru),
        };
        for _ in 0..20 {
            let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
            let (path, start) = (directory.path().join("store"), Barrier::new(WORKERS));
            std::thread::scope(|scope| {
                for _ in 0..WORKERS {
                    scope.spawn(|| {
                        start.wait();
                        open(&path, &terms).expect("what it asked for");
                    });
                }
            });
        }
    }

    #[test]
    fn another_limit_is_an_error_that_says_how_to_change_it() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let path = directory.path().join("store");
        open(&path, &Terms::default()).expect("a new store");
        let refused = |terms: Terms| open(&path, &terms).err().expect("refused").to_string();
        let text = refused(Terms {
            max_memory: Some(1 << 20),
            ..Terms::default()
        });
        let set = format!(
            "undercroft exec --store {} CONFIG SET maxmemory 1048576",
            path.display()
        );
        assert!(
            text.contains("maxmemory 1073741824, not 1048576") && text.ends_with(&set),
            "{text}"
        );
        let text = refused(Terms {
            policy: Some(EvictionPolicy::AllKeysLru),
            ..Terms::default()
        });
        assert!(
            text.contains("maxmemory-policy noeviction, not allkeys-lru"),
            "{text}"
        );
        let text = refused(Terms {
            capacity: Some(64 << 20),
            ..Terms::default()
        });
        assert!(text.contains(", not 67108864 as asked for"), "{text}");
        open(
            &path,
            &Terms {
                max_memory: Some(1 << 30),
                policy: Some(EvictionPolicy::NoEviction),
                ..Terms::default()
            },
        )
        .expect("what it has");
    }
}
