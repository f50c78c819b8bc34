//! The stores that this process has open: one mapping each, however many
//! clients use it.

use std::collections::HashMap;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use pyo3::Python;
use pyo3::ffi;
use undercroft_engine::{Error, Options, Store, StoreName, Terms, WaitHook};

use crate::host::Embedding;

/// A store with what belongs to the process around it.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) host: Embedding,
}

/// The store of a process, as one holds it who must not lose it.
pub(crate) struct StoreOf(pub(crate) Arc<Shared>);

impl Deref for StoreOf {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.0.store
    }
}

/// Which file of which device: a store's identity.
type Inode = (u64, u64);

static OPEN: LazyLock<Mutex<HashMap<Inode, Weak<Shared>>>> = LazyLock::new(Mutex::default);

/// How to find a store again.
#[derive(Clone)]
pub(crate) struct Place {
    name: StoreName,
    terms: Terms,
}

impl Place {
    /// Reads a store's name; a relative path is taken from the directory the
    /// process is in now.
    pub(crate) fn new(name: &str, terms: Terms) -> Result<Place, Error> {
        let mut name = StoreName::parse(name)?;
        if let Ok(path) = std::path::absolute(&name.path) {
            name.path = path;
        }
        Ok(Place { name, terms })
    }

    /// Whether the store has what the client asks for.
    pub(crate) fn check_terms(&self, store: &Store) -> Result<(), Error> {
        store.agrees_with(&self.terms)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.name.path
    }

    /// The store, opened or created unless this process has it already. The
    /// caller keeps the interpreter's lock throughout, so that no fork finds
    /// the table of open stores locked.
    pub(crate) fn open(&self, _: Python<'_>) -> Result<Arc<Shared>, Error> {
        let path: &PathBuf = &self.name.path;
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |open: &HashMap<Inode, Weak<Shared>>| {
            inode(path).and_then(|inode| open.get(&inode).and_then(Weak::upgrade))
        };
        if let Some(shared) = known(&open) {
            return Ok(shared);
        }
        self.name.prepare()?;
        let options = Options {
            capacity: self.terms.capacity,
            ..Options::default()
        };
        let mut store = Store::open_or_create_so(path, &options, &self.terms)?;
        store.set_wait_hook(Box::new(Interpreter));
        let shared = Arc::new(Shared {
            store,
            host: Embedding::new(),
        });
        open.retain(|_, shared| shared.strong_count() > 0);
        if let Some(inode) = inode(path) {
            open.insert(inode, Arc::downgrade(&shared));
        }
        Ok(shared)
    }
}

fn inode(path: &Path) -> Option<Inode> {
    let status = path.metadata().ok()?;
    Some((status.dev(), status.ino()))
}

/// Lets other threads run while one waits for a lock of the store.
struct Interpreter;

/// The wait of one thread, which never leaves that thread.
struct Sleep<'a>(&'a mut dyn FnMut());

// SAFETY: `Python::detach` calls its closure on the calling thread.
unsafe impl Send for Sleep<'_> {}

impl Sleep<'_> {
    fn begin(self) {
        (self.0)();
    }
}

impl WaitHook for Interpreter {
    fn blocked(&self, block: &mut dyn FnMut()) {
        Python::attach(|py| {
            let sleep = Sleep(block);
            py.detach(move || sleep.begin());
        });
    }

    fn interrupted(&self) -> bool {
        // SAFETY: the thread is attached. The handlers that run here may use
        // the store: the waiting thread holds none of its locks.
        Python::attach(|_| unsafe { ffi::PyErr_CheckSignals() } != 0)
    }
}
