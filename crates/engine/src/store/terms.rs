//! The limits that a process requests when it opens a store. They take effect only if the process
//! creates the store.
//!
//! Several processes with the same limits can start simultaneously. One process creates the store
//! with the limits already in place, and the others open it. If CONFIG SET has changed a limit
//! since, a process that starts with the old limit does not change it back. It continues with a
//! warning about the difference.

use std::path::{Path, PathBuf};

use undercroft_memory::{
    Durability, Initially, JournalOptions, JournalTerms, Setting, capacity_made,
};

use crate::error::Error;
use crate::handle::eviction_policy::EvictionPolicy;
use crate::handle::store::Store;
use crate::store::name::journal_folder;

/// The default `maxmemory` of a new store in bytes, if the file system is large enough.
const MAX_MEMORY: u64 = 1 << 30;

/// The limits with which a new store is created. An existing store keeps its own limits.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// The size of the heap's address space in bytes.
    pub capacity: Option<u64>,
    /// The memory limit in bytes, which applies to the data of all processes; 0 means no limit. The
    /// default is 1 GiB, or five eighths of the file system if that is less.
    pub max_memory: Option<u64>,
    /// The eviction policy that applies at the memory limit.
    pub policy: Option<EvictionPolicy>,
    /// When changes become durable. The default for a store without a journal is never. A store
    /// that has a journal keeps its own mode.
    pub durability: Option<Durability>,
    /// The folder of the journal. The default is [`journal_folder`].
    pub journal: Option<PathBuf>,
    /// Whether opening an existing store with different limits is an error.
    pub strict: bool,
}

impl Terms {
    /// Calls `create` with the initial settings of a new store.
    pub(crate) fn initially<R>(&self, create: impl FnOnce(Initially<'_>) -> R) -> R {
        let policy = self.policy.unwrap_or_default();
        create(Initially {
            max_memory: self.max_memory.unwrap_or(MAX_MEMORY),
            max_memory_is_default: self.max_memory.is_none(),
            settings: &[(Setting::EvictionPolicy, policy as u64)],
        })
    }

    /// Returns the journal with which the store at `path` is opened, or `None` if it cannot have
    /// one.
    ///
    /// # Errors
    /// Fails if a durability mode is requested, but no folder is known.
    pub(crate) fn journal_terms(&self, path: &Path) -> Result<Option<JournalTerms>, Error> {
        let wants = self.durability.is_some_and(|mode| mode != Durability::None);
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.into());
        let folder = self.journal.clone().or_else(|| journal_folder(&absolute));
        match folder {
            Some(folder) => Ok(Some(JournalTerms {
                folder,
                durability: self.durability,
                options: JournalOptions::default(),
            })),
            None if wants => Err(Error::Terms(
                "expected HOME or XDG_STATE_HOME in the environment, for the journal's folder; \
                 name the folder with journal=PATH"
                    .into(),
            )),
            None => Ok(None),
        }
    }
}

