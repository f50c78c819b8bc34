//! Finds a store by its name. All clients in a process share one mapping of each file.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use undercroft_commands::session::Session;
use undercroft_commands::table::{Flag, find};
use undercroft_engine::{
    Durability, Error, ForkMutex, Options, RecoveryWatch, Store, StoreName, Terms, WaitHook,
};

use crate::open_store::OpenStore;

/// The identity of a store: the device and the inode number of its file.
type Inode = (u64, u64);

/// The stores that are open in this process.
static OPEN: ForkMutex<Stores> = ForkMutex::new(BTreeMap::new(), BTreeMap::new);

type Stores = BTreeMap<Inode, Weak<OpenStore>>;

/// The warnings about mismatched store options that this process has already reported.
static TOLD: ForkMutex<BTreeSet<Box<str>>> = ForkMutex::new(BTreeSet::new(), BTreeSet::new);

/// A client's reaction to the removal or replacement of its store's file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRemoved {
    /// The client moves to the store that now has the removed store's name, unless the client holds
    /// state of the removed store.
    #[default]
    Reopen,
    /// Every call returns an error until the program opens the store again.
    Error,
}

impl OnRemoved {
    /// Returns the option with this name: `reopen` or `error`.
    ///
    /// # Errors
    /// Fails if the name is neither `reopen` nor `error`.
    pub fn from_name(name: &str) -> Result<OnRemoved, Error> {
        match name {
            "reopen" => Ok(OnRemoved::Reopen),
            "error" => Ok(OnRemoved::Error),
            other => Err(Error::Name(
                format!("expected 'reopen' or 'error' as on_removed, got {other:?}").into(),
            )),
        }
    }
}

/// The location of a store, and the terms on which it is opened, both initially and after it was
/// closed or removed.
#[derive(Clone, Debug)]
pub struct Place {
    name: StoreName,
    terms: Terms,
    on_removed: OnRemoved,
    patience: Option<Duration>,
}

impl Place {
    /// Parses the name of a store with [`StoreName::parse`]. A relative path is relative to the
    /// current directory of the process. A URL can end with options, such as
    /// `?durability=everysec&on_removed=error`: `on_removed` selects an [`OnRemoved`], `durability`
    /// a [`Durability`], and `journal` the folder of the journal.
    ///
    /// # Errors
    /// If the name is invalid, the error describes valid names.
    pub fn new(name: &str, terms: Terms) -> Result<Place, Error> {
        let (name, options) = match name.starts_with("undercroft://") {
            true => name.split_once('?').unwrap_or((name, "")),
            false => (name, ""),
        };
        let (mut terms, mut on_removed) = (terms, OnRemoved::default());
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("on_removed", choice)) => on_removed = OnRemoved::from_name(choice)?,
                Some(("durability", mode)) => terms.durability = Some(durability_from_name(mode)?),
                Some(("journal", folder)) if !folder.is_empty() => {
                    terms.journal = Some(folder.into());
                }
                _ => return Err(unknown_option(option)),
            }
        }
        let mut name = StoreName::parse(name)?;
        if let Ok(path) = std::path::absolute(&name.path) {
            name.path = path;
        }
        Ok(Place {
            name,
            terms,
            on_removed,
            patience: None,
        })
    }

    /// Returns the place with a different reaction to the removal of the file.
    #[must_use]
    pub fn on_removed(self, on_removed: OnRemoved) -> Place {
        Place { on_removed, ..self }
    }

    /// Returns the place with a limit on how long this process waits for one of the store's locks.
    #[must_use]
    pub fn with_patience(self, patience: Option<Duration>) -> Place {
        Place { patience, ..self }
    }

    /// Returns whether clients move to the store that now has the name of a removed store. A client
    /// moves only if it holds no state of the removed store.
    #[inline]
    pub fn reopens(&self) -> bool {
        self.on_removed == OnRemoved::Reopen
    }

    /// Returns whether a client leaves a store whose file was removed or replaced, and moves to the
    /// store that now has the same name. The place's reaction must be [`OnRemoved::Reopen`], and
    /// the connection must hold no state of the old store.
    pub fn leaves(&self, open: &OpenStore, session: &Session) -> bool {
        open.store.is_lost() && self.reopens() && session.holds_nothing()
    }

    /// Returns whether to repeat a refused command on the store that now has the same name. The
    /// connection must have held no state of the old store before the command. A blocking command
    /// is not repeated, because its wait ends with the store in which it started (M7).
    #[cold]
    pub fn runs_again(&self, open: &OpenStore, session: &Session, words: &[&[u8]]) -> bool {
        let command = words.first().and_then(|name| find(name));
        let waits = command.is_some_and(|command| command.flags.has(Flag::Blocking));
        !waits && self.leaves(open, session)
    }

    /// Returns the error for calls that need a store that has been removed.
    pub fn removed(&self) -> Error {
        Error::of_removal(self.path())
    }

    /// Checks that a store satisfies the client's terms. If the store's limits differ, returns a
    /// warning once per process.
    ///
    /// # Errors
    /// Returns the same errors as [`Store::agrees_with`].
    pub fn check_terms(&self, store: &Store) -> Result<Option<Box<str>>, Error> {
        let warning = store.agrees_with(&self.terms)?;
        Ok(warning.filter(|warning| TOLD.lock().insert(warning.clone())))
    }

    /// Returns the database number at the end of the name, such as 1 in `undercroft://name/1`.
    pub fn database(&self) -> Option<usize> {
        self.name.database
    }

    /// Returns the path of the store's file.
    pub fn path(&self) -> &Path {
        &self.name.path
    }

    /// Returns the store. Opens or creates it unless it is already open in this process. A new
    /// mapping uses the wait hook that `hook` returns to wait for locks.
    ///
    /// # Errors
    /// Fails if the store can neither be opened nor created.
    pub fn open(
        &self,
        hook: impl FnOnce() -> Option<Box<dyn WaitHook>>,
    ) -> Result<Arc<OpenStore>, Error> {
        let opened = self.find_or_open(hook)?;
        if let Some(patience) = self.patience {
            opened.store.set_patience(patience);
        }
        Ok(opened)
    }

    fn find_or_open(
        &self,
        hook: impl FnOnce() -> Option<Box<dyn WaitHook>>,
    ) -> Result<Arc<OpenStore>, Error> {
        let path = self.path();
        if let Some(known) = known(path) {
            return Ok(known);
        }
        self.name.prepare()?;
        let options = Options {
            capacity: self.terms.capacity,
            ..Options::default()
        };
        let hook = hook();
        // A recovery may take long, and so may the wait for the recovery by another process.
        let watch = RecoveryWatch {
            hook: hook.as_deref(),
            report: None,
        };
        let mut store = Store::open_or_create_watched(path, &options, &self.terms, &watch)?;
        if let Some(hook) = hook {
            store.set_wait_hook(hook);
        }
        let opened = Arc::new(OpenStore::new(store));
        // If two threads open a store concurrently, the second thread uses the mapping of the
        // first.
        Ok(keep(path, &opened).unwrap_or(opened))
    }
}

