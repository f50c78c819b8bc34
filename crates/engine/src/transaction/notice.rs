//! Queues of waiting clients whose keys a transaction changed.

use crate::handle::store::Store;
use crate::structures::key::Key;
use crate::structures::roots::{DATABASES, QUEUES, Root};

/// Keys remembered in one transaction one by one; where it changes more, all
/// queues are looked at.
const KEYS_MAX: usize = 1024;

/// Names a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Queue {
    pub(crate) database: usize,
    /// The hash of the key.
    pub(crate) hash: u64,
    pub(crate) shard: usize,
}

impl Queue {
    pub(crate) fn of(database: usize, key: &Key<'_>) -> Queue {
        Queue {
            database,
            hash: key.hash,
            shard: key.shard,
        }
    }

    /// The queue's name in its dictionary.
    pub(crate) fn name(&self) -> [u8; 16] {
        let mut name = [0; 16];
        name[..8].copy_from_slice(&(self.database as u64).to_le_bytes());
        name[8..].copy_from_slice(&self.hash.to_le_bytes());
        name
    }

    pub(crate) fn from_name(store: &Store, name: &[u8]) -> Option<Queue> {
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
    pub(crate) fn key_among<'k>(&self, store: &Store, keys: &[&'k [u8]]) -> Option<&'k [u8]> {
        let is_this = |key: &&&[u8]| store.key(key).hash == self.hash;
        keys.iter().find(is_this).copied()
    }

    /// The root of the dictionary that it lies in.
    pub(crate) fn root(&self) -> Root {
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
    pub(crate) queues: Vec<Queue>,
    /// All queues are to be looked at. Nothing is added any more then.
    pub(crate) all: bool,
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
