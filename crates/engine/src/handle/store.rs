//! The store handle, with the state that this process keeps outside the file.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use undercroft_memory::{Segment, ShardSet, coarse_milliseconds, prefetch};

use crate::handle::clock::Clock;
use crate::handle::parts::Parts;
use crate::random::Chance;
use crate::structures::key::{Key, hash};
use crate::structures::prefetch::TOGETHER;

/// A store that is mapped into this process. Threads can share a handle.
///
/// Each module adds methods to this type. For example, `types/list` adds the methods for lists.
pub struct Store {
    pub(crate) segment: Segment,
    pub(crate) clock: Clock,
    shard_mask: usize,
    /// The random number generator for eviction and for counting uses.
    pub(crate) chance: Chance,
    /// The Unix time in milliseconds before which expired keys are not removed, or 0 to always
    /// remove them.
    pub(crate) expired_stay: AtomicU64,
    /// Whether a timer in this process, rather than this process's writes, runs the upkeep steps.
    kept_by_timer: AtomicBool,
    /// The modules with unfinished work, one bit for each module.
    backlog: AtomicU8,
    /// Whether this handle applies the changes of a replica's source.
    pub(crate) applies_source: AtomicBool,
    /// Whether the caller counts the replicas that changes require.
    pub(crate) counts_replicas: AtomicBool,
    /// The number of keys that this process is about to store in each shard, or 0.
    expected_keys: AtomicU64,
    parts: Parts,
}

/// A module that can have unfinished work after a commit, because a lock was held.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Backlog {
    /// Messages that must still be sent, and subscriptions that must still be withdrawn.
    Messages = 1,
    /// Queues of waiting clients that must still be served, and waits that must still be ended.
    Waiting = 2,
}

impl Store {
    /// Creates a handle for a segment, with the state that the higher modules keep in a handle.
    pub(crate) fn with_parts(segment: Segment, parts: Parts) -> Store {
        Store {
            shard_mask: segment.shards() - 1,
            clock: Clock::default(),
            chance: Chance::new(coarse_milliseconds() ^ segment.hash_key()[0]),
            expired_stay: AtomicU64::new(0),
            kept_by_timer: AtomicBool::new(false),
            backlog: AtomicU8::new(0),
            applies_source: AtomicBool::new(false),
            counts_replicas: AtomicBool::new(false),
            expected_keys: AtomicU64::new(0),
            parts,
            segment,
        }
    }

    /// Returns the state of type `P` that a higher module keeps in this handle. Too slow for hot
    /// paths.
    pub(crate) fn part<P: 'static>(&self) -> &P {
        self.parts.get()
    }

    /// Returns whether earlier commits left unfinished work, which
    /// [`settle_waits`](Self::settle_waits) retries. The cost is one atomic load.
    #[inline(always)]
    pub fn has_backlog(&self) -> bool {
        self.backlog.load(Ordering::Acquire) != 0
    }

    /// Records whether a module has unfinished work. The caller must hold the lock that protects
    /// that work.
    pub(crate) fn note_backlog(&self, module: Backlog, is_left: bool) {
        match is_left {
            true => self.backlog.fetch_or(module as u8, Ordering::Release),
            false => self.backlog.fetch_and(!(module as u8), Ordering::Release),
        };
    }

    /// Hashes the bytes of a key, for use in lookups.
    #[inline(always)]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        let hash = hash(self.segment.hash_key(), bytes);
        Key {
            bytes,
            hash,
            shard: self.shard_of(hash),
        }
    }

    /// Returns the key `name` of an internal dictionary, placed in the given shard.
    pub(crate) fn hidden_key<'k>(&self, shard: usize, name: &'k [u8]) -> Key<'k> {
        Key {
            shard,
            ..self.key(name)
        }
    }

    /// Hashes many keys, and prefetches their names, which are scattered in memory.
    pub fn hash_all<'k: 'n, 'n>(
        &self,
        names: impl IntoIterator<Item = &'n &'k [u8], IntoIter: Clone>,
    ) -> Vec<Key<'k>> {
        let names = names.into_iter();
        let mut ahead = names.clone().skip(TOGETHER);
        let hashed = names.map(|name| {
            if let Some(first) = ahead.next().and_then(|name| name.first()) {
                prefetch(first);
            }
            self.key(name)
        });
        hashed.collect()
    }

    /// Returns the shard of the keys with the given hash.
    #[inline(always)]
    pub(crate) fn shard_of(&self, hash: u64) -> usize {
        (hash >> 58) as usize & self.shard_mask
    }

    /// Returns the set of shards that contain the given keys.
    pub fn shards_of<'k>(&self, keys: impl IntoIterator<Item = &'k Key<'k>>) -> ShardSet {
        keys.into_iter().map(|key| key.shard).collect()
    }

    /// Returns the set of all shards.
    pub fn all_shards(&self) -> ShardSet {
        self.segment.all_shards()
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        self.segment.shards()
    }

    /// Returns the Unix time in milliseconds against which expiry times are checked.
    #[inline]
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Returns the time since boot in milliseconds, against which lease terms are checked.
    pub(crate) fn boot_now(&self) -> u64 {
        self.clock.boot()
    }

    /// Sets this process's clock for leases, in milliseconds since boot. 0 restores the system
    /// clock. Only for tests.
    pub fn set_boot_time(&self, milliseconds: u64) {
        self.clock.set_boot(milliseconds);
    }

    /// Leaves upkeep (M8) to a timer in this process that calls [`upkeep`](Self::upkeep). Without a
    /// timer, this process's writes run the upkeep steps.
    pub fn leave_upkeep_to_a_timer(&self) {
        self.kept_by_timer.store(true, Ordering::Relaxed);
    }

    /// Returns whether writes run upkeep steps. They do not if a test has set the time, because the
    /// test then controls upkeep.
    pub(crate) fn keeps_itself(&self) -> bool {
        !self.kept_by_timer.load(Ordering::Relaxed) && self.clock.fixed().is_none()
    }

    /// Announces that this process will store about `keys` keys in one database, so that its tables
    /// grow in fewer steps. 0 ends the announcement. A wrong number costs at most time: a table is
    /// never larger than eight times what its keys need.
    pub fn expect_keys(&self, keys: u64) {
        let of_shard = keys / self.shards() as u64;
        self.expected_keys.store(of_shard, Ordering::Relaxed);
    }

    /// Returns the number of keys that this process is about to store in each shard, or 0.
    pub(crate) fn expected_keys_of_shard(&self) -> u64 {
        self.expected_keys.load(Ordering::Relaxed)
    }

    /// Sets this process's clock for expiry, in Unix milliseconds, and stops writes from running
    /// upkeep. 0 restores the system clock. Only for tests.
    pub fn set_time(&self, milliseconds: u64) {
        self.clock.set(milliseconds);
    }
}