impl Store {
    /// Compares the store's limits with the limits that a process requests. Returns a warning if
    /// `maxmemory` or the eviction policy differs. The warning names both values and the command
    /// that changes the store's limit.
    ///
    /// # Errors
    /// Returns [`Error::Terms`] if the capacity differs, because it can never change, or if
    /// [`strict`](Terms::strict) is set and any other limit differs.
    pub fn agrees_with(&self, terms: &Terms) -> Result<Option<Box<str>>, Error> {
        let limits = (terms.capacity, terms.max_memory, terms.policy);
        if limits == (None, None, None) && terms.durability.is_none() {
            return Ok(None);
        }
        let path = self.path().display();
        let capacity = self.segment.capacity();
        if let Some(asked) = terms
            .capacity
            .filter(|asked| capacity_made(*asked) != capacity)
        {
            return Err(Error::Terms(
                format!(
                    "the store {path} has a capacity of {capacity}, not the requested {asked}; \
                     capacity is fixed when a store is created: undercroft export, then import \
                     with --capacity, create a new one"
                )
                .into(),
            ));
        }
        let (limit, policy) = (self.max_memory(), self.eviction().policy);
        let asked_limit = terms.max_memory.filter(|asked| *asked != limit);
        let asked_policy = terms.policy.filter(|asked| *asked != policy);
        let differences = [
            asked_limit.map(|asked| ("maxmemory", limit.to_string(), asked.to_string())),
            asked_policy.map(|asked| {
                let names = (policy.name().to_owned(), asked.name().to_owned());
                ("maxmemory-policy", names.0, names.1)
            }),
        ];
        let texts = differences
            .into_iter()
            .flatten()
            .map(|(what, found, asked)| {
                format!(
                    "the store {path} has {what} {found}, not the requested {asked}, which \
                     applies only when a store is created; to change it for all users: undercroft \
                     exec --store {path} CONFIG SET {what} {asked}"
                )
            });
        let found = self.durability();
        let durability = terms.durability.filter(|&asked| asked != found).map(|asked| {
            let (found, asked) = (found.name(), asked.name());
            format!(
                "the store {path} has durability {found}, not the requested {asked}; to change it \
                 for all users: undercroft durability {path} {asked}"
            )
        });
        let text = texts.chain(durability).collect::<Vec<String>>().join("; ");
        match text.is_empty() {
            true => Ok(None),
            false if terms.strict => Err(Error::Terms(text.into())),
            false => Ok(Some(text.into())),
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
    fn processes_that_start_at_once_all_open_a_store_with_their_terms() {
        const WORKERS: usize = 8;
        let terms = Terms {
            capacity: Some((64 << 20) + 1),
            max_memory: Some(1 << 20),
            policy: Some(EvictionPolicy::AllKeysLru),
            strict: true,
            ..Terms::default()
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
    fn differing_limit_warns_with_the_command_that_changes_it() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let path = directory.path().join("store");
        open(&path, &Terms::default()).expect("a new store");
        let refused = |terms: Terms| open(&path, &terms).err().expect("refused").to_string();
        // Opens the store with and without `strict`, and checks that the warning and the error have
        // the same text.
        let told = |terms: Terms| {
            let store = open(&path, &terms).expect("a warning only");
            let warning = store.agrees_with(&terms).expect("a warning only");
            let strict = Terms {
                strict: true,
                ..terms
            };
            assert_eq!(warning.as_deref(), Some(&*refused(strict)));
            warning.expect("a difference").into_string()
        };
        let text = told(Terms {
            max_memory: Some(1 << 20),
            ..Terms::default()
        });
        let set = format!(
            "undercroft exec --store {} CONFIG SET maxmemory 1048576",
            path.display()
        );
        assert!(
            text.contains("maxmemory 1073741824, not the requested 1048576")
                && text.ends_with(&set),
            "{text}"
        );
        let text = told(Terms {
            policy: Some(EvictionPolicy::AllKeysLru),
            ..Terms::default()
        });
        assert!(
            text.contains("maxmemory-policy noeviction, not the requested allkeys-lru"),
            "{text}"
        );
        let text = refused(Terms {
            capacity: Some(64 << 20),
            ..Terms::default()
        });
        assert!(text.contains(", not the requested 67108864"), "{text}");
        let same = Terms {
            max_memory: Some(1 << 30),
            policy: Some(EvictionPolicy::NoEviction),
            strict: true,
            ..Terms::default()
        };
        let store = open(&path, &same).expect("what it has");
        assert!(matches!(store.agrees_with(&same), Ok(None)));
        for asked in [0, 1, u64::MAX] {
            let text = refused(Terms {
                capacity: Some(asked),
                ..Terms::default()
            });
            assert!(text.contains(&asked.to_string()), "{text}");
        }
        let none = directory.path().join("none");
        for asked in [0, 10, u64::MAX] {
            let terms = Terms {
                capacity: Some(asked),
                ..Terms::default()
            };
            let text = open(&none, &terms).err().expect("refused").to_string();
            assert!(text.contains("expected a capacity of 524288 to"), "{text}");
            assert!(!none.exists());
        }
    }
}
