//! The handle of a store: what this process knows of it, beside what lies in the file.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use undercroft_memory::{Segment, ShardSet, coarse_milliseconds, prefetch};

use crate::handle::clock::Clock;
use crate::handle::parts::Parts;
use crate::random::Chance;
use crate::structures::key::{Key, hash};
use crate::structures::prefetch::TOGETHER;

/// A store mapped into this process. Shared freely between threads.
///
/// Each module adds its own calls to it, as `types/list` adds those of lists.
pub struct Store {
    pub(crate) segment: Segment,
    pub(crate) clock: Clock,
    shard_mask: usize,
    /// Random numbers for eviction, and for counting uses.
    pub(crate) chance: Chance,
    /// Until when expired keys stay where they are, Unix milliseconds; 0 where they do not.
    pub(crate) expired_stay: AtomicU64,
    /// Whether steps of upkeep are left to a timer of this process.
    kept_by_timer: AtomicBool,
    /// The modules that have something left to do, a bit each.
    backlog: AtomicU8,
    /// Whether changes are told to a follower.
    pub(crate) is_followed: AtomicBool,
    parts: Parts,
}

/// A module that may have something left to do after a commit, where a lock stood in the way.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Backlog {
    /// Messages to be sent, and subscriptions to be taken back.
    Messages = 1,
    /// Queues of waiting clients to be served, and waits to be ended.
    Waiting = 2,
}

impl Store {
    /// The handle of a segment, with the state of the modules above.
    pub(crate) fn with_parts(segment: Segment, parts: Parts) -> Store {
        Store {
            shard_mask: segment.shards() - 1,
            clock: Clock::default(),
            chance: Chance::new(coarse_milliseconds() ^ segment.hash_key()[0]),
            expired_stay: AtomicU64::new(0),
            kept_by_timer: AtomicBool::new(false),
            backlog: AtomicU8::new(0),
            is_followed: AtomicBool::new(false),
            parts,
            segment,
        }
    }

    /// The state that a module above keeps in this handle. For cold calls.
    pub(crate) fn part<P: 'static>(&self) -> &P {
        self.parts.get()
    }

    /// Whether anything is left to be done after what was committed, for
    /// [`settle_waits`](Self::settle_waits) to try again. One load.
    #[inline(always)]
    pub fn has_backlog(&self) -> bool {
        self.backlog.load(Ordering::Acquire) != 0
    }

    /// Notes whether a module has something left to do. To be called under the lock of what it has.
    pub(crate) fn note_backlog(&self, module: Backlog, is_left: bool) {
        match is_left {
            true => self.backlog.fetch_or(module as u8, Ordering::Release),
            false => self.backlog.fetch_and(!(module as u8), Ordering::Release),
        };
    }

    /// Hashes a key.
    #[inline(always)]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        let hash = hash(self.segment.hash_key(), bytes);
        Key {
            bytes,
            hash,
            shard: self.shard_of(hash),
        }
    }

    /// A name in a hidden dictionary of a shard.
    pub(crate) fn hidden_key<'k>(&self, shard: usize, name: &'k [u8]) -> Key<'k> {
        Key {
            shard,
            ..self.key(name)
        }
    }

    /// Hashes many keys. Their texts lie anywhere: they are asked for ahead of their turns.
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

    /// The shard of a key with this hash.
    #[inline(always)]
    pub(crate) fn shard_of(&self, hash: u64) -> usize {
        (hash >> 58) as usize & self.shard_mask
    }

    /// The shards that some keys lie in.
    pub fn shards_of<'k>(&self, keys: impl IntoIterator<Item = &'k Key<'k>>) -> ShardSet {
        keys.into_iter().map(|key| key.shard).collect()
    }

    /// All shards of the store.
    pub fn all_shards(&self) -> ShardSet {
        self.segment.all_shards()
    }

    /// Number of shards.
    pub fn shards(&self) -> usize {
        self.segment.shards()
    }

    /// Unix time in milliseconds, as expiry goes by it.
    #[inline]
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Milliseconds since boot, as leases go by them.
    pub(crate) fn boot_now(&self) -> u64 {
        self.clock.boot()
    }

    /// Sets the clock that leases go by, in this process; 0 goes back to the system's. For tests.
    pub fn set_boot_time(&self, milliseconds: u64) {
        self.clock.set_boot(milliseconds);
    }

    /// Leaves steps of upkeep (M8) to a timer of this process, which calls
    /// [`upkeep`](Self::upkeep): otherwise its writes do them.
    pub fn leave_upkeep_to_a_timer(&self) {
        self.kept_by_timer.store(true, Ordering::Relaxed);
    }

    /// Whether writes do steps of upkeep. Not where a test has set the time:
    /// what happens then is the test's to say.
    pub(crate) fn keeps_itself(&self) -> bool {
        !self.kept_by_timer.load(Ordering::Relaxed) && self.clock.fixed().is_none()
    }

    /// Sets the time that expiry goes by, in this process, and ends its upkeep;
    /// 0 goes back to the system's. For tests.
    pub fn set_time(&self, milliseconds: u64) {
        self.clock.set(milliseconds);
    }
}
