//! The store that an import fills: an existing store, or a new one that gets its name when the
//! import is complete.

use undercroft_embedded::OpenStore;
use undercroft_engine::{DATABASES, Options, Store};

use crate::arguments::Import;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::out::tell;
use crate::size::{counted, grouped, human};
use crate::store;
use crate::unfinished::Unfinished;

pub(super) struct Target {
    pub(super) open: OpenStore,
    unfinished: Option<Unfinished>,
}

/// Returns whether an import fills a new store, which no process sees before it is complete.
pub(super) fn is_new(arguments: &Import) -> Result<bool, Failure> {
    let name = store::parse(arguments.store.name())?;
    Ok(name.path.symlink_metadata().is_err() && store::journal_of(&name).is_none())
}

impl Target {
    /// Opens the store if it exists. Otherwise creates an unfinished store, which is published
    /// later.
    pub(super) fn open(arguments: &Import, interrupt: &Interrupt) -> Result<Target, Failure> {
        let (mut store, unfinished) = match is_new(arguments)? {
            false => {
                let name = arguments.store.name();
                (store::open_or_create(name, arguments.capacity)?, None)
            }
            true => {
                let options = Options {
                    capacity: arguments.capacity,
                    ..Options::default()
                };
                let name = store::parse(arguments.store.name())?;
                let (store, unfinished) = Unfinished::create(&name, &options)?;
                store.tell_when_lost();
                (store, Some(unfinished))
            }
        };
        store.set_wait_hook(Box::new(interrupt.clone()));
        if let Some(bytes) = arguments.maxmemory {
            store.set_max_memory(bytes)?;
        }
        let open = OpenStore::passing(store);
        Ok(Target { open, unfinished })
    }

    pub(super) fn store(&self) -> &Store {
        &self.open.store
    }

    /// Checks that the store has no keys, unless the user asked to replace them, and that `bytes` of
    /// data fit within the memory limit.
    pub(super) fn check(&self, bytes: u64, arguments: &Import) -> Result<(), Failure> {
        let keys = self.keys()?;
        if keys > 0 && !arguments.replace {
            return Err(Failure::new(format_args!(
                "{} already has {}; --replace removes them first",
                self.store().path().display(),
                counted(keys, "key")
            )));
        }
        let limit = self.store().max_memory();
        if limit != 0 && bytes > limit {
            return Err(Failure::new(format_args!(
                "the file holds {}, but the store accepts at most {}; raise the limit with \
                 --maxmemory",
                human(bytes),
                human(limit)
            )));
        }
        Ok(())
    }

    /// Removes all keys.
    pub(super) fn empty(&self) -> Result<(), Failure> {
        if self.keys()? > 0 {
            self.store().flush_all(true)?;
        }
        Ok(())
    }

    fn keys(&self) -> Result<u64, Failure> {
        let mut keys = 0;
        for database in 0..DATABASES {
            keys += self.store().count_keys(database)?;
        }
        Ok(keys)
    }

    /// Describes the state of the store after an import that failed while it changed the store.
    /// `keys` is the number of keys in the file, if it is known.
    pub(super) fn state(&self, keys: Option<u64>) -> String {
        if self.unfinished.is_some() {
            return "no store was created".to_owned();
        }
        let stored = self.keys().map_or(String::new(), |stored| match keys {
            None => format!(": it has {}", counted(stored, "key")),
            Some(keys) => {
                let keys = counted(keys, "key");
                format!(": it has {} of the file's {keys}", grouped(stored))
            }
        });
        format!(
            "{} is incomplete{stored}; import --replace starts over",
            self.store().path().display()
        )
    }

    /// Writes the store to the disk, and publishes it if it is new. Returns the name of the store
    /// for messages.
    pub(super) fn finish(self) -> Result<String, Failure> {
        if let Err(error) = self.store().sync() {
            tell(format_args!(
                "undercroft: all keys were imported, but the store was not synced: {error}\n"
            ));
        }
        match self.unfinished {
            None => Ok(self.open.store.path().display().to_string()),
            Some(unfinished) => {
                let place = unfinished.target().display().to_string();
                unfinished.publish()?;
                Ok(place)
            }
        }
    }
}
