//! Noticing that a key with a queue was changed.

use crate::store::{Key, Store};
use crate::structures::dictionary;
use crate::structures::roots::{DATABASES, KEYS, QUEUES, Root};
use crate::transaction::writer::Writer;

/// Keys remembered in one transaction one by one; where it changes more, all
/// queues are looked at.
const KEYS_MAX: usize = 1024;

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
        let mut name = [0; 16];
        name[..8].copy_from_slice(&(self.database as u64).to_le_bytes());
        name[8..].copy_from_slice(&self.hash.to_le_bytes());
        name
    }

    pub(super) fn from_name(store: &Store, name: &[u8]) -> Option<Queue> {
        let (database, hash) = name.split_first_chunk::<8>()?;
        let hash = u64::from_le_bytes(hash.try_into().ok()?);
        let database = u64::from_le_bytes(*database) as usize;
        // Another name is that of a list of mailboxes.
        (database < DATABASES).then_some(Queue {
            database,
            hash,
            shard: store.shard_of(hash),
        })
    }

    /// That of some keys which the queue is of.
    pub(super) fn key_among<'k>(&self, store: &Store, keys: &[&'k [u8]]) -> Option<&'k [u8]> {
        let is_this = |key: &&&[u8]| store.key(key).hash == self.hash;
        keys.iter().find(is_this).copied()
    }

    /// The root of the dictionary that it lies in.
    pub(super) fn root(&self) -> Root {
        Root {
            shard: self.shard,
            database: QUEUES,
        }
    }
}

/// The queues whose keys a transaction changed. Empty where nobody waits.
#[derive(Debug, Default)]
pub(crate) struct Noticed {
    /// In the order of the changes, each once.
    pub(super) queues: Vec<Queue>,
    /// All queues are to be looked at. Nothing is added any more then.
    pub(super) all: bool,
}

impl Noticed {
    /// How much was noticed: where [`cut`](Self::cut) goes back to.
    pub(crate) fn count(&self) -> usize {
        self.queues.len() + usize::from(self.all)
    }

    /// Forgets what was noticed behind the first so many.
    pub(crate) fn cut(&mut self, count: usize) {
        self.all &= count > self.queues.len();
        self.queues.truncate(count);
    }

    pub(crate) fn add(&mut self, queue: Queue) {
        if self.all || self.queues.contains(&queue) {
            return;
        }
        match self.queues.len() < KEYS_MAX {
            true => self.queues.push(queue),
            false => self.all = true,
        }
    }

    pub(crate) fn add_all(&mut self) {
        self.all = true;
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
    pub(crate) fn notice(&mut self, root: Root, hash: u64) {
        if root.database >= DATABASES {
            return;
        }
        let queue = Queue {
            database: root.database,
            hash,
            shard: root.shard,
        };
        let name = queue.name();
        let key = self.store.hidden_key(root.shard, &name);
        // A damaged dictionary is told of by whoever needs it.
        if let Ok(Some(_)) = dictionary::find(self.view(), queue.root(), &key) {
            self.outbox.notice(queue);
        }
    }

    /// Remembers that all keys of a database became others.
    pub(crate) fn notice_all(&mut self, shard: usize) {
        if self.has_queues(shard) {
            self.outbox.notice_all();
        }
    }
}
