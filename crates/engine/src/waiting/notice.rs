//! Noticing that a key with a queue was changed.

use std::cell::{OnceCell, RefCell};

use crate::dictionary;
use crate::roots::{DATABASES, KEYS, QUEUES, Root};
use crate::store::{Key, Store};
use crate::writer::Writer;

/// Keys remembered in one transaction one by one; where it changes more, all
/// queues are looked at.
const KEYS_MAX: usize = 1024;

/// In the first half of a name: no queue, but who was given something.
const GIVEN: u64 = 1 << 32;

/// Names a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Queue {
    pub(super) database: usize,
    /// The hash of the key.
    pub(super) hash: u64,
    pub(super) shard: usize,
}

impl Queue {
    pub(super) fn of(database: usize, key: &Key<'_>) -> Queue {
        Queue {
            database,
            hash: key.hash,
            shard: key.shard,
        }
    }

    /// The queue's name in its dictionary.
    pub(super) fn name(&self) -> [u8; 16] {
        self.named(0)
    }

    /// The name of the list of those who were given something of the key, and
    /// have not taken it yet.
    pub(super) fn given(&self) -> [u8; 16] {
        self.named(GIVEN)
    }

    fn named(&self, kind: u64) -> [u8; 16] {
        let mut name = [0; 16];
        name[..8].copy_from_slice(&(self.database as u64 | kind).to_le_bytes());
        name[8..].copy_from_slice(&self.hash.to_le_bytes());
        name
    }

    pub(super) fn from_name(store: &Store, name: &[u8]) -> Option<Queue> {
        let (database, hash) = name.split_first_chunk::<8>()?;
        let hash = u64::from_le_bytes(hash.try_into().ok()?);
        Some(Queue {
            database: (u64::from_le_bytes(*database) & !GIVEN) as usize,
            hash,
            shard: store.shard_of(hash),
        })
    }

    /// The root of the dictionary that it lies in.
    pub(super) fn root(&self) -> Root {
        Root {
            shard: self.shard,
            database: QUEUES,
        }
    }
}

/// The queues whose keys a transaction changed. Empty, and almost free, where
/// nobody waits.
#[derive(Default)]
pub(crate) struct Noticed(OnceCell<RefCell<Notices>>);

/// What was noticed.
#[derive(Default)]
pub(super) struct Notices {
    /// In the order of the changes, each once.
    pub(super) queues: Vec<Queue>,
    /// All queues are to be looked at.
    pub(super) all: bool,
}

impl Noticed {
    /// Whether something was noticed.
    #[inline(always)]
    pub(crate) fn is_some(&self) -> bool {
        self.0.get().is_some()
    }

    pub(super) fn into_notices(self) -> Notices {
        self.0
            .into_inner()
            .map(RefCell::into_inner)
            .unwrap_or_default()
    }

    fn add(&self, queue: Queue) {
        let mut notices = self.0.get_or_init(RefCell::default).borrow_mut();
        if notices.queues.len() >= KEYS_MAX {
            notices.all = true;
        } else if !notices.queues.contains(&queue) {
            notices.queues.push(queue);
        }
    }

    fn add_all(&self) {
        self.0.get_or_init(RefCell::default).borrow_mut().all = true;
    }
}

impl Writer<'_, '_> {
    /// Whether some key of a shard has a queue.
    #[inline(always)]
    pub(crate) fn has_queues(&self, shard: usize) -> bool {
        let root = Root {
            shard,
            database: QUEUES,
        };
        root.get(self.view(), KEYS) != 0
    }

    /// Remembers the queue of a key that was changed, if it has one.
    #[cold]
    pub(crate) fn notice(&self, root: Root, hash: u64) {
        if root.database >= DATABASES {
            return;
        }
        let queue = Queue {
            database: root.database,
            hash,
            shard: root.shard,
        };
        let is_there = |name: &[u8]| {
            let key = self.store.hidden_key(root.shard, name);
            // A damaged dictionary is told of by whoever needs it.
            matches!(
                dictionary::find(self.view(), queue.root(), &key),
                Ok(Some(_))
            )
        };
        if is_there(&queue.name()) || is_there(&queue.given()) {
            self.noticed.add(queue);
        }
    }

    /// Remembers that all keys of a database became others.
    pub(crate) fn notice_all(&self, shard: usize) {
        if self.has_queues(shard) {
            self.noticed.add_all();
        }
    }
}
