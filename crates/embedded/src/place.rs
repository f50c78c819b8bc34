//! Finding a store by its name; one mapping of each file in a process, however many clients use it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use undercroft_commands::session::Session;
use undercroft_commands::table::{Flag, find};
use undercroft_engine::{Error, ForkMutex, Options, Store, StoreName, Terms, WaitHook};

use crate::open_store::OpenStore;

/// Which file of which device: a store's identity.
type Inode = (u64, u64);

/// The stores that this process has open.
static OPEN: ForkMutex<Stores> = ForkMutex::new(BTreeMap::new(), BTreeMap::new);

type Stores = BTreeMap<Inode, Weak<OpenStore>>;

/// The differences between stores and what was asked of them that this process was warned of.
static TOLD: ForkMutex<BTreeSet<Box<str>>> = ForkMutex::new(BTreeSet::new(), BTreeSet::new);

/// The reaction of a client to the removal or replacement of its store's file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRemoved {
    /// Opens the store that the name means now, unless the client holds something of the old one.
    #[default]
    Reopen,
    /// Ends every call with an error until the program opens the store again.
    Error,
}

impl OnRemoved {
    /// The choice of this name: `reopen` or `error`.
    ///
    /// # Errors
    /// Any other name.
    pub fn from_name(name: &str) -> Result<OnRemoved, Error> {
        match name {
            "reopen" => Ok(OnRemoved::Reopen),
            "error" => Ok(OnRemoved::Error),
            other => Err(Error::Name(
                format!("expected on_removed to be 'reopen' or 'error'; got {other:?}").into(),
            )),
        }
    }
}

/// How to find a store, again after it was closed or removed, too.
#[derive(Clone, Debug)]
pub struct Place {
    name: StoreName,
    terms: Terms,
    on_removed: OnRemoved,
    patience: Option<Duration>,
}

impl Place {
    /// Reads a store's name, see [`StoreName::parse`]; a relative path is taken from the directory that the process is
    /// in now. A URL may end with `?on_removed=error`, see [`OnRemoved`].
    ///
    /// # Errors
    /// What a name looks like, where this is none.
    pub fn new(name: &str, terms: Terms) -> Result<Place, Error> {
        let option = match name.starts_with("undercroft://") {
            true => name.split_once("?on_removed="),
            false => None,
        };
        let (name, on_removed) = match option {
            Some((name, choice)) => (name, OnRemoved::from_name(choice)?),
            None => (name, OnRemoved::default()),
        };
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

    /// The same place for a client with another choice.
    #[must_use]
    pub fn on_removed(self, on_removed: OnRemoved) -> Place {
        Place { on_removed, ..self }
    }

    /// The same place for a client that sets how long this process waits for the store's locks.
    #[must_use]
    pub fn with_patience(self, patience: Option<Duration>) -> Place {
        Place { patience, ..self }
    }

    /// Whether a client that holds nothing of a removed store opens the one that the name means now.
    #[inline]
    pub fn reopens(&self) -> bool {
        self.on_removed == OnRemoved::Reopen
    }

    /// Whether a client leaves a store whose file was removed or replaced for the one that the name means now: it may, and
    /// its connection holds nothing of the old one.
    pub fn leaves(&self, open: &OpenStore, session: &Session) -> bool {
        open.store.is_lost() && self.reopens() && session.holds_nothing()
    }

    /// Whether a command that was refused is run again in the store that the name means now; its connection held nothing
    /// of the old one before it. A command that waits for keys is not: its wait ends with the store that it began in (M7).
    #[cold]
    pub fn runs_again(&self, open: &OpenStore, session: &Session, words: &[&[u8]]) -> bool {
        let command = words.first().and_then(|name| find(name));
        let waits = command.is_some_and(|command| command.flags.has(Flag::Blocking));
        !waits && self.leaves(open, session)
    }

    /// The error of calls that would use what is gone with a removed store.
    pub fn removed(&self) -> Error {
        Error::of_removal(self.path())
    }

    /// Compares a store with what the client asks for. Returns a warning where it has other limits, to each process
    /// once.
    ///
    /// # Errors
    /// As those of [`Store::agrees_with`].
    pub fn check_terms(&self, store: &Store) -> Result<Option<Box<str>>, Error> {
        let warning = store.agrees_with(&self.terms)?;
        Ok(warning.filter(|warning| TOLD.lock().insert(warning.clone())))
    }

    /// The database that the name ends with, as in `undercroft://name/1`.
    pub fn database(&self) -> Option<usize> {
        self.name.database
    }

    /// The store's path.
    pub fn path(&self) -> &Path {
        &self.name.path
    }

    /// The store, opened or created unless this process has it already. A new mapping waits for locks with this hook,
    /// where one is made.
    ///
    /// # Errors
    /// Where the store can neither be opened nor created.
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
        let mut store = Store::open_or_create_so(path, &options, &self.terms)?;
        if let Some(hook) = hook() {
            store.set_wait_hook(hook);
        }
        let opened = Arc::new(OpenStore::new(store));
        // Of two threads that open a store at the same time the second takes the first's.
        Ok(keep(path, &opened).unwrap_or(opened))
    }
}

fn inode(path: &Path) -> Option<Inode> {
    let status = path.metadata().ok()?;
    Some((status.dev(), status.ino()))
}

/// The store that this process has open with this identity. A store that was lost stays lost to those who have it, also
/// where its file is back at its path: that is opened again.
fn usable(open: &Stores, inode: Inode) -> Option<Arc<OpenStore>> {
    let known = open.get(&inode).and_then(Weak::upgrade);
    known.filter(|known| !known.store.is_lost())
}

/// The store that this process has open at a path.
fn known(path: &Path) -> Option<Arc<OpenStore>> {
    let inode = inode(path)?;
    usable(&OPEN.lock(), inode)
}

/// Remembers a store that was just opened, unless there is another one by now, which is returned.
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
    fn a_process_has_one_mapping_of_a_file() {
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
    fn another_file_at_the_path_is_another_store() {
        let (_directory, place) = place();
        let old = place.open(|| None).expect("a store");
        std::fs::remove_file(place.path()).expect("it is there");
        let new = place.open(|| None).expect("a new store");
        assert!(!Arc::ptr_eq(&old, &new));
    }
}
