//! The handle of a store: the state of this process, as opposed to the state in the file.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use undercroft_memory::{Segment, ShardSet, coarse_milliseconds, prefetch};

use crate::handle::clock::Clock;
use crate::handle::parts::Parts;
use crate::random::Chance;
use crate::structures::key::{Key, hash};
use crate::structures::prefetch::TOGETHER;

/// A store that is mapped into this process. Threads can share a handle freely.
///
/// Each module adds methods to this type. For example, `types/list` adds those for lists.
pub struct Store {
    pub(crate) segment: Segment,
    pub(crate) clock: Clock,
    shard_mask: usize,
    /// Random numbers for eviction and for counting uses.
    pub(crate) chance: Chance,
    /// The Unix time in milliseconds until which expired keys are not removed, or 0 to remove them.
    pub(crate) expired_stay: AtomicU64,
    /// Whether a timer of this process runs the steps of upkeep.
    kept_by_timer: AtomicBool,
    /// The modules with a backlog, one bit each.
    backlog: AtomicU8,
    /// Whether changes are reported to a follower.
    pub(crate) is_followed: AtomicBool,
    parts: Parts,
}

/// A module that may have unfinished work after a commit, because a lock was held.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Backlog {
    /// Messages to send, and subscriptions to withdraw.
    Messages = 1,
    /// Queues of waiting clients to serve, and waits to end.
    Waiting = 2,
}

impl Store {
    /// Creates a handle for a segment, with the state of the higher modules.
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

    /// Returns the state that a higher module keeps in this handle. Not for hot paths.
    pub(crate) fn part<P: 'static>(&self) -> &P {
        self.parts.get()
    }

    /// Whether there is unfinished work from earlier commits, which
    /// [`settle_waits`](Self::settle_waits) retries. Costs one load.
    #[inline(always)]
    pub fn has_backlog(&self) -> bool {
        self.backlog.load(Ordering::Acquire) != 0
    }

    /// Records whether a module has unfinished work. Call this under the lock that protects that
    /// work.
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

    /// Returns a key of an internal dictionary in the given shard.
    pub(crate) fn hidden_key<'k>(&self, shard: usize, name: &'k [u8]) -> Key<'k> {
        Key {
            shard,
            ..self.key(name)
        }
    }

    /// Hashes many keys. The names are scattered in memory, so they are prefetched.
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

    /// Returns the shard of a key with this hash.
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

    /// Returns the Unix time in milliseconds that expiry is based on.
    #[inline]
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Returns the milliseconds since boot that leases are based on.
    pub(crate) fn boot_now(&self) -> u64 {
        self.clock.boot()
    }

    /// Sets the clock for leases in this process. 0 returns to the system clock. For tests.
    pub fn set_boot_time(&self, milliseconds: u64) {
        self.clock.set_boot(milliseconds);
    }

    /// Leaves the steps of upkeep (M8) to a timer of this process, which calls
    /// [`upkeep`](Self::upkeep). Without a timer, writes of this process run them.
    pub fn leave_upkeep_to_a_timer(&self) {
        self.kept_by_timer.store(true, Ordering::Relaxed);
    }

    /// Whether writes run steps of upkeep. If a test has set the time, they do not, because the
    /// test controls upkeep.
    pub(crate) fn keeps_itself(&self) -> bool {
        !self.kept_by_timer.load(Ordering::Relaxed) && self.clock.fixed().is_none()
    }

    /// Sets the clock for expiry in this process, and stops upkeep by writes. 0 returns to the
    /// system clock. For tests.
    pub fn set_time(&self, milliseconds: u64) {
        self.clock.set(milliseconds);
    }
}
