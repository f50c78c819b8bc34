//! Queues of waiting clients whose keys a transaction changed.

use crate::handle::store::Store;
use crate::structures::key::Key;
use crate::structures::roots::{DATABASES, QUEUES, Root};

/// The maximum number of queues that one transaction records individually. Beyond this number, all
/// queues are served.
const KEYS_MAX: usize = 1024;

/// Identifies the queue of clients that wait for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Queue {
    pub(crate) database: usize,
    /// The hash of the key that the clients wait for.
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

    /// Returns the name of the queue in its hidden dictionary.
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
        // Names with a higher database number are lists of mailboxes (records of answered waiters),
        // not queues.
        (database < DATABASES).then_some(Queue {
            database,
            hash,
            shard: store.shard_of(hash),
        })
    }

    /// Returns the key in `keys` whose waiting clients are in this queue, if any.
    pub(crate) fn key_among<'k>(&self, store: &Store, keys: &[&'k [u8]]) -> Option<&'k [u8]> {
        let is_this = |key: &&&[u8]| store.key(key).hash == self.hash;
        keys.iter().find(is_this).copied()
    }

    /// Returns the root of the dictionary that contains the queue.
    pub(crate) fn root(&self) -> Root {
        Root {
            shard: self.shard,
            database: QUEUES,
        }
    }
}

/// The queues whose keys a transaction changed. It stays empty if no clients are waiting.
#[derive(Debug, Default)]
pub(crate) struct NoticedQueues {
    /// The queues in the order of the changes, without duplicates.
    pub(crate) queues: Vec<Queue>,
    /// Whether all queues must be served. If so, no further queues are added to `queues`.
    pub(crate) all: bool,
}

impl NoticedQueues {
    /// Returns the current count of queues, to which [`cut`](Self::cut) can return.
    pub(crate) fn count(&self) -> usize {
        self.queues.len() + usize::from(self.all)
    }

    /// Removes all queues after the first `count` queues.
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