/// Returns the durability mode with a name.
///
/// # Errors
/// Fails if the name is neither `none`, `everysec` nor `always`.
pub fn durability_from_name(name: &str) -> Result<Durability, Error> {
    Durability::from_name(name).ok_or_else(|| {
        Error::Name(
            format!("expected 'none', 'everysec' or 'always' as durability, got {name:?}").into(),
        )
    })
}

fn unknown_option(option: &str) -> Error {
    Error::Name(
        format!(
            "expected the options on_removed, durability or journal in the store's URL, got \
             {option:?}"
        )
        .into(),
    )
}

fn inode(path: &Path) -> Option<Inode> {
    let status = path.metadata().ok()?;
    Some((status.dev(), status.ino()))
}

/// Returns the open store with this identity. Does not return a lost store, even if its file was
/// moved back to its path: the file must then be opened again.
fn usable(open: &Stores, inode: Inode) -> Option<Arc<OpenStore>> {
    let known = open.get(&inode).and_then(Weak::upgrade);
    known.filter(|known| !known.store.is_lost())
}

/// Returns the open store whose file is at a path.
fn known(path: &Path) -> Option<Arc<OpenStore>> {
    let inode = inode(path)?;
    usable(&OPEN.lock(), inode)
}

/// Registers a store that was just opened. If another thread registered a mapping of the same file
/// in the meantime, returns that mapping instead.
fn keep(path: &Path, opened: &Arc<OpenStore>) -> Option<Arc<OpenStore>> {
    let inode = inode(path)?;
    let mut open = OPEN.lock();
    open.retain(|_, opened| opened.strong_count() > 0);
    let first = usable(&open, inode);
    if first.is_none() {
        open.insert(inode, Arc::downgrade(opened));
    }
    first
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    fn place() -> (tempfile::TempDir, Place) {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let path = directory.path().join("store");
        let name = path.to_str().expect("a path of text");
        let place = Place::new(name, Terms::default()).expect("a name");
        (directory, place)
    }

    #[test]
    fn process_maps_each_file_once() {
        let (_directory, place) = place();
        let barrier = Barrier::new(4);
        let opened: Vec<Arc<OpenStore>> = std::thread::scope(|scope| {
            let open = || {
                barrier.wait();
                place.open(|| None).expect("a store")
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("it opens"))
                .collect()
        });
        assert!(opened.iter().all(|one| Arc::ptr_eq(one, &opened[0])));
        let first = Arc::downgrade(&opened[0]);
        drop(opened);
        assert!(first.upgrade().is_none(), "closed with its last client");
        place.open(|| None).expect("opened again");
    }

    #[test]
    fn replaced_file_is_a_different_store() {
        let (_directory, place) = place();
        let old = place.open(|| None).expect("a store");
        std::fs::remove_file(place.path()).expect("it exists");
        let new = place.open(|| None).expect("a new store");
        assert!(!Arc::ptr_eq(&old, &new));
    }
}
