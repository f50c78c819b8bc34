//! Changes the store during reads, to test what a reader can observe. Only in test builds.

use std::sync::atomic::{AtomicU64, Ordering};

use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::session::Session;
use undercroft_embedded::OpenStore;
use undercroft_engine::race::Moment;
use undercroft_engine::{Error, Store};

/// The commands that together make one change to the store, each as a list of its words.
pub(crate) type Change = Vec<Vec<Vec<u8>>>;

/// The clock of the handle that changes the store, in Unix milliseconds. Keys that it sets to
/// expire soon have already expired for other handles.
const LONG_AGO: u64 = 1000;

/// A second handle to a client's store, through which the changes are made.
struct Changer {
    open: OpenStore,
    session: Session,
}

impl Changer {
    fn new(store: &Store) -> Result<Changer, Error> {
        let store = Store::open(store.path(), true)?;
        store.set_time(LONG_AGO);
        let open = OpenStore::new(store);
        Ok(Changer {
            session: open.session(),
            open,
        })
    }

    /// Runs a change's commands and returns the errors from failed commands.
    fn make(&mut self, change: &Change) -> Vec<String> {
        let mut problems = Vec::new();
        for words in change {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let mut reply = Recorder::new();
            if let Err(blocked) = self.open.execute(&mut self.session, &words, &mut reply) {
                problems.push(blocked.to_string());
            }
            for reply in reply.finish().into_iter().flatten() {
                if let Tree::Error(text) = reply {
                    problems.push(text);
                }
            }
        }
        problems
    }
}

/// Changes the store immediately. Returns the errors.
pub(crate) fn change(store: &Store, change: &Change) -> Result<Vec<String>, Error> {
    Ok(Changer::new(store)?.make(change))
}

/// The number of changes that this process made during reads.
static MADE: AtomicU64 = AtomicU64::new(0);

/// Schedules one change after each execution of a read's body, until all changes are made. Returns
/// the number of such changes made before this call.
pub(crate) fn interrupt(store: &Store, changes: Vec<Change>) -> Result<u64, Error> {
    let mut changer = Changer::new(store)?;
    let mut changes = changes.into_iter();
    store.interrupt_reads(Some(Box::new(move |moment| {
        if moment == Moment::Tried
            && let Some(change) = changes.next()
        {
            changer.make(&change);
            MADE.fetch_add(1, Ordering::Relaxed);
        }
    })));
    Ok(MADE.load(Ordering::Relaxed))
}
