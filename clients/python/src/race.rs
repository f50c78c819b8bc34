//! Changes in the midst of reads: only in a build for the tests of what a reader may be given.

use std::sync::atomic::{AtomicU64, Ordering};

use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::session::Session;
use undercroft_embedded::OpenStore;
use undercroft_engine::race::Moment;
use undercroft_engine::{Error, Store};

/// Commands, each with its words, that are one change of the store.
pub(crate) type Change = Vec<Vec<Vec<u8>>>;

/// The time of the handle that changes the store, in Unix milliseconds: what expires soon after has expired for others.
const LONG_AGO: u64 = 1000;

/// A handle beside a client's that changes the store.
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

    /// Runs commands. Returns what those that failed answered.
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

/// Changes the store at once. Returns what failed.
pub(crate) fn change(store: &Store, change: &Change) -> Result<Vec<String>, Error> {
    Ok(Changer::new(store)?.make(change))
}

/// Changes made in the midst of reads by this process.
static MADE: AtomicU64 = AtomicU64::new(0);

/// Has the store changed whenever the body of one of its reads has run, until no change is left. Returns how many such
/// changes were made before this.
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
